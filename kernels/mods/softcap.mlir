// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Soft capping of scores, as in Gemma 2: cap * tanh(s / cap), between -cap and cap.
//
//   softcap   f32, positive
//
// Where T has 16 bits tanh is allowed an error of 2^-22 (fastmath<afn>), far below the rounding of
// P and of the products; on the CPU it is exact everywhere.
//
// Link it to a kernel that has @score_mod: tilewright-run --with kernels/mods/softcap.mlir

tile.capture @softcap : f32

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32)
    -> !tile.param<ACC> {
  %cap_f32 = tile.at @softcap : f32
  %cap = tile.cast %cap_f32 : f32 -> !tile.param<ACC>
  %one = arith.constant 1.0 : !tile.param<ACC>
  %inverse = arith.divf %one, %cap : !tile.param<ACC>
  %fraction = arith.mulf %s, %inverse : !tile.param<ACC>
  %is_narrow = tile.param bits(T) <= 16 : i1
  %near = math.tanh %fraction fastmath<afn> : !tile.param<ACC>
  %exact = math.tanh %fraction : !tile.param<ACC>
  %bounded = arith.select %is_narrow, %near, %exact : !tile.param<ACC>
  %capped = arith.mulf %bounded, %cap : !tile.param<ACC>
  return %capped : !tile.param<ACC>
}
