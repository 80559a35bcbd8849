// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Replaces @modify of affine.mlir: adds offsets[j] * gain.

tile.capture @offsets : !tile.view<[?], f32>
tile.capture @gain : f32

func.func private @modify(%x: !tile.param<T>, %j: i32) -> !tile.param<T> {
  %offset = tile.at @offsets[%j] : f32
  %gain = tile.at @gain : f32
  %scaled = arith.mulf %offset, %gain : f32
  %typed = tile.cast %scaled : f32 -> !tile.param<T>
  %y = arith.addf %x, %typed : !tile.param<T>
  return %y : !tile.param<T>
}
