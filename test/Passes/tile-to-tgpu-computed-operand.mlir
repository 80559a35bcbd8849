// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operand a of a product that is computed of loaded tiles alone: wgmma takes it from registers, and the tiles are copied,
// so that copies run ahead.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a" | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_80" | FileCheck %s --check-prefix=SM80

// A tile that is loaded by columns, and a row. One with a pad is loaded to registers.
// CHECK-LABEL: tgpu.kernel @computed
// CHECK:         scf.for
// CHECK:           tgpu.copy_async %w[%{{.*}}, 0] dims [0, 1], %{{.*}}, !tgpu.shared<64x64xi32, b128>
// CHECK:           tgpu.read %{{.*}} transpose : !tgpu.shared<64x64xi32, b128> -> tensor<64x64xi32, #tgpu.wgmma<1>>
// CHECK:           tgpu.copy_async %s[%{{.*}}, 0], %{{.*}}, !tgpu.shared<64xf32, none>
// CHECK:           tgpu.load %z[%{{.*}}, 0] pad
// CHECK-NOT:       tgpu.write
// CHECK:           tgpu.wgmma %{{.*}}, %{{.*}} transpose_b, %{{.*}} : tensor<64x64xf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
// SM80-LABEL: tgpu.kernel @computed
// SM80:         tgpu.load %w
// SM80:         tgpu.mma
tile.kernel @computed(%w: !tile.view<[?, ?], i32>, %s: !tile.view<[?, ?], f32>, %z: !tile.view<[?, ?], f32>,
                      %a: !tile.view<[?, ?], f16>, %c: !tile.view<[?, ?], f32>, %k: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %eight = arith.constant 8.0 : f32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %sum = scf.for %n = %c0 to %k step %c64 iter_args(%old = %none) -> (tensor<64x64xf32>) : i32 {
    %words = tile.load %w[%n, 0] dims [1, 0] : !tile.view<[?, ?], i32> -> tensor<64x64xi32>
    %scale = tile.load %s[%n, 0] : !tile.view<[?, ?], f32> -> tensor<64xf32>
    %zero = tile.load %z[%n, 0] pad %eight : f32 in : !tile.view<[?, ?], f32> -> tensor<64xf32>
    %scales = tile.expand %scale dim 1 : tensor<64xf32> -> tensor<64x64xf32>
    %zeros = tile.expand %zero dim 1 : tensor<64xf32> -> tensor<64x64xf32>
    %x = tile.cast %words : tensor<64x64xi32> -> tensor<64x64xf32>
    %y = arith.subf %x, %zeros : tensor<64x64xf32>
    %scaled = arith.mulf %y, %scales : tensor<64x64xf32>
    %t = tile.cast %scaled : tensor<64x64xf32> -> tensor<64x64xf16>
    %a_tile = tile.load %a[0, %n] : !tile.view<[?, ?], f16> -> tensor<64x64xf16>
    %new = tile.dot %t, %a_tile, %old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %new : tensor<64x64xf32>
  }
  tile.store %sum, %c[0, 0] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
}

// A tile that also depends on a result is not: the values before it may be in registers.
// CHECK-LABEL: tgpu.kernel @of_result
// CHECK:         tgpu.load %s[
tile.kernel @of_result(%s: !tile.view<[?, ?], f32>, %a: !tile.view<[?, ?], f16>, %c: !tile.view<[?, ?], f32>, %k: i32)
    grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %sum = scf.for %n = %c0 to %k step %c64 iter_args(%old = %none) -> (tensor<64x64xf32>) : i32 {
    %scale = tile.load %s[%n, 0] : !tile.view<[?, ?], f32> -> tensor<64xf32>
    %scales = tile.expand %scale dim 1 : tensor<64xf32> -> tensor<64x64xf32>
    %scaled = arith.mulf %old, %scales : tensor<64x64xf32>
    %t = tile.cast %scaled : tensor<64x64xf32> -> tensor<64x64xf16>
    %a_tile = tile.load %a[0, %n] : !tile.view<[?, ?], f16> -> tensor<64x64xf16>
    %new = tile.dot %t, %a_tile transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %new : tensor<64x64xf32>
  }
  tile.store %sum, %c[0, 0] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
}

// One from outside the loop, as Q of 8 bits, is written to shared memory: registers would hold it as long as the loop runs.
// CHECK-LABEL: tgpu.kernel @from_outside
// CHECK:         tgpu.write %{{.*}} : {{.*}}!tgpu.shared<64x64xf16
// CHECK:         scf.for
// CHECK-NOT:     operand<a
// CHECK:         tgpu.wgmma %{{.*}} : !tgpu.shared<64x64xf16
tile.kernel @from_outside(%s: !tile.view<[?, ?], f32>, %a: !tile.view<[?, ?], f16>, %c: !tile.view<[?, ?], f32>, %k: i32)
    grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %q = tile.load %s[0, 0] : !tile.view<[?, ?], f32> -> tensor<64x64xf32>
  %t = tile.cast %q : tensor<64x64xf32> -> tensor<64x64xf16>
  %sum = scf.for %n = %c0 to %k step %c64 iter_args(%old = %none) -> (tensor<64x64xf32>) : i32 {
    %a_tile = tile.load %a[0, %n] : !tile.view<[?, ?], f16> -> tensor<64x64xf16>
    %new = tile.dot %t, %a_tile, %old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %new : tensor<64x64xf32>
  }
  tile.store %sum, %c[0, 0] : tensor<64x64xf32>, !tile.view<[?, ?], f32>
}
