// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An iteration that writes shared memory for other threads does not overlap the next: its products are issued early and
// waited for late.
//
// RUN: tilewright-opt %s --tgpu-plan-stages --tgpu-expand-stages | FileCheck %s

!tile = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<128x128xbf16, b128>
!ring = !tgpu.ring<2, !tile>
!bars = !tgpu.barriers<2>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!d = tensor<128x64xf32, #tgpu.wgmma<2>>

// Both independent products are issued. dS is written before only the product of P, whose result the loop carries, is
// issued: that product runs while warps wait at the barrier. The product of dS and Q runs while dQ is stored. The two
// barriers around S become one before the write.
// CHECK-LABEL: tgpu.kernel @backward
// CHECK:           scf.for
// CHECK-NEXT:        tgpu.wait %{{.*}}[%[[UQ:.*]]]
// CHECK-NEXT:        %[[Q:.*]] = tgpu.slot %{{.*}}[%[[UQ]]]
// CHECK-NEXT:        %[[S:.*]] = tgpu.wgmma %{{.*}}, %[[Q]] transpose_b
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wait %{{.*}}[%[[UO:.*]]]
// CHECK-NEXT:        %[[DO:.*]] = tgpu.slot %{{.*}}[%[[UO]]]
// CHECK-NEXT:        %[[DP:.*]] = tgpu.wgmma %{{.*}}, %[[DO]] transpose_b
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wgmma_wait pending 1, %[[S]]
// CHECK:             %[[P:.*]] = tgpu.convert
// CHECK-NEXT:        tgpu.wgmma_wait pending 0, %[[DP]]
// CHECK-NOT:         tgpu.sync
// CHECK:             tgpu.sync on
// CHECK-NEXT:        tgpu.write %{{.*}}, %[[DS:.*]] :
// CHECK-NOT:         tgpu.sync
// CHECK:             %[[DV:.*]] = tgpu.wgmma %[[P]], %[[DO]]
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.sync on
// CHECK-NEXT:        %[[DQ:.*]] = tgpu.wgmma %[[DS]],
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        %[[DK:.*]] = tgpu.wgmma %{{.*}}, %[[Q]],
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wgmma_wait pending 2, %[[DV]]
// CHECK-NEXT:        tgpu.arrive %{{.*}}[%[[UO]]]
// CHECK-NEXT:        tgpu.wgmma_wait pending 1, %[[DQ]]
// CHECK-NEXT:        tgpu.acquire
// CHECK-NEXT:        tgpu.write
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:        tgpu.arrive
// CHECK:             tgpu.wgmma_wait pending 0, %[[DK]]
// CHECK-NEXT:        tgpu.arrive %{{.*}}[%[[UQ]]]
// CHECK-NOT:         tgpu.place
tgpu.kernel @backward target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %k = tgpu.alloc : !tile
  %v = tgpu.alloc : !tile
  %ds_buffer = tgpu.alloc : !square
  %dq_buffer = tgpu.alloc : !tgpu.shared<128x64xf32, b128>
  %q_ring = tgpu.alloc_ring : !ring
  %do_ring = tgpu.alloc_ring : !ring
  %q_full = tgpu.alloc_barriers arrivals 1 : !bars
  %q_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %do_full = tgpu.alloc_barriers arrivals 1 : !bars
  %do_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %dq_full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %dq_empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %meet = tgpu.named_barrier warps 8 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !d
      %r:5 = scf.for %i = %c0 to %rounds step %c1
          iter_args(%dk = %zeros, %dv = %zeros, %use_q = %c0, %use_o = %c0, %use_d = %c0)
          -> (!d, !d, i32, i32, i32) : i32 {
        tgpu.sync on %meet
        tgpu.wait %q_full[%use_q] : !bars
        %q = tgpu.slot %q_ring[%use_q] : !ring
        %s_pending = tgpu.wgmma %k, %q transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        tgpu.sync on %meet
        %p = math.exp2 %s : !s
        %p16 = tile.cast %p : !s -> !s16
        tgpu.wait %do_full[%use_o] : !bars
        %do = tgpu.slot %do_ring[%use_o] : !ring
        %dp_pending = tgpu.wgmma %v, %do transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %dp = tgpu.wgmma_wait pending 0, %dp_pending : !s
        %ds = arith.mulf %p, %dp : !s
        %ds16 = tile.cast %ds : !s -> !s16
        tgpu.write %ds16, %ds_buffer : !s16, !square
        %pa = tgpu.convert %p16 : !s16 -> !a
        %dv_pending = tgpu.wgmma %pa, %do, %dv : !a, !tile, !d -> !d
        tgpu.wgmma_commit
        %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !d
        tgpu.arrive %do_empty[%use_o] per warp : !bars
        %next_o = arith.addi %use_o, %c1 : i32
        %dsa = tgpu.convert %ds16 : !s16 -> !a
        %dk_pending = tgpu.wgmma %dsa, %q, %dk : !a, !tile, !d -> !d
        tgpu.wgmma_commit
        %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !d
        tgpu.arrive %q_empty[%use_q] per warp : !bars
        %next_q = arith.addi %use_q, %c1 : i32
        tgpu.sync on %meet
        %dq_pending = tgpu.wgmma %ds_buffer, %k transpose_a : !square, !tile -> !d
        tgpu.wgmma_commit
        %dq = tgpu.wgmma_wait pending 0, %dq_pending : !d
        tgpu.acquire %dq_empty[%use_d] : !tgpu.barriers<1>
        tgpu.write %dq, %dq_buffer : !d, !tgpu.shared<128x64xf32, b128>
        tgpu.fence_async
        tgpu.arrive %dq_full[%use_d] per warp : !tgpu.barriers<1>
        %next_d = arith.addi %use_d, %c1 : i32
        scf.yield %dk_new, %dv_new, %next_q, %next_o, %next_d : !d, !d, i32, i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// With two products in flight, the next S is issued after dQ, when all other products have ended, and waited for at the
// end; the product that the loop carries runs while warps wait at the barrier. Two parts of a loop that differ in the
// use of S share the product of S: the first part executes one more iteration, starting at the second.
// CHECK-LABEL: tgpu.kernel @ahead
// CHECK:           %[[HAS:.*]] = arith.cmpi slt, %{{.*}}, %[[UPPER:.*]] :
// CHECK:           scf.if %[[HAS]]
// CHECK:             tgpu.wgmma %{{.*}} transpose_b
// CHECK:             tgpu.wgmma_wait pending 0
// CHECK:             %[[END:.*]] = arith.minsi %{{.*}}, %[[UPPER]]
// CHECK:             %[[SEAM:.*]] = arith.maxsi %[[END]],
// CHECK:             scf.for %{{.*}} to %[[SEAM]] {{.*}} iter_args(%[[USE:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %[[S:.*]] = %{{.*}})
// CHECK:               math.exp2 %[[S]]
// CHECK-NEXT:          tile.cast
// CHECK-NEXT:          tgpu.convert
// CHECK:               %[[O:.*]] = tgpu.wgmma
// CHECK-NEXT:          tgpu.wgmma_commit
// CHECK:               tgpu.wait %{{.*}}[%[[USE]]]
// CHECK:               %[[NEXT:.*]] = tgpu.wgmma %{{.*}} transpose_b
// CHECK:               tgpu.wgmma_wait pending 1, %[[O]]
// CHECK:               tgpu.write
// CHECK:               tgpu.wgmma_wait pending 0, %[[NEXT]]
// CHECK:             scf.for %{{.*}} = %[[SEAM]] to
// CHECK:               arith.mulf
// CHECK:               math.exp2
// CHECK:             arith.mulf
// CHECK:             math.exp2
// CHECK-NOT:         transpose_b
tgpu.kernel @ahead target "sm_90a" warps 12 (%middle: i32, %rounds: i32, %factor: f32) grid(%b = 1) {
  %k = tgpu.alloc : !tile
  %o_buffer = tgpu.alloc : !tgpu.shared<128x64xf32, b128>
  %q_ring = tgpu.alloc_ring : !ring
  %q_full = tgpu.alloc_barriers arrivals 1 : !bars
  %q_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %meet = tgpu.named_barrier warps 8 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %factors = tile.full %factor : !s
      %u = scf.for %i = %c0 to %middle step %c1 iter_args(%use = %c0) -> (i32) : i32 {
        tgpu.wait %q_full[%use] : !bars
        %q = tgpu.slot %q_ring[%use] : !ring
        %s_pending = tgpu.wgmma %k, %q transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %p = math.exp2 %s : !s
        %p16 = tile.cast %p : !s -> !s16
        %pa = tgpu.convert %p16 : !s16 -> !a
        %o_pending = tgpu.wgmma %pa, %q : !a, !tile -> !d
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !d
        tgpu.arrive %q_empty[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        tgpu.sync on %meet
        tgpu.write %o, %o_buffer : !d, !tgpu.shared<128x64xf32, b128>
        scf.yield %next : i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 2>}
      scf.for %i = %middle to %rounds step %c1 iter_args(%use = %u) -> (i32) : i32 {
        tgpu.wait %q_full[%use] : !bars
        %q = tgpu.slot %q_ring[%use] : !ring
        %s_pending = tgpu.wgmma %k, %q transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %scaled = arith.mulf %s, %factors : !s
        %p = math.exp2 %scaled : !s
        %p16 = tile.cast %p : !s -> !s16
        %pa = tgpu.convert %p16 : !s16 -> !a
        %o_pending = tgpu.wgmma %pa, %q : !a, !tile -> !d
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !d
        tgpu.arrive %q_empty[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        tgpu.sync on %meet
        tgpu.write %o, %o_buffer : !d, !tgpu.shared<128x64xf32, b128>
        scf.yield %next : i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 2>}
    }
}

!row = !tgpu.shared<128xf32, none>
!row_ring = !tgpu.ring<2, !row>
!row_tile = tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>

// The last read of a slot may be a row: the slot is released directly after it, and the copying role need not wait for
// the rest of the iteration.
// CHECK-LABEL: tgpu.kernel @rows
// CHECK:           scf.for
// CHECK:             tgpu.wgmma_wait pending 0
// CHECK:             tgpu.read %{{.*}} : !tgpu.shared<128xf32, none>
// CHECK-NEXT:        tgpu.arrive
// CHECK-NOT:         tgpu.arrive
// CHECK:             tgpu.write
tgpu.kernel @rows target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %k = tgpu.alloc : !tile
  %p_buffer = tgpu.alloc : !square
  %q_ring = tgpu.alloc_ring : !ring
  %row_ring = tgpu.alloc_ring : !row_ring
  %q_full = tgpu.alloc_barriers arrivals 1 : !bars
  %q_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %meet = tgpu.named_barrier warps 8 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !d
      %r:2 = scf.for %i = %c0 to %rounds step %c1 iter_args(%old = %zeros, %use = %c0) -> (!d, i32) : i32 {
        tgpu.wait %q_full[%use] : !bars
        %q = tgpu.slot %q_ring[%use] : !ring
        %row = tgpu.slot %row_ring[%use] : !row_ring
        %s_pending = tgpu.wgmma %k, %q transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %factor = tgpu.read %row : !row -> !row_tile
        %factors = tile.expand %factor dim 0 : !row_tile -> !s
        %p = arith.mulf %s, %factors : !s
        %p16 = tile.cast %p : !s -> !s16
        tgpu.sync on %meet
        tgpu.write %p16, %p_buffer : !s16, !square
        tgpu.sync on %meet
        %d_pending = tgpu.wgmma %p_buffer, %k transpose_a, %old : !square, !tile, !d -> !d
        tgpu.wgmma_commit
        %d = tgpu.wgmma_wait pending 0, %d_pending : !d
        tgpu.arrive %q_empty[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        scf.yield %d, %next : !d, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

!short = !tgpu.shared<64x64xbf16, b128>
!short_ring = !tgpu.ring<2, !short>
!short_row = !tgpu.shared<64xf32, none>
!short_rows = !tgpu.ring<2, !short_row>
!short_row_tile = tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
!narrow = tensor<128x64xf32, #tgpu.wgmma<2>>
!narrow16 = tensor<128x64xbf16, #tgpu.wgmma<2>>
!narrow_a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

// A short row that is subtracted from the first product is read after that has been issued, before its wait; one that
// is subtracted from a later product is read after that product's wait, since it would need registers while the first
// one is used.
// CHECK-LABEL: tgpu.kernel @early_rows
// CHECK:           scf.for
// CHECK:             %[[S:.*]] = tgpu.wgmma %{{.*}} transpose_b
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        %[[LSE_SLOT:.*]] = tgpu.slot
// CHECK-NEXT:        %[[LSE:.*]] = tgpu.read %[[LSE_SLOT]]
// CHECK:             %[[DP:.*]] = tgpu.wgmma %{{.*}} transpose_b
// CHECK-NOT:         tgpu.read
// CHECK:             tgpu.wgmma_wait pending 1, %[[S]]
// CHECK:             tile.expand %[[LSE]]
// CHECK:             tgpu.wgmma_wait pending 0, %[[DP]]
// CHECK:             tgpu.read
tgpu.kernel @early_rows target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %k = tgpu.alloc : !tile
  %v = tgpu.alloc : !tile
  %ds_buffer = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %q_ring = tgpu.alloc_ring : !short_ring
  %do_ring = tgpu.alloc_ring : !short_ring
  %lse_ring = tgpu.alloc_ring : !short_rows
  %delta_ring = tgpu.alloc_ring : !short_rows
  %q_full = tgpu.alloc_barriers arrivals 1 : !bars
  %q_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %do_full = tgpu.alloc_barriers arrivals 1 : !bars
  %do_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %meet = tgpu.named_barrier warps 8 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !d
      %r:2 = scf.for %i = %c0 to %rounds step %c1 iter_args(%dv = %zeros, %use = %c0) -> (!d, i32) : i32 {
        tgpu.wait %q_full[%use] : !bars
        %q = tgpu.slot %q_ring[%use] : !short_ring
        %lse_slot = tgpu.slot %lse_ring[%use] : !short_rows
        %s_pending = tgpu.wgmma %k, %q transpose_b : !tile, !short -> !narrow
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !narrow
        %lse = tgpu.read %lse_slot : !short_row -> !short_row_tile
        %lses = tile.expand %lse dim 0 : !short_row_tile -> !narrow
        %x = arith.subf %s, %lses : !narrow
        %p = math.exp2 %x : !narrow
        %p16 = tile.cast %p : !narrow -> !narrow16
        tgpu.arrive %q_empty[%use] per warp : !bars
        tgpu.wait %do_full[%use] : !bars
        %do = tgpu.slot %do_ring[%use] : !short_ring
        %delta_slot = tgpu.slot %delta_ring[%use] : !short_rows
        %dp_pending = tgpu.wgmma %v, %do transpose_b : !tile, !short -> !narrow
        tgpu.wgmma_commit
        %dp = tgpu.wgmma_wait pending 0, %dp_pending : !narrow
        %delta = tgpu.read %delta_slot : !short_row -> !short_row_tile
        %deltas = tile.expand %delta dim 0 : !short_row_tile -> !narrow
        %y = arith.subf %dp, %deltas : !narrow
        %ds = arith.mulf %p, %y : !narrow
        %ds16 = tile.cast %ds : !narrow -> !narrow16
        tgpu.write %ds16, %ds_buffer : !narrow16, !tgpu.shared<128x64xbf16, b128>
        %pa = tgpu.convert %p16 : !narrow16 -> !narrow_a
        %dv_pending = tgpu.wgmma %pa, %do, %dv : !narrow_a, !short, !d -> !d
        tgpu.wgmma_commit
        %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !d
        tgpu.arrive %do_empty[%use] per warp : !bars
        tgpu.sync on %meet
        %next = arith.addi %use, %c1 : i32
        scf.yield %dv_new, %next : !d, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}
