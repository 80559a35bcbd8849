// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a forward of attention does with a block of queries and one of keys, and what other files may
// replace of it. A kernel that links this declares what attention.mlir and online_softmax.mlir want.

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
  %p_tile = tile.cast %p_weighted : !s -> !p
  %acc_new = tile.dot %p_tile, %v_tile, %acc_kept : !p, !v -> !o
  return %max_new, %sum_new, %acc_new : !row, !row, !o
}
