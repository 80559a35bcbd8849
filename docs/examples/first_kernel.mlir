// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A first kernel: softmax of each row of x [R, C], f32. C is a parameter.

!view = !tile.view<[?, C], f32>
!t    = !tile.tile<[1, C], f32>
!row  = !tile.tile<[1], f32>
tile.kernel @softmax params(C: int) (%x: !view, %y: !view) grid(%r = dim(x, 0)) {
  %t = tile.load %x[%r, 0] : !view -> !t
  %max = tile.reduce max %t dim 1 : !t -> !row
  %max_each = tile.expand %max dim 1 : !row -> !t
  %below = arith.subf %t, %max_each : !t
  %p = math.exp %below : !t
  %sum = tile.reduce add %p dim 1 : !t -> !row
  %sum_each = tile.expand %sum dim 1 : !row -> !t
  %share = arith.divf %p, %sum_each : !t
  tile.store %share, %y[%r, 0] : !t, !view
}
