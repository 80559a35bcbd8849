// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two roles that compute, for a sum of which each has some columns: the first one hands over values of rows, too, and one
// behind the loop.
// RUN: tilewright-opt %s --tgpu-assign-roles | FileCheck %s
//
// Later passes preserve the synchronization between the roles.
// DEFINE: %{rest} = --tgpu-assign-roles --tgpu-unswitch-loops --tgpu-clone-segments --tgpu-stage-stores --canonicalize --tgpu-plan-stages --tgpu-expand-stages --tgpu-release-early --tgpu-unite-counters --canonicalize --cse --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync
// RUN: tilewright-opt %s %{rest} | FileCheck %s --check-prefix=REST
//
// The same columns, columns that overlap, or of rows that are others: the order of the stores matters, so there is one role.
// DEFINE: %{rejected} = not tilewright-opt --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=REJECTED
// RUN: sed 's/%o\[%row, %c64\]/%o[%row, 0]/' %s | %{rejected}
// RUN: sed 's/%o\[%row, %c64\]/%o[%row, 32]/' %s | %{rejected}
// RUN: sed 's/%o\[%row, %c64\]/%o[%c1, %c64]/' %s | %{rejected}
// RUN: sed 's/%o\[%row, %c64\]/%o[%row, %row]/' %s | %{rejected}
// REJECTED: cannot have two roles that compute: it must store two results to different arrays or columns
//
// Constant columns, as an operand or an attribute, are known.
// RUN: sed 's/%o\[%row, %c64\]/%o[%row, 64]/' %s | tilewright-opt --tgpu-assign-roles | FileCheck %s

!b = !tgpu.shared<64x64xbf16, b128>
!in = !tile.view<[?, 64], bf16>
!out = !tile.view<[?, 128], f32>
!rows = !tile.view<[?], f32>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!half = tensor<64x64xbf16, #tgpu.wgmma<1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
!row = tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>

// CHECK-LABEL: tgpu.kernel @two_halves target "sm_90a" warps 12
// CHECK:         %[[K:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
// CHECK:         %[[V:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
// CHECK-NEXT:    %[[V_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[V_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[FACTORS:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64xf32, none>>
// CHECK:         %[[P:.*]] = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
// CHECK:         %[[INVERSE:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64xf32, none>>
// CHECK:         role "compute" warps 4
// CHECK:           scf.for
// CHECK:             %[[FACTOR:.*]] = math.exp2 %{{.*}} : tensor<64xf32, #tgpu.slice<1, #tgpu.wgmma<1>>>
// CHECK:             %[[SLOT:.*]] = tgpu.slot %[[FACTORS]]
// CHECK-NEXT:        tgpu.write %[[FACTOR]], %[[SLOT]]
// CHECK:             tgpu.write %{{.*}}, %[[P]]
// CHECK:           }
// CHECK:           %[[SLOT:.*]] = tgpu.slot %[[INVERSE]]
// CHECK-NEXT:      tgpu.write %{{.*}}, %[[SLOT]]
// CHECK:           tgpu.store %{{.*}}, %o[%{{.*}}, 0]
// CHECK:           tgpu.store %{{.*}}, %maxima
// CHECK-NOT:       tgpu.store
// CHECK:         role "compute_2" warps 4
// CHECK-NOT:       math.exp2
// CHECK:           scf.for %{{.*}} iter_args(%[[OLD:[a-z0-9]*]] = {{.*}}) -> (tensor<64x64xf32, #tgpu.wgmma<1>>, i32
// CHECK:             %[[SLOT:.*]] = tgpu.slot %[[FACTORS]]
// CHECK-NEXT:        %[[FACTOR:.*]] = tgpu.read %[[SLOT]]
// CHECK:             %[[EACH:.*]] = tile.expand %[[FACTOR]]
// CHECK-NEXT:        arith.mulf %[[OLD]], %[[EACH]]
// CHECK:           }
// CHECK:           %[[SLOT:.*]] = tgpu.slot %[[INVERSE]]
// CHECK-NEXT:      tgpu.read %[[SLOT]]
// CHECK:           tgpu.store
// CHECK-NOT:       tgpu.store

// REST: role "compute_2"
tgpu.kernel @two_halves target "sm_90a" warps 4
    (%q: !in, %k: !in, %v: !in, %o: !out, %maxima: !rows) grid(%i = ceildiv(dim(q, 0), 64))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, compute_roles = 2>} {
  %qb = tgpu.alloc : !b
  %kb = tgpu.alloc : !b
  %vb = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %none = tile.full %zero : !acc
  %no_max = tile.full %zero : !row
  %ones = tile.full %one : !row
  %row = arith.muli %i, %c64 : i32
  %rounds = tile.dim %k, 0 : !in
  tgpu.copy_async %q[%row, 0], %qb : !in, !b
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %max, %left, %right = scf.for %m = %c0 to %rounds step %c1
      iter_args(%max_old = %no_max, %left_old = %none, %right_old = %none) -> (!row, !acc, !acc) : i32 {
    %n = arith.muli %m, %c64 : i32
    tgpu.copy_async %k[%n, 0], %kb : !in, !b
    tgpu.copy_commit
    tgpu.copy_async %v[%n, 0], %vb : !in, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_k_pending = tgpu.wgmma %qb, %kb transpose_b : !b, !b -> !acc
    tgpu.wgmma_commit
    %s_k = tgpu.wgmma_wait pending 0, %s_k_pending : !acc
    %s_pending = tgpu.wgmma %qb, %vb transpose_b, %s_k : !b, !b, !acc -> !acc
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !acc
    %own = tile.reduce max %s dim 1 : !acc -> !row
    %max_new = arith.maximumf %max_old, %own : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !acc
    %below = arith.subf %s, %max_each : !acc
    %p = math.exp2 %below : !acc
    %fall = arith.subf %max_old, %max_new : !row
    %factor = math.exp2 %fall : !row
    %half = tile.cast %p {tgpu.ring_stages = 1} : !acc -> !half
    %factor_each = tile.expand %factor dim 1 : !row -> !acc
    %left_kept = arith.mulf %left_old, %factor_each : !acc
    %right_kept = arith.mulf %right_old, %factor_each : !acc
    %pa = tgpu.convert %half : !half -> !a
    %left_pending = tgpu.wgmma %pa, %kb, %left_kept : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %left_new = tgpu.wgmma_wait pending 0, %left_pending : !acc
    %right_pending = tgpu.wgmma %pa, %vb, %right_kept : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %right_new = tgpu.wgmma_wait pending 0, %right_pending : !acc
    tgpu.sync
    scf.yield %max_new, %left_new, %right_new : !row, !acc, !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  %inverse = arith.divf %ones, %max : !row
  %inverse_each = tile.expand %inverse dim 1 : !row -> !acc
  %left_result = arith.mulf %left, %inverse_each : !acc
  %right_result = arith.mulf %right, %inverse_each : !acc
  tgpu.store %left_result, %o[%row, 0] : !acc, !out
  tgpu.store %right_result, %o[%row, %c64] : !acc, !out
  tgpu.store %max, %maxima[%row] : !row, !rows
}
