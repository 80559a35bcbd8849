// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of rank 3: reshaped, reduced, expanded and transposed; rows selected by indices, added to rows.

!x_view = !tile.view<[?, ?, ?], f32>
!sums_view = !tile.view<[?, ?], f32>
!table_view = !tile.view<[?, ?], f32>
!rows_view = !tile.view<[?], i32>

tile.kernel @rearranged
    params(A: int = 4, B: int = 6, N: int = 16, BN: int = B * N)
    (%x: !x_view, %y: !x_view, %sums: !sums_view, %table: !table_view, %rows: !rows_view,
     %added: !table_view)
    grid(%i = ceildiv(dim(x, 0), A)) {
  %a = tile.param A : i32
  %begin = arith.muli %i, %a : i32
  %x_tile = tile.load %x[%begin, 0, 0] : !x_view -> !tile.tile<[A, B, N], f32>

  // Reduced over the last dimension and expanded along it; reduced over the first.
  %sum = tile.reduce add %x_tile dim 2 : !tile.tile<[A, B, N], f32> -> !tile.tile<[A, B], f32>
  tile.store %sum, %sums[%begin, 0] : !tile.tile<[A, B], f32>, !sums_view
  %sum_each = tile.expand %sum dim 2 : !tile.tile<[A, B], f32> -> !tile.tile<[A, B, N], f32>
  %most = tile.reduce max %x_tile dim 0 : !tile.tile<[A, B, N], f32> -> !tile.tile<[B, N], f32>
  %most_each = tile.expand %most dim 0 : !tile.tile<[B, N], f32> -> !tile.tile<[A, B, N], f32>
  %below = arith.subf %most_each, %sum_each : !tile.tile<[A, B, N], f32>

  // A dimension in the middle; a reshape that changes rows; a transpose.
  %row = tile.reduce min %x_tile dim 0 : !tile.tile<[A, B, N], f32> -> !tile.tile<[B, N], f32>
  %flat = tile.reshape %row : !tile.tile<[B, N], f32> -> !tile.tile<[BN], f32>
  %matrix = tile.reshape %flat : !tile.tile<[BN], f32> -> !tile.tile<[N, B], f32>
  %turned = tile.transpose %matrix [1, 0] : !tile.tile<[N, B], f32> -> !tile.tile<[B, N], f32>
  %turned_each = tile.expand %turned dim 0 : !tile.tile<[B, N], f32> -> !tile.tile<[A, B, N], f32>
  %swapped = tile.transpose %x_tile [1, 0, 2] : !tile.tile<[A, B, N], f32> -> !tile.tile<[B, A, N], f32>
  %back = tile.transpose %swapped [1, 0, 2] : !tile.tile<[B, A, N], f32> -> !tile.tile<[A, B, N], f32>
  %some = arith.addf %below, %turned_each : !tile.tile<[A, B, N], f32>
  %all = arith.addf %some, %back : !tile.tile<[A, B, N], f32>
  tile.store %all, %y[%begin, 0, 0] : !tile.tile<[A, B, N], f32>, !x_view

  %which = tile.load %rows[0] : !rows_view -> !tile.tile<[N], i32>
  %found = tile.gather %table[0, 0] along 0 at %which
      : !table_view, !tile.tile<[N], i32> -> !tile.tile<[N, B], f32>
  %across = tile.gather %table[1, 0] along 1 at %which
      : !table_view, !tile.tile<[N], i32> -> !tile.tile<[B, N], f32>
  tile.scatter_add %found, %added[0, 0] along 0 at %which
      : !tile.tile<[N, B], f32>, !table_view, !tile.tile<[N], i32>
  tile.scatter_add %across, %added[0, 0] along 1 at %which
      : !tile.tile<[B, N], f32>, !table_view, !tile.tile<[N], i32>
}
