// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products that read computed operands: in registers by rows, or through shared memory with a barrier for all of them;
// and rows of numbers that a block loop reads, copied with the operands of its products.
// RUN: tilewright-opt %s --tile-to-tgpu=warps=8 | FileCheck %s

// P and dS, each computed from a product and read by another: with a grid of 4 x 2 warps, fewer bytes are read from
// shared memory, including their writes, than with one column of warps. Both are written before one barrier. The rows
// are copied ahead.
// CHECK-LABEL: tgpu.kernel @gradients
// CHECK-DAG:     %[[ROW:.*]] = tgpu.alloc : !tgpu.shared<64xf32, none>
// CHECK:         scf.for {{.*}} -> (tensor<128x128xf32, #tgpu.mma<4, 2>>, tensor<128x128xf32, #tgpu.mma<4, 2>>)
// CHECK-NEXT:      tgpu.sync
// CHECK:           tgpu.copy_async %q[
// CHECK:           tgpu.copy_async %do[
// CHECK:           tgpu.copy_async %lse[{{.*}}], %[[ROW]]
// CHECK-NEXT:      tgpu.copy_commit
// CHECK:           tgpu.copy_wait pending 0
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      scf.if
// CHECK-NEXT:        tgpu.read %[[ROW]] : {{.*}} -> tensor<64xf32, #tgpu.slice<0, #tgpu.mma<4, 2>>>
// CHECK:             tgpu.mma
// CHECK-NOT:         tgpu.sync
// CHECK:             tgpu.write %{{.*}}, %[[P:.*]] :
// CHECK-NOT:         tgpu.sync
// CHECK:             tgpu.write %{{.*}}, %[[DS:.*]] :
// CHECK-NEXT:        tgpu.sync
// CHECK-NEXT:        tgpu.read %[[P]] : {{.*}} -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.mma<4, 2>>>
// CHECK-NOT:         tgpu.sync
// CHECK:             tgpu.read %[[DS]] : {{.*}} -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.mma<4, 2>>>
// CHECK-NOT:         tgpu.sync
// CHECK:           else
tile.kernel @gradients (%q: !tile.view<[?, 128], f16>, %do: !tile.view<[?, 128], f16>, %k: !tile.view<[?, 128], f16>,
                        %lse: !tile.view<[?], f32>, %dk: !tile.view<[?, 128], f32>, %dv: !tile.view<[?, 128], f32>)
    grid(%b = ceildiv(dim(k, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %n = arith.muli %b, %c128 : i32
  %queries = tile.dim %q, 0 : !tile.view<[?, 128], f16>
  %keys = tile.dim %k, 0 : !tile.view<[?, 128], f16>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<128x128xf32>
  %kt = tile.load %k[%n, 0] : !tile.view<[?, 128], f16> -> tensor<128x128xf16>
  %dks, %dvs = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
      keep %keep : tensor<128x64xi1> iter_args(%dk0 = %none : tensor<128x128xf32>, %dv0 = %none : tensor<128x128xf32>) {
    %qt = tile.load %q[%m, 0] : !tile.view<[?, 128], f16> -> tensor<64x128xf16>
    %dot = tile.load %do[%m, 0] : !tile.view<[?, 128], f16> -> tensor<64x128xf16>
    %row = tile.load %lse[%m] : !tile.view<[?], f32> -> tensor<64xf32>
    %each = tile.expand %row dim 0 : tensor<64xf32> -> tensor<128x64xf32>
    %s = tile.dot %kt, %qt transpose_b : tensor<128x128xf16>, tensor<64x128xf16> -> tensor<128x64xf32>
    %p = arith.subf %s, %each : tensor<128x64xf32>
    %p16 = tile.cast %p : tensor<128x64xf32> -> tensor<128x64xf16>
    %ds = arith.mulf %p, %s : tensor<128x64xf32>
    %ds16 = tile.cast %ds : tensor<128x64xf32> -> tensor<128x64xf16>
    %dv1 = tile.dot %p16, %dot, %dv0 : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    %dk1 = tile.dot %ds16, %qt, %dk0 : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    tile.yield %dk1, %dv1 : tensor<128x128xf32>, tensor<128x128xf32>
  }
  tile.store %dks, %dk[%n, 0] : tensor<128x128xf32>, !tile.view<[?, 128], f32>
  tile.store %dvs, %dv[%n, 0] : tensor<128x128xf32>, !tile.view<[?, 128], f32>
}

// Sums along rows keep rows in one warp, and P in registers.
// CHECK-LABEL: tgpu.kernel @reduced
// CHECK:         scf.for {{.*}} -> (tensor<128x128xf32, #tgpu.mma<8, 1>>, tensor<128xf32, #tgpu.slice<1, #tgpu.mma<8, 1>>>)
// CHECK-NOT:       tgpu.write
// CHECK:           tgpu.convert {{.*}} -> tensor<128x64xf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
// CHECK:         tgpu.store
tile.kernel @reduced (%q: !tile.view<[?, 128], f16>, %do: !tile.view<[?, 128], f16>, %k: !tile.view<[?, 128], f16>,
                      %sums: !tile.view<[?], f32>, %dv: !tile.view<[?, 128], f32>)
    grid(%b = ceildiv(dim(k, 0), 128)) {
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %n = arith.muli %b, %c128 : i32
  %queries = tile.dim %q, 0 : !tile.view<[?, 128], f16>
  %keys = tile.dim %k, 0 : !tile.view<[?, 128], f16>
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : tensor<128x128xf32>
  %zeros = tile.full %zero : tensor<128xf32>
  %kt = tile.load %k[%n, 0] : !tile.view<[?, 128], f16> -> tensor<128x128xf16>
  %dvs, %all = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
      keep %keep : tensor<128x64xi1> iter_args(%dv0 = %none : tensor<128x128xf32>, %sum0 = %zeros : tensor<128xf32>) {
    %qt = tile.load %q[%m, 0] : !tile.view<[?, 128], f16> -> tensor<64x128xf16>
    %dot = tile.load %do[%m, 0] : !tile.view<[?, 128], f16> -> tensor<64x128xf16>
    %s = tile.dot %kt, %qt transpose_b : tensor<128x128xf16>, tensor<64x128xf16> -> tensor<128x64xf32>
    %part = tile.reduce add %s dim 1 : tensor<128x64xf32> -> tensor<128xf32>
    %sum1 = arith.addf %sum0, %part : tensor<128xf32>
    %p16 = tile.cast %s : tensor<128x64xf32> -> tensor<128x64xf16>
    %dv1 = tile.dot %p16, %dot, %dv0 : tensor<128x64xf16>, tensor<64x128xf16> -> tensor<128x128xf32>
    tile.yield %dv1, %sum1 : tensor<128x128xf32>, tensor<128xf32>
  }
  tile.store %dvs, %dv[%n, 0] : tensor<128x128xf32>, !tile.view<[?, 128], f32>
  tile.store %all, %sums[%n] : tensor<128xf32>, !tile.view<[?], f32>
}

// Rows that are not copied: rows of a view that the loop writes, and rows of 16 bits, which threads cannot copy.
// CHECK-LABEL: tgpu.kernel @not_ahead
// CHECK:         scf.for
// CHECK-NOT:       tgpu.copy_async %w
// CHECK-NOT:       tgpu.copy_async %h
// CHECK:           tgpu.copy_async %x[
// CHECK-NOT:       tgpu.copy_async
// CHECK-DAG:       tgpu.load %w[
// CHECK-DAG:       tgpu.load %h[
// CHECK:           tgpu.store %{{.*}}, %w[
tile.kernel @not_ahead (%x: !tile.view<[?], f32>, %h: !tile.view<[?], f16>, %w: !tile.view<[?], f32>)
    grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %n = tile.dim %x, 0 : !tile.view<[?], f32>
  tile.for_blocks %m in (%c0 to %n) against (%c0 to %n) keep %keep : tensor<64x64xi1> {
    %a = tile.load %w[%m] : !tile.view<[?], f32> -> tensor<64xf32>
    %h16 = tile.load %h[%m] : !tile.view<[?], f16> -> tensor<64xf16>
    %c = tile.load %x[%m] : !tile.view<[?], f32> -> tensor<64xf32>
    %h32 = tile.cast %h16 : tensor<64xf16> -> tensor<64xf32>
    %d = arith.addf %a, %h32 : tensor<64xf32>
    %e = arith.addf %c, %d : tensor<64xf32>
    tile.store %e, %w[%m] : tensor<64xf32>, !tile.view<[?], f32>
    tile.yield
  }
}
