// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a backward of attention does with a block of queries and one of keys. A kernel that links this
// declares D, DV, T, ACC, BLOCK_M, BLOCK_N, DP and DVP (D and DV, padded), DW (the columns of K with
// which dQ is computed), CAUSAL, WINDOW, CAPTURE_GRADIENTS and DETERMINISTIC, and WITH_DK, WITH_DV and
// WITH_DQ: which gradients are wanted.

tile.link "attention.mlir"

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!dq  = !tile.tile<[BLOCK_M, DP], ACC>
!dk  = !tile.tile<[BLOCK_N, DP], ACC>
!dv  = !tile.tile<[BLOCK_N, DVP], ACC>
!kw  = !tile.tile<[BLOCK_N, DW], T>
!dqt = !tile.tile<[DW, BLOCK_M], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>
// Scores and their gradients, by query and key, and transposed.
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!ds  = !tile.tile<[BLOCK_M, BLOCK_N], T>
!dst = !tile.tile<[BLOCK_N, BLOCK_M], T>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!post = !tile.tile<[BLOCK_N, BLOCK_M], i32>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!keept = !tile.tile<[BLOCK_N, BLOCK_M], i1>

// Of S^T: the scores, P and its weights, and rounded to T what dV and dK are made of, P^T and
// P * score_mod'(S). LSE is in base 2. Where a kernel has the products (of S^T instead of S, so that
// P^T and dS^T come out in the order in which dV and dK take them) and the loads of rows in between,
// a row is read when it is needed.
func.func private @probabilities_of_keys(
    %st: !st, %lse_row: !row, %keep: !keept, %b: i32, %h: i32, %m: i32, %n: i32, %scale: f32)
    -> (!st, !st, !st, !dst, !dst) {
  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !st
  %log2es = tile.full %log2e : !st
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !st
  %cols = tile.iota %n dim 0 : !post
  %rows = tile.iota %m dim 1 : !post
  %natural = arith.mulf %st, %scales_s fastmath<reassoc, contract> : !st
  %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
      : (!st, i32, i32, !post, !post) -> !st
  %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !st
  %lse_each = tile.expand %lse_row dim 0 : !row -> !st
  %below = arith.subf %base2, %lse_each fastmath<contract> : !st
  %x = tile.select %keep, %below, %masked_out : !keept, !st
  %pt = math.exp2 %x : !st
  %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !post, !post) -> !st
  %pt_weighted = arith.mulf %pt, %weight : !st
  %pt_rounded = tile.cast %pt_weighted : !st -> !dst

  // A gradient is linear in its seed, so the score's comes before dP is there, and what waits for dP
  // are numbers of type T.
  %gt = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %pt : !st
      : (!st, i32, i32, !post, !post) -> !st
  %gt_rounded = tile.cast %gt : !st -> !dst
  return %natural, %pt, %weight, %pt_rounded, %gt_rounded : !st, !st, !st, !dst, !dst
}

// Of dP^T and what the function above gives: new sums of dK and dV, and what is to be added to dQ,
// transposed; and the gradients of what modifiers capture.
func.func private @gradients_of_keys(
    %natural: !st, %pt: !st, %weight: !st, %pt_rounded: !dst, %gt_rounded: !dst, %dpt: !st,
    %delta_row: !row, %k_wide: !kw, %q_tile: !q, %do_tile: !o, %dk_old: !dk, %dv_old: !dv,
    %b: i32, %h: i32, %m: i32, %n: i32) -> (!dk, !dv, !dqt) {
  %zero = arith.constant 0.0 : !acc
  %with_dk = tile.param WITH_DK : i1
  %with_dv = tile.param WITH_DV : i1
  %with_dq = tile.param WITH_DQ : i1
  %rows = tile.iota %m dim 1 : !post
  %cols = tile.iota %n dim 0 : !post
  %delta_each = tile.expand %delta_row dim 0 : !row -> !st
  %dpt_weighted = arith.mulf %dpt, %weight : !st
  %dpt_centred = arith.subf %dpt_weighted, %delta_each : !st
  %gt_acc = tile.cast %gt_rounded : !dst -> !st
  %dst = arith.mulf %gt_acc, %dpt_centred : !st
  %dst_rounded = tile.cast %dst : !st -> !dst

  %dv_new = scf.if %with_dv -> (!dv) {
    %dv_sum = tile.dot %pt_rounded, %do_tile, %dv_old : !dst, !o -> !dv
    scf.yield %dv_sum : !dv
  } else {
    scf.yield %dv_old : !dv
  }
  %dk_new = scf.if %with_dk -> (!dk) {
    %dk_sum = tile.dot %dst_rounded, %q_tile, %dk_old : !dst, !q -> !dk
    scf.yield %dk_sum : !dk
  } else {
    scf.yield %dk_old : !dk
  }

  %dq_new = scf.if %with_dq -> (!dqt) {
    %dq_part = tile.dot %k_wide, %dst_rounded transpose_a : !kw, !dst -> !dqt
    scf.yield %dq_part : !dqt
  } else {
    %no_dq = tile.full %zero : !dqt
    scf.yield %no_dq : !dqt
  }

  %pt_plain = tile.cast %pt : !st -> !dst
  %pt_acc = tile.cast %pt_plain : !dst -> !st
  %dt = arith.mulf %pt_acc, %dpt_centred : !st
  %dw = arith.mulf %pt_acc, %dpt : !st
  %sums = tile.param and(CAPTURE_GRADIENTS, not(DETERMINISTIC)) : i1
  scf.if %sums {
    tile.add_gradients @score_mod(%natural, %b, %h, %rows, %cols) seed %dt : !st once
        : (!st, i32, i32, !post, !post)
    tile.add_gradients @weight_mod(%b, %h, %rows, %cols) seed %dw : !st once
        : (i32, i32, !post, !post)
  }
  %exact_sums = tile.param and(CAPTURE_GRADIENTS, DETERMINISTIC) : i1
  scf.if %exact_sums {
    tile.add_gradients @score_mod(%natural, %b, %h, %rows, %cols) seed %dt : !st exact once
        : (!st, i32, i32, !post, !post)
    tile.add_gradients @weight_mod(%b, %h, %rows, %cols) seed %dw : !st exact once
        : (i32, i32, !post, !post)
  }
  return %dk_new, %dv_new, %dq_new : !dk, !dv, !dqt
}

// A block of queries against one of keys, in a loop over the latter: a new sum of dQ.
func.func private @round_of_queries(
    %q_tile: !q, %do_tile: !o, %lse_row: !row, %delta_row: !row, %k_tile: !k, %v_tile: !v,
    %keep: !keep, %dq_old: !dq, %b: i32, %h: i32, %m: i32, %n: i32, %scale: f32) -> !dq {
  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %lse_each = tile.expand %lse_row dim 1 : !row -> !s
  %delta_each = tile.expand %delta_row dim 1 : !row -> !s
  %rows = tile.iota %m dim 0 : !pos

  %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
  %cols = tile.iota %n dim 1 : !pos
  %natural = arith.mulf %s, %scales_s fastmath<reassoc, contract> : !s
  %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
      : (!s, i32, i32, !pos, !pos) -> !s
  %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !s
  %below = arith.subf %base2, %lse_each fastmath<contract> : !s
  %x = tile.select %keep, %below, %masked_out : !keep, !s
  %p = math.exp2 %x : !s
  %dp = tile.dot %do_tile, %v_tile transpose_b : !o, !v -> !s
  %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !pos, !pos) -> !s
  %dp_weighted = arith.mulf %dp, %weight : !s
  %dp_centred = arith.subf %dp_weighted, %delta_each : !s
  %dt = arith.mulf %p, %dp_centred : !s
  %ds = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %dt : !s
      : (!s, i32, i32, !pos, !pos) -> !s
  %ds_rounded = tile.cast %ds : !s -> !ds
  %dq_new = tile.dot %ds_rounded, %k_tile, %dq_old : !ds, !k -> !dq
  return %dq_new : !dq
}
