// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention without a softmax, backward: the gradients of a function of the O of tanh_attention.mlir.
//
//   S  = scale * Q K^T                     W  = tanh(S), 0 where the pair is masked      recomputed
//   dS = (dO V^T) * (1 - W^2)              the compiler derives the second factor
//   dV = W^T dO      dK = scale * dS^T Q      dQ = scale * dS K
//
// Arguments
//   q, k, v      as in tanh_attention.mlir
//   do           [B, Hq,  Sq,  DV]  T     gradient of O
//   dq           [B, Hq,  Sq,  D]   T     result
//   dk           [B, Hkv, Skv, D]   T     result
//   dv           [B, Hkv, Skv, DV]  T     result
//   scale, window_left, window_right   as in tanh_attention.mlir
//
// The forward must have had the same masks and the same @weight. A query that attends no key and a key that no query
// attends get zero gradients.
//
// Parameters
//   D, DV, T, CAUSAL, WINDOW   As in tanh_attention.mlir. On a GPU, widths above 128 have small blocks without roles,
//                    and are slow.
//   DETERMINISTIC    Off: dQ may be summed by atomic additions, and its last bits may differ from run to run. The same
//                    holds for dK and dV if query heads share a key head. On: runs are bit-identical. This requires
//                    that blocks of keys can add in order: in 16 bits on sm_90a, if D and DV are at most 128, without a
//                    linked mask. Default: off.
//   BLOCK_M, BLOCK_N   Queries of an iteration and keys of a program instance. The compiler chooses the defaults.
//
// W, its derivative and dS are rounded to T; all other values have the type ACC.

tile.link "lib/pairs.mlir"
tile.link "lib/weights.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!sum_view = !tile.view<[?, ?, ?, D], ACC>
!row_view = !tile.view<[?, ?, ?], ACC>
!st   = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!wt   = !tile.tile<[BLOCK_N, BLOCK_M], T>
!keep = !tile.tile<[BLOCK_N, BLOCK_M], i1>
!row  = !tile.tile<[BLOCK_M], ACC>
!acc  = !tile.param<ACC>

tile.program @tanh_attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false, let SHARD: flag = false,
           DETERMINISTIC: flag = false, BLOCK_M: int = block(), BLOCK_N: int = block(), let MAPS: int = 1,
           let ROWS: flag = false, let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, or(not(DETERMINISTIC), adds_in_order()), dim(k, 0) == dim(q, 0),
            dim(v, 0) == dim(q, 0), same_dims(v, k, 1, 2), same_dims(do, q, 0, 1, 2), same_dims(dq, q, 0, 1, 2),
            same_dims(dk, k, 0, 1, 2), same_dims(dv, k, 0, 1, 2), finite(scale),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %dq: !qk_view, %dk: !qk_view, %dv: !v_view, %scale: !acc,
     %window_left: i32 = -1, %window_right: i32 = -1) {
  %no_rows = tile.workspace [0, 0, 0] : !row_view
  %sums = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2), D] : !sum_view
  tile.launch @pairs_of_keys(%q, %k, %v, %do, %no_rows, %no_rows, %sums, %dk, %dv, %scale, %window_left, %window_right)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !sum_view, !qk_view, !v_view, !acc, i32, i32
  tile.launch @pairs_of_queries(%sums, %k, %dq, %scale, %window_left, %window_right)
      : !sum_view, !qk_view, !qk_view, !acc, i32, i32
}

// W^T, and the derivative of W, which is 0 as well where the pair is masked.
func.func private @pair_weights(%st: !st, %row: !row, %keep: !keep, %h: i32, %x: i32, %scale: !acc) -> (!wt, !wt) {
  %scales = tile.full %scale : !st
  %none = tile.constant 0 : !st
  %one = tile.constant 1.0 : !st
  %scaled = arith.mulf %st, %scales fastmath<reassoc, contract> : !st
  %weights = tile.map @weight(%scaled) : (!st) -> !st
  %weights_kept = tile.select %keep, %weights, %none : !keep, !st
  %wt = tile.cast %weights_kept : !st -> !wt
  %slopes = tile.map_gradient @weight(%scaled) wrt 0 seed %one : !st : (!st) -> !st
  %slopes_kept = tile.select %keep, %slopes, %none : !keep, !st
  %slopes_t = tile.cast %slopes_kept : !st -> !wt
  return %wt, %slopes_t : !wt, !wt
}

func.func private @pair_gradients(%slopes_t: !wt, %dwt: !st, %row: !row) -> !st {
  %slopes = tile.cast %slopes_t : !wt -> !st
  %dst = arith.mulf %dwt, %slopes : !st
  return %dst : !st
}
