// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads of captures per row by the role that computes: for the first tile before the loop over tiles, for the next tile
// as soon as it is received, before the results of the current tile are stored.
//
// RUN: tilewright-opt %s --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %s --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null

!view = !tile.view<[?, ?, 64], bf16>
!sums = !tile.view<[?, ?, 64], f32>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!out = tensor<128x64xf32, #tgpu.wgmma<2>>
!rows = tensor<128xi32, #tgpu.slice<1, #tgpu.wgmma<2>>>

tile.capture @ends : !tile.view<[?], i32>

func.func private @end_of(%row: i32, %n: i32) -> i32 {
  %end = tile.at @ends[%row] : i32
  return %end : i32
}

func.func private @nothing_read(%row: i32, %n: i32) -> i32 {
  %end = arith.addi %row, %n : i32
  return %end : i32
}

// CHECK-LABEL: tgpu.kernel @reads
// CHECK:         role "load"
// CHECK-NOT:       tile.map
// CHECK:         role "compute"
// CHECK:           %[[WORDS:.*]]:3 = tgpu.receive
// CHECK:           %[[FIRST:.*]] = tile.map @end_of(%{{.*}}, %[[WORDS]]#1)
// CHECK:           scf.while ({{.*}} = %[[FIRST]],
// CHECK:           } do {
// CHECK-NEXT:      ^bb0({{.*}}%[[ENDS:[a-z0-9]+]]: tensor<128xi32
// CHECK-NOT:         tile.map @end_of
// CHECK:             %[[OTHER:.*]] = tile.map @nothing_read
// CHECK:             scf.for
// CHECK:               tile.expand %[[ENDS]]
// CHECK:             %[[NEXT:.*]]:3 = tgpu.receive
// CHECK:             %[[READ:.*]] = tile.map @end_of(%{{.*}}, %[[NEXT]]#1)
// CHECK:             tgpu.store
// CHECK:             scf.yield {{.*}}%[[READ]]
tgpu.kernel @reads target "sm_90a" warps 8 (%q: !view, %k: !view, %o: !sums)
    grid(%m = ceildiv(dim(q, 0), 128), %h = dim(q, 1))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 64, dynamic = 1>} {
  %q_buffer = tgpu.alloc : !x
  %k_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !out
  %row = arith.muli %m, %c128 : i32
  %keys = tile.dim %k, 0 : !view
  %rounds = arith.ceildivsi %keys, %c128 : i32
  tgpu.copy_async %q[%row, %h, 0] dims [0, 2], %q_buffer : !view, !x
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %rows = tile.iota %row dim 0 : !rows
  %ends = tile.map @end_of(%rows, %h) : (!rows, i32) -> !rows
  %others = tile.map @nothing_read(%rows, %h) : (!rows, i32) -> !rows
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
    %end_each = tile.expand %ends dim 1 : !rows -> tensor<128x128xi32, #tgpu.wgmma<2>>
    %other_each = tile.expand %others dim 1 : !rows -> tensor<128x128xi32, #tgpu.wgmma<2>>
    %keep = arith.cmpi slt, %other_each, %end_each : tensor<128x128xi32, #tgpu.wgmma<2>>
    %masked = arith.constant dense<0.0> : !s
    %kept = tile.select %keep, %s, %masked : tensor<128x128xi1, #tgpu.wgmma<2>>, !s
    %p = tile.cast %kept : !s -> !p
    %p_a = tgpu.convert %p : !p -> !a
    %o_pending = tgpu.wgmma %p_a, %k_buffer, %old : !a, !x, !out -> !out
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %o_pending : !out
    scf.yield %new : !out
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sum, %o[%row, %h, 0] dims [0, 2] : !out, !sums
}
