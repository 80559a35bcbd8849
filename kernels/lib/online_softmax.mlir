// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax in one pass over the keys (Milakov and Gimelshein, Online normalizer calculation for softmax,
// 2018). Rows carry the maximum of the scores so far, in base 2, the sum of exp2(x - maximum), and the
// sum of exp2(x - maximum) V. A kernel that links this declares T, ACC, BLOCK_M (rows), BLOCK_N (keys
// of a round), DP and DVP (widths of a query and of a value, padded).

tile.link "softmax.mlir"

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

func.func private @lowest() -> !acc

// What rows carry before the first key.
func.func private @no_keys() -> (!row, !row, !o) {
  %zero = arith.constant 0.0 : !acc
  %lowest = func.call @lowest() : () -> !acc
  %no_max = tile.full %lowest : !row
  %no_sum = tile.full %zero : !row
  %no_o = tile.full %zero : !o
  return %no_max, %no_sum, %no_o : !row, !row, !o
}

// Of scores in base 2: P, the maximum and the sum with them, and the sum of P V before them.
func.func private @online_softmax(%x: !s, %max_old: !row, %sum_old: !row, %acc_old: !o)
    -> (!s, !row, !row, !o) {
  %max_block = tile.reduce max %x dim 1 : !s -> !row
  %max_new = arith.maximumf %max_old, %max_block : !row
  %max_each = tile.expand %max_new dim 1 : !row -> !s
  %below = arith.subf %x, %max_each fastmath<contract> : !s
  %p = math.exp2 %below : !s

  // What was summed against the old maximum shrinks by 2^(old - new).
  %fall = arith.subf %max_old, %max_new : !row
  %rescale = math.exp2 %fall : !row
  %sum_block = tile.reduce add %p dim 1 : !s -> !row
  %sum_kept = arith.mulf %sum_old, %rescale fastmath<reassoc, contract> : !row
  %sum_new = arith.addf %sum_kept, %sum_block fastmath<reassoc, contract> : !row
  %rescale_each = tile.expand %rescale dim 1 : !row -> !o
  %acc_kept = arith.mulf %acc_old, %rescale_each : !o
  return %p, %max_new, %sum_new, %acc_kept : !s, !row, !row, !o
}

// A round without modifiers: rows and a block of keys, of which the pairs of %keep count.
func.func private @plain_round(%q_tile: !q, %k_tile: !k, %v_tile: !v, %keep: !keep, %max_old: !row,
                               %sum_old: !row, %acc_old: !o, %scale: f32) -> (!row, !row, !o) {
  %log2e = arith.constant 1.4426950408889634 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scale_base2 = arith.mulf %scale_acc, %log2e : !acc
  %scales = tile.full %scale_base2 : !s
  %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
  %base2 = arith.mulf %s, %scales fastmath<contract> : !s
  %x = tile.select %keep, %base2, %masked_out : !keep, !s
  %p, %max_new, %sum_new, %acc_kept = func.call @online_softmax(%x, %max_old, %sum_old, %acc_old)
      : (!s, !row, !row, !o) -> (!s, !row, !row, !o)
  %p_tile = tile.cast %p : !s -> !p
  %acc_new = tile.dot %p_tile, %v_tile, %acc_kept : !p, !v -> !o
  return %max_new, %sum_new, %acc_new : !row, !row, !o
}

// Behind the last key: O. A row without keys has a sum of 0.
func.func private @output_of(%sum: !row, %acc: !o) -> !o {
  %inverse = tile.map @reciprocal_or_zero(%sum) : (!row) -> !row
  %inverse_each = tile.expand %inverse dim 1 : !row -> !o
  %result = arith.mulf %acc, %inverse_each : !o
  return %result : !o
}

// LSE = log(2^maximum * sum); the logarithm of a row without keys is -inf.
func.func private @lse_of(%max: !row, %sum: !row) -> !row {
  %ln2 = arith.constant 0.6931471805599453 : !acc
  %ln2s = tile.full %ln2 : !row
  %max_natural = arith.mulf %max, %ln2s : !row
  %log_sum = math.log %sum : !row
  %lse = arith.addf %max_natural, %log_sum : !row
  return %lse : !row
}
