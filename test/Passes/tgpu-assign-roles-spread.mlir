// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.spread: otherwise idle warps execute the block's share of the work, a few rows at a time.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/converts.mlir --tgpu-assign-roles --canonicalize | FileCheck %s
// RUN: tilewright-opt %t/converts.mlir --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
// RUN: tilewright-opt %t/converts.mlir --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences | sed '/ last : /d' | not tilewright-opt --tgpu-verify-sync 2>&1 | FileCheck %s --check-prefix=EARLY
// RUN: sed 's/, group = 8, dynamic = 1>/, group = 0>/' %t/converts.mlir | not tilewright-opt --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=GRID
// RUN: tilewright-opt %t/other-work.mlir -split-input-file -verify-diagnostics --tgpu-assign-roles
// RUN: tilewright-opt %t/turns.mlir -split-input-file -verify-diagnostics --tgpu-verify-sync

// EARLY: error: 'tgpu.load' op reads a sum to which other blocks may still add; tgpu.await_turn with 'last' must come before
// EARLY: note: an addition
// GRID: error: 'tile.spread' op requires blocks that process several tiles, but got the schedule group=0; use group=1 or more

//--- converts.mlir

!view = !tile.view<[?, ?, 64], bf16>
!sum = !tile.view<[?, ?, 64], f32>
!turns = !tile.view<[?, ?], i32>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!d = tensor<128x64xf32, #tgpu.wgmma<2>>
!f32 = tensor<128x64xf32, #tgpu.blocked<4, lanes 16, warps 8, 1>>
!bf16 = tensor<128x64xbf16, #tgpu.blocked<4, lanes 16, warps 8, 1>>

// One warp loads, one adds, and two warps remain for the work: 16 rows of 64 columns give 16 elements per lane. No warp
// remains to take tiles: the role "load" does so when it has issued all copies, and publishes a tile before it copies.
// The number of tiles is computed for each tile, with a zero derived from its number. The role "reduce" receives only
// ids, in a ring of two slots, and arrives for each.
// CHECK-LABEL: tgpu.kernel @converts target "sm_90a" warps 12
// CHECK:         %[[TILES:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <4xi32, none>>
// CHECK-NEXT:    %[[TAKEN:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[READ:.*]] = tgpu.alloc_barriers arrivals 9 : !tgpu.barriers<2>
// CHECK:         role "load" warps 1 registers 24
// CHECK-NOT:       tile.spread
// CHECK:           %[[FIRST_TILE:.*]] = tgpu.take_tile of %{{.*}} all
// CHECK-NEXT:      scf.while (%[[TILE:.*]] = %[[FIRST_TILE]],
// CHECK-NEXT:        %[[ZERO:.*]] = arith.shrsi %[[TILE]],
// CHECK:             arith.addi %{{.*}}, %[[ZERO]]
// CHECK:             %[[ALL:.*]] = arith.muli
// CHECK-NEXT:        arith.cmpi slt, %[[TILE]], %[[ALL]] : i32
// CHECK:           ^bb0(%[[TILE:[^:]*]]: i32,
// CHECK:             tgpu.acquire %[[READ]][%[[USE:.*]]]
// CHECK-NEXT:        %[[SLOT:.*]] = tgpu.slot %[[TILES]][%[[USE]]]
// CHECK-NEXT:        tgpu.publish %[[TILE]], {{.*}} to %[[SLOT]] : !tgpu.shared<4xi32, none>
// CHECK-NEXT:        tgpu.arrive %[[TAKEN]][%[[USE]]] per {{ *}}role
// CHECK:             tgpu.tma_load
// CHECK:             tgpu.take_tile of %{{.*}} all
// CHECK:           tgpu.publish %c-1
// CHECK-NOT:     role "schedule"
// CHECK:         role "reduce" warps 1 registers 24
// CHECK:           tgpu.receive
// CHECK-NEXT:      tgpu.arrive %[[READ]]
// CHECK:           tgpu.await_turn %{{.*}} of %turns[%{{.*}}] : !tile.view<[?, ?], i32>
// CHECK:           tgpu.end_turn
// CHECK-NOT:       tgpu.load
// CHECK-NOT:     role "idle"
// CHECK:         role "spread" warps 2 registers 24 {
// CHECK:           %[[COUNT:[0-9]+]] = arith.muli
// CHECK-NEXT:      %[[LAST:[0-9]+]] = arith.divsi %[[COUNT]], %c8
// CHECK-NEXT:      %[[SPLIT:[0-9]+]] = arith.subi %[[COUNT]], %[[LAST]]
// CHECK-NEXT:      %[[FIRST:.*]], %[[STEP:.*]] = tgpu.share of %[[SPLIT]]
// CHECK-NEXT:      scf.for %[[NUMBER:[a-z0-9]+]] = %[[FIRST]] to %[[SPLIT]] step %[[STEP]]

// Scalars and conditions do not change.
// CHECK-NEXT:        %[[B:[0-9]+]] = arith.divsi %[[NUMBER]], %[[ROUNDS:[0-9]+]]
// CHECK-NEXT:        %[[I:[0-9]+]] = arith.remsi %[[NUMBER]], %[[ROUNDS]]
// CHECK-NEXT:        %[[M:[0-9]+]] = arith.muli %[[I]],
// CHECK-NEXT:        %[[ADDED:[0-9]+]] = tile.dim %x, 0
// CHECK-NEXT:        %[[SOME:[0-9]+]] = arith.cmpi sgt, %[[ADDED]],
// CHECK-NEXT:        scf.if %[[SOME]] {
// CHECK-NEXT:          tgpu.await_turn %[[ADDED]] of %turns[%[[B]], %[[I]]] last : !tile.view<[?, ?], i32>

// The tile, by rows: operations on 16 of 128 rows.
// CHECK-NEXT:          scf.for %[[ROW:[a-z0-9]+]] = %c0_i32 to %c128_i32 step %c16_i32
// CHECK-NEXT:            %[[FROM:[0-9]+]] = arith.addi %[[M]], %[[ROW]]
// CHECK-NEXT:            %[[SUM:[0-9]+]] = tgpu.load %sum[%[[B]], %[[FROM]], 0] : !tile.view<[?, ?, 64], f32> -> tensor<16x64xf32, #tgpu.blocked<4, lanes 16, warps 2, 1>>
// CHECK-NEXT:            %[[FACTORS:[0-9]+]] = tile.full %scale : tensor<16x64xf32, #tgpu.blocked<4, lanes 16, warps 2, 1>>
// CHECK-NEXT:            %[[SCALED:[0-9]+]] = arith.mulf %[[SUM]], %[[FACTORS]]
// CHECK-NEXT:            %[[ROUNDED:[0-9]+]] = tile.cast %[[SCALED]] : {{.*}} -> tensor<16x64xbf16, #tgpu.blocked<4, lanes 16, warps 2, 1>>
// CHECK-NEXT:            %[[TO:[0-9]+]] = arith.addi %[[M]], %[[ROW]]
// CHECK-NEXT:            tgpu.store %[[ROUNDED]], %o[%[[B]], %[[TO]], 0] : tensor<16x64xbf16, #tgpu.blocked<4, lanes 16, warps 2, 1>>
// CHECK-NOT:       tgpu.end_turn

// The roles that compute execute the last numbers after their tiles: eight warps hold the whole tile.
// CHECK:         role "compute" warps 8
// CHECK:           scf.while
// CHECK:           %[[COUNT:[0-9]+]] = arith.muli
// CHECK-NEXT:      %[[LAST:[0-9]+]] = arith.divsi %[[COUNT]], %c8
// CHECK-NEXT:      %[[SPLIT:[0-9]+]] = arith.subi %[[COUNT]], %[[LAST]]
// CHECK-NEXT:      %[[FIRST:.*]], %[[STEP:.*]] = tgpu.share of %[[LAST]]
// CHECK-NEXT:      %[[BEGIN:[0-9]+]] = arith.addi %[[SPLIT]], %[[FIRST]]
// CHECK-NEXT:      scf.for %{{.*}} = %[[BEGIN]] to %[[COUNT]] step %[[STEP]]
// CHECK:             tgpu.await_turn %{{.*}} last
// CHECK:             tgpu.load %sum{{.*}} -> tensor<{{.*}}, warps 8, 1>>
// CHECK:             tgpu.store
// CHECK-NOT:       tile.spread
tgpu.kernel @converts target "sm_90a" warps 8 (%x: !view, %sum: !sum, %turns: !turns, %o: !view, %scale: f32)
    grid(%n = dim(x, 0), %b = dim(sum, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, reduce_stages = 2, group = 8, dynamic = 1>} {
  %x_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %rows = tile.dim %x, 1 : !view
  %rounds = arith.ceildivsi %rows, %c128 : i32
  scf.for %i = %c0 to %rounds step %c1 : i32 {
    %m = arith.muli %i, %c128 : i32
    tgpu.copy_async %x[%n, %m, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %p16 = tile.cast %s : !s -> !s16
    %a = tgpu.convert %p16 : !s16 -> !a
    %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
    tgpu.wgmma_commit
    %d = tgpu.wgmma_wait pending 0, %d_pending : !d
    tgpu.atomic_add %d, %sum[%b, %m, 0] in order of %n by %turns[%b, %i] : !d, !sum, !turns
    tgpu.sync
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  %factors = tile.full %scale : !f32
  %batches = tile.dim %sum, 0 : !sum
  %count = arith.muli %rounds, %batches : i32
  tile.spread %number to %count {
    %sum_b = arith.divsi %number, %rounds : i32
    %sum_i = arith.remsi %number, %rounds : i32
    %sum_m = arith.muli %sum_i, %c128 : i32
    %added = tile.dim %x, 0 : !view
    %some = arith.cmpi sgt, %added, %c0 : i32
    scf.if %some {
      tile.await %added of %turns[%sum_b, %sum_i] : !turns
      %loaded = tgpu.load %sum[%sum_b, %sum_m, 0] : !sum -> !f32
      %scaled = arith.mulf %loaded, %factors : !f32
      %rounded = tile.cast %scaled : !f32 -> !bf16
      tgpu.store %rounded, %o[%sum_b, %sum_m, 0] : !bf16, !view
    }
  }
}

//--- other-work.mlir

// A tile with another order in memory.
!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @transposes target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    // expected-error @+1 {{'tgpu.load' op prevents a separate role for tile.spread: a tile must be loaded and stored row by row, but is not by 'tgpu.load'; move the work into a separate kernel}}
    %0 = tgpu.load %o[%m, 0] dims [1, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

// -----

// A tile that is stored at a fixed row.
!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @known_row target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    // expected-error @+1 {{'tgpu.store' op prevents a separate role for tile.spread: a tile must be loaded and stored row by row, but is not by 'tgpu.store'; move the work into a separate kernel}}
    tgpu.store %0, %y[0, %m] : !t, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @reduces target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    // expected-error @+1 {{'tile.reduce' op prevents a separate role for tile.spread: tiles must have only operations on each element, but got 'tile.reduce'; move the work into a separate kernel}}
    %1 = tile.reduce add %0 dim 1 : !t -> tensor<64xf32, #tgpu.slice<1, #tgpu.blocked<4, lanes 16, warps 4, 1>>>
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @otherwise target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    %some = arith.cmpi sgt, %m, %c0 : i32
    // expected-error @+1 {{'scf.if' op prevents a separate role for tile.spread: a branch that contains tiles must have no else region and no result, but has an else region; move the work into a separate kernel}}
    scf.if %some {
      %0 = tgpu.load %o[%m, 0] : !view -> !t
      tgpu.store %0, %y[%m, 0] : !t, !view
    } else {
      %0 = tgpu.load %o[%c0, 0] : !view -> !t
      tgpu.store %0, %y[%m, 0] : !t, !view
    }
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @two_branches target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    %some = arith.cmpi sgt, %m, %c0 : i32
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    scf.if %some {
      // expected-error @+1 {{'tgpu.store' op prevents a separate role for tile.spread: its tiles must be in one branch, but got 'tgpu.store' in another one; move the work into a separate kernel}}
      tgpu.store %0, %y[%m, 0] : !t, !view
    }
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
!half = tensor<32x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @two_shapes target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
    // expected-error @+1 {{'tgpu.load' op prevents a separate role for tile.spread: its tiles must all have rank 2 and the same shape, but got 32x64 after 64x64; move the work into a separate kernel}}
    %1 = tgpu.load %o[%m, 0] : !view -> !half
    tgpu.store %1, %y[%m, 0] : !half, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @waits_only target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  // expected-error @+1 {{'tile.spread' op prevents a separate role for tile.spread: it must store a tile, but has no operation on tiles; move the work into a separate kernel}}
  tile.spread %m to %n {
    %0 = arith.addi %m, %n : i32
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @two target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  tile.spread %m to %n {
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
  // expected-error @+1 {{'tile.spread' op prevents a separate role for tile.spread: a kernel must have one of them, but there is another one before it; move the work into a separate kernel}}
  tile.spread %m to %n {
    %0 = tgpu.load %o[%m, 0] : !view -> !t
    tgpu.store %0, %y[%m, 0] : !t, !view
  }
}

// -----

!view = !tile.view<[?, ?], f32>
!x = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xf32, #tgpu.blocked<4, lanes 16, warps 4, 1>>
tgpu.kernel @in_branch target "sm_90a" warps 4 (%a: !tile.view<[?, ?], bf16>, %o: !view, %y: !view, %n: i32)
    grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %b = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%m, 0], %b : !tile.view<[?, ?], bf16>, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !x, !x, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %s, %o[%c0, 0] : !acc, !view
  %some = arith.cmpi sgt, %n, %c0 : i32
  scf.if %some {
    // expected-error @+1 {{'tile.spread' op prevents a separate role for tile.spread: it must be in the body of the kernel, but is in 'scf.if'; move the work into a separate kernel}}
    tile.spread %m to %n {
      %0 = tgpu.load %o[%m, 0] : !view -> !t
      tgpu.store %0, %y[%m, 0] : !t, !view
    }
  }
}

//--- turns.mlir

// A role that waits for the last turn does not get a turn, and so has none to end.
!turns = !tile.view<[?], i32>
tgpu.kernel @no_turn target "sm_90a" warps 8 (%turns: !turns, %n: i32) grid(%i = 4) {
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "spread" warps 4 {
      %first, %step = tgpu.share of %n
      scf.for %m = %first to %n step %step : i32 {
        tgpu.await_turn %n of %turns[%m] last : !turns
      }
      tgpu.await_turn %n of %turns[0] last : !turns
      // expected-error @+1 {{ends a turn that its thread has not awaited}}
      tgpu.end_turn %n of %turns[0] : !turns
    }
    role "compute" warps 4 {
    }
}
