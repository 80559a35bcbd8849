// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// load_roles: a second role makes the copies that a loop needs only for the sums that it carries. It is the default
// where an iteration has many boxes for its products: 8 of them for 1024 clocks, in pages of 32 rows.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule | FileCheck %s --check-prefixes=PLAN,TWO
// RUN: sed 's/each 16/each 32/' %t/pages.mlir | tilewright-opt --tgpu-plan-schedule | FileCheck %s --check-prefixes=PLAN,TWO
// RUN: sed 's/each 16/each 64/' %t/pages.mlir | tilewright-opt --tgpu-plan-schedule | FileCheck %s --check-prefixes=PLAN,ONE
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule=schedule=load_roles=1 | FileCheck %s --check-prefixes=PLAN,ONE
// RUN: sed 's/each 16/each 64/' %t/pages.mlir | tilewright-opt --tgpu-plan-schedule=schedule=load_roles=2 | FileCheck %s --check-prefixes=PLAN,TWO
//
// Not where tiles are read once, since memory is what the iterations then wait for, nor where no role takes tiles.
// RUN: sed 's/%k_buffer : !rows/%k_buffer {tgpu.read_once} : !rows/' %t/pages.mlir | tilewright-opt --tgpu-plan-schedule | FileCheck %s --check-prefixes=PLAN,ONE
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule=schedule=dynamic=0 | FileCheck %s --check-prefix=FIXED
//
// PLAN:      tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 32, store_buffers = 2, dynamic = 1, tile_stages = 2
// TWO-SAME:  , load_roles = 2>
// ONE-SAME:  >
// FIXED:     tgpu.role_schedule = #tgpu.role_schedule<{{.*}} store_buffers = 2, tile_stages = 2>
//
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule --tgpu-assign-roles --canonicalize | FileCheck %s --check-prefix=ROLES
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
//
// Each role ends a tile with a further use of its own rings if results leave through their slots.
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule=schedule=store_buffers=0 --tgpu-assign-roles --canonicalize | FileCheck %s --check-prefix=LENT
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule=schedule=store_buffers=0 --tgpu-assign-roles --canonicalize --tgpu-stage-stores --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
//
// The barrier by which roles give the slot of a tile back counts the second role.
// RUN: tilewright-opt %t/pages.mlir --tgpu-plan-schedule --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory > %t/assigned.mlir
// RUN: sed 's/alloc_barriers arrivals 10 /alloc_barriers arrivals 9 /' %t/assigned.mlir > %t/early.mlir
// RUN: not tilewright-opt %t/early.mlir --tgpu-insert-fences --tgpu-verify-sync 2>&1 | FileCheck %s --check-prefix=EARLY
// EARLY: error: 'tgpu.arrive' op must be one of the 9 arrivals per use {{.*}}, but got one more of use 0
//
// What cannot be.
// RUN: tilewright-opt %t/refused.mlir -split-input-file -verify-diagnostics --tgpu-assign-roles
// RUN: not tilewright-opt %t/pages.mlir --tgpu-plan-schedule=schedule=load_roles=2,dynamic=0 2>&1 | FileCheck %s --check-prefix=STATIC
// STATIC: error: 'tgpu.kernel' op load_roles must be 1, or 2 if dynamic is 1, but got 2; use dynamic=1 for two
// Elements of a tile, which the iteration needs, are read early, whatever its product.
// RUN: sed 's/^    %%s_pending/    %%e = tgpu.read %%v_buffer : !x -> tensor<128x64xbf16, #tgpu.wgmma<2>>\n&/' %t/pages.mlir | not tilewright-opt --tgpu-plan-schedule=schedule=load_roles=2 --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=ELEMENTS
// ELEMENTS: error: kernel cannot have two roles that copy: {{.*}}, but got none of the latter; use the schedule load_roles=1
// RUN: split-file %S/tgpu-assign-roles-gather.mlir %t/gather
// RUN: sed 's/= 232>/= 232, group = 1, dynamic = 1, load_roles = 2>/' %t/gather/rows.mlir | not tilewright-opt --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=GATHER
// GATHER: [[#]]:{{.*}} error: kernel cannot have two roles that copy: the second one needs a warp that would be idle, but got a row that two of these gather; use the schedule load_roles=1
// GATHER-NEXT: tile.gather %by
// RUN: split-file %S/tgpu-assign-roles-spread.mlir %t/spread
// RUN: sed 's/dynamic = 1>/dynamic = 1, load_roles = 2>/' %t/spread/converts.mlir | not tilewright-opt --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=SPREAD
// SPREAD: [[#]]:{{.*}} error: kernel cannot have two roles that copy: the second one needs a warp that would be idle, but got tile.spread, which has all of these; use the schedule load_roles=1
// SPREAD-NEXT: tile.spread

//--- pages.mlir

!rows = !tile.view<[?, 64], bf16>
!pool = !tile.view<[?, ?, 64], bf16>
!table = !tile.view<[?], i32>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!p = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!o = tensor<128x64xf32, #tgpu.wgmma<2>>

// The slot of a tile's number is free when the eight warps that compute and both roles that copy have received it. Q,
// which is copied once for a tile, is with K. Neither role has the rows of the other.
// ROLES-LABEL: tgpu.kernel @pages target "sm_90a" warps 12
// ROLES:         %[[K:.*]] = tgpu.alloc_ring : !tgpu.ring<5, <128x64xbf16, b128>>
// ROLES-NEXT:    %[[K_FULL:.*]] = tgpu.alloc_barriers arrivals 1 :
// ROLES-NEXT:    %[[K_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 :
// ROLES:         %[[V:.*]] = tgpu.alloc_ring : !tgpu.ring<5, <128x64xbf16, b128>>
// ROLES-NEXT:    %[[V_FULL:.*]] = tgpu.alloc_barriers arrivals 1 :
// ROLES-NEXT:    %[[V_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 :
// ROLES-NEXT:    %[[TILES:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <4xi32, none>>
// ROLES-NEXT:    %[[TAKEN:.*]] = tgpu.alloc_barriers arrivals 1 :
// ROLES-NEXT:    %[[READ:.*]] = tgpu.alloc_barriers arrivals 10 :
// ROLES:         role "load" warps 1 registers 40
// ROLES-NOT:       %v
// ROLES:           tile.paged %k
// ROLES:           tgpu.tma_load %{{.*}}[%{{.*}}, 0], %{{.*}}, %{{.*}} : !tgpu.tensor_map<128x64xbf16, b128>
// ROLES:           scf.for
// ROLES:             tgpu.acquire %[[K_EMPTY]]
// ROLES-NEXT:        tgpu.expect %[[K_FULL]][%{{.*}}] bytes 16384
// ROLES-NEXT:        tgpu.slot %[[K]]
// ROLES-NEXT:        tgpu.tma_load
// ROLES-NOT:         tgpu.tma_load
// ROLES:         role "load_2" warps 1 registers 40
// ROLES-NEXT:      tgpu.wait %[[TAKEN]]
// ROLES-NOT:       %k
// ROLES:           scf.while
// ROLES:             %[[USE:.*]] = arith.subi %{{.*}}, %c1
// ROLES:             %[[ROWS:.*]] = tile.paged %v
// ROLES:             scf.if
// ROLES-NEXT:          tgpu.arrive %[[READ]][%[[USE]]] per {{ *}}warp
// ROLES:             scf.for
// ROLES:               scf.if
// ROLES-NEXT:            tgpu.arrive %[[READ]][%[[USE]]] per {{ *}}warp
// ROLES:               tgpu.acquire %[[V_EMPTY]]
// ROLES-NEXT:          tgpu.expect %[[V_FULL]][%{{.*}}] bytes 16384
// ROLES-NEXT:          tgpu.slot %[[V]]
// ROLES-NEXT:          tgpu.tma_load {{.*}} of %[[ROWS]]
// ROLES-NOT:         tgpu.tma_load
// ROLES:             tgpu.wait %[[TAKEN]]
// ROLES:             tgpu.receive
// ROLES:         role "schedule" warps 1 registers 40
// ROLES:         role "idle" warps 1 registers 40
// ROLES:         role "compute" warps 8 registers 232
// LENT:         %[[K_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<6>
// LENT-NEXT:    %[[K_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 :
// LENT:         %[[V_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<6>
// LENT-NEXT:    %[[V_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 :
// LENT:         role "load" warps 1
// LENT:           tgpu.receive
// LENT:           tgpu.receive
// LENT:           tgpu.acquire %[[K_EMPTY]]
// LENT-NEXT:      tgpu.arrive %[[K_FULL]][%{{.*}}] per {{ *}}role
// LENT-NOT:       tgpu.acquire
// LENT:         role "load_2" warps 1
// LENT:           tgpu.receive
// LENT:           tgpu.receive
// LENT:           tgpu.acquire %[[V_EMPTY]]
// LENT-NEXT:      tgpu.arrive %[[V_FULL]][%{{.*}}] per {{ *}}role
// LENT-NOT:       tgpu.acquire
// LENT:         role "schedule" warps 1
tgpu.kernel @pages target "sm_90a" warps 8 (%q: !rows, %k: !pool, %v: !pool, %table: !table, %o: !tile.view<[?, 64], f32>)
    grid(%m = ceildiv(dim(q, 0), 128)) {
  %q_buffer = tgpu.alloc : !x
  %k_buffer = tgpu.alloc : !x
  %v_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !o
  %row = arith.muli %m, %c128 : i32
  %rounds = arith.addi %m, %c1 : i32
  %keys = arith.muli %rounds, %c128 : i32
  %k_rows = tile.paged %k page %c0 by %table[] each 16 size %keys : !pool, !table -> !rows
  %v_rows = tile.paged %v page %c0 by %table[] each 16 size %keys : !pool, !table -> !rows
  tgpu.copy_async %q[%row, 0], %q_buffer : !rows, !x
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %sum = scf.for %i = %c0 to %rounds step %c1 iter_args(%old = %none) -> (!o) : i32 {
    %n = arith.muli %i, %c128 : i32
    tgpu.sync
    tgpu.copy_async %k_rows[%n, 0], %k_buffer : !rows, !x
    tgpu.copy_async %v_rows[%n, 0], %v_buffer : !rows, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %rounded = tile.cast %s : !s -> !p
    %p = tgpu.convert %rounded : !p -> !a
    %o_pending = tgpu.wgmma %p, %v_buffer, %old : !a, !x, !o -> !o
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %o_pending : !o
    scf.yield %new : !o
  }
  tgpu.store %sum, %o[%row, 0] : !o, !tile.view<[?, 64], f32>
}

//--- refused.mlir

// The only products of the loop are terms of the sum.
!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @sum target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>) grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, dynamic = 1,
                                                         load_roles = 2>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %n = tile.dim %a, 1 : !view
  // expected-error @+1 {{kernel cannot have two roles that copy: a loop must copy tiles for products whose results its iteration uses, and others only for products whose results it carries, but got none of the former; use the schedule load_roles=1}}
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%i, %m], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b, %old : !b, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %p : !acc
    scf.yield %new : !acc
  }
  tgpu.store %s, %o[%i, 0] : !acc, !tile.view<[?, ?], f32>
}

// -----

// Both products read the same tile.
!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
!t = tensor<64x64xbf16, #tgpu.wgmma<1>>
!a = tensor<64x64xbf16, #tgpu.operand<a, #tgpu.wgmma<1>>>
tgpu.kernel @held target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>) grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, dynamic = 1,
                                                         load_roles = 2>} {
  %b = tgpu.alloc : !b
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !acc
  %n = tile.dim %a, 1 : !view
  // expected-error @+1 {{carries, but got none of the latter; use the schedule load_roles=1}}
  %s = scf.for %m = %c0 to %n step %c64 iter_args(%old = %none) -> (!acc) : i32 {
    tgpu.copy_async %a[%i, %m], %b : !view, !b
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %p = tgpu.wgmma %b, %b transpose_b : !b, !b -> !acc
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %p : !acc
    %rounded = tile.cast %s : !acc -> !t
    %operand = tgpu.convert %rounded : !t -> !a
    %q = tgpu.wgmma %operand, %b, %old : !a, !b, !acc -> !acc
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %q : !acc
    scf.yield %new : !acc
  }
  tgpu.store %s, %o[%i, 0] : !acc, !tile.view<[?, ?], f32>
}

// -----

!view = !tile.view<[?, ?], bf16>
!b = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
// expected-error @+1 {{kernel cannot have two roles that copy: a loop must copy tiles for its products, but got none that does; use the schedule load_roles=1}}
tgpu.kernel @once target "sm_90a" warps 4 (%a: !view, %o: !tile.view<[?, ?], f32>) grid(%i = dim(a, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1, dynamic = 1,
                                                         load_roles = 2>} {
  %b = tgpu.alloc : !b
  tgpu.copy_async %a[%i, 0], %b : !view, !b
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %p = tgpu.wgmma %b, %b transpose_b : !b, !b -> !acc
  tgpu.wgmma_commit
  %s = tgpu.wgmma_wait pending 0, %p : !acc
  tgpu.store %s, %o[%i, 0] : !acc, !tile.view<[?, ?], f32>
}
