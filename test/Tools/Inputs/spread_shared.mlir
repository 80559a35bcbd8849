// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.spread in kernels without roles, which awaits nothing.
//
//   y = x w, and r = the sums of the rows of z     x  [M, K]  bf16     w  [K, N]  bf16     y  [M, N]  f32
//                                                  z  [R, 64]  bf16    r  [R]  f32

!x = tensor<64x32xbf16>
!w = tensor<32x64xbf16>
!y = tensor<64x64xf32>
!z = tensor<16x64xbf16>
!view = !tile.view<[?, ?], bf16>

// The sums of rows are no work of a role: a reduction is not one of each element.
tile.kernel @multiply_and_sum (%x, %w: !view, %y: !tile.view<[?, ?], f32>, %z: !tile.view<[?, 64], bf16>,
                               %r: !tile.view<[?], f32>)
    grid(%bn = ceildiv(dim(y, 1), 64), %bm = ceildiv(dim(y, 0), 64)) {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %m = tile.expr %bm * 64 : i32
  %n = tile.expr %bn * 64 : i32
  %depth = tile.dim %x, 1 : !view
  %none = arith.constant dense<0.0> : !y
  %sum = scf.for %k = %c0 to %depth step %c32 iter_args(%old = %none) -> (!y) : i32 {
    %a = tile.load %x[%m, %k] : !view -> !x
    %b = tile.load %w[%k, %n] : !view -> !w
    %new = tile.dot %a, %b, %old : !x, !w -> !y
    scf.yield %new : !y
  }
  tile.store %sum, %y[%m, %n] : !y, !tile.view<[?, ?], f32>

  %rows = tile.dim %z, 0 : !tile.view<[?, 64], bf16>
  %count = tile.expr ceildiv(%rows, 16) : i32
  tile.spread %i to %count {
    %row = tile.expr %i * 16 : i32
    %given = tile.load %z[%row, 0] : !tile.view<[?, 64], bf16> -> !z
    %wide = tile.cast %given : !z -> tensor<16x64xf32>
    %total = tile.reduce add %wide dim 1 : tensor<16x64xf32> -> tensor<16xf32>
    tile.store %total, %r[%row] : tensor<16xf32>, !tile.view<[?], f32>
  }
}

// No product: y = x in another type, and a product as additional work: r = z z^T of each 16 rows.
tile.kernel @convert_and_multiply (%x: !tile.view<[?], f32>, %y: !tile.view<[?], bf16>, %z: !tile.view<[?, 64], bf16>,
                                   %r: !tile.view<[?, 16], f32>)
    grid(%i = ceildiv(dim(x, 0), 32)) {
  %at = tile.expr %i * 32 : i32
  %given = tile.load %x[%at] : !tile.view<[?], f32> -> tensor<32xf32>
  %rounded = tile.cast %given : tensor<32xf32> -> tensor<32xbf16>
  tile.store %rounded, %y[%at] : tensor<32xbf16>, !tile.view<[?], bf16>

  %rows = tile.dim %z, 0 : !tile.view<[?, 64], bf16>
  %count = tile.expr ceildiv(%rows, 16) : i32
  tile.spread %n to %count {
    %row = tile.expr %n * 16 : i32
    %tile = tile.load %z[%row, 0] : !tile.view<[?, 64], bf16> -> !z
    %product = tile.dot %tile, %tile transpose_b : !z, !z -> tensor<16x16xf32>
    tile.store %product, %r[%row, 0] : tensor<16x16xf32>, !tile.view<[?, 16], f32>
  }
}
