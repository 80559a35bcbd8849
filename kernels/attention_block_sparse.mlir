// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over a list of key blocks for each block of queries, forward. Over the keys of these:
//
//   O = softmax(scale * Q K^T) V,   LSE = log sum exp(scale * Q K^T)
//
//   blocks   [B, Hq, Mb, L]  i32    for each block of BLOCK_M queries (Mb = ceildiv(Sq, BLOCK_M)), numbers of blocks of
//                                   BLOCK_N keys, each at most once; what is no block of k is passed over
//   counts   [B, Hq, Mb]     i32    how many of the L are valid
//
// All else is as in attention_forward.mlir: q, k, v, o (of T), lse and scale, the parameters D, DV, T, CAUSAL (which
// removes pairs from listed blocks), BLOCK_M and BLOCK_N, and what queries without a key and NaN lead to. But the block
// sizes are part of the meaning, so their defaults are the same for every target: 128 for rows of up to 256 bytes
// (ROW_BYTES), and smaller for others, so that they fit a GPU. Runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023); Child et al., Generating long sequences with sparse transformers (2019).

tile.link "lib/attention.mlir"
tile.link "lib/forward.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!blocks_view = !tile.view<[?, ?, ?, ?], i32>
!counts_view = !tile.view<[?, ?, ?], i32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>

func.func private @key_head(i32, !qk_view, !qk_view) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @no_keys() -> (!row, !row, !o)
func.func private @plain_round(!q, !k, !v, !keep, !row, !row, !o, f32) -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row

tile.kernel @attention_block_sparse
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           BLOCK_M: int in [16, 32, 64, 128, 256] = select(and(ROW_BYTES <= 256, bits(T) <= 32), 128,
               select(ROW_BYTES <= 512, 64, select(ROW_BYTES <= 1024, 32, 16))),
           BLOCK_N: int in [16, 32, 64, 128, 256] = BLOCK_M,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8, let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            dim(blocks, 0) == dim(q, 0), dim(blocks, 1) == dim(q, 1), dim(blocks, 2) == ceildiv(dim(q, 2), BLOCK_M),
            dim(counts, 0) == dim(q, 0), dim(counts, 1) == dim(q, 1), dim(counts, 2) == ceildiv(dim(q, 2), BLOCK_M),
            finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view,
     %blocks: !blocks_view, %counts: !counts_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view

  // First query of this instance, and the key head it reads.
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32

  %count = tile.at %counts[%b, %h, %bm] : !counts_view
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)
  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q

  %max, %sum, %acc = tile.for_blocks %n
      in (%c0 to %keys listed %blocks[%b, %h, %bm] count %count : !blocks_view)
      against (%m to %queries)
      where @attends_causally(against, block, %shift : i32)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @plain_round(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, f32) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o[%b, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], T>, !v_view
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !row_view
}
