// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward for Hopper, D 128, bf16, by hand: the schedule of FlashAttention-3 (Shah et al.,
// FlashAttention-3: fast and accurate attention with asynchrony and low-precision, 2024).
//
//   load      one thread brings Q, and K and V through rings of two stages, by TMA.
//   compute   two warpgroups, 64 rows of Q each. QK^T of block n + 1 is issued before PV of block n, so
//             that the softmax of n + 1 runs under PV of n; P stays in registers as operand a.
//             The warpgroups take turns in issuing, so that one multiplies while the other exponentiates.
//
//     matrix unit   S0 | S1 PV0 | S2 PV1 | ...                | PVlast
//     registers        P0       P1       P2  (O rescaled once its product is done)
//
// Blocks of keys run from the last, which alone may be partial, to the first. O goes out through Q's
// buffer: each warpgroup overwrites the rows that only its own products have read. Persistent: block
// `cta` takes tiles cta, cta + grid, ...; the counters of the rings run on across tiles.
//
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

!view = !tile.view<[?, ?, ?, 128], bf16>
!tile = !tgpu.shared<128x128xbf16, b128>
!ring = !tgpu.ring<2, !tile>
!map = !tgpu.tensor_map<1x1x128x64xbf16, b128>
!acc = tensor<128x128xf32, #tgpu.wgmma<2>>
!acc_i32 = tensor<128x128xi32, #tgpu.wgmma<2>>
!acc_i1 = tensor<128x128xi1, #tgpu.wgmma<2>>
!acc_bf16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
!row_i1 = tensor<128xi1, #tgpu.slice<1, #tgpu.wgmma<2>>>

// CHECK-LABEL: tgpu.kernel @attention_forward target "sm_90a" warps 12
// CHECK-NEXT: (%q: !tile.view<[?, ?, ?, 128], bf16>, {{.*}}%lse: optional !tile.view<[?, ?, ?], f32>, %scale_log2: f32)
// CHECK-NEXT: grid(%cta = sm_count())
tgpu.kernel @attention_forward target "sm_90a" warps 12
    (%q: !view, %k: !view, %v: !view, %o: !view, %lse: optional !tile.view<[?, ?, ?], f32>, %scale_log2: f32)
    grid(%cta = sm_count()) {
  %q_map = tgpu.tensor_map %q : !view -> !map
  %k_map = tgpu.tensor_map %k : !view -> !map
  %v_map = tgpu.tensor_map %v : !view -> !map
  %o_map = tgpu.tensor_map %o : !view -> !map

  %q_buffer = tgpu.alloc : !tile
  %k_ring = tgpu.alloc_ring : !ring
  %v_ring = tgpu.alloc_ring : !ring
  %q_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %q_empty = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %k_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %k_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %v_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %v_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %o_written = tgpu.named_barrier warps 8 : index
  %turns = tgpu.turns warpgroups 2 : index

  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %rows = tile.dim %q, 2 : !view
  %heads = tile.dim %q, 1 : !view
  %batch = tile.dim %q, 0 : !view
  %keys = tile.dim %k, 2 : !view
  %row_blocks = arith.ceildivsi %rows, %c128 : i32
  // Without keys one block, all masked, writes the zeros.
  %key_blocks = arith.ceildivsi %keys, %c128 : i32
  %blocks = arith.maxsi %key_blocks, %c1 : i32
  %last = arith.subi %blocks, %c1 : i32
  %tiles_of_head = arith.muli %row_blocks, %heads : i32
  %tiles = arith.muli %tiles_of_head, %batch : i32
  %ctas = tgpu.grid_extent 0 : i32

  // CHECK: tgpu.roles
  // CHECK-NEXT: role "load" warps 4 registers 24 {
  tgpu.roles
    role "load" warps 4 registers 24 {
      scf.for %t = %cta to %tiles step %ctas iter_args(%use_q = %c0, %use0 = %c0) -> (i32, i32) : i32 {
        %block = arith.remsi %t, %row_blocks : i32
        %bh = arith.divsi %t, %row_blocks : i32
        %h = arith.remsi %bh, %heads : i32
        %b = arith.divsi %bh, %heads : i32
        %m = arith.muli %block, %c128 : i32

        tgpu.acquire %q_empty[%use_q] : !tgpu.barriers<1>
        tgpu.expect %q_full[%use_q] bytes 32768 : !tgpu.barriers<1>
        tgpu.tma_load %q_map[%b, %h, %m, 0], %q_buffer, %q_full[%use_q] : !map, !tile, !tgpu.barriers<1>

        %use_end = scf.for %i = %c0 to %blocks step %c1 iter_args(%use = %use0) -> i32 : i32 {
          %from_last = arith.subi %last, %i : i32
          %n = arith.muli %from_last, %c128 : i32
          // CHECK: tgpu.acquire %[[K_EMPTY:.*]][%[[USE:.*]]] : !tgpu.barriers<2>
          // CHECK-NEXT: tgpu.expect %[[K_FULL:.*]][%[[USE]]] bytes 32768 : !tgpu.barriers<2>
          // CHECK-NEXT: %[[SLOT:.*]] = tgpu.slot %{{.*}}[%[[USE]]] : !tgpu.ring<2, <128x128xbf16, b128>>
          // CHECK-NEXT: tgpu.tma_load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, 0], %[[SLOT]], %[[K_FULL]][%[[USE]]]
          tgpu.acquire %k_empty[%use] : !tgpu.barriers<2>
          tgpu.expect %k_full[%use] bytes 32768 : !tgpu.barriers<2>
          %k_slot = tgpu.slot %k_ring[%use] : !ring
          tgpu.tma_load %k_map[%b, %h, %n, 0], %k_slot, %k_full[%use] : !map, !tile, !tgpu.barriers<2>
          tgpu.acquire %v_empty[%use] : !tgpu.barriers<2>
          tgpu.expect %v_full[%use] bytes 32768 : !tgpu.barriers<2>
          %v_slot = tgpu.slot %v_ring[%use] : !ring
          tgpu.tma_load %v_map[%b, %h, %n, 0], %v_slot, %v_full[%use] : !map, !tile, !tgpu.barriers<2>
          %next = arith.addi %use, %c1 : i32
          scf.yield %next : i32
        }
        %next_q = arith.addi %use_q, %c1 : i32
        scf.yield %next_q, %use_end : i32, i32
      }
    }
    // CHECK: role "compute" warps 8 registers 240 {
    role "compute" warps 8 registers 240 {
      %zero = arith.constant 0.0 : f32
      %one = arith.constant 1.0 : f32
      %infinity = arith.constant 0x7F800000 : f32
      %minus_infinity = arith.constant 0xFF800000 : f32
      %ln2 = arith.constant 0.693147182 : f32
      %zeros = tile.full %zero : !acc
      %row_zeros = tile.full %zero : !row
      %row_ones = tile.full %one : !row
      %row_infinity = tile.full %infinity : !row
      %row_minus_infinity = tile.full %minus_infinity : !row
      %row_ln2 = tile.full %ln2 : !row
      %scales = tile.full %scale_log2 : !acc
      %row_scales = tile.full %scale_log2 : !row

      scf.for %t = %cta to %tiles step %ctas iter_args(%use_q = %c0, %use0 = %c0) -> (i32, i32) : i32 {
        %block = arith.remsi %t, %row_blocks : i32
        %bh = arith.divsi %t, %row_blocks : i32
        %h = arith.remsi %bh, %heads : i32
        %b = arith.divsi %bh, %heads : i32
        %m = arith.muli %block, %c128 : i32

        // The last block of keys: S, masked, and the first P.
        tgpu.wait %q_full[%use_q] : !tgpu.barriers<1>
        tgpu.wait %k_full[%use0] : !tgpu.barriers<2>
        %k_last = tgpu.slot %k_ring[%use0] : !ring
        %s_issued = tgpu.wgmma %q_buffer, %k_last transpose_b : !tile, !tile -> !acc
        tgpu.wgmma_commit
        %s_all = tgpu.wgmma_wait pending 0, %s_issued : !acc
        tgpu.arrive %k_empty[%use0] per warp : !tgpu.barriers<2>
        %n_last = arith.muli %last, %c128 : i32
        %j = tile.iota %n_last dim 1 : !acc_i32
        %ends = tile.full %keys : !acc_i32
        %inside = arith.cmpi slt, %j, %ends : !acc_i32
        %outside = tile.full %minus_infinity : !acc
        %s_first = tile.select %inside, %s_all, %outside : !acc_i1, !acc
        %max0 = tile.reduce max %s_first dim 1 : !acc -> !row
        // A row without a key has the maximum -inf; its exponents are taken from 0.
        %empty0 = arith.cmpf oeq, %max0, %row_minus_infinity : !row
        %safe0 = tile.select %empty0, %row_zeros, %max0 : !row_i1, !row
        %base0 = arith.mulf %safe0, %row_scales : !row
        %base0_all = tile.expand %base0 dim 1 : !row -> !acc
        %scaled0 = arith.mulf %s_first, %scales : !acc
        %exponent0 = arith.subf %scaled0, %base0_all : !acc
        %p0 = math.exp2 %exponent0 : !acc
        %sum0 = tile.reduce add %p0 dim 1 : !acc -> !row
        %p0_bf16 = tile.cast %p0 : !acc -> !acc_bf16
        %p0_a = tgpu.convert %p0_bf16 : !acc_bf16 -> !p

        // CHECK: tgpu.wgmma_wait pending 0
        // CHECK: scf.for
        %r:5 = scf.for %i = %c1 to %blocks step %c1
            iter_args(%use = %use0, %p = %p0_a, %acc = %zeros, %max = %max0, %sum = %sum0)
            -> (i32, !p, !acc, !row, !row) : i32 {
          %use_k = arith.addi %use, %c1 : i32
          // Turn by turn: S of this block, and P V of the one before.
          // CHECK: tgpu.take_turn %[[TURNS:.*]]
          // CHECK: %[[S:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b : !tgpu.shared<128x128xbf16, b128>, !tgpu.shared<128x128xbf16, b128> -> tensor<128x128xf32, #tgpu.wgmma<2>>
          // CHECK-NEXT: tgpu.wgmma_commit
          // CHECK: %[[O:.*]] = tgpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} : tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<128x128xbf16, b128>, tensor<128x128xf32, #tgpu.wgmma<2>> -> tensor<128x128xf32, #tgpu.wgmma<2>>
          // CHECK-NEXT: tgpu.wgmma_commit
          // CHECK-NEXT: tgpu.pass_turn %[[TURNS]]
          // CHECK-NEXT: tgpu.wgmma_wait pending 1, %[[S]] : tensor<128x128xf32, #tgpu.wgmma<2>>
          tgpu.wait %k_full[%use_k] : !tgpu.barriers<2>
          tgpu.take_turn %turns
          %k_slot = tgpu.slot %k_ring[%use_k] : !ring
          %s_pending = tgpu.wgmma %q_buffer, %k_slot transpose_b : !tile, !tile -> !acc
          tgpu.wgmma_commit
          tgpu.wait %v_full[%use] : !tgpu.barriers<2>
          %v_slot = tgpu.slot %v_ring[%use] : !ring
          %o_pending = tgpu.wgmma %p, %v_slot, %acc : !p, !tile, !acc -> !acc
          tgpu.wgmma_commit
          tgpu.pass_turn %turns

          // Softmax of this block, while P V of the one before runs.
          %s = tgpu.wgmma_wait pending 1, %s_pending : !acc
          tgpu.arrive %k_empty[%use_k] per warp : !tgpu.barriers<2>
          %block_max = tile.reduce max %s dim 1 : !acc -> !row
          %new_max = arith.maximumf %max, %block_max : !row
          %empty = arith.cmpf oeq, %new_max, %row_minus_infinity : !row
          %safe = tile.select %empty, %row_zeros, %new_max : !row_i1, !row
          %base = arith.mulf %safe, %row_scales : !row
          %base_all = tile.expand %base dim 1 : !row -> !acc
          %scaled = arith.mulf %s, %scales : !acc
          %exponent = arith.subf %scaled, %base_all : !acc
          %p_new = math.exp2 %exponent : !acc
          %old_scaled = arith.mulf %max, %row_scales : !row
          %fall = arith.subf %old_scaled, %base : !row
          %alpha = math.exp2 %fall : !row
          %block_sum = tile.reduce add %p_new dim 1 : !acc -> !row
          %old_sum = arith.mulf %sum, %alpha : !row
          %new_sum = arith.addf %old_sum, %block_sum : !row
          %p_bf16 = tile.cast %p_new : !acc -> !acc_bf16
          %p_a = tgpu.convert %p_bf16 : !acc_bf16 -> !p

          // CHECK: tgpu.wgmma_wait pending 0, %[[O]] : tensor<128x128xf32, #tgpu.wgmma<2>>
          %o_done = tgpu.wgmma_wait pending 0, %o_pending : !acc
          tgpu.arrive %v_empty[%use] per warp : !tgpu.barriers<2>
          %alpha_all = tile.expand %alpha dim 1 : !row -> !acc
          %o_scaled = arith.mulf %o_done, %alpha_all : !acc
          scf.yield %use_k, %p_a, %o_scaled, %new_max, %new_sum : i32, !p, !acc, !row, !row
        }

        tgpu.wait %v_full[%r#0] : !tgpu.barriers<2>
        %v_first = tgpu.slot %v_ring[%r#0] : !ring
        %o_last = tgpu.wgmma %r#1, %v_first, %r#2 : !p, !tile, !acc -> !acc
        tgpu.wgmma_commit
        %o_sum = tgpu.wgmma_wait pending 0, %o_last : !acc
        tgpu.arrive %v_empty[%r#0] per warp : !tgpu.barriers<2>

        // A row without a key: O = 0, LSE = -inf.
        %none = arith.cmpf oeq, %r#4, %row_zeros : !row
        %divisor = tile.select %none, %row_ones, %r#4 : !row_i1, !row
        %factor = arith.divf %row_ones, %divisor : !row
        %factor_all = tile.expand %factor dim 1 : !row -> !acc
        %o_f32 = arith.mulf %o_sum, %factor_all : !acc
        %o_bf16 = tile.cast %o_f32 : !acc -> !acc_bf16
        %log_sum = math.log2 %r#4 : !row
        %max_scaled = arith.mulf %r#3, %row_scales : !row
        %lse2 = arith.addf %max_scaled, %log_sum : !row
        %lse_e = arith.mulf %lse2, %row_ln2 : !row
        %lse_row = tile.select %none, %row_minus_infinity, %lse_e : !row_i1, !row
        tgpu.store %lse_row, %lse[%b, %h, %m] : !row, !tile.view<[?, ?, ?], f32>

        // O into Q's buffer and out; the buffer is Q's again once the copy has read it.
        // CHECK: tgpu.write %{{.*}}, %[[Q:.*]] : tensor<128x128xbf16, #tgpu.wgmma<2>>, !tgpu.shared<128x128xbf16, b128>
        // CHECK-NEXT: tgpu.fence_async
        // CHECK-NEXT: tgpu.sync on %{{.*}}
        // CHECK-NEXT: tgpu.tma_store %[[Q]], %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}, 0]
        // CHECK-NEXT: tgpu.bulk_commit
        // CHECK-NEXT: tgpu.bulk_wait pending 0 read
        // CHECK-NEXT: tgpu.arrive %{{.*}}[%{{.*}}] per role : !tgpu.barriers<1>
        tgpu.write %o_bf16, %q_buffer : !acc_bf16, !tile
        tgpu.fence_async
        tgpu.sync on %o_written
        tgpu.tma_store %q_buffer, %o_map[%b, %h, %m, 0] : !tile, !map
        tgpu.bulk_commit
        tgpu.bulk_wait pending 0 read
        tgpu.arrive %q_empty[%use_q] per role : !tgpu.barriers<1>
        %next_q = arith.addi %use_q, %c1 : i32
        %next_use = arith.addi %r#0, %c1 : i32
        scf.yield %next_q, %next_use : i32, i32
      }
    }
}
