// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Running combinations of a tile, along each dimension and in both directions, of floats, integers and flags, and of a tile of
// rank 3.

!x    = !tile.view<[?, ?], T>
!i    = !tile.view<[?, ?], i32>
!t    = !tile.tile<[ROWS, COLUMNS], T>
!n    = !tile.tile<[ROWS, COLUMNS], i32>
!flag = !tile.tile<[ROWS, COLUMNS], i1>
!row  = !tile.tile<[COLUMNS], T>
!cube = !tile.tile<[2, HALF, COLUMNS], T>

tile.kernel @scan params(T: type, ROWS: int = 6, COLUMNS: int = 40, let HALF: int = floordiv(ROWS, 2))
    (%x: !x, %sums: !x, %maxima: !x, %products: !x, %counts: !i, %seen: !i, %line: !tile.view<[?], T>,
     %cubes: !tile.view<[?, ?, ?], T>) grid(%g = 1) {
  %t = tile.load %x[0, 0] : !x -> !t
  %sum = tile.scan add %t dim 1 : !t
  tile.store %sum, %sums[0, 0] : !t, !x
  %max = tile.scan max %t dim 1 reverse : !t
  tile.store %max, %maxima[0, 0] : !t, !x
  %product = tile.scan mul %t dim 0 : !t
  tile.store %product, %products[0, 0] : !t, !x

  %zero = tile.constant 0.0 : !t
  %none = tile.constant 0 : !n
  %one = tile.constant 1 : !n
  %positive = arith.cmpf ogt, %t, %zero : !t
  %ones = tile.select %positive, %one, %none : !flag, !n
  %count = tile.scan add %ones dim 0 reverse : !n
  tile.store %count, %counts[0, 0] : !n, !i
  %any = tile.scan or %positive dim 1 : !flag
  %any_number = tile.select %any, %one, %none : !flag, !n
  tile.store %any_number, %seen[0, 0] : !n, !i

  %first = tile.load %x[0, 0] : !x -> !row
  %line_sum = tile.scan add %first dim 0 : !row
  tile.store %line_sum, %line[0] : !row, !tile.view<[?], T>

  %cube = tile.reshape %t : !t -> !cube
  %cube_min = tile.scan min %cube dim 1 : !cube
  tile.store %cube_min, %cubes[0, 0, 0] : !cube, !tile.view<[?, ?, ?], T>
}
