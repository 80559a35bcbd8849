// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Stages that meet in memory: stage 1 reads nothing of stage 0 but counters. It runs in a branch of the next iteration,
// for the counters less one.
//
// RUN: tilewright-opt %s --tgpu-expand-stages --split-input-file --verify-diagnostics | FileCheck %s

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>

// Two parts in a loop around them. The first iteration of a tile is the first of all these loops, and stage 1 of the
// last iteration follows the outer loop. In the branch are the operations behind the first one of stage 1, and waits
// count the groups of their branch.
// CHECK-LABEL: tgpu.kernel @tile
// CHECK: role "compute"
// CHECK: %[[OUTER:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[BEGIN:.*]] = %[[TILE:[a-z0-9_]+]])
// CHECK: %[[FIRST:.*]]:2 = scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[USE:.*]] = %[[BEGIN]])
// CHECK-NEXT: tgpu.slot %[[RING:.*]][%[[USE]]]
// CHECK-NEXT: tgpu.write
// CHECK-NEXT: %[[NEXT:.*]] = arith.addi %[[USE]]
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[USE]], %[[TILE]] : i32
// CHECK-NEXT: %[[V:.*]] = scf.if %[[LATER]]
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-NEXT: %[[BEFORE:.*]] = arith.subi %[[USE]], %[[ONE]] : i32
// CHECK-NEXT: tgpu.wait %[[FULL:.*]][%[[BEFORE]]]
// CHECK-NEXT: %[[SLOT:.*]] = tgpu.slot %[[RING]][%[[BEFORE]]]
// CHECK-NEXT: %[[X:.*]] = tgpu.wgmma %[[SLOT]]
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK-NEXT: %[[ISSUED:.*]] = tgpu.wgmma
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK-NEXT: tgpu.arrive %[[FULL]][%[[USE]]]
// CHECK-NEXT: tgpu.wgmma_wait pending 1, %[[X]]
// CHECK-NEXT: tgpu.arrive %[[EMPTY:.*]][%[[BEFORE]]]
// CHECK-NEXT: %[[DONE:.*]] = tgpu.wgmma_wait pending 0, %[[ISSUED]]
// CHECK-NEXT: scf.yield %[[DONE]]
// CHECK-NEXT: } else {
// CHECK-NEXT: %[[ALONE:.*]] = tgpu.wgmma
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK-NEXT: tgpu.arrive %[[FULL]][%[[USE]]]
// CHECK-NEXT: %[[DONE:.*]] = tgpu.wgmma_wait pending 0, %[[ALONE]]
// CHECK-NEXT: scf.yield %[[DONE]]
// CHECK-NEXT: }
// CHECK-NEXT: scf.yield %[[V]], %[[NEXT]]
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %[[FIRST]]#0, %[[USE:.*]] = %[[FIRST]]#1)
// CHECK: arith.cmpi ne, %[[USE]], %[[TILE]] : i32
// CHECK: tgpu.general
// CHECK-NEXT: scf.yield
// CHECK-NEXT: }
// CHECK-NEXT: %[[ANY:.*]] = arith.cmpi ne, %[[OUTER]]#1, %[[TILE]] : i32
// CHECK-NEXT: scf.if %[[ANY]] {
// CHECK-NEXT: %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-NEXT: %[[LAST:.*]] = arith.subi %[[OUTER]]#1, %[[ONE]] : i32
// CHECK-NEXT: tgpu.wait %[[FULL]][%[[LAST]]]
// CHECK-NEXT: %[[SLOT:.*]] = tgpu.slot %[[RING]][%[[LAST]]]
// CHECK-NEXT: %[[X:.*]] = tgpu.wgmma %[[SLOT]]
// CHECK-NEXT: tgpu.wgmma_commit
// CHECK-NEXT: tgpu.wgmma_wait pending 0, %[[X]]
// CHECK-NEXT: tgpu.arrive %[[EMPTY]][%[[LAST]]]
// CHECK-NEXT: }
tgpu.kernel @tile target "sm_90a" warps 12 (%h: i32, %n: i32, %m: i32, %tile: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %p = tile.cast %none : !acc -> !tile
      %all:2 = scf.for %head = %c0 to %h step %c1 iter_args(%carried = %none, %begin = %tile) -> (!acc, i32) : i32 {
        %first:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %carried, %use = %begin) -> (!acc, i32) : i32 {
          %slot = tgpu.slot %ring[%use] {tgpu.place = array<i64: 0, 0>} : !tgpu.ring<2, !shared>
          tgpu.write %p, %slot {tgpu.place = array<i64: 0, 1>} : !tile, !shared
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 0, 9>} : !tgpu.barriers<2>
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %again = tgpu.slot %ring[%use] {tgpu.place = array<i64: 1, 4>} : !tgpu.ring<2, !shared>
          %x1 = tgpu.wgmma %again, %k {tgpu.place = array<i64: 1, 5>} : !shared, !square -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 1, 6>}
          %x2 = tgpu.wgmma_wait pending 0, %x1 {tgpu.place = array<i64: 1, 10>} : !acc
          tgpu.arrive %empty[%use] per warp {tgpu.place = array<i64: 1, 11>} : !tgpu.barriers<2>
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 2>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        %second:2 = scf.for %i = %n to %m step %c1 iter_args(%v = %first#0, %use = %first#1) -> (!acc, i32) : i32 {
          %slot = tgpu.slot %ring[%use] {tgpu.place = array<i64: 0, 0>} : !tgpu.ring<2, !shared>
          tgpu.write %p, %slot {tgpu.place = array<i64: 0, 1>} : !tile, !shared
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 0, 9>} : !tgpu.barriers<2>
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %again = tgpu.slot %ring[%use] {tgpu.place = array<i64: 1, 4>} : !tgpu.ring<2, !shared>
          %x1 = tgpu.wgmma %again, %k {tgpu.place = array<i64: 1, 5>} : !shared, !square -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 1, 6>}
          %x2 = tgpu.wgmma_wait pending 0, %x1 {tgpu.place = array<i64: 1, 10>} : !acc
          tgpu.arrive %empty[%use] per warp {tgpu.place = array<i64: 1, 11>} : !tgpu.barriers<2>
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 2>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        scf.yield %second#0, %second#1 : !acc, i32
      }
      %used = arith.addi %all#1, %c1 : i32
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!tile = tensor<128x64xbf16, #tgpu.wgmma<2>>

// The first part is general, so it executes the first iteration of a tile, even if it would have none. The other part
// has no branch, since it is never the first.
// CHECK-LABEL: tgpu.kernel @general_first
// CHECK: scf.for {{.*}} iter_args(%{{.*}} = %{{.*}}, %[[BEGIN:.*]] = %[[TILE:[a-z0-9_]+]])
// CHECK-NEXT: %[[LATER:.*]] = arith.cmpi ne, %[[BEGIN]], %[[TILE]] : i32
// CHECK-NEXT: %[[ONE:.*]] = arith.addi %[[LOWER:.*]], %{{.*}} : i32
// CHECK-NEXT: %[[SOME:.*]] = arith.minsi %[[ONE]], %[[UPPER:.*]] : i32
// CHECK-NEXT: %[[EXTENDED:.*]] = arith.maxsi %[[SEAM:.*]], %[[SOME]] : i32
// CHECK-NEXT: %[[END:.*]] = arith.select %[[LATER]], %[[SEAM]], %[[EXTENDED]] : i32
// CHECK-NEXT: scf.for %{{.*}} = %[[LOWER]] to %[[END]]
// CHECK: scf.if
// CHECK: } else {
// CHECK: tgpu.general
// CHECK: scf.for %{{.*}} = %[[END]] to %[[UPPER]] {{.*}} %[[USE:[a-z0-9]+]] = %{{[a-z0-9]+}}#1)
// CHECK-NOT: scf.if
// CHECK: %[[BEFORE:.*]] = arith.subi %[[USE]]
// CHECK-NEXT: tgpu.wait %{{.*}}[%[[BEFORE]]]
// CHECK-NOT: scf.if
// CHECK: %[[DONE:.*]] = tgpu.wgmma_wait pending 0
// CHECK-NEXT: scf.yield %[[DONE]]
// CHECK: scf.if
// CHECK: tgpu.wgmma_wait pending 0
tgpu.kernel @general_first target "sm_90a" warps 12 (%h: i32, %n: i32, %m: i32, %tile: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %p = tile.cast %none : !acc -> !tile
      %all:2 = scf.for %head = %c0 to %h step %c1 iter_args(%carried = %none, %begin = %tile) -> (!acc, i32) : i32 {
        %first:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %carried, %use = %begin) -> (!acc, i32) : i32 {
          %slot = tgpu.slot %ring[%use] {tgpu.place = array<i64: 0, 0>} : !tgpu.ring<2, !shared>
          tgpu.write %p, %slot {tgpu.place = array<i64: 0, 1>} : !tile, !shared
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 0, 9>} : !tgpu.barriers<2>
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %again = tgpu.slot %ring[%use] {tgpu.place = array<i64: 1, 4>} : !tgpu.ring<2, !shared>
          %x1 = tgpu.wgmma %again, %k {tgpu.place = array<i64: 1, 5>} : !shared, !square -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 1, 6>}
          %x2 = tgpu.wgmma_wait pending 0, %x1 {tgpu.place = array<i64: 1, 10>} : !acc
          tgpu.arrive %empty[%use] per warp {tgpu.place = array<i64: 1, 11>} : !tgpu.barriers<2>
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 2>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        %second:2 = scf.for %i = %n to %m step %c1 iter_args(%v = %first#0, %use = %first#1) -> (!acc, i32) : i32 {
          %slot = tgpu.slot %ring[%use] {tgpu.place = array<i64: 0, 0>} : !tgpu.ring<2, !shared>
          tgpu.write %p, %slot {tgpu.place = array<i64: 0, 1>} : !tile, !shared
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 0, 9>} : !tgpu.barriers<2>
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %again = tgpu.slot %ring[%use] {tgpu.place = array<i64: 1, 4>} : !tgpu.ring<2, !shared>
          %x1 = tgpu.wgmma %again, %k {tgpu.place = array<i64: 1, 5>} : !shared, !square -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 1, 6>}
          %x2 = tgpu.wgmma_wait pending 0, %x1 {tgpu.place = array<i64: 1, 10>} : !acc
          tgpu.arrive %empty[%use] per warp {tgpu.place = array<i64: 1, 11>} : !tgpu.barriers<2>
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 2>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.general, tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        scf.yield %second#0, %second#1 : !acc, i32
      }
      %used = arith.addi %all#1, %c1 : i32
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>

tgpu.kernel @in_flight target "sm_90a" warps 12 (%h: i32, %n: i32, %tile: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %all:2 = scf.for %head = %c0 to %h step %c1 iter_args(%carried = %none, %begin = %tile) -> (!acc, i32) : i32 {
        %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %carried, %use = %begin) -> (!acc, i32) : i32 {
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 1>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 2>}
          // expected-error @+1 {{'tgpu.wait' op must begin stage 1 when no product is in flight, since a branch begins there, but got one in flight; wait for it first}}
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 1, 13>} : !tgpu.barriers<2>
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 0>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        scf.yield %r#0, %r#1 : !acc, i32
      }
      %used = arith.addi %all#1, %c1 : i32
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>

tgpu.kernel @of_loop_around target "sm_90a" warps 12 (%h: i32, %n: i32, %tile: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %all:2 = scf.for %head = %c0 to %h step %c1 iter_args(%carried = %none, %begin = %tile) -> (!acc, i32) : i32 {
        %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %carried, %use = %begin) -> (!acc, i32) : i32 {
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          // expected-error @+1 {{'tgpu.wait' op of stage 1 must read what is the same after the loops of its tile, but got a value of a loop around its own; compute it before these loops}}
          tgpu.wait %full[%head] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 1, 13>} : !tgpu.barriers<2>
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 0>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        scf.yield %r#0, %r#1 : !acc, i32
      }
      %used = arith.addi %all#1, %c1 : i32
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>

tgpu.kernel @without_stages target "sm_90a" warps 12 (%h: i32, %n: i32, %tile: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %all:2 = scf.for %head = %c0 to %h step %c1 iter_args(%carried = %none, %begin = %tile) -> (!acc, i32) : i32 {
        // expected-error @+1 {{'scf.for' op must have stages, too, but got none: it advances a counter of loops of the same tile, whose stage 1 runs one iteration later; give its operations places, or the counter to these loops alone}}
        %other = scf.for %i = %c0 to %n step %c1 iter_args(%use = %begin) -> (i32) : i32 {
          %next = arith.addi %use, %c1 : i32
          scf.yield %next : i32
        }
        %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %carried, %use = %other) -> (!acc, i32) : i32 {
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 12>} : !acc
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 1, 13>} : !tgpu.barriers<2>
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 0>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        scf.yield %r#0, %r#1 : !acc, i32
      }
      %used = arith.addi %all#1, %c1 : i32
    }
}

// -----

!shared = !tgpu.shared<128x64xbf16, b128>
!square = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>

tgpu.kernel @ends_in_flight target "sm_90a" warps 12 (%h: i32, %n: i32, %tile: i32) grid(%b = 1) {
  %zero = arith.constant 0.0 : f32
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q = tgpu.alloc : !shared
  %k = tgpu.alloc : !square
  %ring = tgpu.alloc_ring : !tgpu.ring<2, !shared>
  %full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %none = tile.full %zero : !acc
      %all:2 = scf.for %head = %c0 to %h step %c1 iter_args(%carried = %none, %begin = %tile) -> (!acc, i32) : i32 {
        // expected-error @+1 {{'scf.for' op must wait for all products in their iteration, since a branch ends there, but got one in flight; wait for it}}
        %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%v = %carried, %use = %begin) -> (!acc, i32) : i32 {
          %v1 = tgpu.wgmma %q, %k, %v {tgpu.place = array<i64: 0, 7>} : !shared, !square, !acc -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 8>}
          tgpu.wait %full[%use] {tgpu.place = array<i64: 1, 3>} : !tgpu.barriers<2>
          %v2 = tgpu.wgmma_wait pending 0, %v1 {tgpu.place = array<i64: 0, 9>} : !acc
          %w = tgpu.wgmma %q, %k {tgpu.place = array<i64: 0, 10>} : !shared, !square -> !acc
          tgpu.wgmma_commit {tgpu.place = array<i64: 0, 11>}
          tgpu.arrive %full[%use] per warp {tgpu.place = array<i64: 1, 13>} : !tgpu.barriers<2>
          %next = arith.addi %use, %c1 {tgpu.place = array<i64: 0, 0>} : i32
          scf.yield %v2, %next : !acc, i32
        } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
        scf.yield %r#0, %r#1 : !acc, i32
      }
      %used = arith.addi %all#1, %c1 : i32
    }
}
