// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two roles read the slots of a ring, and one passes a tile to the other.
// RUN: tilewright-opt %s --tgpu-plan-stages | FileCheck %s
// With the ring read by one role, the product of the next iteration is first.
// RUN: sed '/SHARED/d' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=ALONE

!tile = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, !tile>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!half = tensor<64x64xbf16, #tgpu.wgmma<1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!bars = !tgpu.barriers<2>

// The product of the previous iteration (1) is issued before that of this one (0), and waited for before it: its slot
// is released first. The tile is written after the acquire of its slot, and published as soon as it is written.
// CHECK-LABEL: tgpu.kernel @shared
// CHECK:         tgpu.wait %[[Q_FULL:.*]][%[[Q:arg[0-9]+]]] {tgpu.place = array<i64: 0, [[#Q_WAIT:]]>}
// CHECK:         tgpu.wait %{{.*}}[%[[D:arg[0-9]+]]] {tgpu.place = array<i64: 1, [[#D_WAIT:]]>}
// CHECK:         %[[S:.*]] = tgpu.wgmma %{{.*}} transpose_b {tgpu.place = array<i64: 0, [[#FIRST:]]>}
// CHECK-NEXT:    tgpu.wgmma_commit {tgpu.place = array<i64: 0, [[#FIRST+1]]>}
// CHECK-NEXT:    tgpu.wgmma_wait pending 0, %[[S]] {tgpu.place = array<i64: 0, [[#FIRST+4]]>}
// CHECK:         tgpu.acquire %[[EMPTY:.*]][%[[P:arg[0-9]+]]] {tgpu.place = array<i64: 0, [[#ACQUIRE:]]>}
// CHECK:         tgpu.write %{{.*}} {tgpu.place = array<i64: 0, [[#ACQUIRE+2]]>}
// CHECK:         tgpu.arrive %{{.*}}[%[[P]]] per warp {tgpu.place = array<i64: 0, [[#ACQUIRE+3]]>}
// CHECK:         %[[SUM:.*]] = tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 1, [[#D_WAIT+1]]>}
// CHECK-NEXT:    tgpu.wgmma_commit {tgpu.place = array<i64: 1, [[#D_WAIT+2]]>}
// CHECK-NEXT:    tgpu.wgmma_wait pending 0, %[[SUM]] {tgpu.place = array<i64: 1, [[#FIRST+2]]>}
// CHECK:         tgpu.arrive %{{.*}}[%[[Q]]] per warp {tgpu.place = array<i64: 0, [[#FIRST+5]]>}
// CHECK:         tgpu.arrive %{{.*}}[%[[D]]] per warp {tgpu.place = array<i64: 1, [[#FIRST+3]]>}
// ALONE-LABEL: tgpu.kernel @shared
// ALONE:         %[[S:.*]] = tgpu.wgmma %{{.*}} transpose_b {tgpu.place = array<i64: 0, [[#FIRST:]]>}
// ALONE:         tgpu.wgmma_wait pending 0, %[[S]] {tgpu.place = array<i64: 0, [[#END:]]>}
// ALONE:         tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 1, [[#FIRST+4]]>}
// ALONE:         tgpu.arrive %{{.*}} per warp {tgpu.place = array<i64: 0, [[#END+1]]>}
tgpu.kernel @shared target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %k = tgpu.alloc : !tile
  %q_ring = tgpu.alloc_ring : !ring
  %d_ring = tgpu.alloc_ring : !ring
  %p_ring = tgpu.alloc_ring : !ring
  %q_full = tgpu.alloc_barriers arrivals 1 : !bars
  %q_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %d_full = tgpu.alloc_barriers arrivals 1 : !bars
  %d_empty = tgpu.alloc_barriers arrivals 4 : !bars
  %p_full = tgpu.alloc_barriers arrivals 4 : !bars
  %p_empty = tgpu.alloc_barriers arrivals 4 : !bars
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !acc
      %r:4 = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros, %use_q = %c0, %use_d = %c0, %use_p = %c0)
          -> (!acc, i32, i32, i32) : i32 {
        tgpu.wait %q_full[%use_q] : !bars
        %q = tgpu.slot %q_ring[%use_q] : !ring
        tgpu.wait %d_full[%use_d] : !bars
        %d = tgpu.slot %d_ring[%use_d] : !ring
        %s_pending = tgpu.wgmma %k, %q transpose_b : !tile, !tile -> !acc
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !acc
        %p = math.exp2 %s : !acc
        %half = tile.cast %p : !acc -> !half
        tgpu.acquire %p_empty[%use_p] : !bars
        %slot = tgpu.slot %p_ring[%use_p] : !ring
        tgpu.write %half, %slot : !half, !tile
        tgpu.arrive %p_full[%use_p] per warp : !bars
        %next_p = arith.addi %use_p, %c1 : i32
        %pa = tgpu.convert %half : !half -> !a
        %sum_pending = tgpu.wgmma %pa, %d, %acc : !a, !tile, !acc -> !acc
        tgpu.wgmma_commit
        %sum = tgpu.wgmma_wait pending 0, %sum_pending : !acc
        tgpu.arrive %q_empty[%use_q] per warp : !bars
        %next_q = arith.addi %use_q, %c1 : i32
        tgpu.arrive %d_empty[%use_d] per warp : !bars
        %next_d = arith.addi %use_d, %c1 : i32
        scf.yield %sum, %next_q, %next_d, %next_p : !acc, i32, i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
    role "compute_2" warps 4 registers 232 {
      %c0 = arith.constant 0 : i32
      tgpu.wait %q_full[%c0] : !bars // SHARED
    }
}
