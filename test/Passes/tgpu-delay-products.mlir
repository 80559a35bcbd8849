// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

// RUN: tilewright-opt %s --split-input-file --tgpu-delay-products | FileCheck %s

!view = !tile.view<[?, 64], bf16>
!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>

#late = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 2, late_products = 1>

// The second product of an iteration is issued in the next one. Two loops of a tile share the ring.

// CHECK-LABEL: tgpu.kernel @exchange
// CHECK: %[[RING:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK-DAG: %[[FULL:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK-DAG: %[[EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK: role "compute"
// CHECK: %[[FIRST:.*]]:3 = scf.for {{.*}} iter_args({{.*}}, {{.*}}, %[[USE:[a-z0-9]+]] = %[[BEGIN:[a-z0-9_]+]])
// CHECK: tgpu.acquire %{{.*}}[%[[USE]]]
// CHECK-NEXT: tgpu.write
// CHECK-NOT: tgpu.sync
// CHECK: %[[LATER:.*]] = arith.cmpi ne, %[[USE]], %[[BEGIN]] : i32
// CHECK: scf.if %[[LATER]]
// CHECK: %[[BEFORE:.*]] = arith.subi %[[USE]], %{{.*}} : i32
// CHECK: tgpu.wait %{{.*}}[%[[BEFORE]]]
// CHECK: %[[SLOT:.*]] = tgpu.slot %[[RING]][%[[BEFORE]]]
// CHECK: %[[X:.*]] = tgpu.wgmma %[[SLOT]]
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK: tgpu.wgmma {{.*}}, %arg{{.*}}
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK: tgpu.wgmma {{.*}}, %arg{{.*}}
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK: tgpu.fence_async
// CHECK-NEXT: tgpu.arrive %{{.*}}[%[[USE]]] per {{ *}}warp
// CHECK-NEXT: %[[SUM:.*]] = tgpu.wgmma_wait pending 2, %[[X]]
// CHECK-NEXT: tgpu.arrive %{{.*}}[%[[BEFORE]]] per {{ *}}warp
// CHECK: tgpu.acquire %{{.*}}[%[[BEFORE]]]
// CHECK: tgpu.write %[[SUM]]
// CHECK: tgpu.arrive %{{.*}}[%[[BEFORE]]] per {{ *}}warp
// CHECK: tgpu.wgmma_wait pending 1
// CHECK: tgpu.wgmma_wait pending 0
// CHECK: } else {
// CHECK-NOT: tgpu.slot
// CHECK: tgpu.arrive %{{.*}}[%[[USE]]] per {{ *}}warp
// CHECK: tgpu.wgmma_wait pending 1
// CHECK: tgpu.wgmma_wait pending 0
// The second loop continues the ring, and the tile's first use is that of the first loop.
// CHECK: %[[SECOND:.*]]:3 = scf.for {{.*}} iter_args({{.*}} = %[[FIRST]]#0, {{.*}} = %[[FIRST]]#1, %[[USE2:[a-z0-9]+]] = %[[FIRST]]#2)
// CHECK: arith.cmpi ne, %[[USE2]], %[[BEGIN]] : i32
// CHECK: tgpu.schedule
// The last product of the tile.
// CHECK: %[[ANY:.*]] = arith.cmpi ne, %[[SECOND]]#2, %[[BEGIN]] : i32
// CHECK: scf.if %[[ANY]] {
// CHECK: %[[LAST:.*]] = arith.subi %[[SECOND]]#2, %{{.*}} : i32
// CHECK: tgpu.slot %[[RING]][%[[LAST]]]
// CHECK: tgpu.wgmma_wait pending 0
// CHECK: tgpu.write
// CHECK: }
// CHECK: tgpu.arrive
tgpu.kernel @exchange target "sm_90a" warps 12 (%x: !view, %n: i32, %m: i32)
    grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
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
      %p = tile.cast %none : !acc -> !tile
      %first:3 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0) -> (!acc, !acc, i32) : i32 {
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        %v1 = tgpu.wgmma %q, %k, %v : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        tgpu.sync on %meet
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %w1 = tgpu.wgmma %q, %k, %w : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 2, %v1 : !acc
        %x2 = tgpu.wgmma_wait pending 1, %x1 : !acc
        tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      }
      %second:3 = scf.for %i = %n to %m step %c1 iter_args(%v = %first#0, %w = %first#1, %use = %first#2) -> (!acc, !acc, i32) : i32 {
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        %v1 = tgpu.wgmma %q, %k, %v : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        tgpu.sync on %meet
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %w1 = tgpu.wgmma %q, %k, %w : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 2, %v1 : !acc
        %x2 = tgpu.wgmma_wait pending 1, %x1 : !acc
        tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
      tgpu.arrive %k_empty[%c0] per warp : !tgpu.barriers<1>
    }
}

// -----

!view = !tile.view<[?, 64], bf16>
!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>

// Only if the schedule asks for it.

// CHECK-LABEL: tgpu.kernel @not_late
// CHECK: tgpu.sync
// CHECK-NOT: scf.if
tgpu.kernel @not_late target "sm_90a" warps 12 (%x: !view, %n: i32)
    grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
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
      %p = tile.cast %none : !acc -> !tile
      %first:3 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0) -> (!acc, !acc, i32) : i32 {
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        %v1 = tgpu.wgmma %q, %k, %v : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        tgpu.sync on %meet
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %w1 = tgpu.wgmma %q, %k, %w : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 2, %v1 : !acc
        %x2 = tgpu.wgmma_wait pending 1, %x1 : !acc
        tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      }
    }
}

// -----

!view = !tile.view<[?, 64], bf16>
!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>

#late = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 2, late_products = 1>

// The wait for the product also waits for earlier ones, which may be what makes this release right.

// CHECK-LABEL: tgpu.kernel @releases_behind_product
// CHECK: tgpu.sync
// CHECK-NOT: scf.if
tgpu.kernel @releases_behind_product target "sm_90a" warps 12 (%x: !view, %n: i32)
    grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
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
      %p = tile.cast %none : !acc -> !tile
      %first:3 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0) -> (!acc, !acc, i32) : i32 {
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        %v1 = tgpu.wgmma %q, %k, %v : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        tgpu.sync on %meet
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %w1 = tgpu.wgmma %q, %k, %w : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 2, %v1 : !acc
        %x2 = tgpu.wgmma_wait pending 1, %x1 : !acc
        tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
        tgpu.arrive %k_empty[%use] per warp : !tgpu.barriers<1>
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      }
    }
}

// -----

!view = !tile.view<[?, 64], bf16>
!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!sums = !tgpu.shared<128x64xf32, b32>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>

#late = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, scratch_stages = 2, late_products = 1>

// Another product reads the slot, too.

// CHECK-LABEL: tgpu.kernel @two_readers
// CHECK: tgpu.sync
// CHECK-NOT: scf.if
tgpu.kernel @two_readers target "sm_90a" warps 12 (%x: !view, %n: i32)
    grid(%b = 1) attributes {tgpu.role_schedule = #late} {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
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
      %p = tile.cast %none : !acc -> !tile
      %first:3 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %none, %w = %none, %use = %c0) -> (!acc, !acc, i32) : i32 {
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, !shared>
        tgpu.write %p, %slot : !tile, !shared
        %v1 = tgpu.wgmma %q, %k, %v : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        tgpu.sync on %meet
        %x1 = tgpu.wgmma %slot, %k : !shared, !square -> !acc
        tgpu.wgmma_commit
        %w1 = tgpu.wgmma %slot, %k, %w : !shared, !square, !acc -> !acc
        tgpu.wgmma_commit
        %v2 = tgpu.wgmma_wait pending 2, %v1 : !acc
        %x2 = tgpu.wgmma_wait pending 1, %x1 : !acc
        tgpu.acquire %out_empty[%use] : !tgpu.barriers<2>
        %sum = tgpu.slot %out[%use] : !tgpu.ring<2, !sums>
        tgpu.write %x2, %sum : !acc, !sums
        tgpu.arrive %out_full[%use] per warp : !tgpu.barriers<2>
        %w2 = tgpu.wgmma_wait pending 0, %w1 : !acc
        %next = arith.addi %use, %c1 : i32
        scf.yield %v2, %w2, %next : !acc, !acc, i32
      }
    }
}
