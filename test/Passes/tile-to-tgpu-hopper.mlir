// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products by wgmma. TgpuMappingTest checks values.
// RUN: tilewright-opt %s --tile-to-tgpu='target=sm_90a warps=8' | FileCheck %s
// RUN: not tilewright-opt %s --tile-to-tgpu=target=sm_130a 2>&1 | FileCheck %s --check-prefix=TARGET
// TARGET: target must be sm_80, sm_86, sm_89, sm_90a, sm_100a, sm_103a or sm_120a, but got 'sm_130a'

// Both operands of the first product are in shared memory; the second takes the result of the first from registers.
// Each product is followed by its wait.
// CHECK-LABEL: tgpu.kernel @two target "sm_90a" warps 8
// CHECK:         %[[P:.*]] = tgpu.wgmma %[[X:.*]], %[[Y:.*]] transpose_b : !tgpu.shared<128x64xf16, b128>, !tgpu.shared<32x64xf16, b128> -> tensor<128x32xf32, #tgpu.wgmma<2>>
// CHECK-NEXT:    tgpu.wgmma_commit
// CHECK-NEXT:    %[[S:.*]] = tgpu.wgmma_wait pending 0, %[[P]]
// CHECK:         %[[H:.*]] = tile.cast %[[S]]
// CHECK:         %[[A:.*]] = tgpu.convert %[[H]] : tensor<128x32xf16, #tgpu.wgmma<2>> -> tensor<128x32xf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
// CHECK:         %[[Q:.*]] = tgpu.wgmma %[[A]], %[[Y]], %{{.*}} : {{.*}} -> tensor<128x64xf32, #tgpu.wgmma<2>>
// CHECK-NEXT:    tgpu.wgmma_commit
// CHECK-NEXT:    tgpu.wgmma_wait pending 0, %[[Q]]
tile.kernel @two (%x: !tile.view<[?, 64], f16>, %y: !tile.view<[?, 64], f16>, %z: !tile.view<[?, 64], f32>) grid(%b = 1) {
  %a = tile.load %x[%b, 0] : !tile.view<[?, 64], f16> -> tensor<128x64xf16>
  %k = tile.load %y[%b, 0] : !tile.view<[?, 64], f16> -> tensor<32x64xf16>
  %one = arith.constant 1.0 : f32
  %ones = tile.full %one : tensor<128x64xf32>
  %s = tile.dot %a, %k transpose_b : tensor<128x64xf16>, tensor<32x64xf16> -> tensor<128x32xf32>
  %h = tile.cast %s : tensor<128x32xf32> -> tensor<128x32xf16>
  %o = tile.dot %h, %k, %ones : tensor<128x32xf16>, tensor<32x64xf16> -> tensor<128x64xf32>
  tile.store %o, %z[%b, 0] : tensor<128x64xf32>, !tile.view<[?, 64], f32>
}

// A computed operand that is not an operand a in registers is written to shared memory.
// CHECK-LABEL: tgpu.kernel @computed
// CHECK:         tgpu.write %{{.*}}, %[[B:.*]] :
// CHECK:         tgpu.sync
// CHECK:         tgpu.wgmma %{{.*}}, %[[B]] : !tgpu.shared<128x64xf16, b128>, !tgpu.shared<64x64xf16, b128>
tile.kernel @computed (%x: !tile.view<[?, 64], f16>, %z: !tile.view<[?, 64], f32>) grid(%b = 1) {
  %a = tile.load %x[%b, 0] : !tile.view<[?, 64], f16> -> tensor<128x64xf16>
  %c = tile.load %x[%b, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
  %d = arith.addf %c, %c : tensor<64x64xf16>
  %o = tile.dot %a, %d : tensor<128x64xf16>, tensor<64x64xf16> -> tensor<128x64xf32>
  tile.store %o, %z[%b, 0] : tensor<128x64xf32>, !tile.view<[?, 64], f32>
}

// Rows of 24 columns do not fill the panels that wgmma reads; both products are mma then, so that the second takes the
// result of the first from registers. If the 24 columns are along k, they are rounded up.
// CHECK-LABEL: tgpu.kernel @narrow target
// CHECK-NOT:     tgpu.wgmma
// CHECK:         %[[S:.*]] = tgpu.mma
// CHECK:         %[[H:.*]] = tile.cast %[[S]]
// CHECK:         %[[A:.*]] = tgpu.convert %[[H]] : tensor<128x32xf16, #tgpu.mma<8, 1>> -> tensor<128x32xf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
// CHECK:         tgpu.mma %[[A]],
// CHECK-LABEL: tgpu.kernel @narrow_depth target
// CHECK:         tgpu.wgmma {{.*}} transpose_b : !tgpu.shared<128x32xf16, b64>, !tgpu.shared<32x32xf16, b64>
tile.kernel @narrow (%x: !tile.view<[?, 64], f16>, %y: !tile.view<[?, 64], f16>, %v: !tile.view<[?, 24], f16>, %z: !tile.view<[?, 24], f32>) grid(%b = 1) {
  %a = tile.load %x[%b, 0] : !tile.view<[?, 64], f16> -> tensor<128x64xf16>
  %k = tile.load %y[%b, 0] : !tile.view<[?, 64], f16> -> tensor<32x64xf16>
  %c = tile.load %v[%b, 0] : !tile.view<[?, 24], f16> -> tensor<32x24xf16>
  %s = tile.dot %a, %k transpose_b : tensor<128x64xf16>, tensor<32x64xf16> -> tensor<128x32xf32>
  %h = tile.cast %s : tensor<128x32xf32> -> tensor<128x32xf16>
  %o = tile.dot %h, %c : tensor<128x32xf16>, tensor<32x24xf16> -> tensor<128x24xf32>
  tile.store %o, %z[%b, 0] : tensor<128x24xf32>, !tile.view<[?, 24], f32>
}
tile.kernel @narrow_depth (%x: !tile.view<[?, 24], f16>, %z: !tile.view<[?, 32], f32>) grid(%b = 1) {
  %a = tile.load %x[%b, 0] : !tile.view<[?, 24], f16> -> tensor<128x24xf16>
  %k = tile.load %x[%b, 0] : !tile.view<[?, 24], f16> -> tensor<32x24xf16>
  %s = tile.dot %a, %k transpose_b : tensor<128x24xf16>, tensor<32x24xf16> -> tensor<128x32xf32>
  tile.store %s, %z[%b, 0] : tensor<128x32xf32>, !tile.view<[?, 32], f32>
}

// Two warpgroups need 64 rows each; f32 has no wgmma without precision tf32.
// CHECK-LABEL: tgpu.kernel @others
// CHECK-NOT:     tgpu.wgmma
// CHECK:         tgpu.mma
// CHECK:         tgpu.fma_dot
tile.kernel @others (%x: !tile.view<[?, 64], f16>, %y: !tile.view<[?, 64], f32>, %z: !tile.view<[?, 64], f32>) grid(%b = 1) {
  %a = tile.load %x[%b, 0] : !tile.view<[?, 64], f16> -> tensor<64x64xf16>
  %o = tile.dot %a, %a : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
  tile.store %o, %z[%b, 0] : tensor<64x64xf32>, !tile.view<[?, 64], f32>
  %c = tile.load %y[%b, 0] : !tile.view<[?, 64], f32> -> tensor<128x64xf32>
  %d = tile.load %y[%b, 0] : !tile.view<[?, 64], f32> -> tensor<64x64xf32>
  %e = tile.dot %c, %d : tensor<128x64xf32>, tensor<64x64xf32> -> tensor<128x64xf32>
  tile.store %e, %z[%b, 0] : tensor<128x64xf32>, !tile.view<[?, 64], f32>
}
