// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention without a softmax, backward: the gradients of a function of the O of tanh_attention.mlir.
//
//   S  = scale * Q K^T                     W  = tanh(S), 0 where the pair is masked      recomputed
//   dS = (dO V^T) * (1 - W^2)              the compiler derives the second factor
//   dV = W^T dO      dK = scale * dS^T Q      dQ = scale * dS K
//
// q, k, v, scale and windows are as in tanh_attention.mlir, do is the gradient of O; dq, dk and dv are results of the
// shapes of q, k and v. The forward must have had the same masks and the same @weight. A query that attends no key and
// a key that no query attends get zero gradients. Parameters: see tanh_attention.mlir; DETERMINISTIC as in
// attention_backward.mlir, and what lib/pairs.mlir adds. W, its derivative and dS are rounded to T; all other values
// have the type ACC.

tile.link "lib/pairs.mlir", "lib/weights.mlir"

tile.program @tanh_attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW, DETERMINISTIC: flag = false,
           let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %dq, %dk: !qk_view, %dv: !v_view, %scale: !acc,
     %window_left, %window_right: i32 = -1) {
  tile.call @pairs() with (MAPS = 1, ROWS = false)
}

tile.function @pair_weights(%s, %row, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32, %i, %j: !pair_pos,
                            %scale: !acc) -> (!weight, !held) {
  %one = tile.constant 1.0 : !pair
  %scaled = tile.expr %s * full(%scale) fastmath<reassoc, contract> : !pair
  %w = tile.expr select(%keep, map @weight(%scaled), 0) : !pair -> !weight
  %slopes = tile.map_gradient @weight(%scaled) wrt 0 seed %one : !pair : (!pair) -> !pair
  tile.result %w, cast(select(%keep, %slopes, 0) : !pair) : !weight, !held
}
