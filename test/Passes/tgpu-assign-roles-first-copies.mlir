// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where all that iterations copy comes from memory (tgpu.read_once), the first iteration's first copies are started before
// those of the whole tile, which take less time. Without iterations, the tile is copied behind the loop.
//
// RUN: tilewright-opt %s --tgpu-assign-roles --canonicalize | FileCheck %s
// RUN: tilewright-opt %s --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences \
// RUN:   --tgpu-verify-sync -o /dev/null
//
// A use of Q that one of the two places leaves out is found.
// RUN: tilewright-opt %s --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory > %t.mlir
// RUN: sed 's/cmpi sle, %[a-z0-9]*, %c0_i32 : i32/constant false/' %t.mlir > %t.empty.mlir
// RUN: not tilewright-opt %t.empty.mlir --tgpu-insert-fences --tgpu-verify-sync 2>&1 | FileCheck %s --check-prefix=NEVER
// RUN: sed 's/cmpi eq, %[a-z0-9]*, %c0_i32 : i32/constant false/' %t.mlir > %t.first.mlir
// RUN: not tilewright-opt %t.first.mlir --tgpu-insert-fences --tgpu-verify-sync 2>&1 | FileCheck %s --check-prefix=NEVER
// NEVER: error: 'tgpu.wait' op deadlocks in role "compute": expected an arrival at the barriers for use 0, but got none
//
// Q comes first if other blocks read V as well, which then may be in the L2, and if results could leave through its
// buffer.
// RUN: sed 's/%v_buffer {tgpu.read_once}/%v_buffer/' %s | tilewright-opt --tgpu-assign-roles --canonicalize \
// RUN:   | FileCheck %s --check-prefix=SHARED
// RUN: sed 's/store_buffers = 2/store_buffers = 0/' %s | tilewright-opt --tgpu-assign-roles --canonicalize \
// RUN:   | FileCheck %s --check-prefix=SHARED
// So does a tile that arrives at one barrier with another, which is copied behind the loop.
// RUN: sed -e 's/wgmma %q_buffer, %k_buffer/wgmma %k_buffer, %k_buffer/' -e 's/^  \/\/ LATE: //' %s | tilewright-opt \
// RUN:   --tgpu-assign-roles --canonicalize > %t.late.mlir
// RUN: FileCheck %s --check-prefix=SHARED --input-file=%t.late.mlir
// RUN: tilewright-opt %t.late.mlir --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null

!rows = !tile.view<[?, 64], bf16>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!o = tensor<128x64xf32, #tgpu.wgmma<2>>

// CHECK-LABEL: tgpu.kernel @decode
// CHECK:         %[[Q_MAP:.*]] = tgpu.tensor_map %q
// CHECK:         %[[Q_FULL:.*]] = tgpu.alloc_barriers arrivals 1
// CHECK:         %[[Q_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8
// CHECK:         %[[K_MAP:.*]] = tgpu.tensor_map %k
// CHECK:         %[[V_MAP:.*]] = tgpu.tensor_map %v
// CHECK:         role "load"
// CHECK-NOT:       tgpu.tma_load
// CHECK:           scf.for %[[TILE:.*]] = %cta to
// CHECK-SAME:          iter_args(%[[Q_USE:[a-z0-9]*]] =
// CHECK-NOT:         tgpu.tma_load
// CHECK:             scf.for %[[N:.*]] = %c0_i32 to %[[BLOCKS:.*]] step
// CHECK:               tgpu.tma_load %[[K_MAP]]
// CHECK:               %[[IS_FIRST:.*]] = arith.cmpi eq, %[[N]], %c0_i32
// CHECK-NEXT:          scf.if %[[IS_FIRST]] {
// CHECK-NEXT:            tgpu.acquire %[[Q_EMPTY]][%[[Q_USE]]]
// CHECK-NEXT:            tgpu.expect %[[Q_FULL]][%[[Q_USE]]] bytes 16384
// CHECK:                 tgpu.tma_load %[[Q_MAP]]
// CHECK-NEXT:          }
// CHECK:               tgpu.tma_load %[[V_MAP]]
// CHECK:             %[[IS_NONE:.*]] = arith.cmpi sle, %[[BLOCKS]], %c0_i32
// CHECK-NEXT:        scf.if %[[IS_NONE]] {
// CHECK-NEXT:          tgpu.acquire %[[Q_EMPTY]][%[[Q_USE]]]
// CHECK-NEXT:          tgpu.expect %[[Q_FULL]][%[[Q_USE]]] bytes 16384
// CHECK:               tgpu.tma_load %[[Q_MAP]]
// CHECK-NEXT:        }
// CHECK-NEXT:        arith.addi %[[Q_USE]], %c1_i32
// CHECK:         role "compute"

// SHARED-LABEL: tgpu.kernel @decode
// SHARED:         %[[Q_MAP:.*]] = tgpu.tensor_map %q
// SHARED:         role "load"
// SHARED:           scf.for
// SHARED:             tgpu.tma_load %[[Q_MAP]]
// SHARED:             scf.for
// SHARED-NOT:           tgpu.tma_load %[[Q_MAP]]
// SHARED:         role "compute"
tgpu.kernel @decode target "sm_90a" warps 8 (%q: !rows, %k: !rows, %v: !rows, %o: !rows)
    grid(%m = ceildiv(dim(q, 0), 128))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, store_buffers = 2>} {
  %q_buffer = tgpu.alloc : !x
  %k_buffer = tgpu.alloc : !x
  %v_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !o
  %row = arith.muli %m, %c128 : i32
  %keys = tile.dim %k, 0 : !rows
  %blocks = arith.divui %keys, %c128 : i32
  tgpu.copy_async %q[%row, 0], %q_buffer : !rows, !x
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %n = %c0 to %blocks step %c1 iter_args(%old = %zeros) -> (!o) : i32 {
    %first = arith.muli %n, %c128 : i32
    tgpu.sync
    tgpu.copy_async %k[%first, 0], %k_buffer {tgpu.read_once} : !rows, !x
    tgpu.copy_async %v[%first, 0], %v_buffer {tgpu.read_once} : !rows, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %p = tile.cast %s : !s -> !p
    %p_a = tgpu.convert %p : !p -> !a
    %o_pending = tgpu.wgmma %p_a, %v_buffer, %old : !a, !x, !o -> !o
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %o_pending : !o
    scf.yield %new : !o
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  // LATE: %w_buffer = tgpu.alloc : !x
  // LATE: tgpu.copy_async %k[%row, 0], %w_buffer : !rows, !x
  // LATE: tgpu.copy_commit
  // LATE: tgpu.copy_wait pending 0
  // LATE: tgpu.sync
  // LATE: %t_pending = tgpu.wgmma %q_buffer, %w_buffer transpose_b : !x, !x -> !s
  // LATE: tgpu.wgmma_commit
  // LATE: %t = tgpu.wgmma_wait pending 0, %t_pending : !s
  // LATE: %t_narrow = tile.cast %t : !s -> !p
  // LATE: tgpu.store %t_narrow, %o[%row, 0] : !p, !rows
  %narrow = tile.cast %sum : !o -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  tgpu.store %narrow, %o[%row, 0] : tensor<128x64xbf16, #tgpu.wgmma<2>>, !rows
}
