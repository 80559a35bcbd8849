// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// An operand that threads write for the whole tile is published by a barrier before the loop. The loop itself writes
// nothing to shared memory, and its copies have barriers of their own: iterations have none, so that they may overlap.
//
// RUN: tilewright-opt %s --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %s --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null

!view = !tile.view<[?, ?, 64], bf16>
!sums = !tile.view<[?, ?, 64], f32>
!x = !tgpu.shared<128x64xbf16, b128>
!q = tensor<128x64xbf16, #tgpu.blocked<8, lanes 32, warps 8, 1>>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!out = tensor<128x64xf32, #tgpu.wgmma<2>>

// CHECK-LABEL: tgpu.kernel @written
// CHECK:         role "compute"
// CHECK:           tgpu.sync on %[[B:.*]]
// CHECK-NEXT:      tgpu.write
// CHECK-NEXT:      tgpu.sync on %[[B]]
// CHECK:           scf.for
// CHECK-NOT:         tgpu.sync
// CHECK:             tgpu.wgmma
// CHECK-NOT:         tgpu.sync
// CHECK:             scf.yield
tgpu.kernel @written target "sm_90a" warps 8 (%k: !view, %o: !sums, %x: bf16)
    grid(%m = ceildiv(dim(k, 0), 128), %h = dim(k, 1))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 8>} {
  %q_buffer = tgpu.alloc : !x
  %k_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !out
  %row = arith.muli %m, %c128 : i32
  %size = tile.dim %k, 0 : !view
  %queries = tile.full %x : !q
  tgpu.write %queries, %q_buffer : !q, !x
  tgpu.sync
  %rounds = arith.ceildivsi %size, %c128 : i32
  %sum = scf.for %round = %c0 to %rounds step %c1 iter_args(%old = %none) -> (!out) : i32 {
    %i = arith.muli %round, %c128 : i32
    tgpu.sync
    tgpu.copy_async %k[%i, %h, 0] dims [0, 2], %k_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %p = tile.cast %s : !s -> !p
    %p_a = tgpu.convert %p : !p -> !a
    %o_pending = tgpu.wgmma %p_a, %k_buffer, %old : !a, !x, !out -> !out
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %o_pending : !out
    scf.yield %new : !out
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sum, %o[%row, %h, 0] dims [0, 2] : !out, !sums
}

// The same in a branch: other warps may still multiply the previous tile.
// CHECK-LABEL: tgpu.kernel @written_in_branch
// CHECK:         role "compute"
// CHECK:           scf.if
// CHECK:             tgpu.sync on %[[B:.*]]
// CHECK-NEXT:        tgpu.write
// CHECK-NEXT:        tgpu.sync on %[[B]]
// CHECK:             scf.for
// CHECK-NOT:           tgpu.sync
// CHECK:               tgpu.wgmma
// CHECK-NOT:           tgpu.sync
// CHECK:               scf.yield
tgpu.kernel @written_in_branch target "sm_90a" warps 8 (%k: !view, %o: !sums, %x: bf16)
    grid(%m = ceildiv(dim(k, 0), 128), %h = dim(k, 1))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 8>} {
  %q_buffer = tgpu.alloc : !x
  %k_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !out
  %row = arith.muli %m, %c128 : i32
  %size = tile.dim %k, 0 : !view
  %queries = tile.full %x : !q
  %rounds = arith.ceildivsi %size, %c128 : i32
  %some = arith.cmpi sgt, %rounds, %c1 : i32
  %sum = scf.if %some -> (!out) {
    tgpu.write %queries, %q_buffer : !q, !x
    tgpu.sync
    %all = scf.for %round = %c0 to %rounds step %c1 iter_args(%old = %none) -> (!out) : i32 {
      %i = arith.muli %round, %c128 : i32
      tgpu.sync
      tgpu.copy_async %k[%i, %h, 0] dims [0, 2], %k_buffer : !view, !x
      tgpu.copy_commit
      tgpu.copy_wait pending 0
      tgpu.sync
      %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !x, !x -> !s
      tgpu.wgmma_commit
      %s = tgpu.wgmma_wait pending 0, %s_pending : !s
      %p = tile.cast %s : !s -> !p
      %p_a = tgpu.convert %p : !p -> !a
      %o_pending = tgpu.wgmma %p_a, %k_buffer, %old : !a, !x, !out -> !out
      tgpu.wgmma_commit
      %new = tgpu.wgmma_wait pending 0, %o_pending : !out
      scf.yield %new : !out
    } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    scf.yield %all : !out
  } else {
    scf.yield %none : !out
  }
  tgpu.store %sum, %o[%row, %h, 0] dims [0, 2] : !out, !sums
}
