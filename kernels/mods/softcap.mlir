// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Soft capping of scores, as in Gemma 2: cap * tanh(s / cap), between -cap and cap.
//
//   softcap   f32, positive
//
// Link it to a kernel that has @score_mod: tilewright-run --with kernels/mods/softcap.mlir

tile.capture @softcap : f32

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32)
    -> !tile.param<ACC> {
  %cap_f32 = tile.at @softcap : f32
  %cap = tile.cast %cap_f32 : f32 -> !tile.param<ACC>
  %fraction = arith.divf %s, %cap : !tile.param<ACC>
  %bounded = math.tanh %fraction : !tile.param<ACC>
  %capped = arith.mulf %bounded, %cap : !tile.param<ACC>
  return %capped : !tile.param<ACC>
}
