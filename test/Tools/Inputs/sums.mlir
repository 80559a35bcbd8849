// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels that add to memory in each way, and products.

tile.kernel @no_sum (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[%c0] : !tile.view<[?], f32> -> !tile.tile<[32], f32>
  tile.store %t, %y[%c0] : !tile.tile<[32], f32>, !tile.view<[?], f32>
}

tile.kernel @floats (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[%c0] : !tile.view<[?], f32> -> !tile.tile<[32], f32>
  tile.atomic_add %t, %y[%c0] : !tile.tile<[32], f32>, !tile.view<[?], f32>
}

tile.kernel @integers (%x: !tile.view<[?], i32>, %y: !tile.view<[?], i32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[%c0] : !tile.view<[?], i32> -> !tile.tile<[32], i32>
  tile.atomic_add %t, %y[%c0] : !tile.tile<[32], i32>, !tile.view<[?], i32>
}

tile.kernel @scattered (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %at = tile.iota %c0 dim 0 : !tile.tile<[32], i32>
  %t = tile.load %x[%c0] : !tile.view<[?], f32> -> !tile.tile<[32], f32>
  tile.scatter_add %t, %y[%c0] along 0 at %at
      : !tile.tile<[32], f32>, !tile.view<[?], f32>, !tile.tile<[32], i32>
}

tile.kernel @product (%x: !tile.view<[?, 64], f16>, %y: !tile.view<[?, 64], f32>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[%c0, 0] : !tile.view<[?, 64], f16> -> !tile.tile<[64, 64], f16>
  %none = tile.constant 0 : !tile.tile<[64, 64], f32>
  %p = tile.dot %t, %t, %none : !tile.tile<[64, 64], f16>, !tile.tile<[64, 64], f16> -> !tile.tile<[64, 64], f32>
  tile.store %p, %y[%c0, 0] : !tile.tile<[64, 64], f32>, !tile.view<[?, 64], f32>
}

tile.kernel @wide (%x: !tile.view<[?, 32], f64>, %y: !tile.view<[?, 32], f64>) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.load %x[%c0, 0] : !tile.view<[?, 32], f64> -> !tile.tile<[32, 32], f64>
  %none = tile.constant 0 : !tile.tile<[32, 32], f64>
  %p = tile.dot %t, %t, %none : !tile.tile<[32, 32], f64>, !tile.tile<[32, 32], f64> -> !tile.tile<[32, 32], f64>
  tile.store %p, %y[%c0, 0] : !tile.tile<[32, 32], f64>, !tile.view<[?, 32], f64>
}

tile.kernel @scalars (%y: !tile.view<[?], f32>, %a: f64 = 0.1, %b: i32 = -7, %c: i64 = 1099511627776, %d: i1 = true,
                      %e: f32 = 1.0e-5, %f: f32 = -0.0) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %t = tile.full %e : !tile.tile<[32], f32>
  tile.store %t, %y[%c0] : !tile.tile<[32], f32>, !tile.view<[?], f32>
}
