// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ALiBi (Press, Smith and Lewis, Train short, test long, 2022): a penalty that grows linearly with
// the distance of query and key, s - slope(h) * |i - j|.
//
//   slopes   [Hq]   f32
//
// Positions are compared in ACC, one conversion for a row or a column: in f32 distances are exact below position 2^24.
// Where the first rows of q and of k are different positions (a decode with a cache, CAUSAL = bottom_right), O is right
// nevertheless as long as the mask is causal: an offset adds the same number to every score of a row, and to LSE.

tile.capture @slopes : !tile.view<[?], f32>

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC> {
  %slope_f32 = tile.at @slopes[%h] : f32
  %slope = tile.cast %slope_f32 : f32 -> !tile.param<ACC>
  %i_acc = tile.cast %i : i32 -> !tile.param<ACC>
  %j_acc = tile.cast %j : i32 -> !tile.param<ACC>
  %ahead = arith.subf %j_acc, %i_acc : !tile.param<ACC>
  %distance = math.absf %ahead : !tile.param<ACC>
  %penalty = arith.mulf %slope, %distance fastmath<contract> : !tile.param<ACC>
  %biased = arith.subf %s, %penalty fastmath<contract> : !tile.param<ACC>
  return %biased : !tile.param<ACC>
}
