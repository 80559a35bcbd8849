// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// wgmma multiplies 64 rows. Where a kernel asks for it, and all products have fewer rows and 64 columns or more, tiles are
// held with rows and columns exchanged: products, masks, reductions and accesses change, and no tile is padded or
// exchanged. Before, such products were for mma.sync, of at least 16 rows, and kernels with them had no roles.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a" | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_80" 2>&1 | FileCheck %s --check-prefix=SM80

!rows = !tile.view<[?, 64], bf16>
!out = !tile.view<[?, 64], f32>
!bias = !tile.view<[?, ?], f32>

// 16 queries and blocks of 128 keys. The scores are keys by queries: operand a is K, and Q is operand b.
// CHECK-LABEL: tgpu.kernel @attends
// CHECK:         scf.for
// CHECK:           tgpu.load %bias[0, %{{.*}}] dims [1, 0] : {{.*}} -> tensor<128x16xf32, #tgpu.wgmma<1>>
// CHECK:           tgpu.wgmma %{{.*}}, %{{.*}} transpose_b : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<16x64xbf16, b128> -> tensor<128x16xf32, #tgpu.wgmma<1>>
// The block without a mask; positions of keys are rows.
// CHECK:           tile.iota %{{.*}} dim 0 : tensor<128x16xi32, #tgpu.wgmma<1>>
// CHECK-NOT:       tile.transpose
// CHECK:           tile.reduce max %{{.*}} dim 0 : tensor<128x16xf32, #tgpu.wgmma<1>>
// CHECK:           tile.expand %{{.*}} dim 0 : {{.*}} -> tensor<128x16xf32, #tgpu.wgmma<1>>
// V is operand a, and P is operand b, as it is.
// CHECK:           tgpu.write %{{.*}} : tensor<128x16xbf16, #tgpu.wgmma<1>>, !tgpu.shared<128x16xbf16, b32>
// CHECK:           tgpu.wgmma %{{.*}}, %{{.*}} transpose_a, %{{.*}} : {{.*}} -> tensor<64x16xf32, #tgpu.wgmma<1>>
// CHECK:         tgpu.store %{{.*}}, %o[0, 0] dims [1, 0] : tensor<64x16xf32, #tgpu.wgmma<1>>
// SM80-LABEL:  tgpu.kernel @attends
// SM80:          tgpu.mma
// SM80:          tgpu.store %{{.*}}, %o[0, 0] : tensor<16x64xf32
tile.kernel @attends(%q: !rows, %k: !rows, %v: !rows, %bias: !bias, %o: !out, %keys: i32) grid(%i = 1)
    attributes {tgpu.transpose_few_rows} {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %lowest = arith.constant dense<-1.0e30> : tensor<16xf32>
  %minus_inf = arith.constant dense<0xFF800000> : tensor<16x128xf32>
  %none = arith.constant dense<0.0> : tensor<16x64xf32>
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<16x64xbf16>
  %max, %acc = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %c16)
      keep %keep : tensor<16x128xi1>
      iter_args(%max_old = %lowest : tensor<16xf32>, %acc_old = %none : tensor<16x64xf32>) {
    %k_tile = tile.load %k[%n, 0] : !rows -> tensor<128x64xbf16>
    %v_tile = tile.load %v[%n, 0] : !rows -> tensor<128x64xbf16>
    %bias_tile = tile.load %bias[0, %n] : !bias -> tensor<16x128xf32>
    %s = tile.dot %q_tile, %k_tile transpose_b : tensor<16x64xbf16>, tensor<128x64xbf16> -> tensor<16x128xf32>
    %sum = arith.addf %s, %bias_tile : tensor<16x128xf32>
    %x = tile.select %keep, %sum, %minus_inf : tensor<16x128xi1>, tensor<16x128xf32>
    %largest = tile.reduce max %x dim 1 : tensor<16x128xf32> -> tensor<16xf32>
    %max_new = arith.maximumf %max_old, %largest : tensor<16xf32>
    %max_each = tile.expand %max_new dim 1 : tensor<16xf32> -> tensor<16x128xf32>
    %below = arith.subf %x, %max_each : tensor<16x128xf32>
    %p = math.exp2 %below : tensor<16x128xf32>
    %p_t = tile.cast %p : tensor<16x128xf32> -> tensor<16x128xbf16>
    %fall = arith.subf %max_old, %max_new : tensor<16xf32>
    %rescale = math.exp2 %fall : tensor<16xf32>
    %rescale_each = tile.expand %rescale dim 1 : tensor<16xf32> -> tensor<16x64xf32>
    %acc_kept = arith.mulf %acc_old, %rescale_each : tensor<16x64xf32>
    %acc_new = tile.dot %p_t, %v_tile, %acc_kept : tensor<16x128xbf16>, tensor<128x64xbf16> -> tensor<16x64xf32>
    tile.yield %max_new, %acc_new : tensor<16xf32>, tensor<16x64xf32>
  }
  tile.store %acc, %o[0, 0] : tensor<16x64xf32>, !out
}

// A reshape takes rows in their order: the sum is transposed before it, once for each tile, as it is written.
// CHECK-LABEL: tgpu.kernel @reshapes
// CHECK:         tgpu.wgmma {{.*}} -> tensor<64x16xf32, #tgpu.wgmma<1>>
// CHECK:         tgpu.write %{{.*}}, %[[OUT:.*]] transpose : tensor<64x16xf32, #tgpu.wgmma<1>>
// CHECK:         tgpu.read %[[OUT]] : {{.*}} -> tensor<16x64xf32
// CHECK:         tile.reshape
tile.kernel @reshapes(%q: !rows, %k: !rows, %o: !tile.view<[4, 4, 64], f32>) grid(%i = 1)
    attributes {tgpu.transpose_few_rows} {
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<16x64xbf16>
  %k_tile = tile.load %k[0, 0] : !rows -> tensor<64x64xbf16>
  %s = tile.dot %q_tile, %k_tile transpose_b : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xf32>
  %r = tile.reshape %s : tensor<16x64xf32> -> tensor<4x4x64xf32>
  tile.store %r, %o[0, 0, 0] : tensor<4x4x64xf32>, !tile.view<[4, 4, 64], f32>
}

// A kernel whose other product has columns that warpgroups cannot divide stays as it is.
// CHECK-LABEL: tgpu.kernel @stays
// CHECK:         tgpu.store %{{.*}}, %o[0, 0] : tensor<16x64xf32, #tgpu.mma
tile.kernel @stays(%q: !rows, %k: !rows, %v: !rows, %o: !out, %o2: !out) grid(%i = 1)
    attributes {tgpu.transpose_few_rows} {
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<16x64xbf16>
  %k_tile = tile.load %k[0, 0] : !rows -> tensor<64x64xbf16>
  %v_tile = tile.load %v[0, 0] : !rows -> tensor<32x64xbf16>
  %s = tile.dot %q_tile, %k_tile transpose_b : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xf32>
  %r = tile.dot %q_tile, %v_tile transpose_b : tensor<16x64xbf16>, tensor<32x64xbf16> -> tensor<16x32xf32>
  tile.store %s, %o[0, 0] : tensor<16x64xf32>, !out
  tile.store %r, %o2[0, 0] : tensor<16x32xf32>, !out
}

// CHECK-LABEL: tgpu.kernel @unasked
// CHECK:         tgpu.store %{{.*}}, %o[0, 0] : tensor<16x64xf32, #tgpu.mma
tile.kernel @unasked(%q: !rows, %k: !rows, %o: !out) grid(%i = 1) {
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<16x64xbf16>
  %k_tile = tile.load %k[0, 0] : !rows -> tensor<64x64xbf16>
  %s = tile.dot %q_tile, %k_tile transpose_b : tensor<16x64xbf16>, tensor<64x64xbf16> -> tensor<16x64xf32>
  tile.store %s, %o[0, 0] : tensor<16x64xf32>, !out
}
