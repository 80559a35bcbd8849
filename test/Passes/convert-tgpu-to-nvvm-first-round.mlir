// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first iteration of a warpgroup; a warp-wide reduction makes it uniform for ptxas.
// RUN: tilewright-opt %s --convert-tgpu-to-nvvm | FileCheck %s

// CHECK-LABEL: llvm.func @groups
// CHECK:         %[[WARP:.*]] = llvm.call_intrinsic "llvm.nvvm.shfl.sync.idx.i32"
// CHECK:         %[[GROUP:.*]] = llvm.udiv %[[WARP]], %{{.*}} : i32
// CHECK:         %[[SECOND:.*]] = llvm.icmp "eq" %[[GROUP]], %{{.*}} : i32
// CHECK:         %[[OF_TWO:.*]] = llvm.select %[[SECOND]], %[[B:.*]], %[[A:.*]] : i1, i32
// CHECK:         %[[THIRD:.*]] = llvm.icmp "eq" %[[GROUP]], %{{.*}} : i32
// CHECK:         %[[OWN:.*]] = llvm.select %[[THIRD]], %{{.*}}, %[[OF_TWO]] : i1, i32
// CHECK:         llvm.call_intrinsic "llvm.nvvm.redux.sync.min"(%[[OWN]],
tgpu.kernel @groups target "sm_90a" warps 12 (%out: !tile.view<[?], i32>, %a: i32, %b: i32, %c: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %first = tgpu.first_round %c0 of %a, %b, %c
  %t = tile.full %first : tensor<192xi32, #tgpu.slice<1, #tgpu.mma<12, 1>>>
  tgpu.store %t, %out[0] : tensor<192xi32, #tgpu.slice<1, #tgpu.mma<12, 1>>>, !tile.view<[?], i32>
}
