// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Differential attention, backward: the gradients of a function of the O of differential_attention.mlir. For x = 1, 2:
//
//   Px = exp(scale * Qx Kx^T - LSEx), 0 where the pair is masked      w1 = 1, w2 = -lambda[h]
//   deltax = rowsum(dO * Ox)                   dSx = wx * Px * (dO V^T - deltax)
//   dQx = scale * dSx Kx      dKx = scale * dSx^T Qx
//   dV  = P1^T dO - lambda[h] * P2^T dO        d_lambda[h] = -sum of delta2 over all rows of head h
//
// q and dq are [B, 2 Hq, Sq, D]: heads 2 h and 2 h + 1 hold Q1 and Q2 of head h; k and dk [B, 2 Hkv, Skv, D] likewise;
// v and dv [B, Hkv, Skv, DV]. o, o2 [B, Hq, Sq, DV] (O2 = P2 V) and lse [B, 2 Hq, Sq] are results of the forward with
// SAVE, which takes views of q and k. do is the gradient of O, d_lambda [Hq] that of lambda, optional. Masks, gradients
// of queries and keys without pairs, and parameters as in tanh_attention_backward.mlir; DV defaults to min(2 * D, 256).
//
// |wx| * Px, dSx and the two terms of dV are rounded to T; all other values have the type ACC. delta1 is made of O and
// lambda * O2, which are rounded; it is as exact as of O1 if lambda is between 0 and 1. Both softmaxes have instances
// of their own: five products each, ten in all, where one loop over both would have eight.

tile.link "lib/pairs.mlir", "lib/softmax.mlir"

tile.capture @lambda : !tile.view<[?], f32> require(2 * dim(lambda, 0) == dim(q, 1))

tile.program @differential_attention_backward
    params(D: int, DV: int = min(2 * D, 256), T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW, DETERMINISTIC: flag = false,
           let ACC: type = accumulator(T))
    require(same_dims(dv, v, 0, 1, 2))
    (%q, %k: !qk_view, %v, %o, %o2: !v_view, %lse: !row_view, %do: !v_view, %dq, %dk: !qk_view, %dv: !v_view,
     %scale: !acc, %window_left, %window_right: i32 = -1) {
  %parts = tile.workspace [dim(k, 0), dim(k, 1), dim(k, 2), DV] : !v_view
  tile.call @pairs(other_o = %o2, dv = %parts) with (MAPS = 2, ROWS = true)
  tile.call @sum_of_parts(parts = %parts) with (MAPS = 2)
}

tile.function @lambda_of(%h: i32) -> !acc = cast(@lambda[%h] : f32)

// LSE in base 2, less the logarithm of |wx|, and delta with the sign of wx. O1 = O + lambda * O2
tile.function @row_values(%do, %o, %o2: !sum_v, %lse, %dlse: !own_row, %h, %x: i32) -> (!own_row, !own_row) {
  %terms = tile.expr %do * %o
  %terms2 = tile.expr %do * %o2
  %sum = tile.reduce add %terms dim 1 : !sum_v
  %delta2 = tile.reduce add %terms2 dim 1 : !sum_v
  %lambda = tile.expr @lambda_of(%h) : !acc
  %is_first = tile.expr %x == 0
  %delta = tile.expr select(%is_first, %sum + full(%lambda) * %delta2, %delta2)
  %d_lambda = tile.expr select(%is_first, 0, neg(%delta2)) : !own_row
  tile.add_gradients @lambda_of(%h) seed %d_lambda : !own_row exact when (DETERMINISTIC) : (i32)
  %share = tile.expr select(%is_first, 1, neg(%lambda)) : !acc
  %sign = tile.expr select(%share < 0, -1, 1) : !acc
  tile.result map @base2_or_zero(%lse) - full(log2(abs(%share))), %delta * full(%sign) : !own_row, !own_row
}

// |wx| * Px of one softmax.
tile.function @pair_weights(%s, %base2, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32, %i, %j: !pair_pos,
                            %scale: !acc) -> (!weight, !held) {
  %scales = tile.expr full(%scale * log2e) : !pair
  %scores = tile.expr %s * %scales fastmath<reassoc, contract>
  %kept = tile.expr select(%keep, %scores - %base2, minus_inf) fastmath<contract> : !pair
  %weights = tile.expr exp2(%kept)
  %rounded = tile.expr cast(%weights) : !weight
  %share = tile.expr select(%x == 0, 1, neg(cast(@lambda[%h] : f32))) : !acc
  %sign = tile.expr select(%share < 0, -1, 1) : !acc
  tile.result %rounded * full(cast(%sign)), cast(%weights) : !weight, !held
}

tile.function @pair_gradients(%held: !held, %dw, %delta, %s, %base2, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32,
                              %i, %j: !pair_pos, %scale: !acc) -> !pair {
  %share = tile.expr select(%x == 0, 1, neg(cast(@lambda[%h] : f32))) : !acc
  %sign = tile.expr select(%share < 0, -1, 1) : !acc
  %slopes = tile.expr %dw * full(%sign) - %delta fastmath<contract> : !pair
  tile.result cast(%held) * %slopes : !pair
}
