// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of one new query of each sequence over a paged cache of keys and values.
//
//   O = softmax(scale * q K^T) V,   LSE = log(sum(exp(scale * q K^T)))
//
// Arguments
//   q             [B, Hq, D]           T     one query of each sequence
//   k_pages       [P, PAGE, Hkv, D]    T     pages of keys
//   v_pages       [P, PAGE, Hkv, DV]   T     pages of values
//   o             [B, Hq, DV]          T     result
//   lse           [B, Hq]              ACC   result, optional
//   block_table   [B, L]               i32   key j of sequence b is row j mod PAGE of page block_table[b, j / PAGE]
//   seq_lens      [B]                  i32   keys of each sequence, at most L * PAGE
//   scale                              ACC, finite
//
// Parameters
//   D, DV, T   As in attention_forward.mlir, but T has at least 16 bits.
//   PAGE       Rows of a page, and keys of an iteration: 16, 32, 64, 128 or 256.
//   GROUP      Query heads that share a key head: Hq = GROUP * Hkv. They are the rows of one tile, padded to a multiple
//              of 16 (BLOCK_M). Default: 1.
//
// The host checks the lengths, and the page numbers of the keys within them; a device checks them on request. Without
// the check, the kernel clamps a length to the range 0 to L * PAGE, and a page that does not exist reads as zeros.
//
// The kernel never reads rows of a page beyond the end of the sequence; they may hold NaN. A sequence without keys gets
// O = 0 and LSE = -inf. Runs are bit-identical.
//
// Algorithm: PagedAttention (Kwon et al., 2023) with the online softmax of FlashAttention-2 (Dao, 2023).

tile.link "lib/forward.mlir"

!q_view   = !tile.view<[?, ?, D], T>
!o_view   = !tile.view<[?, ?, DV], T>
!row_view = !tile.view<[?, ?], ACC>
!k_view   = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!table    = !tile.view<[?, ?], i32>
!lengths  = !tile.view<[?], i32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

func.func private @no_keys() -> (!row, !row, !o)
func.func private @plain_round(!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row

tile.kernel @attention_paged_decode
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], GROUP: int = 1,
           PAGE: int in [16, 32, 64, 128, 256],
           let BLOCK_M: int = ceildiv(GROUP, 16) * 16, let BLOCK_N: int = PAGE,
           let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, dim(q, 1) == GROUP * dim(k_pages, 2), dim(k_pages, 1) == PAGE,
            same_dims(v_pages, k_pages, 0, 1, 2), same_dims(o, q, 0, 1), same_dims(lse, q, 0, 1),
            dim(block_table, 0) == dim(q, 0), dim(seq_lens, 0) == dim(q, 0),
            within(seq_lens, 0, dim(block_table, 1) * PAGE + 1),
            within_first(block_table, 0, dim(k_pages, 0), seq_lens, PAGE), finite(scale))
    (%q: !q_view, %k_pages: !k_view, %v_pages: !v_view, %o: !o_view, %lse: optional !row_view,
     %block_table: !table, %seq_lens: !lengths, %scale: !acc)
    grid(%hk = dim(k_pages, 2), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  // Clamp the length to the keys that the table has pages for, and these to what 32 bits hold.
  %page_rows = tile.param PAGE : i32
  %most_pages = tile.param floordiv(2147483647, PAGE) : i32
  %table_pages = tile.dim %block_table, 1 : !table
  %pages = arith.minsi %table_pages, %most_pages : i32
  %most_keys = arith.muli %pages, %page_rows : i32
  %given_keys = tile.at %seq_lens[%b] : !lengths
  %not_negative = arith.maxsi %given_keys, %c0 : i32
  %keys = arith.minsi %not_negative, %most_keys : i32
  // The heads of the group. Rows of the tile beyond them read as zero and are not stored.
  %group = tile.param GROUP : i32
  %h = arith.muli %hk, %group : i32
  %q_group = tile.subview %q dim 1 from %h size %group : !q_view
  %o_group = tile.subview %o dim 1 from %h size %group : !o_view
  %lse_group = tile.subview %lse dim 1 from %h size %group : !row_view
  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)
  %q_tile = tile.load %q_group[%b, 0, 0] : !q_view -> !q

  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %group)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    // An iteration reads one page, up to the end of the sequence.
    %page_index = arith.divsi %n, %page_rows : i32
    %page = tile.at %block_table[%b, %page_index] : !table
    %left = arith.subi %keys, %n : i32
    %k_page = tile.subview %k_pages dim 1 from %c0 size %left : !k_view
    %v_page = tile.subview %v_pages dim 1 from %c0 size %left : !v_view
    %k_tile = tile.load %k_page[%page, 0, %hk, 0] dims [1, 3] : !k_view -> !k
    %v_tile = tile.load %v_page[%page, 0, %hk, 0] dims [1, 3] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @plain_round(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o_group[%b, 0, 0] : !tile.tile<[BLOCK_M, DVP], T>, !o_view
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  tile.store %lse_row, %lse_group[%b, 0] : !row, !row_view
}
