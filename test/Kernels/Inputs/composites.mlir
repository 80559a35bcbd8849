// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that are made of others: extrema and their positions, the K largest and smallest, parts put into a tile, and tiles
// put together.

!x    = !tile.view<[?, ?], T>
!i    = !tile.view<[?, ?], i32>
!n    = !tile.view<[?], i32>
!t    = !tile.tile<[ROWS, COLUMNS], T>
!ti   = !tile.tile<[ROWS, COLUMNS], i32>
!rows = !tile.tile<[ROWS], T>
!rows_i32 = !tile.tile<[ROWS], i32>
!row  = !tile.tile<[COLUMNS], T>
!row_i32 = !tile.tile<[COLUMNS], i32>
!top  = !tile.tile<[ROWS, K], T>
!top_i32 = !tile.tile<[ROWS, K], i32>
!low  = !tile.tile<[K, COLUMNS], i32>
!part = !tile.tile<[ROWS, PART], T>
!wide = !tile.tile<[ROWS, WIDE], T>

tile.kernel @composites
    params(T: type, ROWS: int = 6, COLUMNS: int = 40, K: int = 3, PART: int = 5, let WIDE: int = COLUMNS + 2 * PART)
    (%x: !x, %offset: i32, %most: !tile.view<[?], T>, %most_at: !n, %least_at: !n, %top: !x, %top_at: !i, %low: !i, %low_at: !i,
     %inserted: !x, %joined: !x, %line: !tile.view<[?], T>, %line_at: !n) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[0, 0] : !x -> !t
  %max, %argmax = tile.argmax %t dim 1 : !t
  tile.store %max, %most[0] : !rows, !tile.view<[?], T>
  tile.store %argmax, %most_at[0] : !rows_i32, !n
  %min, %argmin = tile.argmin %t dim 0 : !t
  tile.store %argmin, %least_at[0] : !row_i32, !n

  %values, %indices = tile.top_k %t dim 1 : !t -> !top
  tile.store %values, %top[0, 0] : !top, !x
  tile.store %indices, %top_at[0, 0] : !top_i32, !i
  // Of integers, along the other dimension: columns modulo 7, where many are equal.
  %columns = tile.iota %c0 dim 1 : !ti
  %row_numbers = tile.iota %c0 dim 0 : !ti
  %product = arith.muli %columns, %row_numbers : !ti
  %c7 = tile.constant 7 : !ti
  %numbers = arith.remsi %product, %c7 : !ti
  %smallest, %smallest_at = tile.top_k %numbers dim 0 smallest : !ti -> !low
  tile.store %smallest, %low[0, 0] : !low, !i
  tile.store %smallest_at, %low_at[0, 0] : !low, !i

  %part = tile.load %x[0, 1] : !x -> !part
  %new = tile.insert %part into %t dim 1 from %offset : !part -> !t
  tile.store %new, %inserted[0, 0] : !t, !x
  %all = tile.concat %part, %t, %part dim 1 : !part, !t, !part -> !wide
  tile.store %all, %joined[0, 0] : !wide, !x

  %first = tile.load %x[0, 0] : !x -> !row
  %line_values, %line_indices = tile.top_k %first dim 0 : !row -> !tile.tile<[K], T>
  tile.store %line_values, %line[0] : !tile.tile<[K], T>, !tile.view<[?], T>
  tile.store %line_indices, %line_at[0] : !tile.tile<[K], i32>, !n
}
