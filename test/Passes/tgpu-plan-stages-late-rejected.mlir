// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products of exchanged tiles that stay in stage 0: the schedule does not ask for stage 1, or it would be wrong there.
//
// RUN: tilewright-opt %s --split-input-file --tgpu-plan-stages | FileCheck %s

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>
!a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

// Only if the schedule asks for it.
// CHECK-LABEL: tgpu.kernel @not_late
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @not_late target "sm_90a" warps 12 (%n: i32) grid(%b = 1) {
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

// The wait for the product also waits for earlier ones, which may be what makes this release right.
// CHECK-LABEL: tgpu.kernel @releases_behind_product
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @releases_behind_product target "sm_90a" warps 12 (%n: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
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
        tgpu.arrive %k_empty[%use] per warp : !tgpu.barriers<1>
        %w1 = tgpu.wgmma %a, %k, %w : !a, !square, !acc -> !acc
        tgpu.wgmma_commit
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
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

// Another product reads the slot, too.
// CHECK-LABEL: tgpu.kernel @two_readers
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @two_readers target "sm_90a" warps 12 (%n: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
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
        %w1 = tgpu.wgmma %slot, %k, %w : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
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

// The slot is written again in the next iteration.
// CHECK-LABEL: tgpu.kernel @one_slot
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @one_slot target "sm_90a" warps 12 (%n: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<1, !shared>
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
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<1, !shared>
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

// The barrier is that of another buffer, too.
// CHECK-LABEL: tgpu.kernel @two_writes
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @two_writes target "sm_90a" warps 12 (%n: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
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
        tgpu.write %p, %other : !tile, !shared
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

// The second loop would execute stage 1 of the last iteration of the first loop, but multiplies by another buffer.
// CHECK-LABEL: tgpu.kernel @different
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
// CHECK: tgpu.sync
// CHECK-NOT: array<i64: 1,
tgpu.kernel @different target "sm_90a" warps 12 (%n: i32, %m: i32) grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %other = tgpu.alloc : !square
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
        %x1 = tgpu.wgmma %slot, %other : !shared, !square -> !acc
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
