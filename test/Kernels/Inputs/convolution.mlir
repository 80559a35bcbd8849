// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A convolution of each row with TAPS weights, whose input is loaded once; and the rows of the input shifted down by one,
// with another fill value. Block sizes are not powers of two.

!in   = !tile.tile<[ROWS, WIDTH], T>
!out  = !tile.tile<[ROWS, COLUMNS], T>
!acc  = !tile.tile<[ROWS, COLUMNS], ACC>
!view = !tile.view<[?, ?], T>

tile.kernel @convolution
    params(T: type = f32, let ACC: type = accumulator(T), ROWS: int = 3, COLUMNS: int = 21, TAPS: int = 4,
           let WIDTH: int = COLUMNS + TAPS - 1)
    (%x: !view, %w: !tile.view<[?], f32>, %y: !view, %shifted: !view)
    grid(%b = ceildiv(dim(y, 1), COLUMNS)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %taps = tile.param TAPS : i32
  %columns = tile.param COLUMNS : i32
  %first = arith.muli %b, %columns : i32
  %tile = tile.load %x[0, %first] : !view -> !in
  %none = tile.constant 0 : !acc
  %sum = scf.for %k = %c0 to %taps step %c1 iter_args(%old = %none) -> (!acc) : i32 {
    %part = tile.slice %tile dim 1 from %k : !in -> !out
    %wide = tile.cast %part : !out -> !acc
    %weight_f32 = tile.at %w[%k] : !tile.view<[?], f32>
    %weight = tile.cast %weight_f32 : f32 -> !tile.param<ACC>
    %weights = tile.full %weight : !acc
    %product = arith.mulf %wide, %weights : !acc
    %new = arith.addf %old, %product : !acc
    scf.yield %new : !acc
  } {tile.unroll}
  %result = tile.cast %sum : !acc -> !out
  tile.store %result, %y[0, %first] : !out, !view
  // Rows are shifted down by one: the first row gets the fill value.
  %up = arith.constant -1 : i32
  %minus_one = tile.constant -1.0 : !tile.param<T>
  %part = tile.slice %tile dim 1 from %c0 : !in -> !out
  %moved = tile.slice %part dim 0 from %up fill %minus_one : !out -> !out
  tile.store %moved, %shifted[0, %first] : !out, !view
}
