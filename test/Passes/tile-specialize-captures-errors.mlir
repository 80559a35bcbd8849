// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requirements of captures that fail for the parameters, or that cannot be checked.
//
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --tile-specialize

// expected-error @+1 {{constraint 'and(not(WIDE), dim(t, 0) == 2)' of capture 't' must hold for kernel @k, but got WIDE = true; choose other parameters, or do not link its file}}
tile.capture @t : !tile.view<[?], f32> require(and(not(WIDE), dim(t, 0) == 2))
tile.kernel @k params(WIDE: flag = true) (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @f(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
func.func private @f(%x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %t = tile.at @t[%c0] : f32
  %y = arith.mulf %x, %t : f32
  return %y : f32
}

// -----

// expected-error @+1 {{constraint 'floordiv(1, N) == dim(t, 0)' of capture 't' cannot be checked: division by zero in 'floordiv(1, 0)'}}
tile.capture @t : !tile.view<[?], f32> require(floordiv(1, N) == dim(t, 0))
tile.kernel @k params(N: int = 0) (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @f(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
func.func private @f(%x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %t = tile.at @t[%c0] : f32
  %y = arith.mulf %x, %t : f32
  return %y : f32
}

// -----

// A file may be linked to kernels of other arguments.
// expected-warning @+1 {{constraint 'dim(t, 0) == dim(q, 1)' of capture 't' is not checked: it must read parameters, arguments and captures of kernel @k, but got 'q'; give an argument this name, or state the rule in the kernel}}
tile.capture @t : !tile.view<[?], f32> require(dim(t, 0) == dim(q, 1), dim(t, 0) == dim(x, 0))
tile.kernel @k (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @f(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
func.func private @f(%x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %t = tile.at @t[%c0] : f32
  %y = arith.mulf %x, %t : f32
  return %y : f32
}
