// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A user's row kernel: a softmax with each row in one tile.

!x   = !tile.tile<[BLOCK_M, N], T>
!s   = !tile.tile<[BLOCK_M, N], f32>
!row = !tile.tile<[BLOCK_M], f32>

tile.kernel @whole_row params(N: int, T: type in [f16, bf16, f32], BLOCK_M: int = 1)
    require(dim(y, 0) == dim(x, 0))
    (%x: !tile.view<[?, N], T>, %y: !tile.view<[?, N], T>) grid(%b = ceildiv(dim(x, 0), BLOCK_M)) {
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %b, %block_m : i32
  %x_tile = tile.load %x[%m, 0] : !tile.view<[?, N], T> -> !x
  %s = tile.cast %x_tile : !x -> !s
  %max = tile.reduce max %s dim 1 : !s -> !row
  %max_each = tile.expand %max dim 1 : !row -> !s
  %below = arith.subf %s, %max_each : !s
  %p = math.exp %below : !s
  %sum = tile.reduce add %p dim 1 : !s -> !row
  %sum_each = tile.expand %sum dim 1 : !row -> !s
  %share = arith.divf %p, %sum_each : !s
  %y_tile = tile.cast %share : !s -> !x
  tile.store %y_tile, %y[%m, 0] : !x, !tile.view<[?, N], T>
}
