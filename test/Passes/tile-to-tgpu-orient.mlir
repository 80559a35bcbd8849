// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Warpgroups divide the rows of a product, 64 each. A product that is only added to memory is computed transposed if
// its columns can be divided and its rows cannot.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a warps=8" | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_80 warps=8" | FileCheck %s --check-prefix=SM80

!view = !tile.view<[?, ?], bf16>
!sum = !tile.view<[?, ?], f32>

// 64 rows for two warpgroups: A^T B becomes B^T A, added along the other dimensions.
// CHECK-LABEL: tgpu.kernel @flips
// CHECK:         tgpu.wgmma %[[B:.*]], %[[A:.*]] transpose_a : !tgpu.shared<128x128xbf16, b128>, !tgpu.shared<128x64xbf16, b128> -> tensor<128x64xf32, #tgpu.wgmma<2>>
// CHECK:         tgpu.atomic_add %{{.*}}, %sum[0, 0] : tensor<128x64xf32, #tgpu.wgmma<2>>
// SM80-LABEL:  tgpu.kernel @flips
// SM80:          tgpu.atomic_add %{{.*}}, %sum[0, 0] dims [1, 0] : tensor<64x128xf32
tile.kernel @flips(%a: !view, %b: !view, %sum: !sum) grid(%i = 1) {
  %x = tile.load %a[0, 0] : !view -> tensor<128x64xbf16>
  %y = tile.load %b[0, 0] : !view -> tensor<128x128xbf16>
  %p = tile.dot %x, %y transpose_a : tensor<128x64xbf16>, tensor<128x128xbf16> -> tensor<64x128xf32>
  tile.atomic_add %p, %sum[0, 0] dims [1, 0] : tensor<64x128xf32>, !sum
}

// 128 rows are divided without a change.
// CHECK-LABEL: tgpu.kernel @stays
// CHECK:         tgpu.atomic_add %{{.*}}, %sum[0, 0] dims [1, 0] : tensor<128x64xf32, #tgpu.wgmma<2>>
tile.kernel @stays(%a: !view, %b: !view, %sum: !sum) grid(%i = 1) {
  %x = tile.load %a[0, 0] : !view -> tensor<128x128xbf16>
  %y = tile.load %b[0, 0] : !view -> tensor<128x64xbf16>
  %p = tile.dot %x, %y transpose_a : tensor<128x128xbf16>, tensor<128x64xbf16> -> tensor<128x64xf32>
  tile.atomic_add %p, %sum[0, 0] dims [1, 0] : tensor<128x64xf32>, !sum
}

// A product with other uses keeps its shape.
// CHECK-LABEL: tgpu.kernel @stored
// CHECK:         tgpu.store %{{.*}}, %sum[0, 0] : tensor<64x128xf32
tile.kernel @stored(%a: !view, %b: !view, %sum: !sum) grid(%i = 1) {
  %x = tile.load %a[0, 0] : !view -> tensor<128x64xbf16>
  %y = tile.load %b[0, 0] : !view -> tensor<128x128xbf16>
  %p = tile.dot %x, %y transpose_a : tensor<128x64xbf16>, tensor<128x128xbf16> -> tensor<64x128xf32>
  tile.store %p, %sum[0, 0] : tensor<64x128xf32>, !sum
}
