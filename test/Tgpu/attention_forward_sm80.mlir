// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention forward for Ampere and later, D 128, bf16, written by hand: the schedule of FlashAttention-2 (Dao, 2023).
// A row without a key has the maximum -inf; its exponents are relative to 0.
//
//   Eight warps of 16 rows each, without roles. cp.async copies K and V into rings of two stages: the copy of
//   block n + 1 runs while block n is multiplied. One barrier per iteration has two purposes: the copies of
//   block n are visible to all warps, and all have read the stage that block n + 1 overwrites.
//
//     cp.async      KV0 | KV1         | KV2         | ...
//     matrix unit       | S0   PV0    | S1   PV1    | ...
//     registers         |    P0       |    P1       | ...
//
// Q is read from shared memory once and stays in registers, as P does. O is stored from registers.
//
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

!view = !tile.view<[?, ?, ?, 128], bf16>
!q_tile = !tgpu.shared<128x128xbf16, b128>
!kv_tile = !tgpu.shared<64x128xbf16, b128>
!ring = !tgpu.ring<2, !kv_tile>
!s = tensor<128x64xf32, #tgpu.mma<8, 1>>
!s_i32 = tensor<128x64xi32, #tgpu.mma<8, 1>>
!s_i1 = tensor<128x64xi1, #tgpu.mma<8, 1>>
!s_bf16 = tensor<128x64xbf16, #tgpu.mma<8, 1>>
!q_a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
!p_a = tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
!k_b = tensor<128x64xbf16, #tgpu.operand<b, #tgpu.mma<8, 1>>>
!v_b = tensor<64x128xbf16, #tgpu.operand<b, #tgpu.mma<8, 1>>>
!o = tensor<128x128xf32, #tgpu.mma<8, 1>>
!o_bf16 = tensor<128x128xbf16, #tgpu.mma<8, 1>>
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.mma<8, 1>>>
!row_i1 = tensor<128xi1, #tgpu.slice<1, #tgpu.mma<8, 1>>>

// CHECK-LABEL: tgpu.kernel @attention_forward target "sm_80" warps 8
tgpu.kernel @attention_forward target "sm_80" warps 8
    (%q: !view, %k: !view, %v: !view, %o: !view, %lse: optional !tile.view<[?, ?, ?], f32>, %scale_log2: f32)
    grid(%row_block = ceildiv(dim(q, 2), 128), %h = dim(q, 1), %b = dim(q, 0)) {
  %q_buffer = tgpu.alloc : !q_tile
  %k_ring = tgpu.alloc_ring : !ring
  %v_ring = tgpu.alloc_ring : !ring

  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %c128 = arith.constant 128 : i32
  %m = arith.muli %row_block, %c128 : i32
  %keys = tile.dim %k, 2 : !view
  %blocks = arith.ceildivsi %keys, %c64 : i32

  // CHECK: tgpu.copy_async %q[%b, %h, %{{.*}}, 0], %[[Q:.*]] : !tile.view<[?, ?, ?, 128], bf16>, !tgpu.shared<128x128xbf16, b128>
  // CHECK-NEXT: tgpu.copy_commit
  // CHECK-NEXT: tgpu.copy_wait pending 0
  // CHECK-NEXT: tgpu.sync{{$}}
  // CHECK-NEXT: %[[QA:.*]] = tgpu.read %[[Q]] : !tgpu.shared<128x128xbf16, b128> -> tensor<128x128xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
  tgpu.copy_async %q[%b, %h, %m, 0], %q_buffer : !view, !q_tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %q_a = tgpu.read %q_buffer : !q_tile -> !q_a
  %k_first = tgpu.slot %k_ring[%c0] : !ring
  %v_first = tgpu.slot %v_ring[%c0] : !ring
  tgpu.copy_async %k[%b, %h, 0, 0], %k_first : !view, !kv_tile
  tgpu.copy_async %v[%b, %h, 0, 0], %v_first : !view, !kv_tile
  tgpu.copy_commit

  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %minus_infinity = arith.constant 0xFF800000 : f32
  %ln2 = arith.constant 0.693147182 : f32
  %o_zeros = tile.full %zero : !o
  %s_zeros = tile.full %zero : !s
  %outside = tile.full %minus_infinity : !s
  %ends = tile.full %keys : !s_i32
  %row_zeros = tile.full %zero : !row
  %row_ones = tile.full %one : !row
  %row_minus_infinity = tile.full %minus_infinity : !row
  %row_ln2 = tile.full %ln2 : !row
  %scales = tile.full %scale_log2 : !s
  %row_scales = tile.full %scale_log2 : !row

  // CHECK: scf.for
  %r:3 = scf.for %i = %c0 to %blocks step %c1
      iter_args(%acc = %o_zeros, %max = %row_minus_infinity, %sum = %row_zeros) -> (!o, !row, !row) : i32 {
    // CHECK: tgpu.copy_wait pending 0
    // CHECK-NEXT: tgpu.sync{{$}}
    tgpu.copy_wait pending 0
    tgpu.sync
    %next = arith.addi %i, %c1 : i32
    %k_next = tgpu.slot %k_ring[%next] : !ring
    %v_next = tgpu.slot %v_ring[%next] : !ring
    %n_next = arith.muli %next, %c64 : i32
    // CHECK: tgpu.copy_async %k
    // CHECK-NEXT: tgpu.copy_async %v
    // CHECK-NEXT: tgpu.copy_commit
    // After the last block these copy zeros, since all rows are outside of the view.
    tgpu.copy_async %k[%b, %h, %n_next, 0], %k_next : !view, !kv_tile
    tgpu.copy_async %v[%b, %h, %n_next, 0], %v_next : !view, !kv_tile
    tgpu.copy_commit

    %k_slot = tgpu.slot %k_ring[%i] : !ring
    // CHECK: tgpu.read %{{.*}} transpose : !tgpu.shared<64x128xbf16, b128> -> tensor<128x64xbf16, #tgpu.operand<b, #tgpu.mma<8, 1>>>
    // CHECK-NEXT: tgpu.mma %[[QA]], %{{.*}}, %{{.*}} : tensor<128x128xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>, tensor<128x64xbf16, #tgpu.operand<b, #tgpu.mma<8, 1>>> -> tensor<128x64xf32, #tgpu.mma<8, 1>>
    %k_b = tgpu.read %k_slot transpose : !kv_tile -> !k_b
    %s_all = tgpu.mma %q_a, %k_b, %s_zeros : !q_a, !k_b -> !s
    %n = arith.muli %i, %c64 : i32
    %j = tile.iota %n dim 1 : !s_i32
    %inside = arith.cmpi slt, %j, %ends : !s_i32
    %s = tile.select %inside, %s_all, %outside : !s_i1, !s

    %block_max = tile.reduce max %s dim 1 : !s -> !row
    %new_max = arith.maximumf %max, %block_max : !row
    %empty = arith.cmpf oeq, %new_max, %row_minus_infinity : !row
    %safe = tile.select %empty, %row_zeros, %new_max : !row_i1, !row
    %base = arith.mulf %safe, %row_scales : !row
    %base_all = tile.expand %base dim 1 : !row -> !s
    %scaled = arith.mulf %s, %scales : !s
    %exponent = arith.subf %scaled, %base_all : !s
    %p = math.exp2 %exponent : !s
    %old_scaled = arith.mulf %max, %row_scales : !row
    %fall = arith.subf %old_scaled, %base : !row
    %alpha = math.exp2 %fall : !row
    %block_sum = tile.reduce add %p dim 1 : !s -> !row
    %old_sum = arith.mulf %sum, %alpha : !row
    %new_sum = arith.addf %old_sum, %block_sum : !row
    %alpha_all = tile.expand %alpha dim 1 : !row -> !o
    %acc_scaled = arith.mulf %acc, %alpha_all : !o

    // CHECK: tgpu.convert %{{.*}} : tensor<128x64xbf16, #tgpu.mma<8, 1>> -> tensor<128x64xbf16, #tgpu.operand<a, #tgpu.mma<8, 1>>>
    %p_bf16 = tile.cast %p : !s -> !s_bf16
    %p_a = tgpu.convert %p_bf16 : !s_bf16 -> !p_a
    %v_slot = tgpu.slot %v_ring[%i] : !ring
    %v_b = tgpu.read %v_slot : !kv_tile -> !v_b
    %o_new = tgpu.mma %p_a, %v_b, %acc_scaled : !p_a, !v_b -> !o
    scf.yield %o_new, %new_max, %new_sum : !o, !row, !row
  }
  // Shared memory must outlive the copies into it.
  tgpu.copy_wait pending 0

  %none = arith.cmpf oeq, %r#2, %row_zeros : !row
  %divisor = tile.select %none, %row_ones, %r#2 : !row_i1, !row
  %factor = arith.divf %row_ones, %divisor : !row
  %factor_all = tile.expand %factor dim 1 : !row -> !o
  %o_f32 = arith.mulf %r#0, %factor_all : !o
  %o_rounded = tile.cast %o_f32 : !o -> !o_bf16
  // CHECK: tgpu.store %{{.*}}, %o[%b, %h, %{{.*}}, 0] : tensor<128x128xbf16, #tgpu.mma<8, 1>>
  tgpu.store %o_rounded, %o[%b, %h, %m, 0] : !o_bf16, !view
  %log_sum = math.log2 %r#2 : !row
  %max_scaled = arith.mulf %r#1, %row_scales : !row
  %lse2 = arith.addf %max_scaled, %log_sum : !row
  %lse_e = arith.mulf %lse2, %row_ln2 : !row
  %lse_row = tile.select %none, %row_minus_infinity, %lse_e : !row_i1, !row
  tgpu.store %lse_row, %lse[%b, %h, %m] : !row, !tile.view<[?, ?, ?], f32>
}
