// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An iteration that reads the sum of the previous iterations and extends it, stores a result, and advances by the rows
// of a block.
//
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-stages --tgpu-expand-stages | FileCheck %s
// RUN: sed 's/in_flight = 1/in_flight = 2/' %s | tilewright-opt -split-input-file --tgpu-plan-stages --tgpu-expand-stages | FileCheck %s --check-prefix=AHEAD
// RUN: sed 's/in_flight = 1/in_flight = 2/; /^!ring =/s/2, /1, /; s/barriers<2>/barriers<1>/' %s \
// RUN:   | tilewright-opt -split-input-file --tgpu-plan-stages --tgpu-expand-stages | FileCheck %s --check-prefix=ONE

!tile = !tgpu.shared<128x128xbf16, b128>
!ring = !tgpu.ring<2, !tile>
!bars = !tgpu.barriers<2>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!view = !tile.view<[?, 128], bf16>

// The state is converted before any product is issued, and written while S runs. The product that extends it comes
// after its reader; that of P joins the product of the state without a wait between them, and one wait ends both. The
// result is stored after it.
// CHECK-LABEL: tgpu.kernel @chunks
// CHECK:           scf.for %{{.*}} step %c128_i32 iter_args(%[[STATE:[a-z0-9]*]] =
// CHECK:             tile.cast %[[STATE]]
// CHECK:             %[[S:.*]] = tgpu.wgmma %{{.*}} transpose_b
// CHECK:             tgpu.sync
// CHECK-NEXT:        tgpu.write
// CHECK:             tgpu.sync
// CHECK:             %[[O:.*]] = tgpu.wgmma
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        %[[SUM:.*]] = tgpu.wgmma %{{.*}} transpose_a, %[[STATE]]
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wgmma_wait pending 2, %[[S]]
// CHECK:             %[[BOTH:.*]] = tgpu.wgmma %{{.*}}, %[[O]]
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NEXT:        tgpu.wgmma_wait pending 1, %[[SUM]]
// CHECK-NEXT:        tgpu.wgmma_wait pending 0, %[[BOTH]]
// CHECK:             tgpu.store
// CHECK-NOT:         tgpu.wgmma_wait

// The next S is in flight while the result is stored; the sum is extended while warps synchronize.
// AHEAD-LABEL: tgpu.kernel @chunks
// AHEAD:           %[[BEGIN:.*]] = arith.addi %c0_i32, %c128_i32
// AHEAD:           scf.for %{{.*}} = %[[BEGIN]] to %{{.*}} step %c128_i32 iter_args(%[[STATE:[a-z0-9]*]] =
// AHEAD-NEXT:        tile.cast %[[STATE]]
// AHEAD:             %[[SUM:.*]] = tgpu.wgmma %{{.*}} transpose_a, %[[STATE]]
// AHEAD:             tgpu.sync
// AHEAD:             %[[O:.*]] = tgpu.wgmma
// AHEAD:             %[[BOTH:.*]] = tgpu.wgmma %{{.*}}, %[[O]]
// AHEAD-NEXT:        tgpu.wgmma_commit
// AHEAD-NEXT:        tgpu.wgmma_wait pending 2, %[[SUM]]
// AHEAD:             %[[NEXT:.*]] = tgpu.wgmma %{{.*}} transpose_b
// AHEAD:             tgpu.wgmma_wait pending 1, %[[BOTH]]
// AHEAD:             tgpu.store
// AHEAD:             tgpu.wgmma_wait pending 0, %[[NEXT]]

// Its operands have no slot while this iteration uses the only one.
// ONE-LABEL: tgpu.kernel @chunks
// ONE-NOT:     arith.cmpi
// ONE:         scf.for
// ONE:           tgpu.wgmma_wait pending 0
// ONE:           tgpu.store
tgpu.kernel @chunks target "sm_90a" warps 12 (%out: !view, %rows: i32) grid(%b = 1) {
  %state_buffer = tgpu.alloc : !tile
  %q_ring = tgpu.alloc_ring : !ring
  %k_ring = tgpu.alloc_ring : !ring
  %full = tgpu.alloc_barriers arrivals 1 : !bars
  %empty = tgpu.alloc_barriers arrivals 8 : !bars
  %meet = tgpu.named_barrier warps 8 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !s
      %r:2 = scf.for %n = %c0 to %rows step %c128 iter_args(%state = %zeros, %use = %c0) -> (!s, i32) : i32 {
        tgpu.sync on %meet
        tgpu.wait %full[%use] : !bars
        %q = tgpu.slot %q_ring[%use] : !ring
        %k = tgpu.slot %k_ring[%use] : !ring
        %s_pending = tgpu.wgmma %q, %k transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %p = tile.cast %s : !s -> !s16
        %state16 = tile.cast %state : !s -> !s16
        tgpu.write %state16, %state_buffer : !s16, !tile
        tgpu.fence_async
        tgpu.sync on %meet
        %o_pending = tgpu.wgmma %q, %state_buffer : !tile, !tile -> !s
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !s
        %pa = tgpu.convert %p : !s16 -> !a
        %both_pending = tgpu.wgmma %pa, %k, %o : !a, !tile, !s -> !s
        tgpu.wgmma_commit
        %both = tgpu.wgmma_wait pending 0, %both_pending : !s
        %result = tile.cast %both : !s -> !s16
        tgpu.store %result, %out[%n, 0] : !s16, !view
        %sum_pending = tgpu.wgmma %k, %k transpose_a, %state : !tile, !tile, !s -> !s
        tgpu.wgmma_commit
        %sum = tgpu.wgmma_wait pending 0, %sum_pending : !s
        tgpu.arrive %empty[%use] per warp : !bars
        %next = arith.addi %use, %c1 : i32
        scf.yield %sum, %next : !s, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

// -----

!tile = !tgpu.shared<128x128xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!view = !tile.view<[?, 128], f32>

// An iteration that loads from a view that it stores to does not change.
// CHECK-LABEL: tgpu.kernel @reads_back
// CHECK:           tgpu.store
// CHECK-NEXT:      tgpu.load
// CHECK-NEXT:      = tgpu.wgmma %
tgpu.kernel @reads_back target "sm_90a" warps 12 (%out: !view, %rows: i32) grid(%b = 1) {
  %k = tgpu.alloc : !tile
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 8 registers 240 {
      scf.for %n = %c0 to %rows step %c128 : i32 {
        %s_pending = tgpu.wgmma %k, %k transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        tgpu.store %s, %out[%n, 0] : !s, !view
        %t = tgpu.load %out[%c0, 0] : !view -> !s
        %u_pending = tgpu.wgmma %k, %k, %t : !tile, !tile, !s -> !s
        tgpu.wgmma_commit
        %u = tgpu.wgmma_wait pending 0, %u_pending : !s
        tgpu.store %u, %out[%n, 0] : !s, !view
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}
