// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel of docs/runtime.md: each row of x [R, C] divided by the root of the mean of its squares. C and the type T
// are parameters.

!view = !tile.view<[?, C], T>
!x    = !tile.tile<[1, C], T>
!t    = !tile.tile<[1, C], f32>
!row  = !tile.tile<[1], f32>

tile.kernel @rms_norm params(C: int, T: type in [f16, bf16, f32] = f16) require(dim(y, 0) == dim(x, 0))
    (%x: !view, %y: !view, %epsilon: f32 = 1.0e-5)
    grid(%r = dim(x, 0)) {
  %x_tile = tile.load %x[%r, 0] : !view -> !x
  %t = tile.cast %x_tile : !x -> !t
  %squares = arith.mulf %t, %t : !t
  %sum = tile.reduce add %squares dim 1 : !t -> !row
  %columns = tile.param C : i32
  %count = tile.cast %columns : i32 -> f32
  %counts = tile.full %count : !row
  %mean = arith.divf %sum, %counts : !row
  %epsilons = tile.full %epsilon : !row
  %raised = arith.addf %mean, %epsilons : !row
  %factor = math.rsqrt %raised : !row
  %factors = tile.expand %factor dim 1 : !row -> !t
  %scaled = arith.mulf %t, %factors : !t
  %y_tile = tile.cast %scaled : !t -> !x
  tile.store %y_tile, %y[%r, 0] : !x, !view
}
