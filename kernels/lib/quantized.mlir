// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Queries of 16 bits that are multiplied with keys of 8. f16 has all values of e4m3 and e5m2, and a GPU converts to it
// in a quarter of the time that bf16 takes, so that queries of bf16 become f16, too.
//
// A kernel that links this file declares BLOCK_M, DP, T and ACC, the types of queries and sums; MT, that of products;
// and SCALED: whether MT is f16 and T bf16.

tile.link "types.mlir"

!q_m = !tile.tile<[BLOCK_M, DP], MT>
!q_acc = !tile.tile<[BLOCK_M, DP], ACC>

// The largest power of two that is at most %x, of f32 and from 2^-111 to 2^127, divided by 2^8.
tile.function @power_of_two(%x: !acc) -> !acc {
  %value = tile.cast %x : !acc -> f32
  %bits = arith.bitcast %value : f32 to i32
  %divided = tile.expr min(max(bitand(%bits, 2139095040), 134217728), 2130706432) - 67108864 : i32
  %power = arith.bitcast %divided : i32 to f32
  tile.result cast(%power) : !acc
}

// 1 / x, exactly, for a power of two.
tile.function @inverse_power(%x: !acc) -> !acc {
  %value = tile.cast %x : !acc -> f32
  %bits = arith.bitcast %value : f32 to i32
  %inverse_bits = tile.expr 2130706432 - %bits : i32
  %inverse = arith.bitcast %inverse_bits : i32 to f32
  tile.result cast(%inverse) : !acc
}

// Queries in the type of products, and the factors of the scores of their rows, of which `scale` is one. A row of bf16
// is divided by a power of two, such that its largest value is from 2^8 to 2^9: f16 has the others exactly, or they are
// less than 2^-22 of that.
tile.function @queries_of_products(%q: !q, %scale: !acc) -> (!q_m, !row) {
  %is_scaled = tile.param SCALED : i1
  %q_own, %scales = scf.if %is_scaled -> (!q_m, !row) {
    %q_acc = tile.cast %q : !q -> !q_acc
    %size = tile.expr map @power_of_two(reduce max(abs(%q_acc), 1)) : !row
    %q_cast = tile.expr %q_acc * expand(map @inverse_power(%size), 1) : !q_acc -> !q_m
    %scales_scaled = tile.expr %size * full(%scale) : !row
    scf.yield %q_cast, %scales_scaled : !q_m, !row
  } else {
    %q_cast = tile.cast %q : !q -> !q_m
    %scales_full = tile.full %scale : !row
    scf.yield %q_cast, %scales_full : !q_m, !row
  }
  tile.result %q_own, %scales : !q_m, !row
}
