// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results are stored through slots that the copying role lends if shared memory has no space for buffers:
// tgpu-plan-schedule decides, tgpu-assign-roles implements it, and tgpu-stage-stores uses the slots.
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-schedule | FileCheck %s --check-prefix=PLAN
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-schedule=schedule=lend=0 | FileCheck %s --check-prefix=OFF
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-schedule --tgpu-assign-roles | FileCheck %s --check-prefix=ROLES
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-schedule --tgpu-assign-roles --tgpu-stage-stores \
// RUN:   | FileCheck %s --check-prefix=STORES
// RUN: tilewright-opt %s -split-input-file --tgpu-plan-schedule --tgpu-assign-roles --tgpu-stage-stores \
// RUN:   --tgpu-plan-shared-memory --tgpu-verify-sync

!view = !tile.view<[?, ?, 256], bf16>
!q = !tgpu.shared<128x256xbf16, b128>
!kv = !tgpu.shared<80x256xbf16, b128>
!s = tensor<128x80xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x80xbf16, #tgpu.wgmma<2>>
!p = tensor<128x80xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!acc = tensor<128x256xf32, #tgpu.wgmma<2>>
!out = tensor<128x256xbf16, #tgpu.wgmma<2>>

// Four pieces of 16 KB; a slot of 40 KB holds two of them.
// PLAN-LABEL: tgpu.kernel @lent
// PLAN:         tgpu.copy_async %q[{{.*}} : !tile.view
// PLAN:         tgpu.copy_async %k[{{.*}} {tgpu.lend_slot}
// PLAN:         tgpu.copy_async %v[{{.*}} {tgpu.lend_slot}
// OFF-NOT: tgpu.lend_slot

// ROLES-LABEL: tgpu.kernel @lent
// ROLES:         %[[K_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// ROLES-NEXT:    %[[K_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// ROLES:         role "load"
// ROLES:           scf.for
// ROLES:             %[[USES:.*]]:2 = scf.for
// ROLES:             tgpu.acquire %[[K_EMPTY]][%[[USES]]#0]
// ROLES-NEXT:        tgpu.arrive %[[K_FULL]][%[[USES]]#0] per role
// ROLES:             %[[NEXT:.*]] = arith.addi %[[USES]]#0
// ROLES:             tgpu.acquire %[[V_EMPTY:.*]][%[[USES]]#1]
// ROLES-NEXT:        tgpu.arrive %[[V_FULL:.*]][%[[USES]]#1] per role
// ROLES:             scf.yield %{{.*}}, %[[NEXT]],
// ROLES:         role "compute"
// ROLES:             %[[LOOP:.*]]:3 = scf.for {{.*}}-> (tensor
// ROLES:             tgpu.wait %[[K_FULL]][%[[LOOP]]#1]
// ROLES-NEXT:        tgpu.wait %[[V_FULL]][%[[LOOP]]#2]
// ROLES-NEXT:        tgpu.store
// ROLES-NEXT:        tgpu.arrive %[[K_EMPTY]][%[[LOOP]]#1] per {{ *}}warp
// ROLES:             tgpu.arrive %[[V_EMPTY]][%[[LOOP]]#2] per {{ *}}warp

// Q is released before O is stored. One thread releases the slots, for the eight warps that their barriers count.
// STORES-LABEL: tgpu.kernel @lent
// STORES:         role "compute"
// STORES:             tgpu.wait %{{.*}}[%[[LOOP:.*]]#1]
// STORES-NEXT:        tgpu.wait %{{.*}}[%[[LOOP]]#2]
// STORES-NEXT:        %[[FIRST:.*]] = tgpu.slot %{{.*}} : !tgpu.ring<2, <80x256xbf16, b128>> as !tgpu.shared<128x128xbf16, b128>
// STORES:             tgpu.write %{{.*}}, %[[FIRST]]
// STORES:             %[[SECOND:.*]] = tgpu.slot %{{.*}} as !tgpu.shared<128x128xbf16, b128>
// STORES:             tgpu.write %{{.*}}, %[[SECOND]]
// STORES:             tgpu.fence_async
// STORES-NEXT:        tgpu.sync on
// STORES-NEXT:        tgpu.tma_store %[[FIRST]], %{{.*}}[{{.*}}, 0]
// STORES-NEXT:        tgpu.tma_store %[[SECOND]], %{{.*}}[{{.*}}, 128]
// STORES-NEXT:        tgpu.bulk_commit
// STORES:             tgpu.bulk_wait pending 0 read
// STORES-COUNT-16:    tgpu.arrive %{{.*}} per role
// STORES-NOT:         tgpu.arrive
// STORES:             scf.yield
// STORES-NEXT:      }
// The role does not wait at its end: each tile has waited for its copies.
// STORES-NEXT:    {{^ *}$}}
tgpu.kernel @lent target "sm_90a" warps 8 (%q: !view, %k: !view, %v: !view, %o: !view)
    grid(%m = ceildiv(dim(q, 1), 128), %b = dim(q, 0)) {
  %q_buffer = tgpu.alloc : !q
  %k_buffer = tgpu.alloc : !kv
  %v_buffer = tgpu.alloc : !kv
  %c0 = arith.constant 0 : i32
  %c80 = arith.constant 80 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %k, 1 : !view
  %row = arith.muli %m, %c128 : i32
  tgpu.copy_async %q[%b, %row, 0], %q_buffer : !view, !q
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %n = %c0 to %rows step %c80 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %k[%b, %n, 0], %k_buffer : !view, !kv
    tgpu.copy_async %v[%b, %n, 0], %v_buffer : !view, !kv
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !q, !kv -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %s16 = tile.cast %s : !s -> !s16
    %p = tgpu.convert %s16 : !s16 -> !p
    %pending = tgpu.wgmma %p, %v_buffer, %old : !p, !kv, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    scf.yield %new : !acc
  }
  %rounded = tile.cast %sum : !acc -> !out
  tgpu.store %rounded, %o[%b, %row, 0] : !out, !view
}

// -----

!view = !tile.view<[?, ?, 256], bf16>
!f32_view = !tile.view<[?, ?, 256], f32>
!q = !tgpu.shared<128x256xbf16, b128>
!kv = !tgpu.shared<80x256xbf16, b128>
!s = tensor<128x80xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x80xbf16, #tgpu.wgmma<2>>
!p = tensor<128x80xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!acc = tensor<128x256xf32, #tgpu.wgmma<2>>

// In f32 the results take eight pieces: the slots of both rings hold four.
// PLAN-LABEL: tgpu.kernel @too_large
// PLAN-NOT:     tgpu.lend_slot
// STORES-LABEL: tgpu.kernel @too_large
// STORES-NOT:     tgpu.tma_store
tgpu.kernel @too_large target "sm_90a" warps 8 (%q: !view, %k: !view, %v: !view, %o: !f32_view)
    grid(%m = ceildiv(dim(q, 1), 128), %b = dim(q, 0)) {
  %q_buffer = tgpu.alloc : !q
  %k_buffer = tgpu.alloc : !kv
  %v_buffer = tgpu.alloc : !kv
  %c0 = arith.constant 0 : i32
  %c80 = arith.constant 80 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !acc
  %rows = tile.dim %k, 1 : !view
  %row = arith.muli %m, %c128 : i32
  tgpu.copy_async %q[%b, %row, 0], %q_buffer : !view, !q
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %n = %c0 to %rows step %c80 iter_args(%old = %zeros) -> (!acc) : i32 {
    tgpu.sync
    tgpu.copy_async %k[%b, %n, 0], %k_buffer : !view, !kv
    tgpu.copy_async %v[%b, %n, 0], %v_buffer : !view, !kv
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !q, !kv -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %s16 = tile.cast %s : !s -> !s16
    %p = tgpu.convert %s16 : !s16 -> !p
    %pending = tgpu.wgmma %p, %v_buffer, %old : !p, !kv, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %pending : !acc
    scf.yield %new : !acc
  }
  tgpu.store %sum, %o[%b, %row, 0] : !acc, !f32_view
}
