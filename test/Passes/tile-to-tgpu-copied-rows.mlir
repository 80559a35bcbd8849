// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows that an iteration reads beside the operands of its products are copied with them, where copies have a role.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a" | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_80" | FileCheck %s --check-prefix=SM80

!rows = !tile.view<[?, 64], f32>
!tiles = !tile.view<[?, 64], f16>
!sum = tensor<64x64xf32>

// Not a row of a view of any length, whose address may be odd, one of a view that the loop writes, or a part of a row.
// CHECK-LABEL: tgpu.kernel @rows
// CHECK:         scf.for
// CHECK:           tgpu.copy_async %whole[%{{.*}}, 0], %[[BUFFER:.*]] : {{.*}}, !tgpu.shared<64xf32, none>
// CHECK:           tgpu.read %[[BUFFER]] : !tgpu.shared<64xf32, none>
// CHECK:           tgpu.load %any[
// CHECK:           tgpu.load %written[
// CHECK:           tgpu.load %whole[%{{.*}}, 32]
// CHECK:           tgpu.store %{{.*}}, %written
// SM80-LABEL: tgpu.kernel @rows
// SM80:         tgpu.load %whole[%{{.*}}, 0]
tile.kernel @rows(%whole: !rows, %any: !tile.view<[?, ?], f32>, %written: !rows, %a: !tiles, %b: !tiles, %c: !rows,
                  %k: i32) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = arith.constant dense<0.0> : !sum
  %sum = scf.for %n = %c0 to %k step %c1 iter_args(%old = %none) -> (!sum) : i32 {
    %row = tile.load %whole[%n, 0] : !rows -> tensor<64xf32>
    %other = tile.load %any[%n, 0] : !tile.view<[?, ?], f32> -> tensor<64xf32>
    %last = tile.load %written[%n, 0] : !rows -> tensor<64xf32>
    %half = tile.load %whole[%n, 32] : !rows -> tensor<64xf32>
    %x = arith.addf %row, %other : tensor<64xf32>
    %y = arith.addf %last, %half : tensor<64xf32>
    %z = arith.mulf %x, %y : tensor<64xf32>
    tile.store %z, %written[%n, 0] : tensor<64xf32>, !rows
    %each = tile.expand %z dim 0 : tensor<64xf32> -> !sum
    %a_tile = tile.load %a[%n, 0] : !tiles -> tensor<64x64xf16>
    %b_tile = tile.load %b[%n, 0] : !tiles -> tensor<64x64xf16>
    %product = tile.dot %a_tile, %b_tile : tensor<64x64xf16>, tensor<64x64xf16> -> !sum
    %scaled = arith.mulf %product, %each : !sum
    %new = arith.addf %old, %scaled : !sum
    scf.yield %new : !sum
  }
  tile.store %sum, %c[0, 0] : !sum, !rows
}

// An iteration without such operands waits for memory in any case, as does one around other loops.
// CHECK-LABEL: tgpu.kernel @others
// CHECK-NOT:     tgpu.copy_async %whole
// CHECK:         }
tile.kernel @others(%whole: !rows, %a: !tiles, %b: !tiles, %c: !rows, %k: i32) grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = arith.constant dense<0.0> : !sum
  scf.for %n = %c0 to %k step %c1 : i32 {
    %row = tile.load %whole[%n, 0] : !rows -> tensor<64xf32>
    tile.store %row, %c[%n, 0] : tensor<64xf32>, !rows
  }
  scf.for %n = %c0 to %k step %c1 : i32 {
    %row = tile.load %whole[%n, 0] : !rows -> tensor<64xf32>
    %each = tile.expand %row dim 0 : tensor<64xf32> -> !sum
    %a_tile = tile.load %a[%n, 0] : !tiles -> tensor<64x64xf16>
    %sum = scf.for %m = %c0 to %k step %c1 iter_args(%old = %each) -> (!sum) : i32 {
      %b_tile = tile.load %b[%m, 0] : !tiles -> tensor<64x64xf16>
      %new = tile.dot %a_tile, %b_tile, %old : tensor<64x64xf16>, tensor<64x64xf16> -> !sum
      scf.yield %new : !sum
    }
    tile.store %sum, %c[%n, 0] : !sum, !rows
  }
}

// A copy without a tensor map would keep the kernel from having roles: rows of a view that may be absent, that the kernel
// writes after the loop, or that lie along another dimension.
// CHECK-LABEL: tgpu.kernel @without_maps
// CHECK:         scf.for
// CHECK-DAG:       tgpu.load %given[
// CHECK-DAG:       tgpu.load %later[
// CHECK-DAG:       tgpu.load %turned[%{{.*}}, 0] dims [0]
// CHECK:         tgpu.store %{{.*}}, %later
tile.kernel @without_maps(%given: optional !rows, %later: !rows, %turned: !rows, %a: !tiles, %b: !tiles, %k: i32)
    grid(%g = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = arith.constant dense<0.0> : !sum
  %sum = scf.for %n = %c0 to %k step %c1 iter_args(%old = %none) -> (!sum) : i32 {
    %row = tile.load %given[%n, 0] : !rows -> tensor<64xf32>
    %other = tile.load %later[%n, 0] : !rows -> tensor<64xf32>
    %column = tile.load %turned[%n, 0] dims [0] : !rows -> tensor<64xf32>
    %x = arith.addf %row, %other : tensor<64xf32>
    %y = arith.mulf %x, %column : tensor<64xf32>
    %each = tile.expand %y dim 0 : tensor<64xf32> -> !sum
    %a_tile = tile.load %a[%n, 0] : !tiles -> tensor<64x64xf16>
    %b_tile = tile.load %b[%n, 0] : !tiles -> tensor<64x64xf16>
    %product = tile.dot %a_tile, %b_tile : tensor<64x64xf16>, tensor<64x64xf16> -> !sum
    %scaled = arith.mulf %product, %each : !sum
    %new = arith.addf %old, %scaled : !sum
    scf.yield %new : !sum
  }
  tile.store %sum, %later[0, 0] : !sum, !rows
}
