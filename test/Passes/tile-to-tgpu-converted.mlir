// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of 8 bits that are converted for products only are copied as they are.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a" | FileCheck %s
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_80" | FileCheck %s --check-prefix=SM80

!rows = !tile.view<[?, 64], f16>
!bytes = !tile.view<[?, 64], f8E4M3FN>
!out = !tile.view<[?, 64], f32>

// Both are operands a of wgmma in registers: keys by their rows, and values by columns of the buffer, two rows a lane.
// The values are read behind the first product.
// CHECK-LABEL: tgpu.kernel @attends
// CHECK:         scf.for
// CHECK:           tgpu.copy_async %k{{.*}}, %[[K:.*]] : {{.*}}!tgpu.shared<128x64xf8E4M3FN, b64>
// CHECK:           tgpu.copy_async %v{{.*}}, %[[V:.*]] : {{.*}}!tgpu.shared<128x64xf8E4M3FN, b64>
// CHECK:           %[[K8:.*]] = tgpu.read %[[K]] : {{.*}} -> tensor<128x64xf8E4M3FN, #tgpu.wgmma<1>>
// CHECK-NEXT:      %[[K16:.*]] = tile.cast %[[K8]] : {{.*}} -> tensor<128x64xf16, #tgpu.wgmma<1>>
// CHECK:           %[[A:.*]] = tgpu.convert %[[K16]] : {{.*}} -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
// CHECK:           tgpu.wgmma %[[A]], %{{.*}} transpose_b : {{.*}} -> tensor<128x16xf32, #tgpu.wgmma<1>>
// CHECK:           %[[V8:.*]] = tgpu.read %[[V]] transpose : {{.*}} -> tensor<64x128xf8E4M3FN, #tgpu.wgmma<1, row_pairs = true>>
// CHECK:           tile.cast %[[V8]] : {{.*}} -> tensor<64x128xf16, #tgpu.wgmma<1, row_pairs = true>>
// CHECK:           tgpu.wgmma %{{.*}}, %{{.*}} : tensor<64x128xf16, #tgpu.operand<a, #tgpu.wgmma<1, row_pairs = true>>>, {{.*}} -> tensor<64x16xf32, #tgpu.wgmma<1, row_pairs = true>>
// CHECK:         tgpu.store %{{.*}} dims [1, 0] : tensor<64x16xf32, #tgpu.wgmma<1, row_pairs = true>>
// Where nothing multiplies from registers, threads load and convert them.
// SM80-LABEL:  tgpu.kernel @attends
// SM80:          tgpu.load %k
// SM80:          tgpu.write
// SM80:          tgpu.mma
tile.kernel @attends(%q: !rows, %k: !bytes, %v: !bytes, %o: !out, %keys: i32) grid(%i = 1)
    attributes {tgpu.transpose_few_rows} {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %none = arith.constant dense<0.0> : tensor<16x64xf32>
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<16x64xf16>
  %acc = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %c16) keep %keep : tensor<16x128xi1>
      iter_args(%acc_old = %none : tensor<16x64xf32>) {
    %k_bytes = tile.load %k[%n, 0] : !bytes -> tensor<128x64xf8E4M3FN>
    %v_bytes = tile.load %v[%n, 0] : !bytes -> tensor<128x64xf8E4M3FN>
    %k_tile = tile.cast %k_bytes : tensor<128x64xf8E4M3FN> -> tensor<128x64xf16>
    %v_tile = tile.cast %v_bytes : tensor<128x64xf8E4M3FN> -> tensor<128x64xf16>
    %s = tile.dot %q_tile, %k_tile transpose_b : tensor<16x64xf16>, tensor<128x64xf16> -> tensor<16x128xf32>
    %p = tile.cast %s : tensor<16x128xf32> -> tensor<16x128xf16>
    %acc_new = tile.dot %p, %v_tile, %acc_old : tensor<16x128xf16>, tensor<128x64xf16> -> tensor<16x64xf32>
    tile.yield %acc_new : tensor<16x64xf32>
  }
  tile.store %acc, %o[0, 0] : tensor<16x64xf32>, !out
}

// As operand b, the converted tile is written to shared memory; the copy is of bytes nevertheless.
// CHECK-LABEL: tgpu.kernel @operand_b
// CHECK:         scf.for
// CHECK:           tgpu.copy_async %k{{.*}} : {{.*}}!tgpu.shared<64x64xf8E4M3FN, b64>
// CHECK:           tgpu.read %{{.*}} -> tensor<64x64xf8E4M3FN, #tgpu.blocked
// CHECK:           tgpu.write %{{.*}} : tensor<64x64xf16, {{.*}}, !tgpu.shared<64x64xf16, b128>
// CHECK:           tgpu.wgmma
tile.kernel @operand_b(%q: !rows, %k: !bytes, %o: !out, %keys: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<64x64xf16>
  %acc = scf.for %n = %c0 to %keys step %c64 iter_args(%acc_old = %none) -> (tensor<64x64xf32>) : i32 {
    %k_bytes = tile.load %k[%n, 0] : !bytes -> tensor<64x64xf8E4M3FN>
    %k_tile = tile.cast %k_bytes : tensor<64x64xf8E4M3FN> -> tensor<64x64xf16>
    %acc_new = tile.dot %q_tile, %k_tile, %acc_old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %acc_new : tensor<64x64xf32>
  }
  tile.store %acc, %o[0, 0] : tensor<64x64xf32>, !out
}

// One product reads the keys' rows from registers, another one their columns from shared memory: they are written as soon as
// they have been converted. What products behind the first of the latter read is written before it, if it exists, and one
// barrier serves all.
// CHECK-LABEL: tgpu.kernel @both_ways
// CHECK:         scf.for
// CHECK:           %[[K8:.*]] = tgpu.read %{{.*}} -> tensor<64x128xf8E4M3FN, #tgpu.wgmma<1>>
// CHECK-NEXT:      %[[K16:.*]] = tile.cast %[[K8]]
// CHECK-NEXT:      tgpu.write %[[K16]], %[[COLUMNS:.*]] : {{.*}}!tgpu.shared<64x128xf16, b128>
// CHECK-NEXT:      %[[A:.*]] = tgpu.convert %[[K16]]
// CHECK-NEXT:      %[[S:.*]] = tgpu.wgmma %[[A]],
// CHECK:           tgpu.write %{{.*}}, %[[P:.*]] : tensor<64x16xf16, #tgpu.wgmma<1>>
// CHECK-NEXT:      tgpu.write %{{.*}}, %[[P2:.*]] : tensor<64x16xf16, #tgpu.wgmma<1>>
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.wgmma %[[COLUMNS]], %[[P]] transpose_a
// CHECK-NOT:       tgpu.sync
// CHECK:           tgpu.wgmma %[[COLUMNS]], %[[P2]] transpose_a
tile.kernel @both_ways(%q: !tile.view<[?, 128], f16>, %k: !tile.view<[?, 128], f8E4M3FN>, %o: !tile.view<[?, 128], f32>,
                       %keys: i32) grid(%i = 1) attributes {tgpu.transpose_few_rows} {
  %c0 = arith.constant 0 : i32
  %c16 = arith.constant 16 : i32
  %none = arith.constant dense<0.0> : tensor<16x128xf32>
  %q_tile = tile.load %q[0, 0] : !tile.view<[?, 128], f16> -> tensor<16x128xf16>
  %acc:2 = tile.for_blocks %n in (%c0 to %keys) against (%c0 to %c16) keep %keep : tensor<16x64xi1>
      iter_args(%acc_old = %none : tensor<16x128xf32>, %acc_old_2 = %none : tensor<16x128xf32>) {
    %k_bytes = tile.load %k[%n, 0] : !tile.view<[?, 128], f8E4M3FN> -> tensor<64x128xf8E4M3FN>
    %k_tile = tile.cast %k_bytes : tensor<64x128xf8E4M3FN> -> tensor<64x128xf16>
    %s = tile.dot %q_tile, %k_tile transpose_b : tensor<16x128xf16>, tensor<64x128xf16> -> tensor<16x64xf32>
    %p = tile.cast %s : tensor<16x64xf32> -> tensor<16x64xf16>
    %twice = arith.addf %s, %s : tensor<16x64xf32>
    %p_2 = tile.cast %twice : tensor<16x64xf32> -> tensor<16x64xf16>
    %acc_new = tile.dot %p, %k_tile, %acc_old : tensor<16x64xf16>, tensor<64x128xf16> -> tensor<16x128xf32>
    %acc_new_2 = tile.dot %p_2, %k_tile, %acc_old_2 : tensor<16x64xf16>, tensor<64x128xf16> -> tensor<16x128xf32>
    tile.yield %acc_new, %acc_new_2 : tensor<16x128xf32>, tensor<16x128xf32>
  }
  tile.store %acc#0, %o[0, 0] : tensor<16x128xf32>, !tile.view<[?, 128], f32>
  tile.store %acc#1, %o[16, 0] : tensor<16x128xf32>, !tile.view<[?, 128], f32>
}

// Another use of the converted tile, or a use of the bytes, keeps the load in registers.
// CHECK-LABEL: tgpu.kernel @other_uses
// CHECK-NOT:     tgpu.copy_async %k
// CHECK:         tgpu.load %k
// CHECK-NOT:     tgpu.copy_async %k
tile.kernel @other_uses(%q: !rows, %k: !bytes, %o: !out, %keys: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<64x64xf16>
  %acc = scf.for %n = %c0 to %keys step %c64 iter_args(%acc_old = %none) -> (tensor<64x64xf32>) : i32 {
    %k_bytes = tile.load %k[%n, 0] : !bytes -> tensor<64x64xf8E4M3FN>
    %k_tile = tile.cast %k_bytes : tensor<64x64xf8E4M3FN> -> tensor<64x64xf16>
    %twice = arith.addf %k_tile, %k_tile : tensor<64x64xf16>
    %sum = tile.dot %q_tile, %k_tile, %acc_old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    %acc_new = tile.dot %q_tile, %twice, %sum transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %acc_new : tensor<64x64xf32>
  }
  tile.store %acc, %o[0, 0] : tensor<64x64xf32>, !out
}

// A store between the load and the product may write what is loaded: the load stays where it is.
// CHECK-LABEL: tgpu.kernel @stores_between
// CHECK:         tgpu.read
// CHECK:         tgpu.store
// CHECK:         tgpu.wgmma
tile.kernel @stores_between(%q: !rows, %k: !bytes, %o: !out, %keys: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %none = arith.constant dense<0.0> : tensor<64x64xf32>
  %bytes = arith.constant dense<1.0> : tensor<64x64xf8E4M3FN>
  %q_tile = tile.load %q[0, 0] : !rows -> tensor<64x64xf16>
  %acc = scf.for %n = %c0 to %keys step %c64 iter_args(%acc_old = %none) -> (tensor<64x64xf32>) : i32 {
    %k_bytes = tile.load %k[%n, 0] : !bytes -> tensor<64x64xf8E4M3FN>
    %k_tile = tile.cast %k_bytes : tensor<64x64xf8E4M3FN> -> tensor<64x64xf16>
    tile.store %bytes, %k[%n, 0] : tensor<64x64xf8E4M3FN>, !bytes
    %acc_new = tile.dot %q_tile, %k_tile, %acc_old transpose_b : tensor<64x64xf16>, tensor<64x64xf16> -> tensor<64x64xf32>
    scf.yield %acc_new : tensor<64x64xf32>
  }
  tile.store %acc, %o[0, 0] : tensor<64x64xf32>, !out
}
