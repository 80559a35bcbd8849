// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relative position bias: s + table(h, clamp(j - i, -R, R) + R), a learned number for each head and each signed
// distance up to R (Shaw, Uszkoreit and Vaswani, 2018). For the buckets of T5, see t5_bias.mlir.
//
//   relative_bias     [Hq, 2 R + 1]   f32, the table
//   relative_radius   i32, R >= 0; greater distances use the entry of distance R

tile.capture @relative_bias : !tile.view<[?, ?], f32> require(
    or(SHARD, dim(relative_bias, 0) == dim(q, 1)), dim(relative_bias, 1) == 2 * relative_radius + 1)
tile.capture @relative_radius : i32 require(relative_radius >= 0)

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC>
    attributes {tile.unbounded} {
  %c0 = arith.constant 0 : i32
  %radius = tile.at @relative_radius : i32
  %lowest = arith.subi %c0, %radius : i32
  %ahead = arith.subi %j, %i : i32
  %not_below = arith.maxsi %ahead, %lowest : i32
  %near = arith.minsi %not_below, %radius : i32
  %column = arith.addi %near, %radius : i32
  %bias_f32 = tile.at @relative_bias[%h, %column] : f32
  %bias = tile.cast %bias_f32 : f32 -> !tile.param<ACC>
  %biased = arith.addf %s, %bias : !tile.param<ACC>
  return %biased : !tile.param<ACC>
}
