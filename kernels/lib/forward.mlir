// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a forward of attention does with a block of queries and one of keys, and what other files may
// replace of it. A kernel that links this declares what attention.mlir and online_softmax.mlir want, and
// FP8, whether T has 8 bits.

tile.link "attention.mlir"
tile.link "online_softmax.mlir"
tile.link "softmax.mlir"

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>
!one_view = !tile.view<[1], f32>

func.func private @lowest() -> !acc
func.func private @sink(i32) -> !acc
func.func private @online_softmax(!s, !row, !row, !o) -> (!s, !row, !row, !o)

// What rows of a head begin with: a sink, if there is one, counts as a key without a value.
func.func private @before_keys(%h: i32) -> (!row, !row, !o) {
  %zero = arith.constant 0.0 : !acc
  %one = arith.constant 1.0 : !acc
  %log2e = arith.constant 1.4426950408889634 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %sink = func.call @sink(%h) : (i32) -> !acc
  %sink_base2 = arith.mulf %sink, %log2e : !acc
  %no_sink = arith.cmpf oeq, %sink, %minus_inf : !acc
  %sink_weight = arith.select %no_sink, %zero, %one : !acc
  %lowest = func.call @lowest() : () -> !acc
  %first_max = arith.maximumf %sink_base2, %lowest : !acc
  %no_max = tile.full %first_max : !row
  %no_sum = tile.full %sink_weight : !row
  %no_o = tile.full %zero : !o
  return %no_max, %no_sum, %no_o : !row, !row, !o
}

//===----------------------------------------------------------------------===//
// 8-bit types (FP8)
//===----------------------------------------------------------------------===//

// The scale of scores of what q and k hold.
func.func private @scale_of_scores(%scale: f32, %q_descale: !one_view, %k_descale: !one_view) -> f32 {
  %fp8 = tile.param FP8 : i1
  %all = scf.if %fp8 -> (f32) {
    %q_by = tile.at %q_descale[0] : !one_view
    %k_by = tile.at %k_descale[0] : !one_view
    %qk_by = arith.mulf %q_by, %k_by : f32
    %scaled = arith.mulf %scale, %qk_by : f32
    scf.yield %scaled : f32
  } else {
    scf.yield %scale : f32
  }
  return %all : f32
}

// P, multiplied by 2^8 before it is rounded.
func.func private @lifted(%p: !s) -> !s {
  %fp8 = tile.param FP8 : i1
  %result = scf.if %fp8 -> (!s) {
    %lift = arith.constant 256.0 : !acc
    %lifts = tile.full %lift : !s
    %product = arith.mulf %p, %lifts : !s
    scf.yield %product : !s
  } else {
    scf.yield %p : !s
  }
  return %result : !s
}

// O of the sum of such P times what v holds.
func.func private @descaled(%o: !o, %v_descale: !one_view) -> !o {
  %fp8 = tile.param FP8 : i1
  %result = scf.if %fp8 -> (!o) {
    %v_by = tile.at %v_descale[0] : !one_view
    %back = arith.constant 0.00390625 : f32
    %factor = arith.mulf %v_by, %back : f32
    %factor_acc = tile.cast %factor : f32 -> !acc
    %factors = tile.full %factor_acc : !o
    %product = arith.mulf %o, %factors : !o
    scf.yield %product : !o
  } else {
    scf.yield %o : !o
  }
  return %result : !o
}

// The queries from %m on against the keys from %n on. Scores are kept in base 2: exp2 is what machines
// have. The two factors may be rounded together, and a difference with its product.
func.func private @round_of_keys(
    %q_tile: !q, %k_tile: !k, %v_tile: !v, %keep: !keep, %max_old: !row, %sum_old: !row,
    %acc_old: !o, %b: i32, %h: i32, %m: i32, %n: i32, %scale: f32) -> (!row, !row, !o) {
  %log2e = arith.constant 1.4426950408889634 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s
  %masked_out = tile.full %minus_inf : !s
  %rows = tile.iota %m dim 0 : !pos

  %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
  %cols = tile.iota %n dim 1 : !pos
  %natural = arith.mulf %s, %scales fastmath<reassoc, contract> : !s
  %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
      : (!s, i32, i32, !pos, !pos) -> !s
  %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !s
  %x = tile.select %keep, %base2, %masked_out : !keep, !s
  %p, %max_new, %sum_new, %acc_kept = func.call @online_softmax(%x, %max_old, %sum_old, %acc_old)
      : (!s, !row, !row, !o) -> (!s, !row, !row, !o)
  %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !pos, !pos) -> !s
  %p_weighted = arith.mulf %p, %weight : !s
  %p_lifted = func.call @lifted(%p_weighted) : (!s) -> !s
  %p_tile = tile.cast %p_lifted : !s -> !p
  %acc_new = tile.dot %p_tile, %v_tile, %acc_kept : !p, !v -> !o
  return %max_new, %sum_new, %acc_new : !row, !row, !o
}
