// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The decay between rows of a chunk. A kernel that links this file declares BLOCK_N and ACC.

!square = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!row    = !tile.tile<[BLOCK_N], ACC>

// exp(G[i] - G[j]), where G are sums of logarithms.
tile.function @decays(%sums: !row) -> !square {
  %of_row = tile.expand %sums dim 1 : !row -> !square
  %of_column = tile.expand %sums dim 0 : !row -> !square
  %difference = arith.subf %of_row, %of_column : !square
  %decays = math.exp %difference : !square
  tile.result %decays : !square
}
