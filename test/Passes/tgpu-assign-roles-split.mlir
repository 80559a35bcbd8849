// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two roles that compute.
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %t/errors.mlir --tgpu-assign-roles -split-input-file -verify-diagnostics
// RUN: tilewright-opt %t/swapped.mlir --tgpu-assign-roles | FileCheck %s --check-prefix=SWAPPED
//
// Results stored to one array, one that is read before it is written, a kernel that votes, and reductions over warps in
// both roles are rejected; reading another array is not.
// DEFINE: %{rest} = --tgpu-assign-roles --tgpu-unswitch-loops --tgpu-clone-segments --tgpu-stage-stores --canonicalize --tgpu-plan-stages --tgpu-expand-stages --tgpu-release-early --tgpu-unite-counters --canonicalize --cse --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync
// DEFINE: %{rejected} = not tilewright-opt --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=REJECTED
// RUN: sed -f %t/same_array.sed %t/plain.mlir | %{rejected}
// RUN: sed -f %t/in_place.sed %t/plain.mlir | %{rejected}
// RUN: sed -f %t/vote.sed %t/plain.mlir | %{rejected}
// RUN: sed -f %t/reductions.sed %t/plain.mlir | %{rejected}
// RUN: sed -f %t/reads.sed %t/plain.mlir | tilewright-opt --tgpu-assign-roles | FileCheck %s --check-prefix=LOADS
//
// Later passes preserve the synchronization between the roles.
// RUN: cat %t/kernels.mlir | tilewright-opt %{rest} | FileCheck %s --check-prefix=REST
// RUN: cat %t/plain.mlir | tilewright-opt %{rest} | FileCheck %s --check-prefix=REST
// RUN: cat %t/swapped.mlir | tilewright-opt %{rest} | FileCheck %s --check-prefix=REST
// REST: role "compute_2"

//--- kernels.mlir

!b = !tgpu.shared<64x64xbf16, b128>
!in = !tile.view<[?, 64], bf16>
!out = !tile.view<[?, 64], f32>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!half = tensor<64x64xbf16, #tgpu.wgmma<1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>

// X = K Q^T, P = exp2(X), dV = dV + P dO, and dK = dK + (P * V dO^T) Q. The first role computes P and dV, the second one
// dK. P is passed to the second role before it is widened. Only the first role uses K, only the second one V. Both use Q and
// dO, and the warps of both arrive at the same barrier. The second role executes the same code with and without the mask.
// CHECK-LABEL: tgpu.kernel @two_sums target "sm_90a" warps 12
// CHECK:         %[[K:.*]] = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
// CHECK-NEXT:    %[[K_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
// CHECK-NEXT:    %[[K_EMPTY:.*]] = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
// CHECK:         %[[V:.*]] = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
// CHECK-NEXT:    %[[V_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
// CHECK-NEXT:    %[[V_EMPTY:.*]] = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
// CHECK:         %[[Q:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
// CHECK-NEXT:    %[[Q_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[Q_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK:         %[[DO:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
// CHECK-NEXT:    %[[DO_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[DO_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[P:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <64x64xbf16, b128>>
// CHECK-NEXT:    %[[P_FULL:.*]] = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[P_EMPTY:.*]] = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<2>
// CHECK:         role "load" warps 1 registers 40
// CHECK:         role "compute" warps 4 registers 232
// CHECK-NOT:       tgpu.wait %[[V_FULL]]
// CHECK:           tgpu.wait %[[K_FULL]]
// CHECK-NOT:       tgpu.wait %[[V_FULL]]
// CHECK:           scf.for %{{.*}} iter_args(%{{.*}}, %[[QU:.*]] = %{{.*}}, %[[DOU:.*]] = %{{.*}}, %[[PU:.*]] = %{{.*}}) -> (tensor<64x64xf32, #tgpu.wgmma<1>>, i32, i32, i32)
// CHECK:             tgpu.wait %[[Q_FULL]][%[[QU]]]
// CHECK:             tgpu.wait %[[DO_FULL]][%[[DOU]]]
// CHECK:             %[[NEXT:.*]]:2 = scf.if %{{.*}} -> (tensor<64x64xf32, #tgpu.wgmma<1>>, i32)
// CHECK:               %[[E:.*]] = math.exp2
// CHECK-NEXT:          %[[HALF:.*]] = tile.cast %[[E]]
// CHECK-NEXT:          tgpu.acquire %[[P_EMPTY]][%[[PU]]]
// CHECK-NEXT:          %[[SLOT:.*]] = tgpu.slot %[[P]][%[[PU]]]
// CHECK-NEXT:          tgpu.write %[[HALF]], %[[SLOT]]
// CHECK-NEXT:          tgpu.arrive %[[P_FULL]][%[[PU]]] per {{ *}}warp
// CHECK:               tgpu.convert %[[HALF]]
// CHECK-NOT:           arith.mulf
// CHECK:             } else {
// CHECK:               tile.select
// CHECK:               tgpu.acquire %[[P_EMPTY]][%[[PU]]]
// CHECK:             tgpu.arrive %[[Q_EMPTY]][%[[QU]]]
// CHECK:             tgpu.arrive %[[DO_EMPTY]][%[[DOU]]]
// CHECK:             scf.yield %[[NEXT]]#0, %{{.*}}, %{{.*}}, %[[NEXT]]#1
// CHECK:           tgpu.arrive %[[K_EMPTY]]
// CHECK:           tgpu.store %{{.*}}, %dv
// CHECK-NOT:       tgpu.store
// CHECK:         role "compute_2" warps 4 registers 232
// CHECK:           tgpu.wait %[[V_FULL]]
// CHECK:           scf.for %{{.*}} iter_args(%{{.*}}, %[[QU:.*]] = %{{.*}}, %[[DOU:.*]] = %{{.*}}, %[[PU:.*]] = %{{.*}}) -> (tensor<64x64xf32, #tgpu.wgmma<1>>, i32, i32, i32)
// CHECK-NOT:         scf.if
// CHECK-NOT:         math.exp2
// CHECK:             tgpu.wait %[[P_FULL]][%[[PU]]]
// CHECK-NEXT:        %[[SLOT:.*]] = tgpu.slot %[[P]][%[[PU]]]
// CHECK-NEXT:        %[[HALF:.*]] = tgpu.read %[[SLOT]] : !tgpu.shared<64x64xbf16, b128> -> tensor<64x64xbf16, #tgpu.wgmma<1>>
// CHECK-NEXT:        tgpu.arrive %[[P_EMPTY]][%[[PU]]] per {{ *}}warp
// CHECK:             %[[DP:.*]] = tgpu.wgmma_wait
// CHECK-NEXT:        %[[WIDE:.*]] = tile.cast %[[HALF]]
// CHECK-NEXT:        arith.mulf %[[WIDE]], %[[DP]]
// CHECK:           tgpu.arrive %[[V_EMPTY]]
// CHECK-NOT:       tgpu.store %{{.*}}, %dv
// CHECK:           tgpu.store %{{.*}}, %dk
tgpu.kernel @two_sums target "sm_90a" warps 4
    (%k: !in, %v: !in, %q: !in, %do: !in, %dv: !out, %dk: !out, %full: i32) grid(%i = ceildiv(dim(k, 0), 64))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, compute_roles = 2>} {
  %kb = tgpu.alloc : !b
  %vb = tgpu.alloc : !b
  %qb = tgpu.alloc : !b
  %dob = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %row = arith.muli %i, %c64 : i32
  %rounds = tile.dim %q, 0 : !in
  tgpu.copy_async %k[%row, 0], %kb : !in, !b
  tgpu.copy_async %v[%row, 0], %vb : !in, !b
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sums:2 = scf.for %m = %c0 to %rounds step %c1 iter_args(%dk_old = %none, %dv_old = %none) -> (!acc, !acc) : i32 {
    %n = arith.muli %m, %c64 : i32
    %is_full = arith.cmpi slt, %m, %full : i32
    tgpu.copy_async %q[%n, 0], %qb : !in, !b
    tgpu.copy_async %do[%n, 0], %dob : !in, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %new:2 = scf.if %is_full -> (!acc, !acc) {
      %x_pending = tgpu.wgmma %kb, %qb transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %x = tgpu.wgmma_wait pending 0, %x_pending : !acc
      %p = math.exp2 %x : !acc
      %half = tile.cast %p : !acc -> !half
      %dp_pending = tgpu.wgmma %vb, %dob transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %dp = tgpu.wgmma_wait pending 0, %dp_pending : !acc
      %wide = tile.cast %half : !half -> !acc
      %ds = arith.mulf %wide, %dp : !acc
      %ds_half = tile.cast %ds : !acc -> !half
      %pa = tgpu.convert %half : !half -> !a
      %dv_pending = tgpu.wgmma %pa, %dob, %dv_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !acc
      %dsa = tgpu.convert %ds_half : !half -> !a
      %dk_pending = tgpu.wgmma %dsa, %qb, %dk_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !acc
      scf.yield %dk_new, %dv_new : !acc, !acc
    } else {
      %x_pending = tgpu.wgmma %kb, %qb transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %x = tgpu.wgmma_wait pending 0, %x_pending : !acc
      %keep = arith.cmpf ogt, %x, %none : !acc
      %kept = tile.select %keep, %x, %none : tensor<64x64xi1, #tgpu.wgmma<1>>, !acc
      %p = math.exp2 %kept : !acc
      %half = tile.cast %p : !acc -> !half
      %dp_pending = tgpu.wgmma %vb, %dob transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %dp = tgpu.wgmma_wait pending 0, %dp_pending : !acc
      %wide = tile.cast %half : !half -> !acc
      %ds = arith.mulf %wide, %dp : !acc
      %ds_half = tile.cast %ds : !acc -> !half
      %pa = tgpu.convert %half : !half -> !a
      %dv_pending = tgpu.wgmma %pa, %dob, %dv_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !acc
      %dsa = tgpu.convert %ds_half : !half -> !a
      %dk_pending = tgpu.wgmma %dsa, %qb, %dk_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !acc
      scf.yield %dk_new, %dv_new : !acc, !acc
    } {tgpu.special_case}
    tgpu.sync
    scf.yield %new#0, %new#1 : !acc, !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sums#0, %dk[%row, 0] : !acc, !out
  tgpu.store %sums#1, %dv[%row, 0] : !acc, !out
}

//--- plain.mlir

// Without a branch: operations that must not be divided between roles, and operations that may be.
// REJECTED: error: 'tgpu.kernel' op cannot have two roles that compute
// LOADS: role "compute_2"
// LOADS: tgpu.load %old
!b = !tgpu.shared<64x64xbf16, b128>
!in = !tile.view<[?, 64], bf16>
!out = !tile.view<[?, 64], f32>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!half = tensor<64x64xbf16, #tgpu.wgmma<1>>
!row = tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<1>>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
tgpu.kernel @two_sums target "sm_90a" warps 4
    (%k: !in, %v: !in, %q: !in, %do: !in, %dv: !out, %dk: !out, %old: !out) grid(%i = ceildiv(dim(k, 0), 64))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, compute_roles = 2>} {
  %kb = tgpu.alloc : !b
  %vb = tgpu.alloc : !b
  %qb = tgpu.alloc : !b
  %dob = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %row = arith.muli %i, %c64 : i32
  %rounds = tile.dim %q, 0 : !in
  tgpu.copy_async %k[%row, 0], %kb : !in, !b
  tgpu.copy_async %v[%row, 0], %vb : !in, !b
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sums:2 = scf.for %m = %c0 to %rounds step %c1 iter_args(%dk_old = %none, %dv_old = %none) -> (!acc, !acc) : i32 {
    %n = arith.muli %m, %c64 : i32
    tgpu.copy_async %q[%n, 0], %qb : !in, !b
    tgpu.copy_async %do[%n, 0], %dob : !in, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %x_pending = tgpu.wgmma %kb, %qb transpose_b : !b, !b -> !acc
    tgpu.wgmma_commit
    %x = tgpu.wgmma_wait pending 0, %x_pending : !acc
    %p = math.exp2 %x : !acc
    %half = tile.cast %p : !acc -> !half
    %dp_pending = tgpu.wgmma %vb, %dob transpose_b : !b, !b -> !acc
    tgpu.wgmma_commit
    %dp = tgpu.wgmma_wait pending 0, %dp_pending : !acc
    %wide = tile.cast %half : !half -> !acc
    %ds = arith.mulf %wide, %dp : !acc
    %ds_half = tile.cast %ds : !acc -> !half
    %pa = tgpu.convert %half : !half -> !a
    %dv_pending = tgpu.wgmma %pa, %dob, %dv_old : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !acc
    %dsa = tgpu.convert %ds_half : !half -> !a
    %dk_pending = tgpu.wgmma %dsa, %qb, %dk_old : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !acc
    tgpu.sync
    scf.yield %dk_new, %dv_new : !acc, !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sums#0, %dk[%row, 0] : !acc, !out
  tgpu.store %sums#1, %dv[%row, 0] : !acc, !out
}

//--- same_array.sed

s/%sums#0, %dk\[/%sums#0, %dv[/

//--- in_place.sed

s/.*store %sums#1.*/  %was = tgpu.load %dv[%row, 0] : !out -> !acc\n  %more = arith.addf %sums#0, %was : !acc\n  tgpu.store %sums#1, %dv[%row, 0] : !acc, !out\n  tgpu.store %more, %old[%row, 0] : !acc, !out/

//--- vote.sed

s/.*store %sums#1.*/  %any = tgpu.any %sums#1 : !acc\n&/
s/tgpu.any %sums#1 : !acc/tgpu.any %mask : tensor<64x64xi1, #tgpu.wgmma<1>>/
s/.*%row = arith.muli.*/&\n  %mask = arith.cmpf oeq, %none, %none : !acc/

//--- reductions.sed

s/%half = tile.cast %p/%row_p = tile.reduce add %p dim 0 : !acc -> !row\n    %each_p = tile.expand %row_p dim 0 : !row -> !acc\n    %q_p = arith.divf %p, %each_p : !acc\n    %half = tile.cast %q_p/
s/%ds_half = tile.cast %ds/%row_ds = tile.reduce add %ds dim 0 : !acc -> !row\n    %each_ds = tile.expand %row_ds dim 0 : !row -> !acc\n    %q_ds = arith.divf %ds, %each_ds : !acc\n    %ds_half = tile.cast %q_ds/

//--- reads.sed

s/.*store %sums#0.*/  %was = tgpu.load %old[%row, 0] : !out -> !acc\n  %more = arith.addf %sums#0, %was : !acc\n  tgpu.store %more, %dk[%row, 0] : !acc, !out/

//--- swapped.mlir

// The two sides of the branch pass the same tiles in different orders, so the second role must have the branch, too.
// SWAPPED-LABEL: role "compute" warps 4
// SWAPPED:         scf.if
// SWAPPED:           math.exp2
// SWAPPED:           tgpu.write %{{.*}}, %[[FIRST:[0-9]+]]
// SWAPPED-LABEL: role "compute_2" warps 4
// SWAPPED:         scf.if
// SWAPPED:           tgpu.read
// SWAPPED:           tgpu.read
// SWAPPED:         } else {
// SWAPPED:           tgpu.read
!b = !tgpu.shared<64x64xbf16, b128>
!in = !tile.view<[?, 64], bf16>
!out = !tile.view<[?, 64], f32>
!outh = !tile.view<[?, 64], bf16>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!half = tensor<64x64xbf16, #tgpu.wgmma<1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
tgpu.kernel @two_sums target "sm_90a" warps 4
    (%k: !in, %v: !in, %q: !in, %do: !in, %dv: !out, %dk: !out, %full: i32) grid(%i = ceildiv(dim(k, 0), 64))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, compute_roles = 2>} {
  %kb = tgpu.alloc : !b
  %vb = tgpu.alloc : !b
  %qb = tgpu.alloc : !b
  %dob = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %row = arith.muli %i, %c64 : i32
  %rounds = tile.dim %q, 0 : !in
  tgpu.copy_async %k[%row, 0], %kb : !in, !b
  tgpu.copy_async %v[%row, 0], %vb : !in, !b
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sums:2 = scf.for %m = %c0 to %rounds step %c1 iter_args(%dk_old = %none, %dv_old = %none) -> (!acc, !acc) : i32 {
    %n = arith.muli %m, %c64 : i32
    %is_full = arith.cmpi slt, %m, %full : i32
    tgpu.copy_async %q[%n, 0], %qb : !in, !b
    tgpu.copy_async %do[%n, 0], %dob : !in, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %new:2 = scf.if %is_full -> (!acc, !acc) {
      %x_pending = tgpu.wgmma %kb, %qb transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %x = tgpu.wgmma_wait pending 0, %x_pending : !acc
      %p = math.exp2 %x : !acc
      %half = tile.cast %p : !acc -> !half
      %g = math.sin %x : !acc
      %ghalf = tile.cast %g : !acc -> !half
      %dp_pending = tgpu.wgmma %vb, %dob transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %dp = tgpu.wgmma_wait pending 0, %dp_pending : !acc
      %wide = tile.cast %half : !half -> !acc
      %gwide = tile.cast %ghalf : !half -> !acc
      %ds1 = arith.mulf %wide, %dp : !acc
      %ds = arith.addf %ds1, %gwide : !acc
      %ds_half = tile.cast %ds : !acc -> !half
      %pa = tgpu.convert %half : !half -> !a
      %dv_pending = tgpu.wgmma %pa, %dob, %dv_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !acc
      %dsa = tgpu.convert %ds_half : !half -> !a
      %dk_pending = tgpu.wgmma %dsa, %qb, %dk_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !acc
      scf.yield %dk_new, %dv_new : !acc, !acc
    } else {
      %x_pending = tgpu.wgmma %kb, %qb transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %x = tgpu.wgmma_wait pending 0, %x_pending : !acc
      %keep = arith.cmpf ogt, %x, %none : !acc
      %kept = tile.select %keep, %x, %none : tensor<64x64xi1, #tgpu.wgmma<1>>, !acc
      %g = math.sin %kept : !acc
      %ghalf = tile.cast %g : !acc -> !half
      %p = math.exp2 %kept : !acc
      %half = tile.cast %p : !acc -> !half
      %dp_pending = tgpu.wgmma %vb, %dob transpose_b : !b, !b -> !acc
      tgpu.wgmma_commit
      %dp = tgpu.wgmma_wait pending 0, %dp_pending : !acc
      %wide = tile.cast %half : !half -> !acc
      %gwide = tile.cast %ghalf : !half -> !acc
      %ds1 = arith.mulf %wide, %dp : !acc
      %ds = arith.addf %ds1, %gwide : !acc
      %ds_half = tile.cast %ds : !acc -> !half
      %pa = tgpu.convert %half : !half -> !a
      %dv_pending = tgpu.wgmma %pa, %dob, %dv_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dv_new = tgpu.wgmma_wait pending 0, %dv_pending : !acc
      %dsa = tgpu.convert %ds_half : !half -> !a
      %dk_pending = tgpu.wgmma %dsa, %qb, %dk_old : !a, !b, !acc -> !acc
      tgpu.wgmma_commit
      %dk_new = tgpu.wgmma_wait pending 0, %dk_pending : !acc
      scf.yield %dk_new, %dv_new : !acc, !acc
    } {tgpu.special_case}
    tgpu.sync
    scf.yield %new#0, %new#1 : !acc, !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sums#0, %dk[%row, 0] : !acc, !out
  tgpu.store %sums#1, %dv[%row, 0] : !acc, !out
}

//--- errors.mlir

// One result.
!b = !tgpu.shared<64x64xbf16, b128>
!in = !tile.view<[?, 64], bf16>
!out = !tile.view<[?, 64], f32>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
// expected-error @+1 {{'tgpu.kernel' op cannot have two roles that compute: it must store two results to different arrays or columns, each with separate products, must not add to memory, vote or read what it writes, and the first role may pass only tiles and values of their rows to the second; use the schedule compute_roles=1}}
tgpu.kernel @one_sum target "sm_90a" warps 4 (%k: !in, %q: !in, %o: !out, %rounds: i32) grid(%i = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, compute_roles = 2>} {
  %kb = tgpu.alloc : !b
  %qb = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %sum = scf.for %m = %c0 to %rounds step %c1 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %k[%m, 0], %kb : !in, !b
    tgpu.copy_async %q[%m, 0], %qb : !in, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %pending = tgpu.wgmma %kb, %qb transpose_b, %old : !b, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    tgpu.sync
    scf.yield %new : !acc
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sum, %o[0, 0] : !acc, !out
}
