// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --split-input-file --tile-check-debug --verify-diagnostics

// In a kernel, both are allowed.
tile.kernel @k(%x: !tile.view<[?], f32>) grid(%b = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  tile.print "t" %t : tensor<8xf32>
}

// -----

func.func private @twice(%x: f32) -> f32 {
  // expected-error @+1 {{'tile.print' op must be in a kernel, or in a function of tiles that it calls, but got one in @twice; move it to what calls or applies @twice}}
  tile.print "x" %x : f32
  %y = arith.addf %x, %x : f32
  return %y : f32
}

// -----

func.func private @half(%x: f32, %is_small: i1) -> f32 {
  scf.if %is_small {
    // expected-error @+1 {{'tile.assert' op must be in a kernel, or in a function of tiles that it calls, but got one in @half; move it to what calls or applies @half}}
    tile.assert %is_small, "x" : i1
  }
  return %x : f32
}
