// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Weights of distances: a factor of the probability, weight(h, min(|i - j|, 7)), that is learned.

tile.capture @weight : !tile.view<[?, 8], f32>

func.func private @weight_mod(%p: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC> {
  %last = arith.constant 7 : i32
  %ahead = arith.subi %j, %i : i32
  %behind = arith.subi %i, %j : i32
  %distance = arith.maxsi %ahead, %behind : i32
  %column = arith.minsi %distance, %last : i32
  %weight_f32 = tile.at @weight[%h, %column] : f32
  %weight = tile.cast %weight_f32 : f32 -> !tile.param<ACC>
  %weighted = arith.mulf %p, %weight : !tile.param<ACC>
  return %weighted : !tile.param<ACC>
}
