// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows that an iteration gathers, in both sides of a branch, come from two warps, in a ring that shares the barriers of the
// copies.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/rows.mlir --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %t/rows.mlir --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
//
// With the registers of a role that only copies, the rows stay. So do those at indices that depend on the product, and
// those of a view that the kernel writes, whose indices are gathered all the same.
// RUN: sed 's/load_registers = 40/load_registers = 24/' %t/rows.mlir | tilewright-opt --tgpu-assign-roles | FileCheck %s --check-prefix=STAY
// RUN: sed 's/addi %begins, %offsets/addi %begins, %of_product/' %t/rows.mlir | tilewright-opt --tgpu-assign-roles | FileCheck %s --check-prefix=STAY
// RUN: sed 's/tgpu.store %row, %out/tgpu.store %row, %by/' %t/rows.mlir | tilewright-opt --tgpu-assign-roles | FileCheck %s --check-prefix=WRITTEN
// STAY-NOT: role "gather"
// STAY:     role "compute"
// STAY:       tile.gather %list
// STAY:       tile.gather %by
// STAY:       tile.gather %list
// STAY:       tile.gather %by
// WRITTEN:     role "gather"
// WRITTEN:       tile.gather %list
// WRITTEN-NOT:   tile.gather
// WRITTEN:     role "compute"
// WRITTEN:       tile.gather %by
// WRITTEN:       tile.gather %by

//--- rows.mlir

!view = !tile.view<[?, ?, 64], bf16>
!list = !tile.view<[?], i32>
!by = !tile.view<[?], f32>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!at = tensor<128xi32, #tgpu.blocked<1, lanes 32, warps 1, 8>>
!at_row = tensor<128xi32, #tgpu.slice<1, #tgpu.wgmma<2>>>
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>

// The numbers of the rows are gathered, too, by this role alone. All reads precede the wait for the slot.
// CHECK-LABEL: tgpu.kernel @rows
// CHECK-DAG:     %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128xf32, none>>
// CHECK:         role "load" warps 1
// CHECK-NOT:       tile.gather
// CHECK:         role "gather" warps 2 registers 40
// CHECK:           scf.for
// CHECK-NEXT:        %[[BEGIN:.*]] = arith.muli
// CHECK:             %[[OFFSET:.*]] = tile.iota %{{.*}} dim 0 : tensor<128xi32, #[[L:.*]]>
// CHECK:             %[[NUMBER:.*]] = arith.addi %{{.*}}, %[[OFFSET]]
// CHECK:             %[[AT:.*]] = tile.gather %list[0] along 0 at %[[NUMBER]] : {{.*}} -> tensor<128xi32, #[[L]]>
// CHECK-NEXT:        %[[ROW:.*]] = tile.gather %by[0] along 0 at %[[AT]]
// CHECK-NEXT:        tgpu.acquire %[[EMPTY:[0-9]+]][%[[USE:[a-z0-9]+]]]
// CHECK-NEXT:        %[[SLOT:.*]] = tgpu.slot %[[RING]][%[[USE]]]
// CHECK-NEXT:        tgpu.write %[[ROW]], %[[SLOT]]
// CHECK-NEXT:        tgpu.arrive %[[FULL:[0-9]+]][%[[USE]]] per warp
// CHECK-NOT:         tgpu.write
// CHECK:         role "idle" warps 1
// CHECK:         role "compute" warps 8
// CHECK:             tgpu.wait %[[FULL]][
// CHECK:             scf.if
// CHECK-NOT:           tile.gather
// CHECK:               tgpu.slot %[[RING]]
// CHECK-NEXT:          tgpu.read
// CHECK:             } else {
// CHECK-NOT:           tile.gather
// CHECK:               tgpu.slot %[[RING]]
// CHECK-NEXT:          tgpu.read
// CHECK:             tgpu.arrive %[[EMPTY]][
tgpu.kernel @rows target "sm_90a" warps 8 (%x: !view, %list: !list, %by: !by, %out: !by) grid(%n = dim(x, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %x_buffer = tgpu.alloc : !x
  %scratch = tgpu.alloc : !tgpu.shared<128xi32, none>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %rows = tile.dim %x, 1 : !view
  %rounds = arith.ceildivsi %rows, %c128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !row
  %sum = scf.for %i = %c0 to %rounds step %c1 iter_args(%old = %none) -> (!row)  : i32 {
    %begin = arith.muli %i, %c128 : i32
    tgpu.copy_async %x[%n, %begin, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %pending : !s
    %largest_of_all = tile.reduce max %s dim 1 : !s -> !row
    %as_bits = arith.bitcast %largest_of_all : !row to !at_row
    %of_product = tgpu.convert %as_bits through %scratch : !tgpu.shared<128xi32, none> in : !at_row -> !at
    %is_first = arith.cmpi eq, %i, %c0 : i32
    %new = scf.if %is_first -> (!row) {
      %begins = tile.full %begin : !at
      %offsets = tile.iota %c0 dim 0 : !at
      %numbers = arith.addi %begins, %offsets : !at
      %at = tile.gather %list[0] along 0 at %numbers : !list, !at -> !at
      %at_row = tgpu.convert %at through %scratch : !tgpu.shared<128xi32, none> in : !at -> !at_row
      %row = tile.gather %by[0] along 0 at %at_row : !by, !at_row -> !row
      scf.yield %row : !row
    } else {
      %begins = tile.full %begin : !at
      %offsets = tile.iota %c0 dim 0 : !at
      %numbers = arith.addi %begins, %offsets : !at
      %at = tile.gather %list[0] along 0 at %numbers : !list, !at -> !at
      %at_row = tgpu.convert %at through %scratch : !tgpu.shared<128xi32, none> in : !at -> !at_row
      %row = tile.gather %by[0] along 0 at %at_row : !by, !at_row -> !row
      %scaled = arith.mulf %row, %largest_of_all : !row
      scf.yield %scaled : !row
    }
    %more = arith.addf %old, %new : !row
    scf.yield %more : !row
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  %row = arith.addf %sum, %none : !row
  tgpu.store %row, %out[0] : !row, !by
}
