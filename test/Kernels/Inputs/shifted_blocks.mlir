// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// y = x^T diag(w) x, with blocks of rows that begin at 8 rows before a multiple of the block size. The first block begins
// before the arrays, where loads read zeros.
//
//   x [N, D] f16    w [N] f32    y [D, D] f32

!x    = !tile.tile<[64, D], f16>
!wide = !tile.tile<[64, D], f32>

tile.kernel @shifted_blocks
    params(D: int)
    (%x: !tile.view<[?, D], f16>, %w: !tile.view<[?], f32>, %y: !tile.view<[D, D], f32>)
    grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %rows = tile.dim %x, 0 : !tile.view<[?, D], f16>
  %end = arith.addi %rows, %c8 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !tile.tile<[D, D], f32>
  %all = tile.for_blocks %j in (%c0 to %end) against (%c0 to %end) keep %keep : !tile.tile<[16, 64], i1>
      iter_args(%sum = %none : !tile.tile<[D, D], f32>) {
    %first = arith.subi %j, %c8 : i32
    %block = tile.load %x[%first, 0] : !tile.view<[?, D], f16> -> !x
    %row = tile.load %w[%first] : !tile.view<[?], f32> -> !tile.tile<[64], f32>
    %each = tile.expand %row dim 1 : !tile.tile<[64], f32> -> !wide
    %values = tile.cast %block : !x -> !wide
    %product = arith.mulf %values, %each : !wide
    %scaled = tile.cast %product : !wide -> !x
    %new = tile.dot %scaled, %block, %sum transpose_a : !x, !x -> !tile.tile<[D, D], f32>
    tile.yield %new : !tile.tile<[D, D], f32>
  }
  tile.store %all, %y[0, 0] : !tile.tile<[D, D], f32>, !tile.view<[D, D], f32>
}
