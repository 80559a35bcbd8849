// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Additive bias: s + bias(b, h, i, j), with an extent of 1 wherever it is the same for all.
//
//   bias   [B or 1, Hq or 1, Sq or 1, Skv or 1]   T; outside of its extents it is 0
//
// A bias of -inf masks a pair: a query that attends no key but those gets O = 0 and LSE = -inf.
//
// Its gradient d_bias has the same extents, in f32. Where no extent is 1 for several pairs, every pair stores its own;
// else they take atomic additions. A dense backward with SCORE_GRADIENT=true adds no two numbers atomically.

tile.link "lib/attention.mlir"
tile.capture @bias : !tile.view<[?, ?, ?, ?], T>

func.func private @index_or_zero(i32, i32) -> i32

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC> {
  %batches = tile.dim @bias, 0
  %heads = tile.dim @bias, 1
  %rows = tile.dim @bias, 2
  %columns = tile.dim @bias, 3
  %b_bias = func.call @index_or_zero(%b, %batches) : (i32, i32) -> i32
  %h_bias = func.call @index_or_zero(%h, %heads) : (i32, i32) -> i32
  %i_bias = func.call @index_or_zero(%i, %rows) : (i32, i32) -> i32
  %j_bias = func.call @index_or_zero(%j, %columns) : (i32, i32) -> i32
  %bias_t = tile.at @bias[%b_bias, %h_bias, %i_bias, %j_bias] : !tile.param<T>
  %bias = tile.cast %bias_t : !tile.param<T> -> !tile.param<ACC>
  %biased = arith.addf %s, %bias fastmath<contract> : !tile.param<ACC>
  return %biased : !tile.param<ACC>
}
