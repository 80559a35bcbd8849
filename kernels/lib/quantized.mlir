// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries of 16 bits that are multiplied with keys of 8. f16 has all values of e4m3 and e5m2, and a GPU converts to it
// in a quarter of the time that bf16 takes, so that queries of bf16 become f16, too.
//
// A kernel that links this file declares BLOCK_M, DP, T and ACC, the types of queries and sums; MT, that of products;
// and SCALED: whether MT is f16 and T bf16.

!q   = !tile.tile<[BLOCK_M, DP], T>
!q_m = !tile.tile<[BLOCK_M, DP], MT>
!q_acc = !tile.tile<[BLOCK_M, DP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

// The largest power of two that is at most %x, of f32 and from 2^-111 to 2^127, divided by 2^8.
func.func private @power_of_two(%x: !acc) -> !acc {
  %exponent_bits = arith.constant 2139095040 : i32
  %least = arith.constant 134217728 : i32
  %most = arith.constant 2130706432 : i32
  %c256 = arith.constant 67108864 : i32
  %value = tile.cast %x : !acc -> f32
  %bits = arith.bitcast %value : f32 to i32
  %exponent = arith.andi %bits, %exponent_bits : i32
  %not_small = arith.maxsi %exponent, %least : i32
  %own = arith.minsi %not_small, %most : i32
  %divided = arith.subi %own, %c256 : i32
  %power = arith.bitcast %divided : i32 to f32
  %result = tile.cast %power : f32 -> !acc
  return %result : !acc
}

// 1 / x, exactly, for a power of two.
func.func private @inverse_power(%x: !acc) -> !acc {
  %twice = arith.constant 2130706432 : i32
  %value = tile.cast %x : !acc -> f32
  %bits = arith.bitcast %value : f32 to i32
  %inverse_bits = arith.subi %twice, %bits : i32
  %inverse = arith.bitcast %inverse_bits : i32 to f32
  %result = tile.cast %inverse : f32 -> !acc
  return %result : !acc
}

// Queries in the type of products, and the factors of the scores of their rows, of which `scale` is one. A row of bf16
// is divided by a power of two, such that its largest value is from 2^8 to 2^9: f16 has the others exactly, or they are
// less than 2^-22 of that.
func.func private @queries_of_products(%q: !q, %scale: !acc) -> (!q_m, !row) {
  %is_scaled = tile.param SCALED : i1
  %q_own, %scales = scf.if %is_scaled -> (!q_m, !row) {
    %q_acc = tile.cast %q : !q -> !q_acc
    %magnitudes = math.absf %q_acc : !q_acc
    %largest = tile.reduce max %magnitudes dim 1 : !q_acc -> !row
    %size = tile.map @power_of_two(%largest) : (!row) -> !row
    %inverse = tile.map @inverse_power(%size) : (!row) -> !row
    %inverse_each = tile.expand %inverse dim 1 : !row -> !q_acc
    %q_divided = arith.mulf %q_acc, %inverse_each : !q_acc
    %q_cast = tile.cast %q_divided : !q_acc -> !q_m
    %scale_each = tile.full %scale : !row
    %scales_scaled = arith.mulf %size, %scale_each : !row
    scf.yield %q_cast, %scales_scaled : !q_m, !row
  } else {
    %q_cast = tile.cast %q : !q -> !q_m
    %scales_full = tile.full %scale : !row
    scf.yield %q_cast, %scales_full : !q_m, !row
  }
  return %q_own, %scales : !q_m, !row
}
