// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward for Hopper, written by hand: D 64, bf16, without a mask. It takes the arguments of
// kernels/attention_forward.mlir, so that it can replace that kernel.
//
//   load      one thread copies Q, of two tiles, K and V through rings of four stages, by TMA.
//   compute   three warpgroups, 64 rows of Q each; 128 keys per iteration. S is issued before P V of the previous
//             iteration, so that the softmax overlaps with this P V. P stays in registers as
//             operand a. The warpgroups take turns in issuing, so that one multiplies while another
//             exponentiates.
//
//     matrix unit   S0 | S1 PV0 | S2 PV1 | ...                | PVlast
//     registers        P0       P1       P2  (O is rescaled when its product is complete)
//
// Keys are read from the last block to the first. Only the last may be partial, so only it is masked.
//
// The main loop is short because
//   - row sums stay partial: `sums` adds slices of 16 columns of P, so that every thread has some. Lanes exchange
//     them only at the end of a tile; only row maxima are computed across lanes.
//   - a maximum is raised only by more than 8, in few iterations. Others compute no maxima and do not rescale O.
//   - the initial maximum is the smallest finite number. So rows without keys are no special case: their
//     exponents are -inf, their P and sums 0.
//   - scores are scaled by |scale|, so that the largest product gives the largest score. If the scale is
//     negative, Q is negated in shared memory, once per tile.
//
// Each warpgroup stores its rows of O through its part of a buffer, while the next tile begins. Persistent: block `cta`
// takes tiles cta, cta + grid, ...; the counters of the rings continue across tiles.
//
// RUN: tilewright-opt %s --tgpu-plan-shared-memory --tgpu-verify-sync --verify-roundtrip | FileCheck %s

!view = !tile.view<[?, ?, ?, 64], bf16>
!lse_view = !tile.view<[?, ?, ?], f32>
!q_tile = !tgpu.shared<192x64xbf16, b128>
!kv_tile = !tgpu.shared<128x64xbf16, b128>
!o_piece = !tgpu.shared<192x64xbf16, b128>
!q_ring = !tgpu.ring<2, !q_tile>
!kv_ring = !tgpu.ring<4, !kv_tile>
!q_full = !tgpu.barriers<2>
!kv_full = !tgpu.barriers<4>
!q_map = !tgpu.tensor_map<1x1x192x64xbf16, b128>
// The rows of one warpgroup.
!o_map = !tgpu.tensor_map<1x1x64x64xbf16, b128>
!kv_map = !tgpu.tensor_map<1x1x128x64xbf16, b128>
!s = tensor<192x128xf32, #tgpu.wgmma<3>>
!s_i32 = tensor<192x128xi32, #tgpu.wgmma<3>>
!s_i1 = tensor<192x128xi1, #tgpu.wgmma<3>>
!s_bf16 = tensor<192x128xbf16, #tgpu.wgmma<3>>
!p = tensor<192x128xbf16, #tgpu.operand<a, #tgpu.wgmma<3>>>
!o = tensor<192x64xf32, #tgpu.wgmma<3>>
!q_bf16 = tensor<192x64xbf16, #tgpu.wgmma<3>>
!sums = tensor<192x16xf32, #tgpu.wgmma<3>>
!row = tensor<192xf32, #tgpu.slice<1, #tgpu.wgmma<3>>>
!row_i32 = tensor<192xi32, #tgpu.slice<1, #tgpu.wgmma<3>>>
!row_i1 = tensor<192xi1, #tgpu.slice<1, #tgpu.wgmma<3>>>

// CHECK-LABEL: tgpu.kernel @attention_forward target "sm_90a" warps 16
tgpu.kernel @attention_forward target "sm_90a" warps 16
    require(dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            finite(scale), window_left == -1, window_right == -1)
    (%q: !view, %k: !view, %v: !view, %o: !view, %lse: optional !lse_view,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%cta = min(sm_count(), ceildiv(dim(q, 2), 192) * dim(q, 1) * dim(q, 0)))
    attributes {bindings = {ACC = f32, BLOCK_M = 192 : i64, BLOCK_N = 128 : i64, CAUSAL = "none",
                            D = 64 : i64, DP = 64 : i64, DV = 64 : i64, DVP = 64 : i64, T = bf16, WINDOW = false}} {
  %q_map = tgpu.tensor_map %q : !view -> !q_map
  %k_map = tgpu.tensor_map %k : !view -> !kv_map
  %v_map = tgpu.tensor_map %v : !view -> !kv_map
  %o_map = tgpu.tensor_map %o : !view -> !o_map

  %q_ring = tgpu.alloc_ring : !q_ring
  %k_ring = tgpu.alloc_ring : !kv_ring
  %v_ring = tgpu.alloc_ring : !kv_ring
  %o_buffer = tgpu.alloc : !o_piece
  %q_full = tgpu.alloc_barriers arrivals 1 : !q_full
  %q_empty = tgpu.alloc_barriers arrivals 12 : !q_full
  %k_full = tgpu.alloc_barriers arrivals 1 : !kv_full
  %k_empty = tgpu.alloc_barriers arrivals 12 : !kv_full
  %v_full = tgpu.alloc_barriers arrivals 1 : !kv_full
  %v_empty = tgpu.alloc_barriers arrivals 12 : !kv_full
  %compute_done = tgpu.named_barrier warps 12 : index
  %warpgroup_done = tgpu.named_barrier warps 12 per warpgroup : index
  %turns = tgpu.turns warpgroups 3 : index

  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %c192 = arith.constant 192 : i32
  %rows = tile.dim %q, 2 : !view
  %heads = tile.dim %q, 1 : !view
  %batch = tile.dim %q, 0 : !view
  %keys = tile.dim %k, 2 : !view
  %kv_heads = tile.dim %k, 1 : !view
  %row_blocks = arith.ceildivsi %rows, %c192 : i32
  %all_heads = arith.muli %heads, %batch : i32
  %tiles = arith.muli %row_blocks, %all_heads : i32
  %blocks = arith.ceildivsi %keys, %c128 : i32
  %ctas = tgpu.grid_extent 0 : i32

  // CHECK: tgpu.roles
  // CHECK-NEXT: role "load" warps 1 registers 24 {
  tgpu.roles
    role "load" warps 1 registers 24 {
      scf.for %t = %cta to %tiles step %ctas iter_args(%tile = %c0, %use0 = %c0) -> (i32, i32) : i32 {
        %block = arith.remsi %t, %row_blocks : i32
        %bh = arith.divsi %t, %row_blocks : i32
        %h = arith.remsi %bh, %heads : i32
        %b = arith.divsi %bh, %heads : i32
        %m = arith.muli %block, %c192 : i32
        %last = arith.subi %blocks, %c1 : i32
        // The number of heads of Q that share a head of K and V.
        %h_of_kv = arith.muli %h, %kv_heads : i32
        %h_kv = arith.divsi %h_of_kv, %heads : i32

        tgpu.acquire %q_empty[%tile] : !q_full
        tgpu.expect %q_full[%tile] bytes 24576 : !q_full
        %q_slot = tgpu.slot %q_ring[%tile] : !q_ring
        tgpu.tma_load %q_map[%b, %h, %m, 0], %q_slot, %q_full[%tile] : !q_map, !q_tile, !q_full

        %use_end = scf.for %i = %c0 to %blocks step %c1 iter_args(%use = %use0) -> i32 : i32 {
          %number = arith.subi %last, %i : i32
          %n = arith.muli %number, %c128 : i32
          tgpu.acquire %k_empty[%use] : !kv_full
          tgpu.expect %k_full[%use] bytes 16384 : !kv_full
          %k_slot = tgpu.slot %k_ring[%use] : !kv_ring
          tgpu.tma_load %k_map[%b, %h_kv, %n, 0], %k_slot, %k_full[%use] : !kv_map, !kv_tile, !kv_full
          tgpu.acquire %v_empty[%use] : !kv_full
          tgpu.expect %v_full[%use] bytes 16384 : !kv_full
          %v_slot = tgpu.slot %v_ring[%use] : !kv_ring
          tgpu.tma_load %v_map[%b, %h_kv, %n, 0], %v_slot, %v_full[%use] : !kv_map, !kv_tile, !kv_full
          %next_use = arith.addi %use, %c1 : i32
          scf.yield %next_use : i32
        }
        %tile_next = arith.addi %tile, %c1 : i32
        scf.yield %tile_next, %use_end : i32, i32
      }
    }
    role "idle" warps 3 registers 24 {
    }
    // CHECK: role "compute" warps 12 registers 160 {
    role "compute" warps 12 registers 160 {
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %minus_infinity = arith.constant 0xFF800000 : f32
      %least = arith.constant 0xFF7FFFFF : f32
      %greatest = arith.constant 0x7F7FFFFF : f32
      %denormal = arith.constant 0x00000001 : f32
      %log2e = arith.constant 1.44269502 : f32
      %ln2 = arith.constant 0.693147182 : f32

      // Never 0, since 0 * -inf is NaN. With the smallest denormal number every score is 0, except for rounding.
      %scale_size = math.absf %scale : f32
      %scale_any = arith.mulf %scale_size, %log2e : f32
      %scale_above = arith.maximumf %scale_any, %denormal : f32
      %scale_log2 = arith.minimumf %scale_above, %greatest : f32
      %is_negative = arith.cmpf olt, %scale, %zero : f32
      %scales = tile.full %scale_log2 : !s
      %row_scales = tile.full %scale_log2 : !row
      %lag = arith.constant 8.0 : f32
      %outside = tile.full %minus_infinity : !s
      %no_max = tile.full %least : !row
      %no_sums = tile.full %zero : !sums
      %no_o = tile.full %zero : !o
      %row_zeros = tile.full %zero : !row
      %row_ones = tile.full %one : !row
      %row_ln2 = tile.full %ln2 : !row
      %limits = tile.full %keys : !s_i32

      %block_of_cta = arith.remsi %cta, %row_blocks : i32
      %bh_of_cta = arith.divsi %cta, %row_blocks : i32
      %h_of_cta = arith.remsi %bh_of_cta, %heads : i32
      %b_of_cta = arith.divsi %bh_of_cta, %heads : i32
      %m_of_cta = arith.muli %block_of_cta, %c192 : i32

      scf.for %t = %cta to %tiles step %ctas
          iter_args(%b = %b_of_cta, %h = %h_of_cta, %m = %m_of_cta, %tile = %c0, %use0 = %c0)
          -> (i32, i32, i32, i32, i32) : i32 {
        %last = arith.subi %blocks, %c1 : i32

        tgpu.wait %q_full[%tile] : !q_full
        %q_slot = tgpu.slot %q_ring[%tile] : !q_ring
        scf.if %is_negative {
          %q_given = tgpu.read %q_slot : !q_tile -> !q_bf16
          // In f32: one instruction packs two values, which takes half the registers of unpacking pairs of bf16.
          %q_f32 = tile.cast %q_given : !q_bf16 -> !o
          %q_minus = arith.negf %q_f32 : !o
          %q_negated = tile.cast %q_minus : !o -> !q_bf16
          tgpu.write %q_negated, %q_slot : !q_bf16, !q_tile
          tgpu.fence_async
          tgpu.sync on %compute_done
        }

        %has_keys = arith.cmpi sgt, %blocks, %c0 : i32
        %result:4 = scf.if %has_keys -> (!o, !row, !sums, i32) {
          // The last block of keys: S, masked, and the first P.
          tgpu.wait %k_full[%use0] : !kv_full
          %k_last = tgpu.slot %k_ring[%use0] : !kv_ring
          %first_s_issued = tgpu.wgmma %q_slot, %k_last transpose_b : !q_tile, !kv_tile -> !s
          tgpu.wgmma_commit
          %first_s_all = tgpu.wgmma_wait pending 0, %first_s_issued : !s
          tgpu.arrive %k_empty[%use0] per warp : !kv_full
          %first_n = arith.muli %last, %c128 : i32
          %first_j = tile.iota %first_n dim 1 : !s_i32
          %first_attends = arith.cmpi slt, %first_j, %limits : !s_i32
          %first_s = tile.select %first_attends, %first_s_all, %outside : !s_i1, !s
          %first_block_max = tile.reduce max %first_s dim 1 : !s -> !row
          %first_block_max_scaled = arith.mulf %first_block_max, %row_scales : !row
          %max0 = arith.maximumf %no_max, %first_block_max_scaled : !row
          %max0_all = tile.expand %max0 dim 1 : !row -> !s
          %first_scaled = arith.mulf %first_s, %scales fastmath<contract> : !s
          %first_exponent = arith.subf %first_scaled, %max0_all fastmath<contract> : !s
          %first_p = math.exp2 %first_exponent : !s
          // The sum of the slices of 16 columns of P.
          %first_p_0 = tgpu.columns 0 of %first_p : !s -> !sums
          %first_p_16 = tgpu.columns 16 of %first_p : !s -> !sums
          %first_p_32 = tgpu.columns 32 of %first_p : !s -> !sums
          %first_p_48 = tgpu.columns 48 of %first_p : !s -> !sums
          %first_p_64 = tgpu.columns 64 of %first_p : !s -> !sums
          %first_p_80 = tgpu.columns 80 of %first_p : !s -> !sums
          %first_p_96 = tgpu.columns 96 of %first_p : !s -> !sums
          %first_p_112 = tgpu.columns 112 of %first_p : !s -> !sums
          %first_sums_16 = arith.addf %first_p_0, %first_p_16 : !sums
          %first_sums_32 = arith.addf %first_sums_16, %first_p_32 : !sums
          %first_sums_48 = arith.addf %first_sums_32, %first_p_48 : !sums
          %first_sums_64 = arith.addf %first_sums_48, %first_p_64 : !sums
          %first_sums_80 = arith.addf %first_sums_64, %first_p_80 : !sums
          %first_sums_96 = arith.addf %first_sums_80, %first_p_96 : !sums
          %sums0 = arith.addf %first_sums_96, %first_p_112 : !sums
          %first_p_bf16 = tile.cast %first_p : !s -> !s_bf16
          %p0 = tgpu.convert %first_p_bf16 : !s_bf16 -> !p

          // The main loop.
          %r:5 = scf.for %i = %c1 to %blocks step %c1
              iter_args(%use = %use0, %p_old = %p0, %o_old = %no_o, %max = %max0, %sums = %sums0)
              -> (i32, !p, !o, !row, !sums) : i32 {
            %use_k = arith.addi %use, %c1 : i32
            tgpu.wait %k_full[%use_k] : !kv_full
            tgpu.take_turn %turns
            %k_slot = tgpu.slot %k_ring[%use_k] : !kv_ring
            %s_issued = tgpu.wgmma %q_slot, %k_slot transpose_b : !q_tile, !kv_tile -> !s
            tgpu.wgmma_commit
            tgpu.wait %v_full[%use] : !kv_full
            %v_slot = tgpu.slot %v_ring[%use] : !kv_ring
            %o_issued = tgpu.wgmma %p_old, %v_slot, %o_old : !p, !kv_tile, !o -> !o
            tgpu.wgmma_commit
            tgpu.pass_turn %turns

            // Softmax of this block, while P V of the previous one runs.
            %s = tgpu.wgmma_wait pending 1, %s_issued : !s
            tgpu.arrive %k_empty[%use_k] per warp : !kv_full
            %new_max = tgpu.raise_max %max by %lag to %s times %scale_log2 : !s -> !row
            %new_max_all = tile.expand %new_max dim 1 : !row -> !s
            %scaled = arith.mulf %s, %scales fastmath<contract> : !s
            %exponent = arith.subf %scaled, %new_max_all fastmath<contract> : !s
            %p = math.exp2 %exponent : !s
            %fall = arith.subf %max, %new_max : !row
            %alpha = math.exp2 %fall : !row
            // The sum of the slices of 16 columns of P.
            %p_0 = tgpu.columns 0 of %p : !s -> !sums
            %p_16 = tgpu.columns 16 of %p : !s -> !sums
            %p_32 = tgpu.columns 32 of %p : !s -> !sums
            %p_48 = tgpu.columns 48 of %p : !s -> !sums
            %p_64 = tgpu.columns 64 of %p : !s -> !sums
            %p_80 = tgpu.columns 80 of %p : !s -> !sums
            %p_96 = tgpu.columns 96 of %p : !s -> !sums
            %p_112 = tgpu.columns 112 of %p : !s -> !sums
            %alpha_of_sums = tile.expand %alpha dim 1 : !row -> !sums
            %sums_kept = arith.mulf %sums, %alpha_of_sums fastmath<contract> : !sums
            %sums_0 = arith.addf %sums_kept, %p_0 fastmath<contract> : !sums
            %sums_16 = arith.addf %sums_0, %p_16 : !sums
            %sums_32 = arith.addf %sums_16, %p_32 : !sums
            %sums_48 = arith.addf %sums_32, %p_48 : !sums
            %sums_64 = arith.addf %sums_48, %p_64 : !sums
            %sums_80 = arith.addf %sums_64, %p_80 : !sums
            %sums_96 = arith.addf %sums_80, %p_96 : !sums
            %new_sums = arith.addf %sums_96, %p_112 : !sums
            %p_bf16 = tile.cast %p : !s -> !s_bf16
            %p_new = tgpu.convert %p_bf16 : !s_bf16 -> !p

            %o_done = tgpu.wgmma_wait pending 0, %o_issued : !o
            tgpu.arrive %v_empty[%use] per warp : !kv_full
            %alpha_all = tile.expand %alpha dim 1 : !row -> !o
            %o_new = arith.mulf %o_done, %alpha_all {tgpu.skip_ones} : !o
            scf.yield %use_k, %p_new, %o_new, %new_max, %new_sums : i32, !p, !o, !row, !sums
          }

          tgpu.wait %v_full[%r#0] : !kv_full
          %v_first = tgpu.slot %v_ring[%r#0] : !kv_ring
          %o_issued = tgpu.wgmma %r#1, %v_first, %r#2 : !p, !kv_tile, !o -> !o
          tgpu.wgmma_commit
          %o_done = tgpu.wgmma_wait pending 0, %o_issued : !o
          tgpu.arrive %v_empty[%r#0] per warp : !kv_full
          %use_end = arith.addi %r#0, %c1 : i32
          scf.yield %o_done, %r#3, %r#4, %use_end : !o, !row, !sums, i32
        } else {
          scf.yield %no_o, %no_max, %no_sums, %use0 : !o, !row, !sums, i32
        }
        tgpu.arrive %q_empty[%tile] per warp : !q_full

        %t_next = arith.addi %t, %ctas : i32
        // The position of the next tile: the divisions overlap with the end of this one.
        %block_next = arith.remsi %t_next, %row_blocks : i32
        %bh_next = arith.divsi %t_next, %row_blocks : i32
        %h_next = arith.remsi %bh_next, %heads : i32
        %b_next = arith.divsi %bh_next, %heads : i32
        %m_next = arith.muli %block_next, %c192 : i32

        // A row without keys has the sum 0: O = 0, LSE = -inf.
        %sum = tile.reduce add %result#2 dim 1 : !sums -> !row
        %none = arith.cmpf oeq, %sum, %row_zeros : !row
        %inverse = arith.divf %row_ones, %sum : !row
        %factor = tile.select %none, %row_zeros, %inverse : !row_i1, !row
        %factor_all = tile.expand %factor dim 1 : !row -> !o
        %o_f32 = arith.mulf %result#0, %factor_all : !o
        %o_bf16 = tile.cast %o_f32 : !o -> !q_bf16

        // The buffer is free when the copy of the previous tile has read it.
        tgpu.bulk_wait pending 0 read
        tgpu.sync on %warpgroup_done
        tgpu.write %o_bf16, %o_buffer : !q_bf16, !o_piece
        tgpu.fence_async
        tgpu.sync on %warpgroup_done
        tgpu.tma_store %o_buffer, %o_map[%b, %h, %m, 0] per warpgroup : !o_piece, !o_map
        tgpu.bulk_commit

        %log_sum = math.log %sum : !row
        %max_natural = arith.mulf %result#1, %row_ln2 : !row
        %lse_row = arith.addf %max_natural, %log_sum : !row
        tgpu.store %lse_row, %lse[%b, %h, %m] : !row, !lse_view
        %tile_next = arith.addi %tile, %c1 : i32
        scf.yield %b_next, %h_next, %m_next, %tile_next, %result#3 : i32, i32, i32, i32, i32
      }
      tgpu.bulk_wait pending 0 read
    }
}
