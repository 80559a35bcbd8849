// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products that are only added to sums are left in flight until the next iteration.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tgpu-plan-stages --tgpu-expand-stages | FileCheck %s
// RUN: tilewright-opt %t/kernels.mlir --tgpu-plan-stages | FileCheck %s --check-prefix=PLAN
// RUN: tilewright-opt %t/errors.mlir --tgpu-plan-stages -verify-diagnostics

//--- kernels.mlir

!x = !tgpu.shared<128x64xbf16, b128>
!y = !tgpu.shared<64x128xbf16, b128>
!acc = tensor<128x128xf32, #tgpu.wgmma<2>>
!a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!bars = !tgpu.barriers<4>

// The first product has no accumulator; every other iteration releases the slot of the previous one; after the loop,
// the last slot is released. Without iterations, the result is zero.
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
// PLAN-LABEL: tgpu.kernel @chain
// PLAN:         tgpu.wgmma_commit {tgpu.place = array<i64: 0, 4>}
// PLAN-NEXT:    %[[SUM:.*]] = tgpu.wgmma_wait pending 0, %{{.*}} {tgpu.place = array<i64: 1, 5>}
// PLAN-NEXT:    tgpu.arrive %{{.*}} {tgpu.place = array<i64: 1, 6>}
// PLAN-NEXT:    arith.addi %{{.*}} {tgpu.place = array<i64: 0, 7>}
// PLAN-NEXT:    scf.yield %[[SUM]],
tgpu.kernel @chain target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x_ring = tgpu.alloc_ring : !tgpu.ring<4, !x>
  %y_ring = tgpu.alloc_ring : !tgpu.ring<4, !y>
  %full = tgpu.alloc_barriers arrivals 1 : !bars
  %empty = tgpu.alloc_barriers arrivals 8 : !bars
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
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
}

// A use of the sum in the same iteration requires its wait.
// CHECK-LABEL: tgpu.kernel @read_at_once
// CHECK:         scf.for
// CHECK:           tgpu.wgmma_wait pending 0, %
// CHECK-NEXT:      arith.addf
tgpu.kernel @read_at_once target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
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
}

// Two sums: the products of an iteration form one group, and all slots of the previous iteration are released when it
// has ended.
// CHECK-LABEL: tgpu.kernel @two_sums
// CHECK:         scf.if
// CHECK:           tgpu.wgmma %{{[^,]*}}, %{{[^,]*}} :
// CHECK-NOT:       tgpu.wgmma_commit
// CHECK:           tgpu.wait
// CHECK:           tgpu.wgmma %{{[^,]*}}, %{{[^,]*}} :
// CHECK-NEXT:      tgpu.wgmma_commit
// CHECK-NOT:       tgpu.wgmma_wait
// CHECK-NOT:       tgpu.arrive
// CHECK:           %[[L:.*]]:4 = scf.for %{{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}, %[[USE:.*]] = %{{.*}}, %[[BEFORE:.*]] = %{{.*}}) ->
// CHECK:             tgpu.wait %[[FULL_A:.*]][%[[USE]]]
// CHECK:             %[[SUM_A:.*]] = tgpu.wgmma %{{.*}}, %{{.*}}, %[[A]] :
// CHECK-NEXT:        tgpu.wait %[[FULL_B:.*]][%[[USE]]]
// CHECK-NOT:         tgpu.wgmma_commit
// CHECK:             %[[SUM_B:.*]] = tgpu.wgmma %{{.*}}, %{{.*}}, %[[B]] :
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wgmma_wait pending 1{{ *$}}
// CHECK-NEXT:        tgpu.arrive %[[EMPTY_A:.*]][%[[BEFORE]]]
// CHECK-NEXT:        tgpu.arrive %[[EMPTY_B:.*]][%[[BEFORE]]]
// CHECK:             scf.yield %[[SUM_A]], %[[SUM_B]], %{{.*}}, %[[USE]] :
// CHECK:           %[[DONE:.*]]:2 = tgpu.wgmma_wait pending 0, %[[L]]#0, %[[L]]#1
// CHECK-NEXT:      tgpu.arrive %[[EMPTY_A]][%[[L]]#3]
// CHECK-NEXT:      tgpu.arrive %[[EMPTY_B]][%[[L]]#3]
// CHECK-NEXT:      scf.yield %[[DONE]]#0, %[[DONE]]#1, %[[L]]#2
tgpu.kernel @two_sums target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x_ring = tgpu.alloc_ring : !tgpu.ring<4, !x>
  %y_ring = tgpu.alloc_ring : !tgpu.ring<4, !y>
  %z_ring = tgpu.alloc_ring : !tgpu.ring<4, !y>
  %full_a = tgpu.alloc_barriers arrivals 1 : !bars
  %empty_a = tgpu.alloc_barriers arrivals 8 : !bars
  %full_b = tgpu.alloc_barriers arrivals 1 : !bars
  %empty_b = tgpu.alloc_barriers arrivals 8 : !bars
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %zeros = tile.full %zero : !acc
      %sum:3 = scf.for %i = %c0 to %n step %c1 iter_args(%old_a = %zeros, %old_b = %zeros, %use = %b)
          -> (!acc, !acc, i32) : i32 {
        %x = tgpu.slot %x_ring[%use] : !tgpu.ring<4, !x>
        %y = tgpu.slot %y_ring[%use] : !tgpu.ring<4, !y>
        %z = tgpu.slot %z_ring[%use] : !tgpu.ring<4, !y>
        tgpu.wait %full_a[%use] : !bars
        %pending_a = tgpu.wgmma %x, %y, %old_a : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new_a = tgpu.wgmma_wait pending 0, %pending_a : !acc
        tgpu.arrive %empty_a[%use] per warp : !bars
        tgpu.wait %full_b[%use] : !bars
        %pending_b = tgpu.wgmma %x, %z, %old_b : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new_b = tgpu.wgmma_wait pending 0, %pending_b : !acc
        tgpu.arrive %empty_b[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        scf.yield %new_a, %new_b, %next : !acc, !acc, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      tgpu.store %sum#0, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
      tgpu.store %sum#1, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
    }
}

// The iteration uses one of its two products: both end in it.
// CHECK-LABEL: tgpu.kernel @one_sum_of_two
// CHECK-NOT:     scf.if
// CHECK:         tgpu.wgmma_wait pending {{[01]}}, %
// CHECK:         tgpu.wgmma_wait pending {{[01]}}, %
// PLAN-LABEL: tgpu.kernel @one_sum_of_two
// PLAN-NOT:     array<i64: 1,
tgpu.kernel @one_sum_of_two target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %zeros = tile.full %zero : !acc
      %sum:2 = scf.for %i = %c0 to %n step %c1 iter_args(%old_a = %zeros, %old_b = %zeros) -> (!acc, !acc) : i32 {
        %pending_a = tgpu.wgmma %x, %y, %old_a : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new_a = tgpu.wgmma_wait pending 0, %pending_a : !acc
        %pending_b = tgpu.wgmma %x, %y : !x, !y -> !acc
        tgpu.wgmma_commit
        %new_b = tgpu.wgmma_wait pending 0, %pending_b : !acc
        %total = arith.addf %old_b, %new_b : !acc
        scf.yield %new_a, %total : !acc, !acc
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      tgpu.store %sum#0, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
      tgpu.store %sum#1, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
    }
}

// The parts of a loop are one pipeline: the first iteration and the last wait are outside of both.
// CHECK-LABEL: tgpu.kernel @parts
// PLAN-LABEL: tgpu.kernel @parts
// CHECK:         scf.if
// CHECK:           %[[FIRST:.*]] = tgpu.wgmma %{{[^,]*}}, %{{[^,]*}} :
// CHECK-NEXT:      tgpu.wgmma_commit
// CHECK:           %[[A:.*]]:3 = scf.for %{{.*}} iter_args(%{{.*}} = %[[FIRST]],
// CHECK:             tgpu.wgmma_wait pending 1
// CHECK-NEXT:        tgpu.arrive
// CHECK-NOT:         tgpu.wgmma_wait
// CHECK:           %[[B:.*]]:3 = scf.for %{{.*}} iter_args(%{{.*}} = %[[A]]#0, %{{.*}} = %[[A]]#1, %{{.*}} = %[[A]]#2)
// CHECK:             tgpu.wgmma_wait pending 1
// CHECK:           tgpu.wgmma_wait pending 0, %[[B]]#0
// CHECK-NEXT:      tgpu.arrive %{{.*}}[%[[B]]#2]
tgpu.kernel @parts target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %m: i32, %n: i32) grid(%b = 1) {
  %x_ring = tgpu.alloc_ring : !tgpu.ring<4, !x>
  %y = tgpu.alloc : !y
  %empty = tgpu.alloc_barriers arrivals 8 : !bars
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %zeros = tile.full %zero : !acc
      %first:2 = scf.for %i = %c0 to %m step %c1 iter_args(%old = %zeros, %use = %b) -> (!acc, i32) : i32 {
        %x = tgpu.slot %x_ring[%use] : !tgpu.ring<4, !x>
        %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %pending : !acc
        tgpu.arrive %empty[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        scf.yield %new, %next : !acc, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      %second:2 = scf.for %i = %m to %n step %c1 iter_args(%old = %first#0, %use = %first#1) -> (!acc, i32) : i32 {
        %x = tgpu.slot %x_ring[%use] : !tgpu.ring<4, !x>
        %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %pending : !acc
        tgpu.arrive %empty[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        scf.yield %new, %next : !acc, i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      tgpu.store %second#0, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
    }
}

// CHECK-LABEL: tgpu.kernel @unsigned
// CHECK:         arith.cmpi ult
// CHECK:         tgpu.wgmma
// CHECK:         scf.for unsigned
// CHECK:           tgpu.wgmma_wait pending 1
tgpu.kernel @unsigned target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %zeros = tile.full %zero : !acc
      %sum = scf.for unsigned %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!acc) : i32 {
        %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %pending : !acc
        scf.yield %new : !acc
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      tgpu.store %sum, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
    }
}

// Without products in flight, all stay where they are.
// CHECK-LABEL: tgpu.kernel @none_in_flight
// CHECK-NOT:     scf.if
// CHECK:         tgpu.wgmma_wait pending 0, %
tgpu.kernel @none_in_flight target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %zeros = tile.full %zero : !acc
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!acc) : i32 {
        %pending = tgpu.wgmma %x, %y, %old : !x, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %pending : !acc
        scf.yield %new : !acc
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4>}
      tgpu.store %sum, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
    }
}

// Registers that the next iteration would write while the product reads them; those of the loop's surroundings stay.
// CHECK-LABEL: tgpu.kernel @operand_in_registers
// CHECK-NOT:     scf.if
// CHECK:         tgpu.wgmma_wait pending 0, %
// CHECK:         scf.if
// CHECK:           tgpu.wgmma_wait pending 1
tgpu.kernel @operand_in_registers target "sm_90a" warps 12 (%c: !tile.view<[?, ?], f32>, %n: i32) grid(%b = 1) {
  %x = tgpu.alloc : !x
  %y = tgpu.alloc : !y
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %zeros = tile.full %zero : !acc
      %kept = tgpu.read %x : !x -> !a
      %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zeros) -> (!acc) : i32 {
        %a = tgpu.read %x : !x -> !a
        %pending = tgpu.wgmma %a, %y, %old : !a, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %pending : !acc
        scf.yield %new : !acc
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      %more = scf.for %i = %c0 to %n step %c1 iter_args(%old = %sum) -> (!acc) : i32 {
        %pending = tgpu.wgmma %kept, %y, %old : !a, !y, !acc -> !acc
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %pending : !acc
        scf.yield %new : !acc
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 1>}
      tgpu.store %more, %c[0, 0] : !acc, !tile.view<[?, ?], f32>
    }
}

//--- errors.mlir

tgpu.kernel @two target "sm_90a" warps 12 (%n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      // expected-error @+1 {{a loop may have at most one product in flight, but got 2}}
      scf.for %i = %c0 to %n step %c1 : i32 {
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 4, in_flight = 2>}
    }
}
