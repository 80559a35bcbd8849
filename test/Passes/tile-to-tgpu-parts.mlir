// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accesses to parts of views are marked if they are known to begin in or after the part: a ragged tensor map clips only
// at the end of a part.
//
// RUN: tilewright-opt %s --tile-to-tgpu='target=sm_90a warps=4' | FileCheck %s

!x = !tile.view<[?, 64], f16>
!z = !tile.view<[?, 64], f32>

// Positions of a block loop, in both directions; ids of the grid, their multiples, and a difference that is compared
// with 0.
// CHECK-LABEL: tgpu.kernel @inside
// CHECK-COUNT-2: tgpu.copy_async {{.*}} {tgpu.starts_inside}
// CHECK:         tgpu.store {{.*}} {tgpu.starts_inside}
tile.kernel @inside (%x: !x, %z: !z, %begin: i32, %size: i32) grid(%b = 8) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %rest = arith.subi %size, %b : i32
  %has_rest = arith.cmpi sge, %rest, %c0 : i32
  %block = arith.select %has_rest, %rest, %b : i32
  %m = arith.muli %block, %c64 : i32
  %part = tile.subview %x dim 0 from %begin size %size : !x
  %out = tile.subview %z dim 0 from %begin size %size : !z
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<64x64xf32>
  %q = tile.load %part[%m, 0] : !x -> tensor<64x64xf16>
  %sum = tile.for_blocks %n in (%c0 to %size) against (%m to %size) descending keep %keep : tensor<64x64xi1>
      iter_args(%old = %none : tensor<64x64xf32>) {
    %k = tile.load %part[%n, 0] : !x -> tensor<64x64xf16>
    %s = tile.dot %q, %k, %old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.yield %s : tensor<64x64xf32>
  }
  tile.store %sum, %out[%m, 0] : tensor<64x64xf32>, !z
}

// A scalar argument, a difference, and the position of a block loop with an arbitrary start may be negative.
// CHECK-LABEL: tgpu.kernel @outside
// CHECK-NOT:     tgpu.starts_inside
tile.kernel @outside (%x: !x, %z: !z, %begin: i32, %size: i32) grid(%b = 8) {
  %c0 = arith.constant 0 : i32
  %m = arith.subi %b, %size : i32
  %part = tile.subview %x dim 0 from %begin size %size : !x
  %out = tile.subview %z dim 0 from %begin size %size : !z
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<64x64xf32>
  %q = tile.load %part[%begin, 0] : !x -> tensor<64x64xf16>
  %sum = tile.for_blocks %n in (%begin to %size) against (%c0 to %size) keep %keep : tensor<64x64xi1>
      iter_args(%old = %none : tensor<64x64xf32>) {
    %k = tile.load %part[%n, 0] : !x -> tensor<64x64xf16>
    %s = tile.dot %q, %k, %old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    tile.yield %s : tensor<64x64xf32>
  }
  tile.store %sum, %out[%m, 0] : tensor<64x64xf32>, !z
}
