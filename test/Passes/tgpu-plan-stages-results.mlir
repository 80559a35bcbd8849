// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An iteration that multiplies what the previous one yields, and whose results leave by TMA: their barriers and fences
// hide behind products.
//
// RUN: tilewright-opt %s --tgpu-plan-stages --tgpu-expand-stages | FileCheck %s

!tile = !tgpu.shared<64x64xbf16, b128>
!row = !tgpu.shared<64xf32, none>
!ring = !tgpu.ring<2, !tile>
!row_ring = !tgpu.ring<2, !row>
!bars = !tgpu.barriers<2>
!s = tensor<64x64xf32, #tgpu.wgmma<1>>
!s16 = tensor<64x64xbf16, #tgpu.wgmma<1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!factors = tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<1>>>
!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>

// Both operands have arrived, and the carried state is converted, before the first product is issued; the second one
// extends it without an operation between them. While they run, the row is read, the other operand waited for, and the
// state leaves. Of what depends on their sum, the last product comes first, and the result leaves while it runs.
// CHECK-LABEL: tgpu.kernel @chunks
// CHECK:           scf.for {{.*}} iter_args(%[[STATE:[a-z0-9]*]] = %{{[a-z0-9_]*}}, %[[USE_V:[a-z0-9]*]] = %{{[a-z0-9_]*}}, %[[USE_W:[a-z0-9]*]] = %{{[a-z0-9_]*}}, %[[USE_K:[a-z0-9]*]] =
// CHECK-DAG:         tgpu.wait %{{.*}}[%[[USE_V]]]
// CHECK-DAG:         tgpu.wait %{{.*}}[%[[USE_W]]]
// CHECK-DAG:         tgpu.convert
// CHECK:             %[[V:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} : !tgpu.shared
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK-NOT:         tgpu.wait %
// CHECK-NOT:         tile.cast
// CHECK:             %[[U:.*]] = tgpu.wgmma %{{.*}} transpose_b, %[[V]]
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK:             tgpu.wait %{{.*}}[%[[USE_K]]]
// CHECK:             tgpu.read
// CHECK:             tgpu.bulk_wait pending 0 read
// CHECK-NEXT:        tgpu.sync
// CHECK:             tgpu.write
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:        tgpu.sync
// CHECK:             tgpu.tma_store
// CHECK-NEXT:        tgpu.bulk_commit
// CHECK:             tgpu.wgmma_wait pending 0, %[[U]]
// CHECK-NOT:         tgpu.wait %
// CHECK-NOT:         tgpu.sync
// CHECK:             %[[NEW:.*]] = tgpu.wgmma
// CHECK-NEXT:        tgpu.wgmma_commit
// CHECK:             tgpu.write
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:        tgpu.sync
// CHECK:             tgpu.tma_store
// CHECK-NEXT:        tgpu.bulk_commit
// CHECK:             tgpu.wgmma_wait pending 0, %[[NEW]]
tgpu.kernel @chunks target "sm_90a" warps 8 (%states: !view, %us: !view, %rows: i32) grid(%b = 1) {
  %state_map = tgpu.tensor_map %states : !view -> !map
  %u_map = tgpu.tensor_map %us : !view -> !map
  %v_ring = tgpu.alloc_ring : !ring
  %m_ring = tgpu.alloc_ring : !ring
  %w_ring = tgpu.alloc_ring : !ring
  %k_ring = tgpu.alloc_ring : !ring
  %left_ring = tgpu.alloc_ring : !row_ring
  %state_buffer = tgpu.alloc : !tile
  %u_buffer = tgpu.alloc : !tile
  %v_full = tgpu.alloc_barriers arrivals 1 : !bars
  %w_full = tgpu.alloc_barriers arrivals 1 : !bars
  %k_full = tgpu.alloc_barriers arrivals 1 : !bars
  %v_empty = tgpu.alloc_barriers arrivals 4 : !bars
  %w_empty = tgpu.alloc_barriers arrivals 4 : !bars
  %k_empty = tgpu.alloc_barriers arrivals 4 : !bars
  %meet = tgpu.named_barrier warps 4 : index
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  tgpu.roles
    role "load" warps 4 registers 24 {
    }
    role "compute" warps 4 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !s
      %r:4 = scf.for %n = %c0 to %rows step %c64
          iter_args(%state = %zeros, %use_v = %c0, %use_w = %c0, %use_k = %c0) -> (!s, i32, i32, i32) : i32 {
        tgpu.wait %v_full[%use_v] : !bars
        %v = tgpu.slot %v_ring[%use_v] : !ring
        %m = tgpu.slot %m_ring[%use_v] : !ring
        %v_pending = tgpu.wgmma %v, %m : !tile, !tile -> !s
        tgpu.wgmma_commit
        %of_v = tgpu.wgmma_wait pending 0, %v_pending : !s
        tgpu.arrive %v_empty[%use_v] per warp : !bars
        %next_v = arith.addi %use_v, %c1 : i32
        %state16 = tile.cast %state : !s -> !s16
        %state_a = tgpu.convert %state16 : !s16 -> !a
        tgpu.wait %w_full[%use_w] : !bars
        %w = tgpu.slot %w_ring[%use_w] : !ring
        %u_pending = tgpu.wgmma %state_a, %w transpose_b, %of_v : !a, !tile, !s -> !s
        tgpu.wgmma_commit
        %u = tgpu.wgmma_wait pending 0, %u_pending : !s
        tgpu.arrive %w_empty[%use_w] per warp : !bars
        %next_w = arith.addi %use_w, %c1 : i32
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %meet
        tgpu.write %state16, %state_buffer : !s16, !tile
        tgpu.fence_async
        tgpu.sync on %meet
        tgpu.tma_store %state_buffer, %state_map[%n, 0] : !tile, !map
        tgpu.bulk_commit
        tgpu.wait %k_full[%use_k] : !bars
        %left = tgpu.slot %left_ring[%use_k] : !row_ring
        %left_row = tgpu.read %left : !row -> !factors
        %lefts = tile.expand %left_row dim 0 : !factors -> !s
        %u_left = arith.mulf %u, %lefts : !s
        %u_left16 = tile.cast %u_left : !s -> !s16
        %u_a = tgpu.convert %u_left16 : !s16 -> !a
        %old = arith.mulf %state, %lefts : !s
        %k = tgpu.slot %k_ring[%use_k] : !ring
        %new_pending = tgpu.wgmma %u_a, %k, %old : !a, !tile, !s -> !s
        tgpu.wgmma_commit
        %new = tgpu.wgmma_wait pending 0, %new_pending : !s
        tgpu.arrive %k_empty[%use_k] per warp : !bars
        %next_k = arith.addi %use_k, %c1 : i32
        %u16 = tile.cast %u : !s -> !s16
        tgpu.write %u16, %u_buffer : !s16, !tile
        tgpu.fence_async
        tgpu.sync on %meet
        tgpu.tma_store %u_buffer, %u_map[%n, 0] : !tile, !map
        tgpu.bulk_commit
        scf.yield %new, %next_v, %next_w, %next_k : !s, i32, i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}
