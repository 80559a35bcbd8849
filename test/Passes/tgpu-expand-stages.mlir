// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-expand-stages --split-input-file --verify-diagnostics | FileCheck %s

// Two parts of one loop. Stage 0 counts and stage 1 sums the counts: the sum lags by one iteration, also between the
// parts, and the body of the general part executes the first iteration, regardless of its part.
// CHECK-LABEL: tgpu.kernel @parts
// CHECK: %[[SOME:.*]] = arith.cmpi slt, %[[LOWER:.*]], %[[UPPER:.*]] : i32
// CHECK: %[[R:.*]]:2 = scf.if %[[SOME]]
// CHECK-NEXT: %[[N0:.*]] = arith.addi %{{.*}}, %[[C2:.*]] : i32
// CHECK-NEXT: %[[SECOND:.*]] = arith.addi %[[LOWER]], %{{.*}} : i32
// CHECK-NEXT: %[[SEAM:.*]] = arith.maxsi %{{.*}}, %[[SECOND]] : i32
// CHECK-NEXT: %[[A:.*]]:3 = scf.for %{{.*}} = %[[SECOND]] to %[[SEAM]] step %{{.*}} iter_args(%[[N:.*]] = %[[N0]], %[[SUM:.*]] = %{{.*}}, %[[CROSS:.*]] = %[[N0]])
// CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[N]], %{{.*}} : i32
// CHECK-NEXT: %[[ADDED:.*]] = arith.addi %[[SUM]], %[[CROSS]] : i32
// CHECK-NEXT: scf.yield %[[NEXT]], %[[ADDED]], %[[NEXT]]
// CHECK: %[[END:.*]] = arith.maxsi %[[UPPER]], %[[SEAM]] : i32
// CHECK-NEXT: %[[B:.*]]:3 = scf.for %{{.*}} = %[[SEAM]] to %[[END]] step %{{.*}} iter_args(%{{.*}} = %[[A]]#0, %{{.*}} = %[[A]]#1, %{{.*}} = %[[A]]#2)
// CHECK: %[[LAST:.*]] = arith.addi %[[B]]#1, %[[B]]#2 : i32
// CHECK-NEXT: scf.yield %[[B]]#0, %[[LAST]] : i32, i32
// CHECK-NEXT: } else {
// CHECK-NEXT: scf.yield %{{.*}}, %{{.*}} : i32, i32
tgpu.kernel @parts target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first:2 = scf.for %i = %x to %y step %step iter_args(%n = %c1, %sum = %c1) -> (i32, i32) : i32 {
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %added = arith.addi %sum, %next {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %added : i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %rest:2 = scf.for %i = %y to %z step %step iter_args(%n = %first#0, %sum = %first#1) -> (i32, i32) : i32 {
        %next = arith.addi %n, %c2 {tgpu.place = array<i64: 0, 0>} : i32
        %added = arith.addi %sum, %next {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %added : i32, i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %both = arith.addi %rest#0, %rest#1 : i32
    }
}

// -----

// The first part has at most one iteration: the prologue.
// CHECK-LABEL: tgpu.kernel @one_before
// CHECK: scf.if
// CHECK-NEXT: arith.addi %{{.*}}, %[[C1:.*]] : i32
// CHECK-NEXT: %[[SECOND:.*]] = arith.addi
// CHECK-NEXT: %[[END:.*]] = arith.maxsi %{{.*}}, %[[SECOND]] : i32
// CHECK-NEXT: scf.for %{{.*}} = %[[SECOND]] to %[[END]]
// CHECK-NOT: scf.for
tgpu.kernel @one_before target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first:2 = scf.for %i = %x to %y step %step iter_args(%n = %c1, %sum = %c1) -> (i32, i32) : i32 {
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %added = arith.addi %sum, %next {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %added : i32, i32
      } {tgpu.general, tgpu.one_before, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %rest:2 = scf.for %i = %y to %z step %step iter_args(%n = %first#0, %sum = %first#1) -> (i32, i32) : i32 {
        %next = arith.addi %n, %c2 {tgpu.place = array<i64: 0, 0>} : i32
        %added = arith.addi %sum, %next {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %added : i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %both = arith.addi %rest#0, %rest#1 : i32
    }
}

// -----

// The last part has at most one iteration. Parts with a common stage 0 end one iteration later, so that this iteration
// is the epilogue.
// CHECK-LABEL: tgpu.kernel @one_after
// CHECK: scf.if
// CHECK: scf.for
// CHECK: arith.subi
// CHECK-NOT: scf.for
// CHECK: } else {
tgpu.kernel @one_after target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first:2 = scf.for %i = %x to %y step %step iter_args(%n = %c1, %sum = %c1) -> (i32, i32) : i32 {
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %added = arith.subi %sum, %next {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %added : i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %rest:2 = scf.for %i = %y to %z step %step iter_args(%n = %first#0, %sum = %first#1) -> (i32, i32) : i32 {
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %added = arith.addi %sum, %next {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next, %added : i32, i32
      } {tgpu.general, tgpu.one_after, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %both = arith.addi %rest#0, %rest#1 : i32
    }
}

// -----

!o = tensor<64x64xf32, #tgpu.wgmma<1>>
!x = !tgpu.shared<64x64xbf16, b128>

// Stage 0 reads the results of stage 1 of the previous iteration, and comes after it. A wait counts the groups
// committed after the one that it waits for.
// CHECK-LABEL: tgpu.kernel @products
// CHECK: scf.if
// CHECK: tgpu.wgmma_wait pending 0
// CHECK: scf.for
// CHECK: %[[S:.*]] = tgpu.wgmma
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK-NEXT: %[[O:.*]] = tgpu.wgmma
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK-NEXT: tgpu.wgmma_wait pending 1, %[[S]]
// CHECK-NEXT: %[[DONE:.*]] = tgpu.wgmma_wait pending 0, %[[O]]
// CHECK-NEXT: arith.mulf %[[DONE]]
// CHECK: scf.yield
// CHECK: tgpu.wgmma
// CHECK: tgpu.wgmma_wait pending 0
tgpu.kernel @products target "sm_90a" warps 8 (%rounds: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !o
      %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros) -> (!o) : i32 {
        %s_pending = tgpu.wgmma %x, %x transpose_b {tgpu.place = array<i64: 0, 0>} : !x, !x -> !o
        tgpu.wgmma_commit {tgpu.place = array<i64: 0, 1>}
        %s = tgpu.wgmma_wait pending 0, %s_pending {tgpu.place = array<i64: 0, 4>} : !o
        %kept = arith.mulf %acc, %s {tgpu.place = array<i64: 0, 6>} : !o
        %o_pending = tgpu.wgmma %x, %x, %kept {tgpu.place = array<i64: 1, 2>} : !x, !x, !o -> !o
        tgpu.wgmma_commit {tgpu.place = array<i64: 1, 3>}
        %o = tgpu.wgmma_wait pending 0, %o_pending {tgpu.place = array<i64: 1, 5>} : !o
        scf.yield %o : !o
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @no_place target "sm_90a" warps 8 (%rounds: i32, %c1: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %r = scf.for %i = %c1 to %rounds step %step iter_args(%n = %c1) -> (i32) : i32 {
        %m = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        // expected-error @+1 {{'arith.addi' op needs a place [stage, order] with a stage of 0 or 1, as do the other operations of its loop}}
        %next = arith.addi %m, %c1 : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @stage_2 target "sm_90a" warps 8 (%rounds: i32, %c1: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %r = scf.for %i = %c1 to %rounds step %step iter_args(%n = %c1) -> (i32) : i32 {
        // expected-error @+1 {{needs a place [stage, order] with a stage of 0 or 1, as do the other operations of its loop}}
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 2, 0>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @order target "sm_90a" warps 8 (%rounds: i32, %c1: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %r = scf.for %i = %c1 to %rounds step %step iter_args(%n = %c1) -> (i32) : i32 {
        %m = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 1>} : i32
        // expected-error @+1 {{'arith.addi' op must follow its operands in the order, but got place 0, with an operand at 1}}
        %next = arith.addi %m, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @back target "sm_90a" warps 8 (%rounds: i32, %c1: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %r = scf.for %i = %c1 to %rounds step %step iter_args(%n = %c1) -> (i32) : i32 {
        %m = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 0>} : i32
        // expected-error @+1 {{'arith.addi' op of stage 0 must read results of no later stage of the same iteration, but got one of stage 1}}
        %next = arith.addi %m, %c1 {tgpu.place = array<i64: 0, 1>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

tgpu.kernel @carried target "sm_90a" warps 8 (%rounds: i32, %c1: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %r = scf.for %i = %c1 to %rounds step %step iter_args(%n = %c1) -> (i32) : i32 {
        // expected-error @+1 {{'arith.addi' op of stage 0 must come in the order after the value that it reads of stage 1 of the previous iteration, but got place 0, with the value at 1}}
        %m = arith.addi %n, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %m, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

!o = tensor<64x64xf32, #tgpu.wgmma<1>>
!x = !tgpu.shared<64x64xbf16, b128>

tgpu.kernel @wait target "sm_90a" warps 8 (%rounds: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      scf.for %i = %c0 to %rounds step %c1 : i32 {
        %s_pending = tgpu.wgmma %x, %x transpose_b {tgpu.place = array<i64: 0, 0>} : !x, !x -> !o
        tgpu.wgmma_commit {tgpu.place = array<i64: 0, 1>}
        // expected-error @+1 {{'tgpu.wgmma_wait' op must wait in the stage in which the product is issued}}
        %s = tgpu.wgmma_wait pending 0, %s_pending {tgpu.place = array<i64: 1, 2>} : !o
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

// Neither stage equals that of the other part.
tgpu.kernel @differ target "sm_90a" warps 8 (%x: i32, %y: i32, %z: i32, %c1: i32, %c2: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %step = arith.constant 1 : i32
      %first = scf.for %i = %x to %y step %step iter_args(%n = %c1) -> (i32) : i32 {
        %own = arith.muli %i, %c1 {tgpu.place = array<i64: 0, 0>} : i32
        %next = arith.addi %n, %c1 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %rest = scf.for %i = %y to %z step %step iter_args(%n = %first) -> (i32) : i32 {
        %own = arith.muli %i, %c2 {tgpu.place = array<i64: 0, 0>} : i32
        // expected-error @+1 {{'arith.addi' op of stage 1 must equal stage 1 of the loop's first part, but got an operand that is another value}}
        %next = arith.addi %n, %c2 {tgpu.place = array<i64: 1, 1>} : i32
        scf.yield %next : i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}
