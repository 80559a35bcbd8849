// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop over blocks whose order is known when it runs. Its iterations are those of the ascending loop; where the order
// is descending, their numbers are mirrored, and so is the range of full blocks.
//
// RUN: tilewright-opt %s --tile-to-tgpu="target=sm_90a" | FileCheck %s

!view = !tile.view<[?, ?], bf16>
!i32s = !tile.view<[?], i32>

// Blocks [LOWER, UPPER): without a mask all are full up to the last.
// CHECK-LABEL: tgpu.kernel @plain
// CHECK-NEXT:      (%x:
// CHECK-NEXT:      grid(%i = 4) attributes {tgpu.either_order} {
// CHECK:         %[[DOWN:.*]] = arith.cmpi sgt, %i, %[[ZERO:.*]] : i32
// CHECK:         %[[END:.*]] = arith.select %{{.*}}, %{{.*}}, %[[FIRST:.*]] : i32
// CHECK:         %[[SUM:.*]] = arith.addi %[[FIRST]], %[[END]] : i32
// CHECK-NEXT:    %[[LAST:.*]] = arith.subi %[[SUM]], %{{.*}} : i32
// CHECK-NEXT:    %[[FROM:.*]] = arith.subi %[[SUM]], %[[FULL_END:.*]] : i32
// CHECK-NEXT:    %[[FULL_FROM:.*]] = arith.select %[[DOWN]], %[[FROM]], %[[FULL_FIRST:.*]] : i32
// CHECK-NEXT:    %[[TO:.*]] = arith.subi %[[SUM]], %[[FULL_FIRST]] : i32
// CHECK-NEXT:    %[[FULL_TO:.*]] = arith.select %[[DOWN]], %[[TO]], %[[FULL_END]] : i32
// CHECK-NEXT:    scf.for %[[ROUND:.*]] = %[[FIRST]] to %[[END]] step
// CHECK-NEXT:      %[[MIRRORED:.*]] = arith.subi %[[LAST]], %[[ROUND]] : i32
// CHECK-NEXT:      %[[NUMBER:.*]] = arith.select %[[DOWN]], %[[MIRRORED]], %[[ROUND]] : i32
// CHECK:           arith.muli %[[NUMBER]],
// CHECK:           arith.cmpi slt, %[[ROUND]], %[[FULL_TO]] : i32
// CHECK:           arith.cmpi sge, %[[ROUND]], %[[FULL_FROM]] : i32
tile.kernel @plain(%x: !view, %y: !view) grid(%i = 4) {
  %c0 = arith.constant 0 : i32
  %n = tile.dim %x, 0 : !view
  %down = arith.cmpi sgt, %i, %c0 : i32
  tile.for_blocks %m in (%c0 to %n) against (%c0 to %n) descending if %down keep %keep : tensor<64x64xi1> {
    %t = tile.load %x[%m, 0] : !view -> tensor<64x64xbf16>
    %zero = arith.constant 0.0 : bf16
    %zeros = tile.full %zero : tensor<64x64xbf16>
    %kept = tile.select %keep, %t, %zeros : tensor<64x64xi1>, tensor<64x64xbf16>
    tile.store %kept, %y[%m, 0] : tensor<64x64xbf16>, !view
  }
}

// The entries of a list, from the last to the first.
// CHECK-LABEL: tgpu.kernel @listed
// CHECK:         %[[ENTRIES:.*]] = tile.dim %list, 0
// CHECK-NEXT:    %[[END:.*]] = arith.minsi %{{.*}}, %[[ENTRIES]] : i32
// CHECK-NEXT:    %[[SUM:.*]] = arith.addi %[[FIRST:.*]], %[[END]] : i32
// CHECK-NEXT:    %[[LAST:.*]] = arith.subi %[[SUM]], %{{.*}} : i32
// CHECK-NEXT:    scf.for %[[ROUND:.*]] = %[[FIRST]] to %[[END]] step
// CHECK-NEXT:      %[[MIRRORED:.*]] = arith.subi %[[LAST]], %[[ROUND]] : i32
// CHECK-NEXT:      %[[ENTRY:.*]] = arith.select %{{.*}}, %[[MIRRORED]], %[[ROUND]] : i32
// CHECK:           tile.at %list[%[[ENTRY]]] : !tile.view<[?], i32>
tile.kernel @listed(%x: !view, %y: !view, %list: !i32s) grid(%i = 4) {
  %c0 = arith.constant 0 : i32
  %n = tile.dim %x, 0 : !view
  %down = arith.cmpi sgt, %i, %c0 : i32
  tile.for_blocks %m in (%c0 to %n listed %list[] count %n : !i32s) against (%c0 to %n) descending if %down
      keep %keep : tensor<64x64xi1> {
    %t = tile.load %x[%m, 0] : !view -> tensor<64x64xbf16>
    tile.store %t, %y[%m, 0] : tensor<64x64xbf16>, !view
  }
}

// One order has no mark.
// CHECK-LABEL: tgpu.kernel @ascending
// CHECK-NOT:     tgpu.either_order
tile.kernel @ascending(%x: !view, %y: !view) grid(%i = 4) {
  %c0 = arith.constant 0 : i32
  %n = tile.dim %x, 0 : !view
  tile.for_blocks %m in (%c0 to %n) against (%c0 to %n) keep %keep : tensor<64x64xi1> {
    %t = tile.load %x[%m, 0] : !view -> tensor<64x64xbf16>
    tile.store %t, %y[%m, 0] : tensor<64x64xbf16>, !view
  }
}
