// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A modifier without a derivative: it clears the lowest bits of a score.

func.func private @score_mod(%s: f32, %b: i32, %h: i32, %i: i32, %j: i32) -> f32 {
  %bits = arith.constant 16 : i32
  %all = arith.bitcast %s : f32 to i32
  %few = arith.shrui %all, %bits : i32
  %back = arith.shli %few, %bits : i32
  %r = arith.bitcast %back : i32 to f32
  return %r : f32
}
