// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// y[i, j] = modify(x[i, j] * factor + bias[j]), and y2 = -y if it is given.

!x = !tile.tile<[BLOCK, N], T>
!view = !tile.view<[?, N], T>

func.func private @modify(%x: !tile.param<T>, %j: i32) -> !tile.param<T> attributes {tile.replaceable} {
  return %x : !tile.param<T>
}

tile.kernel @affine params(N: int, T: type in [f64, f32, f16, bf16, e4m3, e5m2], BLOCK: int in [2, 4] = 2) require(N <= 64)
    (%x: !view, %y: !view, %bias: optional !tile.view<[N], T>, %y2: optional !view, %factor: f32)
    grid(%b = ceildiv(dim(x, 0), BLOCK)) {
  %block = tile.param BLOCK : i32
  %i = arith.muli %b, %block : i32
  %c0 = arith.constant 0 : i32
  %xs = tile.load %x[%i, 0] : !view -> !x
  %row = tile.load %bias[0] : !tile.view<[N], T> -> !tile.tile<[N], T>
  %rows = tile.expand %row dim 0 : !tile.tile<[N], T> -> !x
  %f = tile.cast %factor : f32 -> !tile.param<T>
  %fs = tile.full %f : !x
  %product = arith.mulf %xs, %fs : !x
  %sum = arith.addf %product, %rows : !x
  %columns = tile.iota %c0 dim 1 : !tile.tile<[BLOCK, N], i32>
  %ys = tile.map @modify(%sum, %columns) : (!x, !tile.tile<[BLOCK, N], i32>) -> !x
  tile.store %ys, %y[%i, 0] : !x, !view
  %negative = arith.negf %ys : !x
  tile.store %negative, %y2[%i, 0] : !x, !view
}
