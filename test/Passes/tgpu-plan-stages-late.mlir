// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of an exchanged tile is stage 1 if the schedule asks for that, and barriers of slots replace the barrier.
//
// RUN: tilewright-opt %s --split-input-file --tgpu-plan-stages | FileCheck %s

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>
!a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

#late = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 2, late_products = 1>

// Two loops of a tile share the ring. In front of stage 1 are the counters; behind its product, those of stage 0, and
// the release of the written slot; then, in order, the waits, each with what needs its result.
// CHECK-LABEL: tgpu.kernel @exchange
// CHECK: %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK-NEXT: %[[FULL:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK-NEXT: %[[EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK: role "compute"
// CHECK: %[[FIRST:.*]]:4 = scf.for {{.*}} %[[USE:[a-z0-9]+]] = %{{[a-z0-9_]+}}, %[[OUT:[a-z0-9]+]] = %{{[a-z0-9_]+}})
// CHECK: %[[SLOT:.*]] = tgpu.slot %[[RING]][%[[USE]]] {tgpu.place = array<i64: 0, 5>}
// CHECK-NEXT: tgpu.acquire %[[EMPTY]][%[[USE]]] {tgpu.place = array<i64: 0, 6>}
// CHECK-NEXT: tgpu.write %{{.*}}, %[[SLOT]] {tgpu.place = array<i64: 0, 7>}
// CHECK-NEXT: tgpu.fence_async {tgpu.place = array<i64: 0, 18>}
// CHECK-NEXT: tgpu.arrive %[[FULL]][%[[USE]]] per {{ *}}warp {tgpu.place = array<i64: 0, 19>}
// CHECK-NEXT: tgpu.wait %[[FULL]][%[[USE]]] {tgpu.place = array<i64: 1, 10>}
// CHECK-NEXT: %[[V:.*]] = tgpu.wgmma {{.*}}, %arg{{.*}} {tgpu.place = array<i64: 0, 14>}
// CHECK-NEXT: tgpu.wgmma_commit {tgpu.place = array<i64: 0, 15>}
// CHECK-NEXT: tgpu.wgmma_wait pending 0, %[[V]] {tgpu.place = array<i64: 0, 27>}
// CHECK-NEXT: %[[AGAIN:.*]] = tgpu.slot %[[RING]][%[[USE]]] {tgpu.place = array<i64: 1, 11>}
// CHECK-NEXT: %[[X:.*]] = tgpu.wgmma %[[AGAIN]], %{{.*}} {tgpu.place = array<i64: 1, 12>}
// CHECK-NEXT: tgpu.wgmma_commit {tgpu.place = array<i64: 1, 13>}
// CHECK-NEXT: %[[SUM:.*]] = tgpu.wgmma_wait pending 0, %[[X]] {tgpu.place = array<i64: 1, 20>}
// CHECK-NEXT: tgpu.arrive %[[EMPTY]][%[[USE]]] per {{ *}}warp {tgpu.place = array<i64: 1, 21>}
// CHECK-NEXT: tgpu.acquire %{{.*}}[%[[OUT]]] {tgpu.place = array<i64: 1, 22>}
// CHECK-NEXT: %[[TO:.*]] = tgpu.slot %{{.*}}[%[[OUT]]] {tgpu.place = array<i64: 1, 23>}
// CHECK-NEXT: tgpu.write %[[SUM]], %[[TO]] {tgpu.place = array<i64: 1, 24>}
// CHECK-NEXT: tgpu.fence_async {tgpu.place = array<i64: 1, 25>}
// CHECK-NEXT: tgpu.arrive %{{.*}}[%[[OUT]]] per {{ *}}warp {tgpu.place = array<i64: 1, 26>}
// CHECK-NEXT: %[[W:.*]] = tgpu.wgmma {{.*}}, %arg{{.*}} {tgpu.place = array<i64: 0, 16>}
// CHECK-NEXT: tgpu.wgmma_commit {tgpu.place = array<i64: 0, 17>}
// CHECK-NEXT: tgpu.wgmma_wait pending 0, %[[W]] {tgpu.place = array<i64: 0, 28>}
// CHECK-NEXT: arith.addi %[[USE]], %{{.*}} {tgpu.place = array<i64: 0, 8>}
// CHECK-NEXT: arith.addi %[[OUT]], %{{.*}} {tgpu.place = array<i64: 0, 9>}
// CHECK: scf.for {{.*}} = %[[FIRST]]#3)
// CHECK-NOT: tgpu.sync
// CHECK: tgpu.wait %[[FULL]]{{.*}} {tgpu.place = array<i64: 1, 10>}
tgpu.kernel @exchange target "sm_90a" warps 12 (%n: i32, %m: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %out = tgpu.alloc_ring : !tgpu.ring<2, !sums>
  %out_full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %out_empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %meet = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %first:4 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0, %to = %c0) -> (!acc, !acc, i32, i32) : i32 {
        %s1 = tgpu.wgmma %q, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %s2 = tgpu.wgmma_wait pending 0, %s1 : !acc
        %p = tile.cast %s2 : !acc -> !tile
        %a = tgpu.convert %p : !tile -> !a
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        tgpu.sync on %meet
        %v1 = tgpu.wgmma %a, %k, %v : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 0, %v1 : !acc
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %x2 = tgpu.wgmma_wait pending 0, %x1 : !acc
        tgpu.acquire %out_empty[%to] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%to] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.fence_async
        tgpu.arrive %out_full[%to] per warp : !tgpu.barriers<2>
        %w1 = tgpu.wgmma %a, %k, %w : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        %next_to = arith.addi %to, %c1 : i32
        scf.yield %v2, %w2, %next, %next_to : !acc, !acc, i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %second:4 = scf.for %i = %n to %m step %c1 iter_args(%v = %first#0, %w = %first#1, %use = %first#2, %to = %first#3) -> (!acc, !acc, i32, i32) : i32 {
        %s1 = tgpu.wgmma %q, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %s2 = tgpu.wgmma_wait pending 0, %s1 : !acc
        %p = tile.cast %s2 : !acc -> !tile
        %a = tgpu.convert %p : !tile -> !a
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        tgpu.sync on %meet
        %v1 = tgpu.wgmma %a, %k, %v : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 0, %v1 : !acc
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %x2 = tgpu.wgmma_wait pending 0, %x1 : !acc
        tgpu.acquire %out_empty[%to] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%to] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.fence_async
        tgpu.arrive %out_full[%to] per warp : !tgpu.barriers<2>
        %w1 = tgpu.wgmma %a, %k, %w : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        %next_to = arith.addi %to, %c1 : i32
        scf.yield %v2, %w2, %next, %next_to : !acc, !acc, i32, i32
      } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %both = arith.addi %second#2, %second#3 : i32
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>
!a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

#late = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 2, late_products = 1>

// Another loop uses the ring without barriers for its slots: their uses would be missing there.
// CHECK-LABEL: tgpu.kernel @other_loop
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @other_loop target "sm_90a" warps 12 (%n: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %other = tgpu.alloc : !shared
  %out = tgpu.alloc_ring : !tgpu.ring<2, !sums>
  %out_full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %out_empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %k_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %meet = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0) -> (!acc, !acc, i32) : i32 {
        %s1 = tgpu.wgmma %q, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %s2 = tgpu.wgmma_wait pending 0, %s1 : !acc
        %p = tile.cast %s2 : !acc -> !tile
        %a = tgpu.convert %p : !tile -> !a
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        tgpu.sync on %meet
        %v1 = tgpu.wgmma %a, %k, %v : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 0, %v1 : !acc
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %x2 = tgpu.wgmma_wait pending 0, %x1 : !acc
        tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
        %w1 = tgpu.wgmma %a, %k, %w : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      %n_next = scf.for %i = %c0 to %n step %c1 iter_args(%use = %r#2) -> (i32) : i32 {
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.sync on %meet
        %read = tgpu.read %slot : !shared -> !tile
        tgpu.sync on %meet
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>
!a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

#late = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 2, late_products = 1>

// The same in the other side of a condition that holds for all tiles or for none.
// CHECK-LABEL: tgpu.kernel @other_side
// CHECK: scf.for
// CHECK-NOT: tgpu.sync
// CHECK: array<i64: 1,
// CHECK: } else {
// CHECK-NOT: array<i64: 1,
tgpu.kernel @other_side target "sm_90a" warps 12 (%n: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %other = tgpu.alloc : !shared
  %out = tgpu.alloc_ring : !tgpu.ring<2, !sums>
  %out_full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %out_empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %k_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %meet = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %is_common = arith.cmpi sgt, %n, %c1 : i32
      scf.if %is_common {
        %none = tile.full %zero : !acc
        %r:3 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0) -> (!acc, !acc, i32) : i32 {
          %s1 = tgpu.wgmma %q, %k : !shared, !square -> !acc
          tgpu.wgmma_commit
          %s2 = tgpu.wgmma_wait pending 0, %s1 : !acc
          %p = tile.cast %s2 : !acc -> !tile
          %a = tgpu.convert %p : !tile -> !a
          %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
          tgpu.write %p, %slot : !tile, !shared
          tgpu.sync on %meet
          %v1 = tgpu.wgmma %a, %k, %v : !a, !square, !acc -> !acc
          tgpu.wgmma_commit
          %v2 = tgpu.wgmma_wait pending 0, %v1 : !acc
          %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
          tgpu.wgmma_commit
          %x2 = tgpu.wgmma_wait pending 0, %x1 : !acc
          tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
          %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
          tgpu.write %x2, %sum : !acc, !sums
          tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
          %w1 = tgpu.wgmma %a, %k, %w : !a, !square, !acc -> !acc
          tgpu.wgmma_commit
          %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
          %next = arith.addi %use, %c1 : i32
          scf.yield %v2, %w2, %next : !acc, !acc, i32
        } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      } else {
        %n_next = scf.for %i = %c0 to %n step %c1 iter_args(%use = %c0) -> (i32) : i32 {
          %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
          tgpu.sync on %meet
          %read = tgpu.read %slot : !shared -> !tile
          tgpu.sync on %meet
          %next = arith.addi %use, %c1 : i32
          scf.yield %next : i32
        }
      }
    }
}
