// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of rms_norm.mlir, for docs/pytorch.md. With f = 1 / sqrt(mean(x^2) + epsilon), in each row:
//   d_x = f d_y - x f^3 mean(x d_y)

!view = !tile.view<[?, C], T>
!x    = !tile.tile<[1, C], T>
!t    = !tile.tile<[1, C], f32>
!row  = !tile.tile<[1], f32>

tile.kernel @rms_norm_backward params(C: int, T: type in [f16, bf16, f32] = f16)
    require(dim(d_y, 0) == dim(x, 0), dim(d_x, 0) == dim(x, 0))
    (%x: !view, %d_y: !view, %d_x: !view, %epsilon: f32 = 1.0e-5)
    grid(%r = dim(x, 0)) {
  %x_tile = tile.load %x[%r, 0] : !view -> !x
  %d_y_tile = tile.load %d_y[%r, 0] : !view -> !x
  %t = tile.cast %x_tile : !x -> !t
  %d = tile.cast %d_y_tile : !x -> !t
  %columns = tile.param C : i32
  %count = tile.cast %columns : i32 -> f32
  %counts = tile.full %count : !row
  %squares = arith.mulf %t, %t : !t
  %sum = tile.reduce add %squares dim 1 : !t -> !row
  %mean = arith.divf %sum, %counts : !row
  %epsilons = tile.full %epsilon : !row
  %raised = arith.addf %mean, %epsilons : !row
  %factor = math.rsqrt %raised : !row
  %products = arith.mulf %t, %d : !t
  %product_sum = tile.reduce add %products dim 1 : !t -> !row
  %product_mean = arith.divf %product_sum, %counts : !row
  %factor_squared = arith.mulf %factor, %factor : !row
  %share = arith.mulf %product_mean, %factor_squared : !row
  %shares = tile.expand %share dim 1 : !row -> !t
  %along_x = arith.mulf %t, %shares : !t
  %difference = arith.subf %d, %along_x : !t
  %factors = tile.expand %factor dim 1 : !row -> !t
  %d_x_t = arith.mulf %difference, %factors : !t
  %d_x_tile = tile.cast %d_x_t : !t -> !x
  tile.store %d_x_tile, %d_x[%r, 0] : !x, !view
}
