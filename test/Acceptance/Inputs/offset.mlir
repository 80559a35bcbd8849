// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A modifier with a 16-bit table, which covers only some distances: s + offset(h, j - i), and s
// where that lies outside.
//
//   offset  [Hq, N]  f16

tile.capture @offset : !tile.view<[?, ?], f16>

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32)
    -> !tile.param<ACC> {
  %ahead = arith.subi %j, %i : i32
  %offset_f16 = tile.at @offset[%h, %ahead] : f16
  %offset = tile.cast %offset_f16 : f16 -> !tile.param<ACC>
  %r = arith.addf %s, %offset : !tile.param<ACC>
  return %r : !tile.param<ACC>
}
