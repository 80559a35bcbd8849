// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Differential attention, backward: the gradients of a function of the O of differential_attention.mlir. For x = 1, 2:
//
//   Px = exp(scale * Qx Kx^T - LSEx), 0 where the pair is masked      w1 = 1, w2 = -lambda[h]
//   deltax = rowsum(dO * Ox)                   dSx = wx * Px * (dO V^T - deltax)
//   dQx = scale * dSx Kx      dKx = scale * dSx^T Qx
//   dV  = P1^T dO - lambda[h] * P2^T dO        dlambda[h] = -sum of delta2 over all rows of head h
//
// Arguments
//   q, dq      [B, 2 Hq,  Sq,  D]   T     head 2 h holds Q1 of head h, head 2 h + 1 holds Q2; dq: result
//   k, dk      [B, 2 Hkv, Skv, D]   T     the same; dk: result
//   v, dv      [B, Hkv,   Skv, DV]  T     dv: result
//   lambda     [Hq]                 f32
//   o, o2      [B, Hq,    Sq,  DV]  T     results of the forward, with SAVE: O, and O2 = P2 V. O1 = O + lambda * O2
//   lse        [B, 2 Hq,  Sq]       ACC   result of the forward, with SAVE
//   do         [B, Hq,    Sq,  DV]  T     gradient of O
//   dlambda    [Hq]                 f32   result
//   scale, window_left, window_right   as in differential_attention.mlir
//
// The forward takes views of q and k: q1 has the even heads, q2 the odd ones. It must have had the same masks. A query
// that attends no key and a key that no query attends get zero gradients.
//
// Parameters
//   D, DV, T, CAUSAL, WINDOW, DETERMINISTIC, BLOCK_M, BLOCK_N   As in tanh_attention_backward.mlir; DV defaults to
//              min(2 * D, 256). dlambda is deterministic in any case.
//
// wx * Px, dSx and the two terms of dV are rounded to T; all other values have the type ACC. delta1 is made of O and
// lambda * O2, which are rounded; it is as exact as of O1 if lambda is between 0 and 1.
//
// Kernels
//   rows       deltas, and LSE in base 2, of all rows
//   lambda     dlambda
//   pairs_of_keys, pairs_of_queries   lib/pairs.mlir: dK, the terms of dV, and dQ. Both softmaxes have instances of
//              their own: five products each, ten in all, where one loop over both would have eight.
//   values     dV of its terms

tile.link "lib/pairs.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!sum_view = !tile.view<[?, ?, ?, D], ACC>
!row_view = !tile.view<[?, ?, ?], ACC>
!dv   = !tile.tile<[BLOCK_N, DVP], ACC>
!v    = !tile.tile<[BLOCK_N, DVP], T>
!o    = !tile.tile<[BLOCK_M, DVP], T>
!oa   = !tile.tile<[BLOCK_M, DVP], ACC>
!st   = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!wt   = !tile.tile<[BLOCK_N, BLOCK_M], T>
!keep = !tile.tile<[BLOCK_N, BLOCK_M], i1>
!row  = !tile.tile<[BLOCK_M], ACC>
!part = !tile.tile<[1, BLOCK_M], ACC>
!acc  = !tile.param<ACC>

tile.capture @lambda : !tile.view<[?], f32> require(2 * dim(lambda, 0) == dim(q, 1))

tile.program @differential_attention_backward
    params(D: int, DV: int = min(2 * D, 256), T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           DETERMINISTIC: flag = false, BLOCK_M: int = block(), BLOCK_N: int = block(), let MAPS: int = 2,
           let ROWS: flag = true, let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, or(not(DETERMINISTIC), adds_in_order()), dim(k, 0) == dim(q, 0),
            dim(v, 0) == dim(q, 0), dim(k, 1) == 2 * dim(v, 1), dim(v, 2) == dim(k, 2), dim(o, 0) == dim(q, 0),
            2 * dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2), same_dims(o2, o, 0, 1, 2), same_dims(do, o, 0, 1, 2),
            same_dims(lse, q, 0, 1, 2), same_dims(dq, q, 0, 1, 2), same_dims(dk, k, 0, 1, 2), same_dims(dv, v, 0, 1, 2),
            floordiv(dim(o, 1), max(dim(v, 1), 1)) * dim(v, 1) == dim(o, 1), dim(dlambda, 0) == dim(o, 1),
            finite(scale), select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %o2: !v_view, %lse: !row_view, %do: !v_view, %dq: !qk_view,
     %dk: !qk_view, %dv: !v_view, %dlambda: !tile.view<[?], f32>, %scale: !acc, %window_left: i32 = -1,
     %window_right: i32 = -1) {
  // Rows have a multiple of 16 bytes, as tensor maps require.
  %base2 = tile.workspace [dim(q, 0), dim(q, 1), ceildiv(dim(q, 2), 4) * 4] : !row_view
  %delta = tile.workspace [dim(q, 0), dim(q, 1), ceildiv(dim(q, 2), 4) * 4] : !row_view
  %sums = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2), D] : !sum_view
  %parts = tile.workspace [dim(k, 0), dim(k, 1), dim(k, 2), DV] : !v_view
  tile.launch @differential_attention_backward_rows(%o, %o2, %lse, %do, %base2, %delta) with (BLOCK_M = 32)
      : !v_view, !v_view, !row_view, !v_view, !row_view, !row_view
  tile.launch @differential_attention_backward_lambda(%delta, %dlambda) with (BLOCK_M = 2048)
      : !row_view, !tile.view<[?], f32>
  tile.launch @pairs_of_keys(%q, %k, %v, %do, %base2, %delta, %sums, %dk, %parts, %scale, %window_left, %window_right)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !sum_view, !qk_view, !v_view, !acc, i32, i32
  tile.launch @pairs_of_queries(%sums, %k, %dq, %scale, %window_left, %window_right)
      : !sum_view, !qk_view, !qk_view, !acc, i32, i32
  tile.launch @differential_attention_backward_values(%parts, %dv) with (BLOCK_N = 32) : !v_view, !v_view
}

// P^T of one softmax from its LSE in base 2, times 1 or -lambda.
func.func private @pair_weights(%st: !st, %base2: !row, %keep: !keep, %h: i32, %x: i32, %scale: !acc) -> (!wt, !wt) {
  %log2e = arith.constant 1.4426950408889634 : !acc
  %one = arith.constant 1.0 : !acc
  %c0 = arith.constant 0 : i32
  %factor = arith.mulf %scale, %log2e : !acc
  %factors = tile.full %factor : !st
  %masked_out = tile.constant minus_inf : !st
  %lambda_f32 = tile.at @lambda[%h] : f32
  %lambda = tile.cast %lambda_f32 : f32 -> !acc
  %minus = arith.negf %lambda : !acc
  %is_first = arith.cmpi eq, %x, %c0 : i32
  %share = arith.select %is_first, %one, %minus : !acc
  %shares = tile.full %share : !st
  %scores = arith.mulf %st, %factors fastmath<reassoc, contract> : !st
  %base2_each = tile.expand %base2 dim 0 : !row -> !st
  %below = arith.subf %scores, %base2_each fastmath<contract> : !st
  %kept = tile.select %keep, %below, %masked_out : !keep, !st
  %p = math.exp2 %kept : !st
  %weights = arith.mulf %p, %shares : !st
  %wt = tile.cast %weights : !st -> !wt
  return %wt, %wt : !wt, !wt
}

func.func private @pair_gradients(%wt: !wt, %dwt: !st, %delta: !row) -> !st {
  %weights = tile.cast %wt : !wt -> !st
  %delta_each = tile.expand %delta dim 0 : !row -> !st
  %centered = arith.subf %dwt, %delta_each fastmath<contract> : !st
  %dst = arith.mulf %weights, %centered : !st
  return %dst : !st
}

// For the rows of both softmaxes: LSE in base 2, and delta = rowsum(dO * O1) or rowsum(dO * O2).
tile.kernel @differential_attention_backward_rows
    params(DV: int, T: type, BLOCK_M: int, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o: !v_view, %o2: !v_view, %lse: !row_view, %do: !v_view, %base2: !row_view, %delta: !row_view)
    grid(%bm = ceildiv(dim(o, 2), BLOCK_M), %h = dim(o, 1), %b = dim(o, 0)) {
  %c1 = arith.constant 1 : i32
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %h1 = arith.addi %h, %h : i32
  %h2 = arith.addi %h1, %c1 : i32
  %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o
  %o_tile = tile.load %o[%b, %h, %m, 0] : !v_view -> !o
  %o2_tile = tile.load %o2[%b, %h, %m, 0] : !v_view -> !o
  %lse1 = tile.load %lse[%b, %h1, %m] : !row_view -> !row
  %lse2 = tile.load %lse[%b, %h2, %m] : !row_view -> !row
  %do_acc = tile.cast %do_tile : !o -> !oa
  %o_acc = tile.cast %o_tile : !o -> !oa
  %o2_acc = tile.cast %o2_tile : !o -> !oa
  %terms = arith.mulf %do_acc, %o_acc : !oa
  %terms2 = arith.mulf %do_acc, %o2_acc : !oa
  %sum = tile.reduce add %terms dim 1 : !oa -> !row
  %delta2 = tile.reduce add %terms2 dim 1 : !oa -> !row
  // O1 = O + lambda * O2
  %lambda_f32 = tile.at @lambda[%h] : f32
  %lambda = tile.cast %lambda_f32 : f32 -> !acc
  %lambdas = tile.full %lambda : !row
  %second = arith.mulf %lambdas, %delta2 : !row
  %delta1 = arith.addf %sum, %second : !row
  %base2_1 = tile.map @base2_or_zero(%lse1) : (!row) -> !row
  %base2_2 = tile.map @base2_or_zero(%lse2) : (!row) -> !row
  tile.store %base2_1, %base2[%b, %h1, %m] : !row, !row_view
  tile.store %base2_2, %base2[%b, %h2, %m] : !row, !row_view
  tile.store %delta1, %delta[%b, %h1, %m] : !row, !row_view
  tile.store %delta2, %delta[%b, %h2, %m] : !row, !row_view
}

// The gradient of lambda: the sum of -delta over all rows of the second softmax.
tile.kernel @differential_attention_backward_lambda
    params(T: type, BLOCK_M: int, let ACC: type = accumulator(T))
    (%delta: !row_view, %dlambda: !tile.view<[?], f32>) grid(%h = dim(dlambda, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %h1 = arith.addi %h, %h : i32
  %h2 = arith.addi %h1, %c1 : i32
  %batches = tile.dim %delta, 0 : !row_view
  %queries = tile.dim %delta, 2 : !row_view
  %block_m = tile.param BLOCK_M : i32
  %none = tile.constant 0 : !part
  %parts = scf.for %b = %c0 to %batches step %c1 iter_args(%of_batches = %none) -> (!part) : i32 {
    %of_batch = scf.for %m = %c0 to %queries step %block_m iter_args(%old = %of_batches) -> (!part) : i32 {
      %delta2 = tile.load %delta[%b, %h2, %m] : !row_view -> !row
      %as_part = tile.expand %delta2 dim 0 : !row -> !part
      %new = arith.subf %old, %as_part : !part
      scf.yield %new : !part
    }
    scf.yield %of_batch : !part
  }
  %sum = tile.reduce add %parts dim 1 : !part -> !tile.tile<[1], ACC>
  %sum_f32 = tile.cast %sum : !tile.tile<[1], ACC> -> !tile.tile<[1], f32>
  tile.store %sum_f32, %dlambda[%h] : !tile.tile<[1], f32>, !tile.view<[?], f32>
}

// dV of the parts of both softmaxes.
tile.kernel @differential_attention_backward_values
    params(DV: int, T: type, BLOCK_N: int, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%parts: !v_view, %dv: !v_view)
    grid(%bn = ceildiv(dim(dv, 2), BLOCK_N), %hk = dim(dv, 1), %b = dim(dv, 0)) {
  %c1 = arith.constant 1 : i32
  %block_n = tile.param BLOCK_N : i32
  %n = arith.muli %bn, %block_n : i32
  %h1 = arith.addi %hk, %hk : i32
  %h2 = arith.addi %h1, %c1 : i32
  %part1 = tile.load %parts[%b, %h1, %n, 0] : !v_view -> !v
  %part2 = tile.load %parts[%b, %h2, %n, 0] : !v_view -> !v
  %acc1 = tile.cast %part1 : !v -> !dv
  %acc2 = tile.cast %part2 : !v -> !dv
  %sum = arith.addf %acc1, %acc2 : !dv
  %rounded = tile.cast %sum : !dv -> !v
  tile.store %rounded, %dv[%b, %hk, %n, 0] : !v, !v_view
}
