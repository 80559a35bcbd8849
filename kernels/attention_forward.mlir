// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward.
//
//   S = scale * Q K^T               scores of a pair of a query i and a key j
//   T = score_mod(S, b, h, i, j)    identity unless another file replaces it
//   O = softmax(T) V                over the keys that query i attends
//   LSE = log sum exp T             natural logarithm, for the backward and for merging
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  T        lse [B, Hq, Sq]   ACC, optional
//   scale   f32, finite, usually 1 / sqrt(D)
//   window_left, window_right   i32; -1, the default, leaves that side open, all else needs WINDOW
//
// Hq is a multiple of Hkv: query heads h * Hq / Hkv .. share one key head (MHA, GQA, MQA).
// Sq and Skv are any, also 0, and need not be multiples of the blocks; strides are any.
//
// Parameters
//   D, DV     widths of a query and of a value, up to 256. Tiles are padded to a multiple of 16 (DP,
//             DVP): the padding reads zero and is never stored.
//   T         element type of the arrays. Scores, sums and LSE are of ACC: f64 for f64, else f32
//   CAUSAL    none; top_left keeps j <= i; bottom_right keeps j <= i + Skv - Sq
//   WINDOW    keeps i + shift - left <= j <= i + shift + right, where the shift is Skv - Sq under
//             bottom_right and 0 otherwise
//   BLOCK_M, BLOCK_N   queries of one program instance, keys of one step
//
// A query that attends no key gets O = 0 and LSE = -inf. A NaN in a query poisons that row alone.
// A NaN or infinity in v reaches the queries that attend its key, and may reach others whose block
// holds that key: 0 * NaN is NaN.
// P is rounded to T before it meets V; everything else is kept in ACC. Runs are bit-identical.
//
// Algorithm: softmax in one pass over the keys (Milakov and Gimelshein, Online normalizer
// calculation for softmax, 2018) in the loop order of FlashAttention-2 (Dao, 2023).

tile.link "lib/attention.mlir"
tile.link "lib/forward.mlir"
tile.link "lib/online_softmax.mlir"

!qk_view = !tile.view<[?, ?, ?, D], T>
!v_view  = !tile.view<[?, ?, ?, DV], T>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>

func.func private @key_head(i32, i32, i32) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @before_keys(i32) -> (!row, !row, !o)
func.func private @round_of_keys(!q, !k, !v, !keep, !row, !row, !o, i32, i32, i32, i32, f32)
    -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row

tile.kernel @attention_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           BLOCK_M: int = block(), BLOCK_N: int = block(),
           let DP: int = ceildiv(D, 16) * 16, let DVP: int = ceildiv(DV, 16) * 16,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            finite(scale),
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view,
     %lse: optional !tile.view<[?, ?, ?], ACC>,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view

  // First query of this instance. Under a causal mask the last queries have the most keys: they go
  // first, so that nothing waits for them in the end.
  %block_m = tile.param BLOCK_M : i32
  %ascending = tile.param CAUSAL == "none" : i1
  %row_blocks = arith.ceildivsi %queries, %block_m : i32
  %last = arith.subi %row_blocks, %c1 : i32
  %from_last = arith.subi %last, %bm : i32
  %row_block = arith.select %ascending, %bm, %from_last : i32
  %m = arith.muli %row_block, %block_m : i32
  %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %no_max, %no_sum, %no_o = func.call @before_keys(%h) : (i32) -> (!row, !row, !o)
  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q

  // From the last block to the first: those that a mask or the end cuts come first, and nothing
  // waits for them in the end.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right
                     : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @round_of_keys(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %b, %h, %m, %n, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, i32, i32, i32, i32, f32) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o[%b, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], T>, !v_view
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !tile.view<[?, ?, ?], ACC>
}
