// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on tiles that are not supported on a GPU.
// RUN: tilewright-opt %s --tile-to-tgpu -split-input-file -verify-diagnostics

!v = !tile.view<[?], f32>
tile.kernel @constant (%x: !v) grid(%i = dim(x, 0)) {
  // expected-error @+1 {{a constant tile must have one value for all elements}}
  %t = arith.constant dense<[1.0, 2.0]> : tensor<2xf32>
  tile.store %t, %x[%i] : tensor<2xf32>, !v
}

// -----

!v = !tile.view<[64], f32>
!t = tensor<64xf32>
tile.kernel @while (%x: !v, %n: i32) grid(%i = 1) {
  %z = tile.load %x[0] : !v -> !t
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{operation 'scf.while' on tiles cannot be mapped onto a GPU; use operations of arith, math and tile}}
  %last, %w = scf.while (%m = %c0, %t = %z) : (i32, !t) -> (i32, !t) {
    %more = arith.cmpi slt, %m, %n : i32
    scf.condition(%more) %m, %t : i32, !t
  } do {
  ^bb0(%m: i32, %t: !t):
    %u = arith.addf %t, %t : !t
    %next = arith.addi %m, %c1 : i32
    scf.yield %next, %u : i32, !t
  }
  tile.store %w, %x[0] : !t, !v
}

// -----

tile.kernel @chosen params() (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>, %o: !tile.view<[?], f32>, %first: i1)
    grid(%i = 1) {
  // expected-error @+1 {{a view cannot be selected at run time on a GPU, but got '!tile.view<[?], f32>'; load a tile of each and select between the tiles}}
  %v = arith.select %first, %x, %y : !tile.view<[?], f32>
  %t = tile.load %v[0] : !tile.view<[?], f32> -> tensor<64xf32>
  tile.store %t, %o[0] : tensor<64xf32>, !tile.view<[?], f32>
}

// -----

!pool = !tile.view<[?, ?, 64], f32>
!rows = !tile.view<[?, 64], f32>
!t = tensor<32x64xf32>
tile.kernel @pages (%x: !pool, %y: !rows, %n: i32) grid(%b = dim(x, 0)) {
  %p = tile.paged %x page %b size %n : !pool -> !rows
  // expected-error @+1 {{on a GPU, a tile of rows in pages must be an operand of products only, without a pad, but has another use; gather the rows with 'tile.gather'}}
  %t = tile.load %p[0, 0] : !rows -> !t
  // expected-note @+1 {{a use}}
  tile.store %t, %y[0, 0] : !t, !rows
}
