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

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> attributes {tile.unbounded} {
  %radius = tile.at @relative_radius : i32
  %lowest = tile.expr 0 - %radius : i32
  tile.result %s + cast(@relative_bias[%h, min(max(%j - %i, %lowest), %radius) + %radius] : f32) : !tile.param<ACC>
}
