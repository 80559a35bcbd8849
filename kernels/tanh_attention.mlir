// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention without a softmax, forward: the weight of a pair is a function of its score alone, by default tanh.
//
//   S = scale * Q K^T      W = tanh(S), 0 where the pair is masked      O = W V
//
// Arguments
//   q        [B, Hq,  Sq,  D]   T
//   k        [B, Hkv, Skv, D]   T
//   v        [B, Hkv, Skv, DV]  T
//   o        [B, Hq,  Sq,  DV]  T     result
//   scale    ACC, finite
//   window_left, window_right   as in attention_forward.mlir, -1 unless WINDOW
//
// Hq is a multiple of Hkv: Hq / Hkv consecutive query heads share a key head. Sq and Skv may have any value, including
// 0. Strides are arbitrary. A query that attends no key gets O = 0.
//
// Parameters
//   D, DV      Widths of a query and of a value, at most 256. DV defaults to D.
//   T          Element type of the arrays: f16, bf16, f32 or f64. Scores and sums have the type ACC: f64 for f64, else
//              f32.
//   CAUSAL, WINDOW   As in attention_forward.mlir. A file that is linked may replace @mask_mod (lib/attention.mlir),
//              and @weight (lib/weights.mlir).
//   BLOCK_M, BLOCK_N   Queries of a program instance, and keys of an iteration. The compiler chooses the defaults.
//
// W is rounded to T before the product with V; all other values have the type ACC. Runs are bit-identical.

tile.link "lib/attention.mlir", "lib/weights.mlir"

tile.kernel @tanh_attention
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false, let SHARD: flag = false,
           BLOCK_M, BLOCK_N: int = block(), let DP: int = padded_for("depth", D, DV, T),
           let DVP: int = padded_for("columns", DV, D, T), let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0), same_dims(v, k, 1, 2),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1), same_dims(o, q, 0, 1, 2), finite(scale),
            select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q, %k: !qk_view, %v, %o: !v_view, %scale: !acc, %window_left, %window_right: i32 = -1)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %hk = tile.expr @key_head(%h, %q, %k) : i32
  %shift = tile.expr @diagonal_shift(%queries, %keys) : i32
  // The last queries attend the most keys under a causal mask, and start first to balance the load.
  %m = tile.expr select(param(CAUSAL == "none"), %bm, ceildiv(%queries, BLOCK_M) - 1 - %bm) * BLOCK_M : i32
  %scales = tile.full %scale : !s
  %no_o = tile.constant 0 : !o
  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
  %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right)
      keep %keep : !keep iter_args(%old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %scaled = tile.expr dot(%q_tile, %k_tile transpose_b) * %scales fastmath<reassoc, contract> : !s
    tile.yield dot(cast(select(%keep, map @weight(%scaled), 0) : !s) : !p, %v_tile, %old)
  }
  tile.store cast(%sum), %o[%b, %h, %m, 0] : !o_t
}
