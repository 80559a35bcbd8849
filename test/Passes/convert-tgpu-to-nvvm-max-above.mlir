// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether a row may be above its threshold, by integers; the maxima of the warp's rows, only if one may be.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | FileCheck %s

#w = #tgpu.wgmma<1>
!row = tensor<64xf32, #tgpu.slice<1, #w>>

// Of eight columns a thread holds two, of each of its two rows.
// CHECK-LABEL: llvm.func @rows
// CHECK:         llvm.bitcast %{{.*}} : f32 to i32
// CHECK:         %[[MOST:.*]] = llvm.intr.smax(%{{.*}}, %{{.*}}) : (i32, i32) -> i32
// CHECK-NEXT:    %[[FLOAT:.*]] = llvm.bitcast %[[MOST]] : i32 to f32
// CHECK-NEXT:    %[[SCALED:.*]] = llvm.fmul %[[FLOAT]], %{{.*}} : f32
// CHECK-NEXT:    %[[ABOVE:.*]] = llvm.fcmp "ogt" %[[SCALED]], %[[LIMIT:.*]] : f32
// CHECK-NEXT:    %[[LOW:.*]] = llvm.fcmp "olt" %[[LIMIT]], %{{.*}} : f32
// CHECK-NEXT:    %[[FIRST:.*]] = llvm.or %[[ABOVE]], %[[LOW]] : i1
// CHECK:         %[[MAY:.*]] = llvm.or %[[FIRST]], %{{.*}} : i1
// CHECK:         %[[ANY:.*]] = llvm.call_intrinsic "llvm.nvvm.vote.any.sync"(%{{.*}}, %[[MAY]])
// CHECK-NEXT:    llvm.cond_br %[[ANY]]
// CHECK:         llvm.intr.maximum
// CHECK:         llvm.call_intrinsic "llvm.nvvm.shfl.sync.bfly.f32"
// CHECK:         llvm.fmul
tgpu.kernel @rows target "sm_90a" warps 4 (%in: !tile.view<[?], f32>, %out: !tile.view<[?], f32>, %x: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %s = tile.full %x : tensor<64x8xf32, #w>
  %column = tile.iota %c0 dim 1 : tensor<64x8xi32, #w>
  %number = arith.sitofp %column : tensor<64x8xi32, #w> to tensor<64x8xf32, #w>
  %sum = arith.addf %s, %number : tensor<64x8xf32, #w>
  %limit = tgpu.load %in[0] : !tile.view<[?], f32> -> !row
  %most = tgpu.max_above %sum times %x above %limit : tensor<64x8xf32, #w> -> !row
  tgpu.store %most, %out[0] : !row, !tile.view<[?], f32>
}
