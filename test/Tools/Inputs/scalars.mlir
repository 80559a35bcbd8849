// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// All types of scalars, and views of integers: out = [a, b, c, d], and counts[i] increases by b.

tile.kernel @scalars (%out: !tile.view<[4], f64>, %counts: optional !tile.view<[?], i32>, %a: f32, %b: i32, %c: i64, %d: i1, %e: f64)
    grid(%unused = 1) {
  %c0 = arith.constant 0 : i32
  %n = tile.iota %c0 dim 0 : !tile.tile<[4], i32>
  %a64 = tile.cast %a : f32 -> f64
  %b64 = tile.cast %b : i32 -> f64
  %c64 = tile.cast %c : i64 -> f64
  %d64 = tile.cast %d : i1 -> f64
  %abcd = tile.map @choose(%n, %a64, %b64, %c64, %d64) : (!tile.tile<[4], i32>, f64, f64, f64, f64) -> !tile.tile<[4], f64>
  tile.store %abcd, %out[0] : !tile.tile<[4], f64>, !tile.view<[4], f64>
  %old = tile.load %counts[0] : !tile.view<[?], i32> -> !tile.tile<[4], i32>
  %bs = tile.full %b : !tile.tile<[4], i32>
  %new = arith.addi %old, %bs : !tile.tile<[4], i32>
  tile.store %new, %counts[0] : !tile.tile<[4], i32>, !tile.view<[?], i32>
}

func.func private @choose(%n: i32, %a: f64, %b: f64, %c: f64, %d: f64) -> f64 {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %is1 = arith.cmpi eq, %n, %c1 : i32
  %is2 = arith.cmpi eq, %n, %c2 : i32
  %is3 = arith.cmpi eq, %n, %c3 : i32
  %ab = arith.select %is1, %b, %a : f64
  %abc = arith.select %is2, %c, %ab : f64
  %abcd = arith.select %is3, %d, %abc : f64
  return %abcd : f64
}
