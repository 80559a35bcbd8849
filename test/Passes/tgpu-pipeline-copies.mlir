// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rings, copies before the loop, and the start of an iteration. Loops that cannot be pipelined are in
// tgpu-pipeline-copies-errors.mlir.
// RUN: tilewright-opt %s --tgpu-pipeline-copies | FileCheck %s

!view = !tile.view<[?, 64], f16>
!tile = !tgpu.shared<64x64xf16, b128>
!acc = tensor<64x64xf32, #tgpu.mma<4, 1>>
!half = tensor<64x64xf16, #tgpu.mma<4, 1>>
!opa = tensor<64x64xf16, #tgpu.operand<a, #tgpu.mma<4, 1>>>
!opb = tensor<64x64xf16, #tgpu.operand<b, #tgpu.mma<4, 1>>>

// Two stages. The copy of iteration 0 is issued before the wait for q: one group is then pending. An iteration has one
// wait, for all copies, and one barrier, followed by the copy for the next iteration, if there is one.
// CHECK-LABEL: tgpu.kernel @two
// CHECK:         %[[Q:.*]] = tgpu.alloc : !tgpu.shared<64x64xf16, b128>
// CHECK-NOT:     tgpu.alloc :
// CHECK:         %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xf16, b128>>
// CHECK-NEXT:    tgpu.copy_async %q[0, 0], %[[Q]] :
// CHECK-NEXT:    tgpu.copy_commit
// CHECK:         %[[HAS:.*]] = arith.cmpi slt, %[[ZERO:.*]], %n : i32
// CHECK-NEXT:    scf.if %[[HAS]] {
// CHECK-NEXT:      %[[ROW0:.*]] = arith.muli %[[ZERO]], %[[C64:.*]] : i32
// CHECK-NEXT:      %[[SLOT0:.*]] = tgpu.slot %[[RING]][%{{.*}}]
// CHECK-NEXT:      tgpu.copy_async %k[%[[ROW0]], 0], %[[SLOT0]] :
// CHECK-NEXT:    }
// CHECK-NEXT:    tgpu.copy_commit
// CHECK-NEXT:    tgpu.copy_wait pending 1
// CHECK-NEXT:    tgpu.sync
// CHECK-NEXT:    %[[A:.*]] = tgpu.read %[[Q]] :
// CHECK-NEXT:    %[[SUM:.*]]:2 = scf.for %[[I:.*]] = %[[ZERO]] to %n step %[[ONE:.*]] iter_args(%[[OLD:.*]] = %{{.*}}, %[[USE:.*]] = %{{.*}}) ->
// CHECK-NEXT:      %[[SLOT:.*]] = tgpu.slot %[[RING]][%[[USE]]]
// CHECK-NEXT:      tgpu.copy_wait pending 0
// CHECK-NEXT:      tgpu.sync
// CHECK:           %[[AHEAD:.*]] = arith.addi %[[USE]], %{{.*}} : i32
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addi %[[I]], %[[ONE]] : i32
// CHECK-NEXT:      %[[MORE:.*]] = arith.cmpi slt, %[[NEXT]], %n : i32
// CHECK-NEXT:      scf.if %[[MORE]] {
// CHECK-NEXT:        %[[ROW:.*]] = arith.muli %[[NEXT]], %[[C64]] : i32
// CHECK-NEXT:        %[[FILL:.*]] = tgpu.slot %[[RING]][%[[AHEAD]]]
// CHECK-NEXT:        tgpu.copy_async %k[%[[ROW]], 0], %[[FILL]] :
// CHECK-NEXT:      }
// CHECK-NEXT:      tgpu.copy_commit
// CHECK-NOT:       tgpu.sync
// CHECK-NOT:       tgpu.copy
// CHECK:           %[[B:.*]] = tgpu.read %[[SLOT]] :
// CHECK-NEXT:      %[[NEW:.*]] = tgpu.mma %[[A]], %[[B]], %[[OLD]] :
// CHECK:           %[[USED:.*]] = arith.addi %[[USE]], %{{.*}} : i32
// CHECK-NEXT:      scf.yield %[[NEW]], %[[USED]] :
// CHECK-NEXT:    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
// CHECK-NEXT:    tgpu.store %[[SUM]]#0,
tgpu.kernel @two target "sm_80" warps 4 (%q: !view, %k: !view, %o: !tile.view<[?, 64], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %q_buffer = tgpu.alloc : !tile
  %k_buffer = tgpu.alloc : !tile
  tgpu.copy_async %q[0, 0], %q_buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %qa = tgpu.read %q_buffer : !tile -> !opa
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    %row = arith.muli %i, %c64 : i32
    tgpu.copy_async %k[%row, 0], %k_buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %kb = tgpu.read %k_buffer : !tile -> !opb
    %new = tgpu.mma %qa, %kb, %old : !opa, !opb -> !acc
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
  tgpu.store %sum, %o[0, 0] : !acc, !tile.view<[?, 64], f32>
}

// Three stages, two buffers: one ring for each, one group for both. Copies of two iterations are issued before the
// loop; in it, one group may be pending, and the copies are two steps ahead.
// CHECK-LABEL: tgpu.kernel @three
// CHECK:         %[[XS:.*]] = tgpu.alloc_ring : !tgpu.ring<3, <64x64xf16, b128>>
// CHECK-NEXT:    %[[YS:.*]] = tgpu.alloc_ring : !tgpu.ring<3, <64x64xf16, b128>>
// CHECK:         scf.if
// CHECK-COUNT-2:   tgpu.slot
// CHECK-NEXT:      tgpu.copy_async %x[0, %from],
// CHECK-NEXT:      tgpu.copy_async %y[%from, 0],
// CHECK-NEXT:    }
// CHECK-NEXT:    tgpu.copy_commit
// CHECK:         %[[SECOND:.*]] = arith.addi %from, %s : i32
// CHECK-NEXT:    %[[HAS:.*]] = arith.cmpi slt, %[[SECOND]], %n : i32
// CHECK-NEXT:    scf.if %[[HAS]]
// CHECK-COUNT-2:   tgpu.slot
// CHECK-NEXT:      tgpu.copy_async %x[0, %[[SECOND]]],
// CHECK-NEXT:      tgpu.copy_async %y[%[[SECOND]], 0],
// CHECK-NEXT:    }
// CHECK-NEXT:    tgpu.copy_commit
// CHECK-NEXT:    scf.for %[[I:.*]] = %from to %n step %s iter_args(%{{.*}} = %{{.*}}, %[[USE:.*]] = %{{.*}}) ->
// CHECK-NEXT:      tgpu.slot %[[XS]][%[[USE]]]
// CHECK-NEXT:      tgpu.slot %[[YS]][%[[USE]]]
// CHECK-NEXT:      tgpu.copy_wait pending 1
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      %[[TWO:.*]] = arith.constant 2 : i32
// CHECK-NEXT:      %[[AHEAD:.*]] = arith.addi %[[USE]], %[[TWO]] : i32
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addi %[[I]], %s : i32
// CHECK-NEXT:      %[[THIRD:.*]] = arith.addi %[[NEXT]], %s : i32
// CHECK-NEXT:      %[[MORE:.*]] = arith.cmpi slt, %[[THIRD]], %n : i32
// CHECK-NEXT:      scf.if %[[MORE]]
// CHECK-NEXT:        tgpu.slot %[[XS]][%[[AHEAD]]]
// CHECK-NEXT:        tgpu.slot %[[YS]][%[[AHEAD]]]
// CHECK-NEXT:        tgpu.copy_async %x[0, %[[THIRD]]],
// CHECK-NEXT:        tgpu.copy_async %y[%[[THIRD]], 0],
// CHECK-NEXT:      }
// CHECK-NEXT:      tgpu.copy_commit
// CHECK-NEXT:      tgpu.read
// CHECK-NOT:       tgpu.copy
tgpu.kernel @three target "sm_80" warps 4 (%x: !view, %y: !view, %from: i32, %n: i32, %s: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %x_buffer = tgpu.alloc : !tile
  %y_buffer = tgpu.alloc : !tile
  %sum = scf.for %i = %from to %n step %s iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %x[0, %i], %x_buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_async %y[%i, 0], %y_buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %xa = tgpu.read %x_buffer : !tile -> !opa
    %yb = tgpu.read %y_buffer : !tile -> !opb
    %new = tgpu.mma %xa, %yb, %old : !opa, !opb -> !acc
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 3>}
}

// A buffer that was read before the loop is used before it: first the wait for q, then the copies.
// CHECK-LABEL: tgpu.kernel @used_before
// CHECK:         tgpu.copy_commit
// CHECK-NEXT:    tgpu.copy_wait pending 0
// CHECK-NEXT:    tgpu.sync
// CHECK-NEXT:    tgpu.read
// CHECK-NEXT:    tile.cast
// CHECK:         scf.if
// CHECK:         tgpu.copy_commit
// CHECK-NEXT:    scf.for
tgpu.kernel @used_before target "sm_80" warps 4 (%q: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q_buffer = tgpu.alloc : !tile
  %buffer = tgpu.alloc : !tile
  tgpu.copy_async %q[0, 0], %q_buffer : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %first = tgpu.read %q_buffer : !tile -> !half
  %wide = tile.cast %first : !half -> !acc
  scf.for %i = %c0 to %n step %c1 : i32 {
    tgpu.copy_async %q[%i, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %0 = tgpu.read %buffer : !tile -> !half
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// A barrier that orders the loop's own writes remains.
// CHECK-LABEL: tgpu.kernel @writes
// CHECK:         scf.for
// CHECK:           tgpu.copy_wait pending 0
// CHECK-NEXT:      tgpu.sync
// CHECK:           tgpu.copy_commit
// CHECK-NEXT:      tgpu.read
// CHECK-NEXT:      tgpu.write
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.read
tgpu.kernel @writes target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  %other = tgpu.alloc : !tile
  scf.for %i = %c0 to %n step %c1 : i32 {
    tgpu.sync
    tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %0 = tgpu.read %buffer : !tile -> !half
    tgpu.write %0, %other : !half, !tile
    tgpu.sync
    %1 = tgpu.read %other : !tile -> !half
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// In a loop, a barrier orders the first copies after the previous reads of the ring.
// CHECK-LABEL: tgpu.kernel @nested
// CHECK:         %[[RING:.*]] = tgpu.alloc_ring
// CHECK-NEXT:    scf.for
// CHECK-NOT:       tgpu.copy
// CHECK:           tgpu.sync
// CHECK:           scf.if
// CHECK-NEXT:        tgpu.slot
// CHECK-NEXT:        tgpu.copy_async
// CHECK-NEXT:      }
// CHECK-NEXT:      tgpu.copy_commit
// CHECK-NEXT:      scf.for
// CHECK-NEXT:        tgpu.slot
// CHECK-NEXT:        tgpu.copy_wait pending 0
// CHECK-NEXT:        tgpu.sync
tgpu.kernel @nested target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for %j = %c0 to %n step %c1 : i32 {
    scf.for %i = %c0 to %n step %c1 : i32 {
      tgpu.sync
      tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
      tgpu.copy_commit
      tgpu.copy_wait pending 0
      tgpu.sync
      %0 = tgpu.read %buffer : !tile -> !half
    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
  }
}

// The index of a copy may be read from memory that the loop does not write; this read is also done ahead, and only if
// there is such an iteration. An unsigned loop uses an unsigned comparison.
// CHECK-LABEL: tgpu.kernel @table
// CHECK:         arith.cmpi ult, %{{.*}}, %n : i32
// CHECK-NEXT:    scf.if
// CHECK-NEXT:      tile.at %t[
// CHECK:         scf.for unsigned %[[I:.*]] = %{{.*}} to %n step %[[ONE:.*]] iter_args
// CHECK:           %[[NEXT:.*]] = arith.addi %[[I]], %[[ONE]] : i32
// CHECK-NEXT:      %[[MORE:.*]] = arith.cmpi ult, %[[NEXT]], %n : i32
// CHECK-NEXT:      scf.if %[[MORE]]
// CHECK-NEXT:        %[[PAGE:.*]] = tile.at %t[%[[NEXT]]]
// CHECK-NEXT:        %[[FILL:.*]] = tgpu.slot
// CHECK-NEXT:        tgpu.copy_async %x[%[[PAGE]], 0], %[[FILL]] :
tgpu.kernel @table target "sm_80" warps 4 (%x: !view, %t: !tile.view<[?], i32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for unsigned %i = %c0 to %n step %c1 : i32 {
    tgpu.sync
    %page = tile.at %t[%i] : !tile.view<[?], i32>
    tgpu.copy_async %x[%page, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %0 = tgpu.read %buffer : !tile -> !half
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
}

// CHECK-LABEL: tgpu.kernel @synchronous
// CHECK-NOT:     tgpu.alloc_ring
// CHECK:         scf.for
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.copy_async
// CHECK-NEXT:      tgpu.copy_commit
// CHECK-NEXT:      tgpu.copy_wait pending 0
// CHECK-NEXT:      tgpu.sync
// CHECK-NEXT:      tgpu.read
tgpu.kernel @synchronous target "sm_80" warps 4 (%x: !view, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %buffer = tgpu.alloc : !tile
  scf.for %i = %c0 to %n step %c1 : i32 {
    tgpu.sync
    tgpu.copy_async %x[%i, 0], %buffer : !view, !tile
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %0 = tgpu.read %buffer : !tile -> !half
  } {tgpu.schedule = #tgpu.schedule<skeleton = synchronous>}
}
