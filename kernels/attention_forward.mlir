// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward.
//
//   S = scale * Q K^T               scores of a pair of a query i and a key j
//   T = score_mod(S, b, h, i, j)    identity unless another file replaces it
//   O = softmax(T) V                over the keys that query i attends
//   LSE = log sum exp T             natural logarithm, for the backward and for merging
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  TO       lse [B, Hq, Sq]   ACC, optional
//   cu_seqlens_q, cu_seqlens_k   [sequences + 1]  i32, only with PACKED: ascending, the first 0, the last Sq (Skv).
//                                Checked on the host, and on a device on request. Without the check, values are
//                                clamped to 0 to Sq (Skv), a sequence that ends before it begins is empty, and it is
//                                undefined which rows are written if values do not ascend
//   kv_indices      [B or 1, Hq or 1, Mb, L]  i32, only with LISTED: for each of the Mb blocks of LIST_BLOCK_M queries,
//                   numbers of blocks of LIST_BLOCK_N keys, each at most once; numbers outside k are ignored
//   kv_num_blocks   [B or 1, Hq or 1, Mb]     i32, how many of the L entries are used
//   q_descale, k_descale, v_descale   [1]  f32, only with 8-bit types; in memory, where a quantization stores them. The
//                                arrays q, k and v hold values divided by these
//   scale                        f32, finite, usually 1 / sqrt(D)
//   window_left, window_right    i32; -1, the default, leaves that side open; other values need WINDOW
//
// Hq is a multiple of Hkv: Hq / Hkv consecutive query heads share one key head (MHA, GQA, MQA).
// Sq and Skv may be any number, including 0, and need not be multiples of the blocks; strides may be any.
//
// Parameters
//   D, DV     widths of a query and of a value, up to 256. Tiles are padded to a multiple of UNIT (DP, DVP), on Hopper
//             those of queries and keys to whole panels of 64 columns if 32 or fewer are missing, and values wider
//             than 32 to a multiple of 8. The padding reads zero and is never stored
//   T, TO     element types of the arrays and of the result; TO is bf16 by default if T has 8 bits, else T. Scores,
//             sums and LSE have the type ACC: f64 for f64, else f32
//   CAUSAL    none; top_left keeps j <= i; bottom_right keeps j <= i + Skv - Sq
//   WINDOW    keeps i + shift - left <= j <= i + shift + right, where the shift is Skv - Sq under bottom_right, else 0
//   PACKED    B is 1, and the rows are those of sequences of different lengths, one after the other: sequence b has
//             the queries cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1, and keys by the same rule. Positions, lengths and
//             masks refer to one sequence; it may be empty
//   LISTED    queries attend only keys of listed blocks. With PACKED, blocks count within each sequence; Mb may be any
//   BLOCK_M, BLOCK_N   queries of a program instance, keys of an iteration; they divide LIST_BLOCK_M, LIST_BLOCK_N
//
// A query that attends no key gets O = 0 and LSE = -inf. A NaN in a query poisons that row alone. A NaN or infinity in
// v reaches the queries that attend its key, and may reach others whose block holds that key: 0 * NaN is NaN.
//
// P is rounded to T before the product with V; all else is kept in ACC. Runs are bit-identical. P is at most 1, and
// 8-bit floats have few small values: P is multiplied by 256 (the largest e4m3 is 448) before it is rounded to them.
//
// Algorithm: softmax in one pass over the keys (lib/forward.mlir) in the loop order of FlashAttention-2 (Dao, 2023).

tile.link "lib/attention.mlir"
tile.link "lib/batch.mlir"
tile.link "lib/forward.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!o_view   = !tile.view<[?, ?, ?, DV], TO>
!row_view = !tile.view<[?, ?, ?], ACC>
!one_view = !tile.view<[1], f32>
!cu_view  = !tile.view<[?], i32>
!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>

!q    = !tile.tile<[BLOCK_M, DP], T>
!k    = !tile.tile<[BLOCK_N, DP], T>
!v    = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o    = !tile.tile<[BLOCK_M, DVP], ACC>
!row  = !tile.tile<[BLOCK_M], ACC>

// From lib/batch.mlir: the location of the rows of this instance.
func.func private @longest_block(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)
func.func private @part_of_queries_and_keys(!qk_view, i32, i32) -> !qk_view
func.func private @part_of_values(!v_view, i32, i32) -> !v_view
func.func private @part_of_outputs(!o_view, i32, i32) -> !o_view
func.func private @part_of_sums(!row_view, i32, i32) -> !row_view
// From lib/attention.mlir: the key head of a query head, the key on the diagonal in row 0, and the list of a block.
func.func private @key_head(i32, !qk_view, !qk_view) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @list_of(i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
// From lib/forward.mlir: the softmax over blocks of keys.
func.func private @scale_of_scores(f32, !one_view, !one_view) -> f32
func.func private @descaled(!o, !one_view) -> !o
func.func private @before_keys(i32) -> (!row, !row, !o)
func.func private @round_of_keys(!q, !k, !v, !keep, !row, !row, !o, i32, i32, i32, i32, f32) -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row

tile.kernel @attention_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64, e4m3, e5m2], let FP8: flag = bits(T) == 8,
           TO: type = select(FP8, bf16, T), CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           WINDOW: flag = false, PACKED: flag = false, LISTED: flag = false, LIST_BLOCK_M: int = select(LISTED, 128, 0),
           LIST_BLOCK_N: int = LIST_BLOCK_M, BLOCK_M: int = block_in(LIST_BLOCK_M), let ACC: type = accumulator(T),
           BLOCK_N: int = block_in(LIST_BLOCK_N), TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           let UNIT: int = select(FP8, 32, 16), let PANELS: flag = and(TARGET == "sm_90a", bits(T) == 16),
           let DP: int = select(and(PANELS, and(D > 64, mod(ceildiv(D, 32), 2) == 0)), ceildiv(D, 64) * 64,
                                ceildiv(D, UNIT) * UNIT),
           let DVP: int = select(and(PANELS, DV > 32), ceildiv(DV, 8) * 8, ceildiv(DV, UNIT) * UNIT))
    require(D <= 256, DV <= 256, dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1), same_dims(v, k, 1, 2),
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), or(not(PACKED), dim(q, 0) == 1),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0), ascending(cu_seqlens_q),
            within(cu_seqlens_q, 0, dim(q, 2) + 1), ascending(cu_seqlens_k), within(cu_seqlens_k, 0, dim(k, 2) + 1),
            or(not(LISTED), mod(max(LIST_BLOCK_M, 1), BLOCK_M) == 0), same_dims(kv_indices, kv_num_blocks, 0, 1, 2),
            or(dim(kv_num_blocks, 0) == 1, or(PACKED, dim(kv_num_blocks, 0) == dim(q, 0))),
            or(dim(kv_num_blocks, 1) == 1, dim(kv_num_blocks, 1) == dim(q, 1)),
            or(PACKED, dim(kv_num_blocks, 2) == ceildiv(dim(q, 2), LIST_BLOCK_M)), finite(scale),
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !o_view, %lse: optional !row_view,
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %q_descale: !one_view when (FP8), %k_descale: !one_view when (FP8),
     %v_descale: !one_view when (FP8), %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%bm = select(PACKED, (ceildiv(dim(q, 2), BLOCK_M) + dim(cu_seqlens_q, 0) - 1) * min(dim(q, 2), 1),
                      ceildiv(dim(q, 2), BLOCK_M)),
         %h = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %c0 = arith.constant 0 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view

  // Element b of the batch, which has index a in the arrays, and the first query of this instance in it.
  %b, %a, %q_begin, %queries, %m = func.call @longest_block(%e, %bm, %cu_seqlens_q, %all_queries)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %all_keys) : (i32, !cu_view, i32) -> (i32, i32)
  %q_part = func.call @part_of_queries_and_keys(%q, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %k_part = func.call @part_of_queries_and_keys(%k, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %v_part = func.call @part_of_values(%v, %k_begin, %keys) : (!v_view, i32, i32) -> !v_view
  %o_part = func.call @part_of_outputs(%o, %q_begin, %queries) : (!o_view, i32, i32) -> !o_view
  %lse_part = func.call @part_of_sums(%lse, %q_begin, %queries) : (!row_view, i32, i32) -> !row_view
  %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %scale_all = func.call @scale_of_scores(%scale, %q_descale, %k_descale) : (f32, !one_view, !one_view) -> f32

  %span = tile.param LIST_BLOCK_M : i32
  %list_b, %list_h, %list_m, %count = func.call @list_of(%b, %h, %m, %span, %kv_num_blocks)
      : (i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
  // Before the first key.
  %no_max, %no_sum, %no_o = func.call @before_keys(%h) : (i32) -> (!row, !row, !o)
  %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q

  // From the last block to the first, so that the blocks that a mask or the end of the keys cuts come first.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys
          listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
      against (%m to %queries) descending
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @round_of_keys(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %b, %h, %m, %n, %scale_all)
        : (!q, !k, !v, !keep, !row, !row, !o, i32, i32, i32, i32, f32) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  // After the last key.
  %normal = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %result = func.call @descaled(%normal, %v_descale) : (!o, !one_view) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], TO>
  tile.store %o_tile, %o_part[%a, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], TO>, !o_view
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  tile.store %lse_row, %lse_part[%a, %h, %m] : !row, !row_view
}
