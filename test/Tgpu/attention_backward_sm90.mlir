// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention backward for Hopper, D 64, bf16, written by hand: one block of 128 keys against all blocks of
// 128 queries (Dao, FlashAttention-2, 2023, algorithm 2; roles as in FlashAttention-3).
//
//   load      K and V once; Q with LSE, and dO with delta, through rings of two stages: the row vectors
//             share the barriers of their tiles.
//   compute   two warpgroups, 64 keys each, everything transposed:
//               S^T = K Q^T,  dP^T = V dO^T           P^T and dS^T stay in registers as operand a:
//               dV += P^T dO, dK += dS^T Q
//             dS also goes to shared memory, since dQ = dS K sums over the keys of both warpgroups,
//             64 queries each.
//   reduce    adds dQ to memory, through its own ring: `compute` never waits for memory.
//
//     compute   S dP | exp2 | dV | dS -> shared, meet | dQ dK | dQ -> ring | ...
//     reduce                                                               | dQ += | ...
//
// dQ is added in f32, in no defined order, without the factor `scale`; dK includes it.
//
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

!view = !tile.view<[?, ?, ?, 64], bf16>
!view_f32 = !tile.view<[?, ?, ?, 64], f32>
!rows = !tile.view<[?, ?, ?], f32>
!map = !tgpu.tensor_map<1x1x128x64xbf16, b128>
!map_f32 = !tgpu.tensor_map<1x1x128x32xf32, b128>
!tile = !tgpu.shared<128x64xbf16, b128>
!tile_f32 = !tgpu.shared<128x64xf32, b128>
!square = !tgpu.shared<128x128xbf16, b128>
!vector = !tgpu.shared<128xf32, none>
!ring = !tgpu.ring<2, !tile>
!ring_f32 = !tgpu.ring<2, !tile_f32>
!ring_vector = !tgpu.ring<2, !vector>
!st = tensor<128x128xf32, #tgpu.wgmma<2>>
!st_i32 = tensor<128x128xi32, #tgpu.wgmma<2>>
!st_i1 = tensor<128x128xi1, #tgpu.wgmma<2>>
!st_bf16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!st_a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!acc_bf16 = tensor<128x64xbf16, #tgpu.wgmma<2>>
!query = tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>

// CHECK-LABEL: tgpu.kernel @attention_backward target "sm_90a" warps 12
tgpu.kernel @attention_backward target "sm_90a" warps 12
    (%q: !view, %k: !view, %v: !view, %do: !view, %lse_log2: !rows, %delta: !rows,
     %dq: !view_f32, %dk: !view, %dv: !view, %scale: f32, %scale_log2: f32)
    grid(%key_block = ceildiv(dim(k, 2), 128), %h = dim(k, 1), %b = dim(k, 0)) {
  %q_map = tgpu.tensor_map %q : !view -> !map
  %k_map = tgpu.tensor_map %k : !view -> !map
  %v_map = tgpu.tensor_map %v : !view -> !map
  %do_map = tgpu.tensor_map %do : !view -> !map
  %dq_map = tgpu.tensor_map %dq : !view_f32 -> !map_f32
  %dk_map = tgpu.tensor_map %dk : !view -> !map
  %dv_map = tgpu.tensor_map %dv : !view -> !map

  %k_buffer = tgpu.alloc : !tile
  %v_buffer = tgpu.alloc : !tile
  %ds_buffer = tgpu.alloc : !square
  %q_ring = tgpu.alloc_ring : !ring
  %do_ring = tgpu.alloc_ring : !ring
  %lse_ring = tgpu.alloc_ring : !ring_vector
  %delta_ring = tgpu.alloc_ring : !ring_vector
  %dq_ring = tgpu.alloc_ring : !ring_f32
  %kv_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %q_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %q_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %do_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %do_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %dq_full = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %dq_empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %ds_free = tgpu.named_barrier warps 8 : index
  %ds_written = tgpu.named_barrier warps 8 : index

  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %queries = tile.dim %q, 2 : !view
  %keys = tile.dim %k, 2 : !view
  %blocks = arith.ceildivsi %queries, %c128 : i32
  %n = arith.muli %key_block, %c128 : i32

  // Two roles in one warpgroup, so both have the same number of registers.
  // CHECK: role "load" warps 1 registers 24 {
  // CHECK: role "reduce" warps 3 registers 24 {
  // CHECK: role "compute" warps 8 registers 240 {
  tgpu.roles
    role "load" warps 1 registers 24 {
      tgpu.expect %kv_full[%c0] bytes 32768 : !tgpu.barriers<1>
      tgpu.tma_load %k_map[%b, %h, %n, 0], %k_buffer, %kv_full[%c0] : !map, !tile, !tgpu.barriers<1>
      tgpu.tma_load %v_map[%b, %h, %n, 0], %v_buffer, %kv_full[%c0] : !map, !tile, !tgpu.barriers<1>
      scf.for %use = %c0 to %blocks step %c1 : i32 {
        %m = arith.muli %use, %c128 : i32
        tgpu.acquire %q_empty[%use] : !tgpu.barriers<2>
        tgpu.expect %q_full[%use] bytes 16896 : !tgpu.barriers<2>
        %q_slot = tgpu.slot %q_ring[%use] : !ring
        %lse_slot = tgpu.slot %lse_ring[%use] : !ring_vector
        tgpu.tma_load %q_map[%b, %h, %m, 0], %q_slot, %q_full[%use] : !map, !tile, !tgpu.barriers<2>
        tgpu.bulk_load %lse_log2[%b, %h, %m], %lse_slot, %q_full[%use] : !rows, !vector, !tgpu.barriers<2>
        tgpu.acquire %do_empty[%use] : !tgpu.barriers<2>
        tgpu.expect %do_full[%use] bytes 16896 : !tgpu.barriers<2>
        %do_slot = tgpu.slot %do_ring[%use] : !ring
        %delta_slot = tgpu.slot %delta_ring[%use] : !ring_vector
        tgpu.tma_load %do_map[%b, %h, %m, 0], %do_slot, %do_full[%use] : !map, !tile, !tgpu.barriers<2>
        tgpu.bulk_load %delta[%b, %h, %m], %delta_slot, %do_full[%use] : !rows, !vector, !tgpu.barriers<2>
      }
    }
    role "reduce" warps 3 registers 24 {
      scf.for %use = %c0 to %blocks step %c1 : i32 {
        %m = arith.muli %use, %c128 : i32
        tgpu.wait %dq_full[%use] : !tgpu.barriers<2>
        %dq_slot = tgpu.slot %dq_ring[%use] : !ring_f32
        tgpu.tma_reduce_add %dq_slot, %dq_map[%b, %h, %m, 0] : !tile_f32, !map_f32
        tgpu.bulk_commit
        tgpu.bulk_wait pending 0 read
        tgpu.arrive %dq_empty[%use] per role : !tgpu.barriers<2>
      }
    }
    role "compute" warps 8 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !acc
      %none = tile.full %zero : !st
      %scales = tile.full %scale_log2 : !st
      %key = tile.iota %n dim 0 : !st_i32
      %key_end = tile.full %keys : !st_i32
      %query_end = tile.full %queries : !st_i32
      %has_key = arith.cmpi slt, %key, %key_end : !st_i32
      tgpu.wait %kv_full[%c0] : !tgpu.barriers<1>

      %r:2 = scf.for %use = %c0 to %blocks step %c1 iter_args(%dk_acc = %zeros, %dv_acc = %zeros) -> (!acc, !acc) : i32 {
        %m = arith.muli %use, %c128 : i32
        tgpu.wait %q_full[%use] : !tgpu.barriers<2>
        %q_slot = tgpu.slot %q_ring[%use] : !ring
        // CHECK: %[[S:.*]] = tgpu.wgmma %[[K:.*]], %{{.*}} transpose_b
        // CHECK: %[[DP:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b
        // CHECK: tgpu.wgmma_wait pending 1, %[[S]]
        %s_pending = tgpu.wgmma %k_buffer, %q_slot transpose_b : !tile, !tile -> !st
        tgpu.wgmma_commit
        tgpu.wait %do_full[%use] : !tgpu.barriers<2>
        %do_slot = tgpu.slot %do_ring[%use] : !ring
        %dp_pending = tgpu.wgmma %v_buffer, %do_slot transpose_b : !tile, !tile -> !st
        tgpu.wgmma_commit

        // P^T, from the log2-sum-exp of the forward. Queries beyond the view are masked, since the
        // row vectors are undefined there.
        %lse_slot = tgpu.slot %lse_ring[%use] : !ring_vector
        // CHECK: tgpu.read %{{.*}} : !tgpu.shared<128xf32, none> -> tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
        %lse_row = tgpu.read %lse_slot : !vector -> !query
        %lse_all = tile.expand %lse_row dim 0 : !query -> !st
        %query = tile.iota %m dim 1 : !st_i32
        %has_query = arith.cmpi slt, %query, %query_end : !st_i32
        %keep = arith.andi %has_key, %has_query : !st_i1
        %s = tgpu.wgmma_wait pending 1, %s_pending : !st
        %scaled = arith.mulf %s, %scales : !st
        %exponent = arith.subf %scaled, %lse_all : !st
        %p_all = math.exp2 %exponent : !st
        %p = tile.select %keep, %p_all, %none : !st_i1, !st
        %p_bf16 = tile.cast %p : !st -> !st_bf16
        %p_a = tgpu.convert %p_bf16 : !st_bf16 -> !st_a

        %delta_slot = tgpu.slot %delta_ring[%use] : !ring_vector
        %delta_row = tgpu.read %delta_slot : !vector -> !query
        %delta_all = tile.expand %delta_row dim 0 : !query -> !st
        // CHECK: tgpu.wgmma_wait pending 0, %[[DP]]
        %dp = tgpu.wgmma_wait pending 0, %dp_pending : !st
        %dv_pending = tgpu.wgmma %p_a, %do_slot, %dv_acc : !st_a, !tile, !acc -> !acc
        %dp_centered = arith.subf %dp, %delta_all : !st
        %ds_all = arith.mulf %p, %dp_centered : !st
        %ds = tile.select %keep, %ds_all, %none : !st_i1, !st
        %ds_bf16 = tile.cast %ds : !st -> !st_bf16
        %ds_a = tgpu.convert %ds_bf16 : !st_bf16 -> !st_a

        // dS, as [queries, keys]: both warpgroups have read the previous one and written this one.
        // CHECK: tgpu.sync on %[[FREE:.*]]
        // CHECK-NEXT: tgpu.write %{{.*}}, %[[DS:.*]] transpose
        // CHECK-NEXT: tgpu.fence_async
        // CHECK-NEXT: tgpu.sync on %[[WRITTEN:.*]]
        // CHECK-NEXT: %[[DQ:.*]] = tgpu.wgmma %[[DS]], %[[K]] :
        tgpu.sync on %ds_free
        tgpu.write %ds_bf16, %ds_buffer transpose : !st_bf16, !square
        tgpu.fence_async
        tgpu.sync on %ds_written
        %dq_pending = tgpu.wgmma %ds_buffer, %k_buffer : !square, !tile -> !acc
        tgpu.wgmma_commit
        %dk_pending = tgpu.wgmma %ds_a, %q_slot, %dk_acc : !st_a, !tile, !acc -> !acc
        tgpu.wgmma_commit

        // dV and dQ, one group, are complete while dK is in flight.
        // CHECK: tgpu.wgmma_wait pending 1, %{{.*}}, %[[DQ]] :
        %dv_done, %dq_done = tgpu.wgmma_wait pending 1, %dv_pending, %dq_pending : !acc, !acc
        tgpu.arrive %do_empty[%use] per warp : !tgpu.barriers<2>
        tgpu.acquire %dq_empty[%use] : !tgpu.barriers<2>
        %dq_slot = tgpu.slot %dq_ring[%use] : !ring_f32
        // CHECK: tgpu.write %{{.*}}, %{{.*}} : tensor<128x64xf32, #tgpu.wgmma<2>>, !tgpu.shared<128x64xf32, b128>
        // CHECK-NEXT: tgpu.fence_async
        // CHECK-NEXT: tgpu.arrive %{{.*}}[%{{.*}}] per warp
        tgpu.write %dq_done, %dq_slot : !acc, !tile_f32
        tgpu.fence_async
        tgpu.arrive %dq_full[%use] per warp : !tgpu.barriers<2>
        %dk_done = tgpu.wgmma_wait pending 0, %dk_pending : !acc
        tgpu.arrive %q_empty[%use] per warp : !tgpu.barriers<2>
        scf.yield %dk_done, %dv_done : !acc, !acc
      }

      // dK and dV are stored through the buffers of K and V, which both warpgroups have read.
      %scale_all = tile.full %scale : !acc
      %dk_scaled = arith.mulf %r#0, %scale_all : !acc
      %dk_bf16 = tile.cast %dk_scaled : !acc -> !acc_bf16
      %dv_bf16 = tile.cast %r#1 : !acc -> !acc_bf16
      tgpu.sync on %ds_free
      tgpu.write %dk_bf16, %k_buffer : !acc_bf16, !tile
      tgpu.write %dv_bf16, %v_buffer : !acc_bf16, !tile
      tgpu.fence_async
      tgpu.sync on %ds_written
      // CHECK: tgpu.tma_store %{{.*}}, %{{.*}}[%b, %h, %{{.*}}, 0]
      tgpu.tma_store %k_buffer, %dk_map[%b, %h, %n, 0] : !tile, !map
      tgpu.tma_store %v_buffer, %dv_map[%b, %h, %n, 0] : !tile, !map
      tgpu.bulk_commit
      // Shared memory must outlive the copies that read it.
      tgpu.bulk_wait pending 0 read
    }
}
