// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Columns compared with a bound per row: a thread counts its columns below the bound, and stores the results of a row
// as bits of a word, which the selections test.
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --convert-tgpu-to-nvvm | FileCheck %s

#m = #tgpu.mma<4, 1>
#r = #tgpu.slice<1, #m>

// Of 64 columns, a thread holds two of every eight, that is, 16 in each of its two rows.
// CHECK-LABEL: llvm.func @interval
// CHECK:         %[[FROM:.*]] = llvm.intr.smax(%{{.*}}, %[[FIRST:[0-9a-z]+]])
// CHECK-NEXT:    %[[COUNT:.*]] = llvm.sub %[[FROM]], %[[FIRST]]
// CHECK:         %[[WHOLE:.*]] = llvm.lshr %[[COUNT]],
// CHECK:         llvm.and %[[COUNT]]
// CHECK:         llvm.mul %[[WHOLE]]
// CHECK:         llvm.intr.umin
// CHECK:         %[[BELOW:.*]] = llvm.call_intrinsic "llvm.nvvm.fshl.clamp"
// CHECK:         llvm.call_intrinsic "llvm.nvvm.fshl.clamp"
// CHECK:         llvm.call_intrinsic "llvm.nvvm.fshl.clamp"
// CHECK-NEXT:    %[[BEHIND:.*]] = llvm.xor
// CHECK:         llvm.call_intrinsic "llvm.nvvm.fshl.clamp"
// Both bounds of a row are combined, then tested bit by bit.
// CHECK:         %[[WORD:.*]] = llvm.and %[[BELOW]], %[[BEHIND]]
// CHECK:         %[[BIT:.*]] = llvm.and %[[WORD]],
// CHECK:         %[[IS:.*]] = llvm.icmp "ne" %[[BIT]],
// CHECK-NEXT:    llvm.select %[[IS]]
tgpu.kernel @interval target "sm_80" warps 4 (%out: !tile.view<[?, ?], f32>, %begin: i32, %x: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %rows = tile.iota %c0 dim 0 : tensor<64xi32, #r>
  %begins = tile.full %begin : tensor<64xi32, #r>
  %first = arith.addi %rows, %begins : tensor<64xi32, #r>
  %column = tile.iota %c0 dim 1 : tensor<64x64xi32, #m>
  %end_each = tile.expand %rows dim 1 : tensor<64xi32, #r> -> tensor<64x64xi32, #m>
  %first_each = tile.expand %first dim 1 : tensor<64xi32, #r> -> tensor<64x64xi32, #m>
  %below = arith.cmpi slt, %column, %end_each : tensor<64x64xi32, #m>
  %behind = arith.cmpi sge, %column, %first_each : tensor<64x64xi32, #m>
  %keep = arith.andi %below, %behind : tensor<64x64xi1, #m>
  %a = tile.full %x : tensor<64x64xf32, #m>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #m>
  %y = tile.select %keep, %a, %zero : tensor<64x64xi1, #m>, tensor<64x64xf32, #m>
  tgpu.store %y, %out[0, 0] : tensor<64x64xf32, #m>, !tile.view<[?, ?], f32>
}

// A condition on rows sets all bits of a word or none.
// CHECK-LABEL: llvm.func @rows
// CHECK:         llvm.call_intrinsic "llvm.nvvm.fshl.clamp"
// CHECK:         llvm.select %{{.*}}, %{{.*}}, %{{.*}} : i1, i32
// CHECK:         llvm.icmp "ne"
tgpu.kernel @rows target "sm_80" warps 4 (%out: !tile.view<[?, ?], f32>, %limit: i32, %x: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %rows = tile.iota %c0 dim 0 : tensor<64xi32, #r>
  %column = tile.iota %c0 dim 1 : tensor<64x64xi32, #m>
  %row = tile.iota %c0 dim 0 : tensor<64x64xi32, #m>
  %end = tile.expand %rows dim 1 : tensor<64xi32, #r> -> tensor<64x64xi32, #m>
  %limits = tile.full %limit : tensor<64x64xi32, #m>
  %below = arith.cmpi slt, %column, %end : tensor<64x64xi32, #m>
  %inside = arith.cmpi slt, %row, %limits : tensor<64x64xi32, #m>
  %keep = arith.andi %below, %inside : tensor<64x64xi1, #m>
  %a = tile.full %x : tensor<64x64xf32, #m>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #m>
  %y = tile.select %keep, %a, %zero : tensor<64x64xi1, #m>, tensor<64x64xf32, #m>
  tgpu.store %y, %out[0, 0] : tensor<64x64xf32, #m>, !tile.view<[?, ?], f32>
}

// The same bound for all rows, and positions that do not begin at 0: one comparison per element.
// CHECK-LABEL: llvm.func @plain
// CHECK-NOT:     fshl
// CHECK:         llvm.return
tgpu.kernel @plain target "sm_80" warps 4 (%out: !tile.view<[?, ?], f32>, %limit: i32, %x: f32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %rows = tile.iota %c0 dim 0 : tensor<64xi32, #r>
  %column = tile.iota %c0 dim 1 : tensor<64x64xi32, #m>
  %from = tile.iota %limit dim 1 : tensor<64x64xi32, #m>
  %limits = tile.full %limit : tensor<64x64xi32, #m>
  %end = tile.expand %rows dim 1 : tensor<64xi32, #r> -> tensor<64x64xi32, #m>
  %below = arith.cmpi slt, %column, %limits : tensor<64x64xi32, #m>
  %moved = arith.cmpi slt, %from, %end : tensor<64x64xi32, #m>
  %keep = arith.andi %below, %moved : tensor<64x64xi1, #m>
  %a = tile.full %x : tensor<64x64xf32, #m>
  %zero = arith.constant dense<0.0> : tensor<64x64xf32, #m>
  %y = tile.select %keep, %a, %zero : tensor<64x64xi1, #m>, tensor<64x64xf32, #m>
  tgpu.store %y, %out[0, 0] : tensor<64x64xf32, #m>, !tile.view<[?, ?], f32>
}
