// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of parts of views, such as the sequences of a packed batch, by ragged tensor maps. A separate role, the
// scheduler, reads the position of a part, and publishes the values that the other roles need. A tile without writes is
// not published, and neither is an element that is the same for all tiles, which tgpu-hoist-elements reads once.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %t/kernels.mlir --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
// RUN: tilewright-opt %t/errors.mlir --tgpu-assign-roles -split-input-file -verify-diagnostics

//--- kernels.mlir

!view = !tile.view<[?, ?, 64], bf16>
!sums = !tile.view<[?, ?, 64], f32>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!out = tensor<128x64xf32, #tgpu.wgmma<2>>

// CHECK-LABEL: tgpu.kernel @parts
// CHECK:         %[[Q:.*]] = tgpu.tensor_map %q : {{.*}} -> !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>
// CHECK:         %[[K:.*]] = tgpu.tensor_map %k : {{.*}} -> !tgpu.tensor_map<128x1x64xbf16, b128, ragged 0>
// The role that copies only receives tiles, and allows the next tile to be taken two iterations before it has issued
// all copies.
// CHECK:         role "load" warps 1
// CHECK-NOT:       tile.at
// CHECK:           tgpu.receive
// CHECK:           } do {
// CHECK:             tgpu.tma_load %[[Q]][%{{.*}}, %{{.*}}, 0] from %[[BEGIN:[a-z0-9]+]] size %[[SIZE:[a-z0-9]+]], %{{.*}}
// CHECK:             %[[ROUNDS:.*]] = arith.subi %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:        %[[AHEAD:.*]] = arith.constant 2 : i32
// CHECK-NEXT:        %[[FEW:.*]] = arith.cmpi sle, %[[ROUNDS]], %{{.*}}
// CHECK-NEXT:        scf.if %[[FEW]] {
// CHECK-NEXT:          tgpu.arrive %[[RECEIVED:.*]][%[[USE:.*]]] per warp
// CHECK-NEXT:        }
// CHECK-NEXT:        scf.for
// CHECK:               %[[DUE:.*]] = arith.cmpi eq, %{{.*}}, %{{.*}} : i32
// CHECK-NEXT:          scf.if %[[DUE]] {
// CHECK-NEXT:            tgpu.arrive %[[RECEIVED]][%[[USE]]] per warp
// CHECK-NEXT:          }
// CHECK:               tgpu.tma_load %[[K]][%{{.*}}, %{{.*}}, 0] from %[[BEGIN]] size %[[SIZE]],
// CHECK:             tgpu.receive
// CHECK-NOT:         tgpu.arrive
// CHECK:         role "schedule" warps 1
// CHECK:           } do {
// CHECK-NOT:         tile.at %found
// CHECK:             %[[BEGIN:.*]] = tile.at %starts
// CHECK:             %[[END:.*]] = tile.at %starts
// CHECK-NOT:         tile.at
// CHECK:             %[[SIZE:.*]] = arith.subi %[[END]], %[[BEGIN]]
// CHECK:             %[[VOID:.*]] = arith.cmpi sge, %{{.*}}, %[[SIZE]]
// CHECK-NEXT:        %[[TAKEN:.*]] = scf.if %[[VOID]]
// CHECK-NEXT:          scf.yield
// CHECK-NEXT:        } else {
// CHECK:               tgpu.publish
// CHECK:             tgpu.acquire %[[RECEIVED]][%[[TAKEN]]]
// CHECK:             tgpu.take_tile
// CHECK:         role "idle" warps 2
// CHECK:         role "compute"
// CHECK-NOT:       tile.at %starts
// CHECK:           tile.at %found[0]
// CHECK-NOT:       tile.at
// CHECK:           tgpu.store
tgpu.kernel @parts target "sm_90a" warps 8
    (%q: !view, %k: !view, %o: !sums, %starts: !tile.view<[?], i32>, %found: !tile.view<[?], i32>)
    grid(%m = ceildiv(dim(q, 0), 128), %n = dim(starts, 0) - 1, %h = dim(q, 1))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 64, dynamic = 1>} {
  %q_buffer = tgpu.alloc : !x
  %k_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %number = tile.at %found[0] : !tile.view<[?], i32>
  %has_none = arith.cmpi slt, %number, %c1 : i32
  %init = arith.select %has_none, %zero, %one : f32
  %none = tile.full %init : !out
  %next = arith.addi %n, %c1 : i32
  %begin = tile.at %starts[%n] : !tile.view<[?], i32>
  %end = tile.at %starts[%next] : !tile.view<[?], i32>
  %size = arith.subi %end, %begin : i32
  %row = arith.muli %m, %c128 : i32
  %q_part = tile.subview %q dim 0 from %begin size %size : !view
  %k_part = tile.subview %k dim 0 from %begin size %size : !view
  %o_part = tile.subview %o dim 0 from %begin size %size : !sums
  tgpu.copy_async %q_part[%row, %h, 0] dims [0, 2], %q_buffer {tgpu.starts_inside} : !view, !x
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %rounds = arith.ceildivsi %size, %c128 : i32
  %sum = scf.for %round = %c0 to %rounds step %c1 iter_args(%old = %none) -> (!out) : i32 {
    %i = arith.muli %round, %c128 : i32
    tgpu.sync
    tgpu.copy_async %k_part[%i, %h, 0] dims [0, 2], %k_buffer {tgpu.starts_inside} : !view, !x
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
  tgpu.store %sum, %o_part[%row, %h, 0] dims [0, 2] : !out, !sums
}

// A write in a loop is not executed if the loop has no iteration; its bounds may be computed in an enclosing loop.
// CHECK-LABEL: tgpu.kernel @rounds
// CHECK:         role "load"
// CHECK:           scf.for
// CHECK:           tgpu.arrive %[[RECEIVED:.*]][%{{.*}}] per warp
// CHECK-NEXT:      tgpu.wait
// CHECK:         role "schedule"
// CHECK:           } do {
// CHECK:             %[[SIZE:.*]] = tile.at %starts
// CHECK:             %[[REST:.*]] = arith.subi %[[SIZE]], %{{.*}} : i32
// CHECK:             %[[NO_ROUND:.*]] = arith.cmpi sge, %{{.*}}, %[[REST]]
// CHECK:             %[[BEYOND:.*]] = arith.cmpi sge, %{{.*}}, %[[SIZE]]
// CHECK:             %[[VOID:.*]] = arith.andi %[[NO_ROUND]], %[[BEYOND]]
// CHECK:             scf.if %[[VOID]]
// CHECK-NEXT:          scf.yield
// CHECK-NEXT:        } else {
// CHECK:               tgpu.publish
// CHECK:         role "idle" warps 1
tgpu.kernel @rounds target "sm_90a" warps 8 (%k: !view, %sums: !sums, %o: !sums, %starts: !tile.view<[?], i32>)
    grid(%m = ceildiv(dim(k, 0), 128), %n = dim(starts, 0) - 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 64, dynamic = 1, reduce_stages = 2>} {
  %k_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %heads = tile.dim %k, 1 : !view
  %size = tile.at %starts[%n] : !tile.view<[?], i32>
  %row = arith.muli %m, %c128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !out
  %k_part = tile.subview %k dim 0 from %row size %size : !view
  %o_part = tile.subview %o dim 0 from %row size %size : !sums
  scf.for %h = %c0 to %heads step %c1 : i32 {
    %rest = arith.subi %size, %row : i32
    scf.for %i = %c0 to %rest step %c128 : i32 {
      tgpu.sync
      tgpu.copy_async %k_part[%i, %h, 0] dims [0, 2], %k_buffer {tgpu.starts_inside} : !view, !x
      tgpu.copy_commit
      tgpu.copy_wait pending 0
      tgpu.sync
      %s_pending = tgpu.wgmma %k_buffer, %k_buffer transpose_b : !x, !x -> !s
      tgpu.wgmma_commit
      %s = tgpu.wgmma_wait pending 0, %s_pending : !s
      %p = tile.cast %s : !s -> !p
      %p_a = tgpu.convert %p : !p -> !a
      %o_pending = tgpu.wgmma %p_a, %k_buffer : !a, !x -> !out
      tgpu.wgmma_commit
      %new = tgpu.wgmma_wait pending 0, %o_pending : !out
      tgpu.atomic_add %new, %sums[%h, %i, 0] dims [1, 2] : !out, !sums
    } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  }
  tgpu.store %none, %o_part[%row, %c0, 0] dims [0, 2] : !out, !sums
}

//--- errors.mlir

!view = !tile.view<[?, ?, 64], bf16>
!x = !tgpu.shared<128x64xbf16, b128>
// A copy that may begin before its part, where a ragged tensor map does not clip.
tgpu.kernel @before target "sm_90a" warps 4 (%x: !view, %begin: i32, %size: i32) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %part = tile.subview %x dim 0 from %begin size %size : !view
  %q = tgpu.alloc : !x
  // expected-error @+1 {{kernel cannot be split into roles: there is no tensor map for a copy of 'x': it may begin before the part of its view by tile.subview; use indices that are products and sums of numbers of the grid and of positive constants; use the schedule skeleton=synchronous}}
  tgpu.copy_async %part[%begin, 0, 0] dims [0, 2], %q : !view, !x
  %r = tgpu.read %q : !x -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}

// -----

// A part along the innermost dimension, whose stride is not in a tensor map.
!row = !tile.view<[?, ?], bf16>
!x = !tgpu.shared<128x64xbf16, b128>
tgpu.kernel @innermost target "sm_90a" warps 4 (%x: !row, %begin: i32, %size: i32) grid(%b = 4)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %part = tile.subview %x dim 1 from %begin size %size : !row
  %q = tgpu.alloc : !x
  // expected-error @+1 {{kernel cannot be split into roles: there is no tensor map for a copy of 'x': tile.subview takes a part of the last dimension; use the schedule skeleton=synchronous}}
  tgpu.copy_async %part[0, 0], %q {tgpu.starts_inside} : !row, !x
  %r = tgpu.read %q : !x -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}
