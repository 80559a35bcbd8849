// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The largest signed integer of a row is the maximum, unless it is negative: then all numbers are, and the smallest
// unsigned integer is.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | FileCheck %s

#w = #tgpu.wgmma<1>
!row = tensor<64xf32, #tgpu.slice<1, #w>>

// Of eight columns, a thread holds two in each of its two rows; four lanes hold a row.
// CHECK-LABEL: llvm.func @rows
// CHECK:         %[[M0:.*]] = llvm.intr.smax(%[[X0:.*]], %[[X1:.*]]) : (i32, i32) -> i32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.i32"
// CHECK-NEXT:    llvm.intr.smax
// CHECK:         llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.i32"
// CHECK-NEXT:    %[[R0:.*]] = llvm.intr.smax
// CHECK:         %[[NEGATIVE0:.*]] = llvm.icmp "slt" %[[R0]], %{{.*}} : i32
// CHECK:         llvm.intr.smax
// CHECK:         %[[NEGATIVE1:.*]] = llvm.icmp "slt" %[[R1:.*]], %{{.*}} : i32
// CHECK:         %[[EITHER:.*]] = llvm.or %[[NEGATIVE0]], %[[NEGATIVE1]]
// CHECK:         %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[EITHER]])
// CHECK-NEXT:    llvm.cond_br %[[ANY]], ^[[AGAIN:.*]], ^[[SAME:.*]]
// CHECK:       ^[[AGAIN]]:
// CHECK-NEXT:    llvm.intr.umin(%[[X0]], %[[X1]]) : (i32, i32) -> i32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.i32"
// CHECK:         %[[U0:.*]] = llvm.intr.umin
// CHECK:         llvm.select %[[NEGATIVE0]], %{{.*}}, %[[R0]] : i1, i32
// CHECK:         llvm.select %[[NEGATIVE1]], %{{.*}}, %[[R1]] : i1, i32
// CHECK:       ^[[SAME]]:
// CHECK-NEXT:    llvm.br ^{{.*}}(%[[R0]], %[[R1]]
// CHECK-NOT:     llvm.intr.maximum
tgpu.kernel @rows target "sm_90a" warps 4 (%out: !tile.view<[?], f32>, %x: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %s = tile.full %x : tensor<64x8xf32, #w>
  %column = tile.iota %c0 dim 1 : tensor<64x8xi32, #w>
  %number = arith.sitofp %column : tensor<64x8xi32, #w> to tensor<64x8xf32, #w>
  %sum = arith.addf %s, %number : tensor<64x8xf32, #w>
  %most = tile.reduce max %sum dim 1 {tgpu.as_integers} : tensor<64x8xf32, #w> -> !row
  tgpu.store %most, %out[0] : !row, !tile.view<[?], f32>
}

// The attribute is that of maxima alone.
// CHECK-LABEL: llvm.func @minimum
// CHECK:         llvm.intr.minimum
// CHECK-NOT:     llvm.intr.smax
tgpu.kernel @minimum target "sm_90a" warps 4 (%out: !tile.view<[?], f32>, %x: f32) grid(%i = 1) {
  %s = tile.full %x : tensor<64x8xf32, #w>
  %least = tile.reduce min %s dim 1 {tgpu.as_integers} : tensor<64x8xf32, #w> -> !row
  tgpu.store %least, %out[0] : !row, !tile.view<[?], f32>
}
