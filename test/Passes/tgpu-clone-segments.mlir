// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-clone-segments | FileCheck %s

!view = !tile.view<[?, 64], f16>
!tile = !tgpu.shared<64x64xf16, b128>

// The branch is not taken, taken, not taken. The bounds are clamped to the loop's, in order, so that every iteration is
// in one of the three loops. Carried values pass from one loop to the next; the schedule remains.
// CHECK-LABEL: tgpu.kernel @three
// CHECK:         %[[EARLY:.*]] = arith.cmpi sle, %begin, %lower : i32
// CHECK-NEXT:    %[[MIN0:.*]] = arith.minsi %begin, %upper : i32
// CHECK-NEXT:    %[[BEGIN:.*]] = arith.select %[[EARLY]], %lower, %[[MIN0]] : i32
// CHECK-NEXT:    %[[EMPTY:.*]] = arith.cmpi sle, %end, %[[BEGIN]] : i32
// CHECK-NEXT:    %[[MIN1:.*]] = arith.minsi %end, %upper : i32
// CHECK-NEXT:    %[[END:.*]] = arith.select %[[EMPTY]], %[[BEGIN]], %[[MIN1]] : i32
// CHECK-NEXT:    %[[R0:.*]]:2 = scf.for %{{.*}} = %lower to %[[BEGIN]] step %{{.*}} iter_args(%[[ACC0:.*]] = %{{.*}}, %[[USE0:.*]] = %lower)
// CHECK-NOT:       scf.if
// CHECK:           %[[N0:.*]] = arith.mulf %[[ACC0]],
// CHECK-NEXT:      %[[U0:.*]] = arith.addi %[[USE0]],
// CHECK-NEXT:      scf.yield %[[N0]], %[[U0]] :
// CHECK-NEXT:    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
// CHECK-NEXT:    %[[R1:.*]]:2 = scf.for %{{.*}} = %[[BEGIN]] to %[[END]] step %{{.*}} iter_args(%[[ACC1:.*]] = %[[R0]]#0, %[[USE1:.*]] = %[[R0]]#1)
// CHECK-NOT:       scf.if
// CHECK:           %[[N1:.*]] = arith.addf %[[ACC1]],
// CHECK-NEXT:      %[[U1:.*]] = arith.addi %[[USE1]],
// CHECK-NEXT:      scf.yield %[[N1]], %[[U1]] :
// CHECK-NEXT:    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
// CHECK-NEXT:    %[[R2:.*]]:2 = scf.for %{{.*}} = %[[END]] to %upper step %{{.*}} iter_args(%[[ACC2:.*]] = %[[R1]]#0, %[[USE2:.*]] = %[[R1]]#1)
// CHECK-NOT:       scf.if
// CHECK:           %[[N2:.*]] = arith.mulf %[[ACC2]],
// CHECK-NEXT:      %[[U2:.*]] = arith.addi %[[USE2]],
// CHECK-NEXT:      scf.yield %[[N2]], %[[U2]] :
// CHECK-NEXT:    } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
// CHECK-NEXT:    %[[ROW:.*]] = tile.full %[[R2]]#0
// CHECK-NEXT:    tgpu.store %[[ROW]], %y[%[[R2]]#1]
tgpu.kernel @three target "sm_80" warps 4 (%y: !tile.view<[?], f32>, %lower: i32, %upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %r:2 = scf.for %i = %lower to %upper step %c1 iter_args(%acc = %zero, %use = %lower) -> (f32, i32) : i32 {
    %after = arith.cmpi sge, %i, %begin : i32
    %before = arith.cmpi slt, %i, %end : i32
    %full = arith.andi %after, %before : i1
    %x = tile.at %y[%i] : !tile.view<[?], f32>
    %new = scf.if %full -> (f32) {
      %0 = arith.addf %acc, %x : f32
      scf.yield %0 : f32
    } else {
      %0 = arith.mulf %acc, %x : f32
      scf.yield %0 : f32
    }
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : f32, i32
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
  %row = tile.full %r#0 : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[%r#1] : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], f32>
}

// Facts about the iterations outside of the range are attached to the loops that execute these iterations.
// CHECK-LABEL: tgpu.kernel @one_outside
// CHECK:         scf.for
// CHECK:         } {tgpu.general, tgpu.one_before}
// CHECK:         scf.for
// CHECK:           tgpu.sync
// CHECK-NEXT:    }
// CHECK:         scf.for
// CHECK:         } {tgpu.general, tgpu.one_after}
tgpu.kernel @one_outside target "sm_80" warps 4 (%lower: i32, %upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  scf.for %i = %lower to %upper step %c1 : i32 {
    %before = arith.cmpi slt, %i, %end : i32
    %after = arith.cmpi sge, %i, %begin : i32
    %full = arith.andi %before, %after : i1
    scf.if %full {
      tgpu.sync
    } {tgpu.special_case, tgpu.one_before, tgpu.one_after}
  }
}

// The comparisons in the other order, and an empty branch outside the range.
// CHECK-LABEL: tgpu.kernel @no_else
// CHECK:         scf.for
// CHECK-NOT:       tgpu.sync
// CHECK:         scf.for
// CHECK-NOT:       scf.
// CHECK:           tgpu.sync
// CHECK:         scf.for
// CHECK-NOT:       tgpu.sync
tgpu.kernel @no_else target "sm_80" warps 4 (%lower: i32, %upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  scf.for %i = %lower to %upper step %c1 : i32 {
    %before = arith.cmpi slt, %i, %end : i32
    %after = arith.cmpi sge, %i, %begin : i32
    %full = arith.andi %before, %after : i1
    scf.if %full {
      tgpu.sync
    }
  }
}

// An iteration that copies for the next compares with the end of the whole loop, since the next iteration may be in the
// next segment. Of two branches, the one on a range is resolved.
// CHECK-LABEL: tgpu.kernel @ring
// CHECK-COUNT-2: arith.select
// CHECK:         scf.for %[[I0:.*]] = %{{.*}} to %[[BEGIN:.*]] step
// CHECK:           %[[NEXT0:.*]] = arith.addi %[[I0]],
// CHECK-NEXT:      %[[MORE0:.*]] = arith.cmpi slt, %[[NEXT0]], %upper : i32
// CHECK-NEXT:      scf.if %[[MORE0]]
// CHECK:           tgpu.sync
// CHECK:         scf.for %[[I1:.*]] = %[[BEGIN]] to %[[END:.*]] step
// CHECK:           %[[NEXT1:.*]] = arith.addi %[[I1]],
// CHECK-NEXT:      %[[MORE1:.*]] = arith.cmpi slt, %[[NEXT1]], %upper : i32
// CHECK-NEXT:      scf.if %[[MORE1]]
// CHECK-NOT:       tgpu.sync
// CHECK:         scf.for %[[I2:.*]] = %[[END]] to %upper step
// CHECK:           %[[NEXT2:.*]] = arith.addi %[[I2]],
// CHECK-NEXT:      %[[MORE2:.*]] = arith.cmpi slt, %[[NEXT2]], %upper : i32
// CHECK-NEXT:      scf.if %[[MORE2]]
// CHECK:           tgpu.sync
tgpu.kernel @ring target "sm_80" warps 4 (%x: !view, %upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !tile>
  scf.for %i = %c0 to %upper step %c1 : i32 {
    %next = arith.addi %i, %c1 : i32
    %more = arith.cmpi slt, %next, %upper : i32
    scf.if %more {
      %slot = tgpu.slot %ring[%next] : !tgpu.ring<2, !tile>
      tgpu.copy_async %x[%next, 0], %slot : !view, !tile
    }
    %after = arith.cmpi sge, %i, %begin : i32
    %before = arith.cmpi slt, %i, %end : i32
    %full = arith.andi %after, %before : i1
    scf.if %full {
    } else {
      tgpu.sync
    }
  }
}

// Three loops, each with three inner loops; a bound of the inner loops may be the counter of the outer one.
// CHECK-LABEL: tgpu.kernel @nested
// CHECK:         scf.for %[[J0:.*]] = %{{.*}} to
// CHECK:           arith.minsi %[[J0]], %upper
// CHECK-COUNT-3:   scf.for
// CHECK:         scf.for %[[J1:.*]] = %{{.*}} to
// CHECK:           arith.minsi %[[J1]], %upper
// CHECK-COUNT-3:   scf.for
// CHECK:         scf.for %[[J2:.*]] = %{{.*}} to %upper
// CHECK:           arith.minsi %[[J2]], %upper
// CHECK-COUNT-3:   scf.for
// CHECK-NOT:     scf.for
// CHECK-NOT:     scf.if
tgpu.kernel @nested target "sm_80" warps 4 (%upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %j = %c0 to %upper step %c1 : i32 {
    scf.for %i = %c0 to %upper step %c1 : i32 {
      %after = arith.cmpi sge, %i, %j : i32
      %before = arith.cmpi slt, %i, %end : i32
      %full = arith.andi %after, %before : i1
      scf.if %full {
        tgpu.sync
      }
    }
    %outer_after = arith.cmpi sge, %j, %begin : i32
    %outer_before = arith.cmpi slt, %j, %end : i32
    %outer_full = arith.andi %outer_after, %outer_before : i1
    scf.if %outer_full {
      tgpu.sync
    }
  }
}

// Not split: steps of two, whose boundaries need not be iterations; a loop that is rarely executed; an unsigned loop
// with signed comparisons; conditions that are not a range known before the loop.
// CHECK-LABEL: tgpu.kernel @step
// CHECK-COUNT-1: scf.for
// CHECK-NOT:     scf.for
// CHECK:           scf.if
// CHECK-LABEL: tgpu.kernel @rare
// CHECK-COUNT-1: scf.for
// CHECK-NOT:     scf.for
// CHECK:           scf.if
// CHECK-LABEL: tgpu.kernel @unsigned
// CHECK-COUNT-1: scf.for
// CHECK-NOT:     scf.for
// CHECK:           scf.if
// CHECK-LABEL: tgpu.kernel @other_conditions
// CHECK-COUNT-1: scf.for
// CHECK-NOT:     scf.for
// CHECK-COUNT-3:   scf.if
tgpu.kernel @step target "sm_80" warps 4 (%upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  scf.for %i = %c0 to %upper step %c2 : i32 {
    %after = arith.cmpi sge, %i, %begin : i32
    %before = arith.cmpi slt, %i, %end : i32
    %full = arith.andi %after, %before : i1
    scf.if %full {
      tgpu.sync
    }
  }
}

tgpu.kernel @rare target "sm_90a" warps 4 (%upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %upper step %c1 : i32 {
    %after = arith.cmpi sge, %i, %begin : i32
    %before = arith.cmpi slt, %i, %end : i32
    %full = arith.andi %after, %before : i1
    scf.if %full {
      tgpu.sync
    }
  } {tgpu.rare}
}

tgpu.kernel @unsigned target "sm_80" warps 4 (%upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for unsigned %i = %c0 to %upper step %c1 : i32 {
    %after = arith.cmpi sge, %i, %begin : i32
    %before = arith.cmpi slt, %i, %end : i32
    %full = arith.andi %after, %before : i1
    scf.if %full {
      tgpu.sync
    }
  }
}

tgpu.kernel @other_conditions target "sm_80" warps 4 (%upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %upper step %c1 : i32 {
    %twice = arith.addi %i, %begin : i32
    %after = arith.cmpi sge, %i, %twice : i32
    %before = arith.cmpi slt, %i, %end : i32
    %inside = arith.andi %after, %before : i1
    scf.if %inside {
      tgpu.sync
    }
    %above = arith.cmpi sgt, %i, %begin : i32
    %mixed = arith.andi %above, %before : i1
    scf.if %mixed {
      tgpu.sync
    }
    scf.if %before {
      tgpu.sync
    }
  }
}
