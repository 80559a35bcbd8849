// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tgpu-schedule-dots | FileCheck %s
// RUN: tilewright-opt %t/errors.mlir --tgpu-schedule-dots -verify-diagnostics

//--- kernels.mlir

!x = !tgpu.shared<128x64xbf16, b128>
!y = !tgpu.shared<64x128xbf16, b128>
!acc = tensor<128x128xf32, #tgpu.wgmma<2>>
!bars = !tgpu.barriers<4>

// The first product has no accumulator; in every other round the slot of the round before is
// released; after the loop that of the last. No round at all: zeros.
// CHECK-LABEL: tgpu.kernel @chain
// CHECK:         %[[HAS:.*]] = arith.cmpi slt, %[[LOWER:.*]], %[[UPPER:.*]] : i32
// CHECK:         %[[R:.*]]:2 = scf.if %[[HAS]] -> (tensor<128x128xf32, #tgpu.wgmma<2>>, i32)
// CHECK:           tgpu.wait %[[FULL:.*]][%[[USE0:.*]]]
// CHECK:           %[[FIRST:.*]] = tgpu.wgmma %{{[^,]*}}, %{{[^,]*}} :
// CHECK-NEXT:      tgpu.wgmma_commit
// CHECK-NOT:       tgpu.wgmma_wait
// CHECK-NOT:       tgpu.arrive
// CHECK:           %[[USE1:.*]] = arith.addi %[[USE0]],
// CHECK:           %[[SECOND:.*]] = arith.addi %[[LOWER]],
// CHECK:           %[[L:.*]]:3 = scf.for %{{.*}} = %[[SECOND]] to %[[UPPER]] step %{{.*}} iter_args(%[[PENDING:.*]] = %[[FIRST]], %[[USE:.*]] = %[[USE1]], %[[BEFORE:.*]] = %[[USE0]])
// CHECK-SAME:          -> (!tgpu.pending<tensor<128x128xf32, #tgpu.wgmma<2>>>, i32, i32)
// CHECK:             tgpu.wait %[[FULL]][%[[USE]]]
// CHECK:             %[[SUM:.*]] = tgpu.wgmma %{{.*}}, %{{.*}}, %[[PENDING]] :
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wgmma_wait pending 1
// CHECK-NEXT:        tgpu.arrive %[[EMPTY:.*]][%[[BEFORE]]]
// CHECK:             scf.yield %[[SUM]], %{{.*}}, %[[USE]]
// CHECK:           %[[DONE:.*]] = tgpu.wgmma_wait pending 0, %[[L]]#0
// CHECK-NEXT:      tgpu.arrive %[[EMPTY]][%[[L]]#2]
// CHECK-NEXT:      scf.yield %[[DONE]], %[[L]]#1
// CHECK:         else
// CHECK:           %[[ZEROS:.*]] = tile.full
// CHECK-NEXT:      scf.yield %[[ZEROS]], %[[USE0]]
// CHECK:         tgpu.store %[[R]]#0,
tgpu.kernel @chain target "sm_90a" warps 8 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x_ring = tgpu.alloc_ring : !tgpu.ring<4, !x>
  %y_ring = tgpu.alloc_ring : !tgpu.ring<4, !y>
  %full = tgpu.alloc_barriers arrivals 1 : !bars
  %empty = tgpu.alloc_barriers arrivals 8 : !bars
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %sum:2 = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros, %use = %b) -> (!acc, i32) : i32 {
    tgpu.wait %full[%use] : !bars
    %x = tgpu.slot %x_ring[%use] : !tgpu.ring<4, !x>
    %y = tgpu.slot %y_ring[%use] : !tgpu.ring<4, !y>
    %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    tgpu.arrive %empty[%use] per warp : !bars
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : !acc, i32
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
  tgpu.store %sum#0, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
}

// What reads the sum in the same round needs it finished.
// CHECK-LABEL: tgpu.kernel @read_at_once
// CHECK:         scf.for
// CHECK:           tgpu.wgmma_wait pending 0, %
// CHECK-NEXT:      arith.addf
tgpu.kernel @read_at_once target "sm_90a" warps 8 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!acc) : i32 {
    %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    %twice = arith.addf %new, %new : !acc
    scf.yield %twice : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
  tgpu.store %sum, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
}

// CHECK-LABEL: tgpu.kernel @none_in_flight
// CHECK-NOT:     scf.if
// CHECK:         tgpu.wgmma_wait pending 0, %
tgpu.kernel @none_in_flight target "sm_90a" warps 8 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!acc) : i32 {
    %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4>}
  tgpu.store %sum, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
}

//--- errors.mlir

tgpu.kernel @two target "sm_90a" warps 8 (%n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{at most one product of a loop stays in flight so far, but got 2}}
  scf.for %i = %c0 to %n step %c1 : i32 {
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 2>}
}
