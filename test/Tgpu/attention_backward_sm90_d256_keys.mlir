// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// dK and dV of attention backward for Hopper, D 256, bf16, written by hand: blocks of 64 keys against all blocks of
// 64 queries. dQ is left to another kernel. One warpgroup has no registers for both sums, each of 64 rows and 256
// columns in f32, so there are two, in a role each:
//
//   load            K and V once per tile; Q with LSE, and dO with delta, through rings of two stages: the row
//                   vectors share the barriers of their tiles.
//   probabilities   S^T = K Q^T,   P^T = exp2(S^T - LSE),      dV += P^T dO
//   gradients       dP^T = V dO^T, dS^T = P^T (dP^T - delta),  dK += dS^T Q
//
// P^T and dS^T stay in registers as operand a. P^T also passes to `gradients`, through a ring of two slots. So S and P
// are computed once, and the matrix unit multiplies for one role while the other is busy with registers:
//
//     probabilities   S0 | P0  | dV0 S1 | P1      | dV1 S2 | ...           | dVlast
//     gradients            dP0 | dS0    | dK0 dP1 | dS1    | dK1 dP2 | ... | dKlast
//
// Both roles hold a slot of Q and of dO, over two iterations, and there are only two slots: each role issues the
// product with the older slot first and releases it as soon as this product is complete.
//
// Nothing is masked: queries beyond the view are zeros in Q, dO, LSE and delta, so they add nothing, and keys beyond
// it are not stored. Tensor maps of LSE and delta require rows whose stride is a multiple of 16 bytes.
//
// dK and dV are stored in quarters of 64 columns through a buffer of each role. dK includes the factor `scale`.
// Persistent: block `cta` takes tiles cta, cta + grid, ...; the counters of the rings continue across tiles.
//
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --tgpu-verify-sync --verify-roundtrip | FileCheck %s

!view = !tile.view<[?, ?, ?, 256], bf16>
!rows = !tile.view<[?, ?, ?], f32>
!map = !tgpu.tensor_map<1x1x64x64xbf16, b128>
!map_rows = !tgpu.tensor_map<1x1x64xf32, none>
!tile = !tgpu.shared<64x256xbf16, b128>
!piece = !tgpu.shared<64x64xbf16, b128>
!vector = !tgpu.shared<64xf32, none>
!ring = !tgpu.ring<2, !tile>
!ring_p = !tgpu.ring<2, !piece>
!ring_vector = !tgpu.ring<2, !vector>
!once = !tgpu.barriers<1>
!full = !tgpu.barriers<2>
!st = tensor<64x64xf32, #tgpu.wgmma<1>>
!st_bf16 = tensor<64x64xbf16, #tgpu.wgmma<1>>
!st_a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!acc = tensor<64x256xf32, #tgpu.wgmma<1>>
!quarter = tensor<64x64xf32, #tgpu.wgmma<1>>
!quarter_bf16 = tensor<64x64xbf16, #tgpu.wgmma<1>>
!query = tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<1>>>

// CHECK-LABEL: tgpu.kernel @pairs_of_keys target "sm_90a" warps 12
tgpu.kernel @pairs_of_keys target "sm_90a" warps 12
    (%q: !view, %k: !view, %v: !view, %do: !view, %lse_log2: !rows, %delta: !rows, %dk: !view, %dv: !view,
     %scale: f32, %scale_log2: f32)
    grid(%cta = min(sm_count(), ceildiv(dim(k, 2), 64) * dim(k, 1) * dim(k, 0))) {
  %q_map = tgpu.tensor_map %q : !view -> !map
  %k_map = tgpu.tensor_map %k : !view -> !map
  %v_map = tgpu.tensor_map %v : !view -> !map
  %do_map = tgpu.tensor_map %do : !view -> !map
  %lse_map = tgpu.tensor_map %lse_log2 : !rows -> !map_rows
  %delta_map = tgpu.tensor_map %delta : !rows -> !map_rows
  %dk_map = tgpu.tensor_map %dk : !view -> !map
  %dv_map = tgpu.tensor_map %dv : !view -> !map

  %k_buffer = tgpu.alloc : !tile
  %v_buffer = tgpu.alloc : !tile
  %q_ring = tgpu.alloc_ring : !ring
  %do_ring = tgpu.alloc_ring : !ring
  %p_ring = tgpu.alloc_ring : !ring_p
  %dv_buffer = tgpu.alloc : !piece
  %dk_buffer = tgpu.alloc : !piece
  %lse_ring = tgpu.alloc_ring : !ring_vector
  %delta_ring = tgpu.alloc_ring : !ring_vector
  %k_full = tgpu.alloc_barriers arrivals 1 : !once
  %k_empty = tgpu.alloc_barriers arrivals 4 : !once
  %v_full = tgpu.alloc_barriers arrivals 1 : !once
  %v_empty = tgpu.alloc_barriers arrivals 4 : !once
  // Slots of Q and dO are released by the warps of both roles.
  %q_full = tgpu.alloc_barriers arrivals 1 : !full
  %q_empty = tgpu.alloc_barriers arrivals 8 : !full
  %do_full = tgpu.alloc_barriers arrivals 1 : !full
  %do_empty = tgpu.alloc_barriers arrivals 8 : !full
  %p_full = tgpu.alloc_barriers arrivals 4 : !full
  %p_empty = tgpu.alloc_barriers arrivals 4 : !full
  %dv_done = tgpu.named_barrier warps 4 : index
  %dk_done = tgpu.named_barrier warps 4 : index

  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %queries = tile.dim %q, 2 : !view
  %keys = tile.dim %k, 2 : !view
  %heads = tile.dim %k, 1 : !view
  %batch = tile.dim %k, 0 : !view
  %blocks = arith.ceildivsi %queries, %c64 : i32
  %key_blocks = arith.ceildivsi %keys, %c64 : i32
  %all_heads = arith.muli %heads, %batch : i32
  %tiles = arith.muli %key_blocks, %all_heads : i32
  %ctas = tgpu.grid_extent 0 : i32

  // CHECK: role "load" warps 1 registers 24 {
  // CHECK: role "probabilities" warps 4 registers 240 {
  // CHECK: role "gradients" warps 4 registers 240 {
  tgpu.roles
    role "load" warps 1 registers 24 {
      scf.for %t = %cta to %tiles step %ctas iter_args(%tile = %c0, %use0 = %c0) -> (i32, i32) : i32 {
        %block = arith.remsi %t, %key_blocks : i32
        %bh = arith.divsi %t, %key_blocks : i32
        %h = arith.remsi %bh, %heads : i32
        %b = arith.divsi %bh, %heads : i32
        %n = arith.muli %block, %c64 : i32
        tgpu.acquire %k_empty[%tile] : !once
        tgpu.expect %k_full[%tile] bytes 32768 : !once
        tgpu.tma_load %k_map[%b, %h, %n, 0], %k_buffer, %k_full[%tile] : !map, !tile, !once
        tgpu.acquire %v_empty[%tile] : !once
        tgpu.expect %v_full[%tile] bytes 32768 : !once
        tgpu.tma_load %v_map[%b, %h, %n, 0], %v_buffer, %v_full[%tile] : !map, !tile, !once
        %use_end = scf.for %i = %c0 to %blocks step %c1 iter_args(%use = %use0) -> i32 : i32 {
          %m = arith.muli %i, %c64 : i32
          tgpu.acquire %q_empty[%use] : !full
          tgpu.expect %q_full[%use] bytes 33024 : !full
          %q_slot = tgpu.slot %q_ring[%use] : !ring
          %lse_slot = tgpu.slot %lse_ring[%use] : !ring_vector
          tgpu.tma_load %q_map[%b, %h, %m, 0], %q_slot, %q_full[%use] : !map, !tile, !full
          tgpu.tma_load %lse_map[%b, %h, %m], %lse_slot, %q_full[%use] : !map_rows, !vector, !full
          tgpu.acquire %do_empty[%use] : !full
          tgpu.expect %do_full[%use] bytes 33024 : !full
          %do_slot = tgpu.slot %do_ring[%use] : !ring
          %delta_slot = tgpu.slot %delta_ring[%use] : !ring_vector
          tgpu.tma_load %do_map[%b, %h, %m, 0], %do_slot, %do_full[%use] : !map, !tile, !full
          tgpu.tma_load %delta_map[%b, %h, %m], %delta_slot, %do_full[%use] : !map_rows, !vector, !full
          %next_use = arith.addi %use, %c1 : i32
          scf.yield %next_use : i32
        }
        %tile_next = arith.addi %tile, %c1 : i32
        scf.yield %tile_next, %use_end : i32, i32
      }
    }
    role "idle" warps 3 registers 24 {
    }
    role "probabilities" warps 4 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !acc
      %scales = tile.full %scale_log2 : !st
      scf.for %t = %cta to %tiles step %ctas iter_args(%tile = %c0, %use0 = %c0) -> (i32, i32) : i32 {
        %block = arith.remsi %t, %key_blocks : i32
        %bh = arith.divsi %t, %key_blocks : i32
        %h = arith.remsi %bh, %heads : i32
        %b = arith.divsi %bh, %heads : i32
        %n = arith.muli %block, %c64 : i32
        tgpu.wait %k_full[%tile] : !once
        %has_queries = arith.cmpi sgt, %blocks, %c0 : i32
        %r:2 = scf.if %has_queries -> (!acc, i32) {
          tgpu.wait %q_full[%use0] : !full
          %first_q = tgpu.slot %q_ring[%use0] : !ring
          %first_s_pending = tgpu.wgmma %k_buffer, %first_q transpose_b : !tile, !tile -> !st
          tgpu.wgmma_commit
          %first_s = tgpu.wgmma_wait pending 0, %first_s_pending : !st
          %first_lse_slot = tgpu.slot %lse_ring[%use0] : !ring_vector
          %first_lse_row = tgpu.read %first_lse_slot : !vector -> !query
          tgpu.arrive %q_empty[%use0] per warp : !full
          %first_lse_all = tile.expand %first_lse_row dim 0 : !query -> !st
          %first_scaled = arith.mulf %first_s, %scales fastmath<contract> : !st
          %first_exponent = arith.subf %first_scaled, %first_lse_all fastmath<contract> : !st
          %first_p = math.exp2 %first_exponent : !st
          %first_p_bf16 = tile.cast %first_p : !st -> !st_bf16
          tgpu.acquire %p_empty[%use0] : !full
          %first_p_slot = tgpu.slot %p_ring[%use0] : !ring_p
          tgpu.write %first_p_bf16, %first_p_slot : !st_bf16, !piece
          tgpu.arrive %p_full[%use0] per warp : !full
          %first_p_a = tgpu.convert %first_p_bf16 : !st_bf16 -> !st_a

          // The main loop: dV of the iteration before, S and P of this one.
          %l:3 = scf.for %i = %c1 to %blocks step %c1
              iter_args(%old = %use0, %p_old = %first_p_a, %dv_acc = %zeros) -> (i32, !st_a, !acc) : i32 {
            %use = arith.addi %old, %c1 : i32
            tgpu.wait %do_full[%old] : !full
            %do_slot = tgpu.slot %do_ring[%old] : !ring
            // CHECK: %[[DV:.*]] = tgpu.wgmma %{{.*}} : tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
            // CHECK: %[[S:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b
            // CHECK: tgpu.wgmma_wait pending 1, %[[DV]]
            // CHECK: tgpu.wgmma_wait pending 0, %[[S]]
            %dv_pending = tgpu.wgmma %p_old, %do_slot, %dv_acc : !st_a, !tile, !acc -> !acc
            tgpu.wgmma_commit
            tgpu.wait %q_full[%use] : !full
            %q_slot = tgpu.slot %q_ring[%use] : !ring
            %s_pending = tgpu.wgmma %k_buffer, %q_slot transpose_b : !tile, !tile -> !st
            tgpu.wgmma_commit
            %dv_new = tgpu.wgmma_wait pending 1, %dv_pending : !acc
            tgpu.arrive %do_empty[%old] per warp : !full
            %s = tgpu.wgmma_wait pending 0, %s_pending : !st
            %lse_slot = tgpu.slot %lse_ring[%use] : !ring_vector
            %lse_row = tgpu.read %lse_slot : !vector -> !query
            tgpu.arrive %q_empty[%use] per warp : !full
            %lse_all = tile.expand %lse_row dim 0 : !query -> !st
            %scaled = arith.mulf %s, %scales fastmath<contract> : !st
            %exponent = arith.subf %scaled, %lse_all fastmath<contract> : !st
            %p = math.exp2 %exponent : !st
            %p_bf16 = tile.cast %p : !st -> !st_bf16
            tgpu.acquire %p_empty[%use] : !full
            %p_slot = tgpu.slot %p_ring[%use] : !ring_p
            tgpu.write %p_bf16, %p_slot : !st_bf16, !piece
            tgpu.arrive %p_full[%use] per warp : !full
            %p_a = tgpu.convert %p_bf16 : !st_bf16 -> !st_a
            scf.yield %use, %p_a, %dv_new : i32, !st_a, !acc
          }

          tgpu.wait %do_full[%l#0] : !full
          %last_do = tgpu.slot %do_ring[%l#0] : !ring
          %last_dv_pending = tgpu.wgmma %l#1, %last_do, %l#2 : !st_a, !tile, !acc -> !acc
          tgpu.wgmma_commit
          %dv_all = tgpu.wgmma_wait pending 0, %last_dv_pending : !acc
          tgpu.arrive %do_empty[%l#0] per warp : !full
          %use_end = arith.addi %l#0, %c1 : i32
          scf.yield %dv_all, %use_end : !acc, i32
        } else {
          scf.yield %zeros, %use0 : !acc, i32
        }
        tgpu.arrive %k_empty[%tile] per warp : !once

        %dv_of_first = tgpu.columns 0 of %r#0 : !acc -> !quarter
        %first_bf16 = tile.cast %dv_of_first : !quarter -> !quarter_bf16
        // The buffer is free when the previous copy has read it.
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dv_done
        tgpu.write %first_bf16, %dv_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dv_done
        tgpu.tma_store %dv_buffer, %dv_map[%b, %h, %n, 0] : !piece, !map
        tgpu.bulk_commit

        %dv_of_second = tgpu.columns 64 of %r#0 : !acc -> !quarter
        %second_bf16 = tile.cast %dv_of_second : !quarter -> !quarter_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dv_done
        tgpu.write %second_bf16, %dv_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dv_done
        tgpu.tma_store %dv_buffer, %dv_map[%b, %h, %n, 64] : !piece, !map
        tgpu.bulk_commit

        %dv_of_third = tgpu.columns 128 of %r#0 : !acc -> !quarter
        %third_bf16 = tile.cast %dv_of_third : !quarter -> !quarter_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dv_done
        tgpu.write %third_bf16, %dv_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dv_done
        tgpu.tma_store %dv_buffer, %dv_map[%b, %h, %n, 128] : !piece, !map
        tgpu.bulk_commit

        %dv_of_fourth = tgpu.columns 192 of %r#0 : !acc -> !quarter
        %fourth_bf16 = tile.cast %dv_of_fourth : !quarter -> !quarter_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dv_done
        tgpu.write %fourth_bf16, %dv_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dv_done
        tgpu.tma_store %dv_buffer, %dv_map[%b, %h, %n, 192] : !piece, !map
        tgpu.bulk_commit
        %tile_next = arith.addi %tile, %c1 : i32
        scf.yield %tile_next, %r#1 : i32, i32
      }
      // Shared memory must outlive the copies that read it.
      tgpu.bulk_wait pending 0 read
    }
    role "gradients" warps 4 registers 240 {
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !acc
      %scales = tile.full %scale : !quarter
      scf.for %t = %cta to %tiles step %ctas iter_args(%tile = %c0, %use0 = %c0) -> (i32, i32) : i32 {
        %block = arith.remsi %t, %key_blocks : i32
        %bh = arith.divsi %t, %key_blocks : i32
        %h = arith.remsi %bh, %heads : i32
        %b = arith.divsi %bh, %heads : i32
        %n = arith.muli %block, %c64 : i32
        tgpu.wait %v_full[%tile] : !once
        %has_queries = arith.cmpi sgt, %blocks, %c0 : i32
        %r:2 = scf.if %has_queries -> (!acc, i32) {
          tgpu.wait %do_full[%use0] : !full
          %first_do = tgpu.slot %do_ring[%use0] : !ring
          %first_dp_pending = tgpu.wgmma %v_buffer, %first_do transpose_b : !tile, !tile -> !st
          tgpu.wgmma_commit
          tgpu.wait %p_full[%use0] : !full
          %first_p_slot = tgpu.slot %p_ring[%use0] : !ring_p
          %first_dp = tgpu.wgmma_wait pending 0, %first_dp_pending : !st
          %first_delta_slot = tgpu.slot %delta_ring[%use0] : !ring_vector
          %first_delta_row = tgpu.read %first_delta_slot : !vector -> !query
          tgpu.arrive %do_empty[%use0] per warp : !full
          %first_delta_all = tile.expand %first_delta_row dim 0 : !query -> !st
          %first_centered = arith.subf %first_dp, %first_delta_all fastmath<contract> : !st
          %first_p_bf16 = tgpu.read %first_p_slot : !piece -> !st_bf16
          tgpu.arrive %p_empty[%use0] per warp : !full
          %first_p = tile.cast %first_p_bf16 : !st_bf16 -> !st
          %first_ds = arith.mulf %first_p, %first_centered : !st
          %first_ds_bf16 = tile.cast %first_ds : !st -> !st_bf16
          %first_ds_a = tgpu.convert %first_ds_bf16 : !st_bf16 -> !st_a

          // The main loop: dK of the iteration before, dP and dS of this one.
          %l:3 = scf.for %i = %c1 to %blocks step %c1
              iter_args(%old = %use0, %ds_old = %first_ds_a, %dk_acc = %zeros) -> (i32, !st_a, !acc) : i32 {
            %use = arith.addi %old, %c1 : i32
            tgpu.wait %q_full[%old] {tgpu.redundant = "P, read before, is from this Q"} : !full
            %q_slot = tgpu.slot %q_ring[%old] : !ring
            %dk_pending = tgpu.wgmma %ds_old, %q_slot, %dk_acc : !st_a, !tile, !acc -> !acc
            tgpu.wgmma_commit
            tgpu.wait %do_full[%use] : !full
            %do_slot = tgpu.slot %do_ring[%use] : !ring
            %dp_pending = tgpu.wgmma %v_buffer, %do_slot transpose_b : !tile, !tile -> !st
            tgpu.wgmma_commit
            %dk_new = tgpu.wgmma_wait pending 1, %dk_pending : !acc
            tgpu.arrive %q_empty[%old] per warp : !full
            tgpu.wait %p_full[%use] : !full
            %p_slot = tgpu.slot %p_ring[%use] : !ring_p
            %dp = tgpu.wgmma_wait pending 0, %dp_pending : !st
            %delta_slot = tgpu.slot %delta_ring[%use] : !ring_vector
            %delta_row = tgpu.read %delta_slot : !vector -> !query
            tgpu.arrive %do_empty[%use] per warp : !full
            %delta_all = tile.expand %delta_row dim 0 : !query -> !st
            %centered = arith.subf %dp, %delta_all fastmath<contract> : !st
            %p_bf16 = tgpu.read %p_slot : !piece -> !st_bf16
            tgpu.arrive %p_empty[%use] per warp : !full
            %p = tile.cast %p_bf16 : !st_bf16 -> !st
            %ds = arith.mulf %p, %centered : !st
            %ds_bf16 = tile.cast %ds : !st -> !st_bf16
            %ds_a = tgpu.convert %ds_bf16 : !st_bf16 -> !st_a
            scf.yield %use, %ds_a, %dk_new : i32, !st_a, !acc
          }

          tgpu.wait %q_full[%l#0] {tgpu.redundant = "P, read before, is from this Q"} : !full
          %last_q = tgpu.slot %q_ring[%l#0] : !ring
          %last_dk_pending = tgpu.wgmma %l#1, %last_q, %l#2 : !st_a, !tile, !acc -> !acc
          tgpu.wgmma_commit
          %dk_all = tgpu.wgmma_wait pending 0, %last_dk_pending : !acc
          tgpu.arrive %q_empty[%l#0] per warp : !full
          %use_end = arith.addi %l#0, %c1 : i32
          scf.yield %dk_all, %use_end : !acc, i32
        } else {
          scf.yield %zeros, %use0 : !acc, i32
        }
        tgpu.arrive %v_empty[%tile] per warp : !once

        %dk_of_first = tgpu.columns 0 of %r#0 : !acc -> !quarter
        %first_scaled = arith.mulf %dk_of_first, %scales : !quarter
        %first_bf16 = tile.cast %first_scaled : !quarter -> !quarter_bf16
        // The buffer is free when the previous copy has read it.
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dk_done
        tgpu.write %first_bf16, %dk_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dk_done
        tgpu.tma_store %dk_buffer, %dk_map[%b, %h, %n, 0] : !piece, !map
        tgpu.bulk_commit

        %dk_of_second = tgpu.columns 64 of %r#0 : !acc -> !quarter
        %second_scaled = arith.mulf %dk_of_second, %scales : !quarter
        %second_bf16 = tile.cast %second_scaled : !quarter -> !quarter_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dk_done
        tgpu.write %second_bf16, %dk_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dk_done
        tgpu.tma_store %dk_buffer, %dk_map[%b, %h, %n, 64] : !piece, !map
        tgpu.bulk_commit

        %dk_of_third = tgpu.columns 128 of %r#0 : !acc -> !quarter
        %third_scaled = arith.mulf %dk_of_third, %scales : !quarter
        %third_bf16 = tile.cast %third_scaled : !quarter -> !quarter_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dk_done
        tgpu.write %third_bf16, %dk_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dk_done
        tgpu.tma_store %dk_buffer, %dk_map[%b, %h, %n, 128] : !piece, !map
        tgpu.bulk_commit

        %dk_of_fourth = tgpu.columns 192 of %r#0 : !acc -> !quarter
        %fourth_scaled = arith.mulf %dk_of_fourth, %scales : !quarter
        %fourth_bf16 = tile.cast %fourth_scaled : !quarter -> !quarter_bf16
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %dk_done
        tgpu.write %fourth_bf16, %dk_buffer : !quarter_bf16, !piece
        tgpu.fence_async
        tgpu.sync on %dk_done
        tgpu.tma_store %dk_buffer, %dk_map[%b, %h, %n, 192] : !piece, !map
        tgpu.bulk_commit
        %tile_next = arith.addi %tile, %c1 : i32
        scf.yield %tile_next, %r#1 : i32, i32
      }
      // Shared memory must outlive the copies that read it.
      tgpu.bulk_wait pending 0 read
    }
}
