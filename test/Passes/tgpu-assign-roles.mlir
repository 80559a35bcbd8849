// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/kernels.mlir --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %t/errors.mlir --tgpu-assign-roles -split-input-file -verify-diagnostics

//--- kernels.mlir

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?, 64], bf16>
!acc = tensor<128x128xf32, #tgpu.wgmma<2>>
!out = tensor<128x64xf32, #tgpu.wgmma<2>>

// A buffer that is copied once per tile stays a single buffer; the copies of the loop, which different products read
// first, have one ring each. Uses are counted across iterations and tiles. Both roles have the branches around copies
// and the loop-carried values for the indices of copies; only one has tiles.
// CHECK-LABEL: tgpu.kernel @two_products target "sm_90a" warps 12
// CHECK:         require(ceildiv(dim(q, 1), 128) * dim(q, 0) <= 1073741824)
// CHECK:         grid(%cta = min(sm_count(), ceildiv(dim(q, 1), 128) * dim(q, 0)))
// CHECK:         %[[Q_MAP:.*]] = tgpu.tensor_map %q : !tile.view<[?, ?, 64], bf16> -> !tgpu.tensor_map<1x128x64xbf16, b128>
// CHECK:         %[[Q:.*]] = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
// CHECK-NEXT:    %[[Q_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
// CHECK-NEXT:    %[[Q_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
// CHECK:         %[[K_MAP:.*]] = tgpu.tensor_map %k :
// CHECK:         %[[K:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK-NEXT:    %[[K_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[K_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK:         %[[V:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK:         %[[STEP:.*]] = tgpu.grid_extent 0
// CHECK:         role "load" warps 1 registers 40
// CHECK:           %[[TILES:.*]] = arith.muli
// CHECK:           scf.for %[[T:.*]] = %cta to %[[TILES]] step %[[STEP]] iter_args(%[[UQ:.*]] = %{{.*}}, %[[UK:.*]] = %{{.*}}, %[[UV:.*]] = %{{.*}}) -> (i32, i32, i32)
// CHECK:             tgpu.acquire %[[Q_EMPTY]][%[[UQ]]]
// CHECK-NEXT:        tgpu.expect %[[Q_FULL]][%[[UQ]]] bytes 16384
// CHECK-NEXT:        tgpu.tma_load %[[Q_MAP]][%{{.*}}, %{{.*}}, 0], %[[Q]], %[[Q_FULL]][%[[UQ]]]
// CHECK:             scf.for %{{.*}} iter_args(%[[ROW:.*]] = %{{.*}}, %[[K_USE:.*]] = %[[UK]], %[[V_USE:.*]] = %[[UV]]) -> (i32, i32, i32)
// CHECK:               tgpu.acquire %[[K_EMPTY]][%[[K_USE]]]
// CHECK:               tgpu.tma_load %[[K_MAP]][%{{.*}}, %[[ROW]], 0], %{{.*}}, %[[K_FULL]][%[[K_USE]]]
// CHECK:               scf.if
// CHECK:                 tgpu.tma_load
// CHECK:               else
// CHECK-NEXT:            scf.yield %[[V_USE]]
// CHECK-NOT:           tgpu.wgmma
// CHECK:         role "idle" warps 3 registers 40
// CHECK-NEXT:    }
// CHECK-NEXT:    role "compute" warps 8 registers 232
// CHECK:             tgpu.wait %[[Q_FULL]]
// CHECK:             scf.for
// CHECK-NOT:           tgpu.sync
// CHECK-NOT:           tgpu.copy
// CHECK:               tgpu.wait %[[K_FULL]][%[[KU:.*]]]
// CHECK-NEXT:          %[[K_SLOT:.*]] = tgpu.slot %[[K]][%[[KU]]]
// CHECK:               tgpu.wgmma %[[Q]], %[[K_SLOT]] transpose_b
// CHECK-NEXT:          tgpu.wgmma_commit
// CHECK-NEXT:          tgpu.wgmma_wait pending 0
// CHECK-NEXT:          tgpu.arrive %[[K_EMPTY]][%[[KU]]] per {{ *}}warp
// CHECK:               scf.if
// CHECK:                 tgpu.slot %[[V]]
// CHECK:                 tgpu.arrive
// CHECK:             tgpu.arrive %[[Q_EMPTY]]
// CHECK:             tgpu.store
tgpu.kernel @two_products target "sm_90a" warps 8 (%q: !view, %k: !view, %v: !view, %o: !tile.view<[?, ?, 64], f32>)
    grid(%m = ceildiv(dim(q, 1), 128), %b = dim(q, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %q_buffer = tgpu.alloc : !q
  %k_buffer = tgpu.alloc : !q
  %v_buffer = tgpu.alloc : !q
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %m, %c128 : i32
  tgpu.copy_async %q[%b, %row, 0], %q_buffer : !view, !q
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %keys = tile.dim %k, 1 : !view
  %none = tile.full %zero : !out
  %sum:2 = scf.for %i = %c0 to %keys step %c128 iter_args(%old = %none, %n = %c0) -> (!out, i32) : i32 {
    tgpu.sync
    tgpu.copy_async %k[%b, %n, 0], %k_buffer : !view, !q
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b : !q, !q -> !acc
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !acc
    %p = tile.cast %s : !acc -> tensor<128x128xbf16, #tgpu.wgmma<2>>
    %p_a = tgpu.convert %p : tensor<128x128xbf16, #tgpu.wgmma<2>> -> tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
    %even = arith.cmpi slt, %n, %row : i32
    %new = scf.if %even -> (!out) {
      tgpu.copy_async %v[%b, %n, 0], %v_buffer : !view, !q
      tgpu.copy_commit
      tgpu.copy_wait pending 0
      tgpu.sync
      %o_pending = tgpu.wgmma %p_a, %v_buffer, %old : tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !q, !out -> !out
      tgpu.wgmma_commit
      %done = tgpu.wgmma_wait pending 0, %o_pending : !out
      scf.yield %done : !out
    } else {
      scf.yield %old : !out
    }
    %next = arith.addi %n, %c128 : i32
    scf.yield %new, %next : !out, i32
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
  tgpu.store %sum#0, %o[%b, %row, 0] : !out, !tile.view<[?, ?, 64], f32>
}

// Groups of two steps of the second id; the role that computes also writes to shared memory, and synchronizes its
// warps.
// CHECK-LABEL: tgpu.kernel @grouped
// CHECK:         %[[BARRIER:.*]] = tgpu.named_barrier warps 8
// CHECK:         role "load"
// CHECK:           scf.for %[[T:.*]] = %cta
// CHECK:             %[[SPAN:.*]] = arith.muli %[[COLUMNS:.*]], %[[GROUP:.*]] : i32
// CHECK:             %[[NUMBER:.*]] = arith.divui %[[T]], %[[SPAN]]
// CHECK:             %[[WHOLE:.*]] = arith.muli %[[NUMBER]], %[[SPAN]]
// CHECK:             %[[WITHIN:.*]] = arith.subi %[[T]], %[[WHOLE]]
// CHECK:             %[[START:.*]] = arith.muli %[[NUMBER]], %[[GROUP]]
// CHECK:             %[[LEFT:.*]] = arith.subi %[[ROWS:.*]], %[[START]]
// CHECK:             %[[HEIGHT:.*]] = arith.minsi %[[LEFT]], %[[GROUP]]
// CHECK:             %[[N:.*]] = arith.divui %[[WITHIN]], %[[HEIGHT]]
// CHECK:             %[[FULL:.*]] = arith.muli %[[N]], %[[HEIGHT]]
// CHECK:             %[[Y:.*]] = arith.subi %[[WITHIN]], %[[FULL]]
// CHECK:             %[[M:.*]] = arith.addi %[[START]], %[[Y]]
// CHECK:             tgpu.tma_load %{{.*}}[%[[N]], %[[M]]]
// CHECK:         role "compute"
// CHECK:             tgpu.write
// CHECK-NEXT:        tgpu.sync on %[[BARRIER]]
tgpu.kernel @grouped target "sm_90a" warps 8 (%x: !tile.view<[?, ?], bf16>, %o: !tile.view<[?, ?], f32>)
    grid(%n = ceildiv(dim(o, 1), 128), %m = dim(o, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 2>} {
  %buffer = tgpu.alloc : !q
  %other = tgpu.alloc : !tgpu.shared<128x128xf32, b128>
  tgpu.copy_async %x[%n, %m], %buffer : !tile.view<[?, ?], bf16>, !q
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %pending = tgpu.wgmma %buffer, %buffer transpose_b : !q, !q -> !acc
  tgpu.wgmma_commit
  %s = tgpu.wgmma_wait pending 0, %pending : !acc
  tgpu.write %s, %other : !acc, !tgpu.shared<128x128xf32, b128>
  tgpu.sync
  %t = tgpu.read %other transpose : !tgpu.shared<128x128xf32, b128> -> !acc
  tgpu.store %t, %o[%m, %n] : !acc, !tile.view<[?, ?], f32>
}

!tensor_out = tensor<128x128xf32, #tgpu.wgmma<2>>

// Blocks take tiles from a counter: the role "schedule" computes values from the tile's number, and publishes them with
// the number: here the id %b and the row, but not %m, which is only used for the row. It takes the next tile when the
// load role signals that it has issued its copies, and publishes -1 at the end. The other roles receive the first tile
// before their loop; the compute role receives the next after the last loop of a tile. A buffer that is copied once
// per tile is doubled. A tgpu.any of the block becomes one of the role.
// CHECK-LABEL: tgpu.kernel @taken
// CHECK:         %[[Q:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xbf16, b128>>
// CHECK-NEXT:    %[[Q_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK:         %[[VOTED:.*]] = tgpu.named_barrier warps 8
// CHECK-NEXT:    %[[NUMBERS:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <4xi32, none>>
// CHECK-NEXT:    %[[TAKEN:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
// CHECK-NEXT:    %[[READ:.*]] = tgpu.alloc_barriers arrivals 9 : !tgpu.barriers<1>
// CHECK:         role "load"
// CHECK:           %[[FIRST:.*]]:3 = tgpu.receive %{{.*}} : !tgpu.shared<4xi32, none> -> i32, i32, i32
// CHECK-NOT:       tgpu.arrive
// CHECK:           scf.while (%{{.*}} = %[[FIRST]]#0,
// CHECK-NOT:         arith.div
// CHECK:             tgpu.tma_load
// CHECK:             scf.for
// CHECK:             }
// CHECK-NEXT:        tgpu.arrive %[[READ]][%{{.*}}] per {{ *}}warp
// CHECK-NEXT:        tgpu.wait %[[TAKEN]]
// CHECK:             tgpu.receive
// CHECK:         role "schedule"
// CHECK:           scf.while (%[[T:.*]] = %cta,
// CHECK:             %[[ALL:.*]] = arith.muli
// CHECK-NEXT:        arith.cmpi slt, %[[T]], %[[ALL]] : i32
// CHECK:           ^bb0(%[[T:[^:]*]]: i32,
// CHECK:             %[[B:.*]] = arith.divui
// CHECK:             %[[M:.*]] = arith.subi %[[T]],
// CHECK:             arith.muli %[[M]], %c128{{.*}} : i32
// CHECK:             %[[SLOT:.*]] = tgpu.slot %[[NUMBERS]][%[[USE:.*]]]
// CHECK-NEXT:        tgpu.publish %[[T]], %[[B]], %[[M]] to %[[SLOT]] : !tgpu.shared<4xi32, none>
// CHECK-NEXT:        tgpu.arrive %[[TAKEN]][%[[USE]]] per {{ *}}role
// CHECK:             tgpu.acquire %[[READ]]
// CHECK:             %[[TILES:.*]] = arith.muli
// CHECK-NEXT:        tgpu.take_tile of %[[TILES]]
// CHECK-NOT:         into
// CHECK:           }
// CHECK:           tgpu.publish %c-1{{.*}}, %{{.*}}, %{{.*}} to
// CHECK:         role "compute"
// CHECK:           tgpu.wait %[[TAKEN]]
// CHECK:           %[[FIRST:.*]]:3 = tgpu.receive %{{.*}} : !tgpu.shared<4xi32, none> -> i32, i32, i32
// CHECK-NEXT:      tgpu.arrive %[[READ]]
// CHECK:           scf.while (%[[N:.*]] = %[[FIRST]]#0, %{{.*}} = %[[FIRST]]#1, %{{.*}} = %[[FIRST]]#2,
// CHECK:             arith.cmpi sge, %[[N]], %c0
// CHECK:           ^bb0(%{{[^:]*}}: i32, %[[ID:[^:]*]]: i32, %[[M:[^:]*]]: i32
// CHECK-NOT:         arith.div
// A multiple is published as its factor.
// CHECK:             %[[ROW:.*]] = arith.muli %[[M]], %c128
// CHECK-NOT:         arith.div
// CHECK:             tgpu.wait %[[Q_FULL]]
// CHECK:             scf.for
// CHECK:               tgpu.any %{{.*}} on %[[VOTED]]
// CHECK:             tgpu.wait %[[TAKEN]][%[[USE:.*]]]
// CHECK:             tgpu.receive
// CHECK-NEXT:        tgpu.arrive %[[READ]][%[[USE]]] per {{ *}}warp
// CHECK:             tgpu.store %{{.*}}, %{{.*}}[%[[ID]], %[[ROW]], 0]
tgpu.kernel @taken target "sm_90a" warps 8 (%q: !view, %k: !view, %o: !tile.view<[?, ?, 128], f32>)
    grid(%m = ceildiv(dim(q, 1), 128), %b = dim(q, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1,
                                                         dynamic = 1, tile_stages = 2>} {
  %q_buffer = tgpu.alloc : !q
  %k_buffer = tgpu.alloc : !q
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %true = arith.constant true
  %zero = arith.constant 0.0 : f32
  %row = arith.muli %m, %c128 : i32
  tgpu.copy_async %q[%b, %row, 0], %q_buffer : !view, !q
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  %keys = tile.dim %k, 1 : !view
  %none = tile.full %zero : !tensor_out
  %flags = tile.full %true : tensor<128x128xi1, #tgpu.wgmma<2>>
  %sum = scf.for %i = %c0 to %keys step %c128 iter_args(%old = %none) -> (!tensor_out) : i32 {
    tgpu.sync
    tgpu.copy_async %k[%b, %i, 0], %k_buffer : !view, !q
    tgpu.copy_commit
    %some = tgpu.any %flags : tensor<128x128xi1, #tgpu.wgmma<2>>
    tgpu.copy_wait pending 0
    tgpu.sync
    %new = scf.if %some -> (!tensor_out) {
      %pending = tgpu.wgmma %q_buffer, %k_buffer transpose_b, %old : !q, !q, !tensor_out -> !tensor_out
      tgpu.wgmma_commit
      %added = tgpu.wgmma_wait pending 0, %pending : !tensor_out
      scf.yield %added : !tensor_out
    } else {
      scf.yield %old : !tensor_out
    }
    scf.yield %new : !tensor_out
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %sum, %o[%b, %row, 0] : !tensor_out, !tile.view<[?, ?, 128], f32>
}

!row_view = !tile.view<[?, ?], f32>
!row = !tgpu.shared<128xf32, none>
!row_tile = tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
!acc16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>

// Copies are issued in the order in which products read them, independent of their order in the text: y, which is read
// last, waits for its slot after x and the rows that are copied with it, also after one whose index is computed late.
// tgpu.ring_stages overrides the stages of the loop: a ring of one slot is still a ring, one of three has more slots
// than the others.
// CHECK-LABEL: tgpu.kernel @together
// CHECK:         %[[Y:.*]] = tgpu.alloc_ring : !tgpu.ring<3, <128x64xbf16, b128>>
// CHECK-NEXT:    %[[Y_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<3>
// CHECK-NEXT:    %[[Y_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<3>
// CHECK:         %[[X_MAP:.*]] = tgpu.tensor_map %x :
// CHECK-NEXT:    %[[X:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128x64xbf16, b128>>
// CHECK:         %[[NEAR_MAP:.*]] = tgpu.tensor_map %near :
// CHECK-NEXT:    %[[NEAR:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128xf32, none>>
// CHECK:         %[[FAR_MAP:.*]] = tgpu.tensor_map %far :
// CHECK-NEXT:    %[[FAR:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <128xf32, none>>
// CHECK-NEXT:    %[[X_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
// CHECK-NEXT:    %[[X_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
// CHECK:         role "load"
// CHECK:             tgpu.acquire %[[X_EMPTY]]
// CHECK-NEXT:        tgpu.expect %[[X_FULL]][%{{.*}}] bytes 17408
// CHECK-NEXT:        %[[X_SLOT:.*]] = tgpu.slot %[[X]]
// CHECK-NEXT:        tgpu.tma_load %[[X_MAP]][%b, %{{.*}}, 0], %[[X_SLOT]], %[[X_FULL]]
// CHECK-NEXT:        %[[NEAR_SLOT:.*]] = tgpu.slot %[[NEAR]]
// CHECK-NEXT:        tgpu.tma_load %[[NEAR_MAP]][%b, %{{.*}}], %[[NEAR_SLOT]], %[[X_FULL]]
// CHECK-NEXT:        %[[PLACE:.*]] = arith.addi %{{.*}}, %shift
// CHECK-NEXT:        %[[FAR_SLOT:.*]] = tgpu.slot %[[FAR]]
// CHECK-NEXT:        tgpu.tma_load %[[FAR_MAP]][%b, %[[PLACE]]], %[[FAR_SLOT]], %[[X_FULL]]
// CHECK:             tgpu.acquire %[[Y_EMPTY]]
// CHECK-NEXT:        tgpu.expect %[[Y_FULL]]
// CHECK-NEXT:        %[[Y_SLOT:.*]] = tgpu.slot %[[Y]]
// CHECK-NEXT:        tgpu.tma_load %{{.*}}, %[[Y_SLOT]], %[[Y_FULL]]
tgpu.kernel @together target "sm_90a" warps 8 (%x: !view, %y: !view, %near: !row_view, %far: !row_view, %o: !tile.view<[?, 128, 64], f32>, %shift: i32)
    grid(%b = dim(x, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %x_buffer = tgpu.alloc : !q
  %y_buffer = tgpu.alloc : !q
  %near_buffer = tgpu.alloc : !row
  %far_buffer = tgpu.alloc : !row
  %c0 = arith.constant 0 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %none = tile.full %zero : !out
  %rows = tile.dim %x, 1 : !view
  %sum = scf.for %m = %c0 to %rows step %c128 iter_args(%old = %none) -> (!out) : i32 {
    tgpu.copy_async %y[%b, %m, 0], %y_buffer {tgpu.ring_stages = 3 : i64} : !view, !q
    tgpu.copy_async %x[%b, %m, 0], %x_buffer {tgpu.ring_stages = 1 : i64} : !view, !q
    tgpu.copy_async %near[%b, %m], %near_buffer {tgpu.ring_stages = 1 : i64} : !row_view, !row
    %place = arith.addi %m, %shift : i32
    tgpu.copy_async %far[%b, %place], %far_buffer {tgpu.ring_stages = 1 : i64} : !row_view, !row
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !q, !q -> !acc
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !acc
    %r = tgpu.read %near_buffer : !row -> !row_tile
    %r_far = tgpu.read %far_buffer : !row -> !row_tile
    %factor = arith.mulf %r, %r_far : !row_tile
    %factors = tile.expand %factor dim 0 : !row_tile -> !acc
    %p = arith.mulf %s, %factors : !acc
    %p16 = tile.cast %p : !acc -> !acc16
    %p_a = tgpu.convert %p16 : !acc16 -> !a
    %o_pending = tgpu.wgmma %p_a, %y_buffer, %old : !a, !q, !out -> !out
    tgpu.wgmma_commit
    %new = tgpu.wgmma_wait pending 0, %o_pending : !out
    scf.yield %new : !out
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
  tgpu.store %sum, %o[%b, 0, 0] : !out, !tile.view<[?, 128, 64], f32>
}

//--- errors.mlir

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @optional target "sm_90a" warps 8 (%x: optional !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  // expected-error @+1 {{kernel cannot be split into roles: there is no tensor map for a copy of 'x': the argument is optional; copy from one that is not; use the schedule skeleton=synchronous}}
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @written target "sm_90a" warps 8 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  // expected-error @+1 {{kernel cannot be split into roles: the view that a copy reads must not be written in the kernel, but is; use the schedule skeleton=synchronous}}
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  tgpu.store %r, %x[%b, 0] : tensor<128x64xbf16, #tgpu.wgmma<2>>, !view
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @late target "sm_90a" warps 8 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  // expected-error @+1 {{kernel cannot be split into roles: the buffer of a copy must be used where the copy has been executed, but is used before it or outside of its branch; use the schedule skeleton=synchronous}}
  tgpu.copy_async %x[%b, 0], %q : !view, !q
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @shared target "sm_90a" warps 8 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
  // expected-error @+1 {{kernel cannot be split into roles: the buffer of a copy must be written by copies only, but got 'tgpu.write'; use the schedule skeleton=synchronous}}
  tgpu.write %r, %q : tensor<128x64xbf16, #tgpu.wgmma<2>>, !q
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @carried target "sm_90a" warps 8 (%x: !view, %n: i32) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  // expected-error @+1 {{kernel cannot be split into roles: the indices of a copy must be computed ahead, but got 'scf.while'; use the schedule skeleton=synchronous}}
  %place = scf.while (%i = %n) : (i32) -> i32 {
    %more = arith.cmpi slt, %i, %b : i32
    scf.condition(%more) %i : i32
  } do {
  ^bb0(%i: i32):
    scf.yield %i : i32
  }
  tgpu.copy_async %x[%place, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
// expected-error @+1 {{must have 4 to 28 warps, a multiple of 4, to be split into roles, but got 2}}
tgpu.kernel @warps target "sm_90a" warps 2 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.mma<2, 1>>
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
// expected-error @+1 {{cannot process several tiles in a block: its grid is not computed with +, -, *, ceildiv, min and max from extents and numbers; use the schedule group=0}}
tgpu.kernel @grid target "sm_90a" warps 4 (%x: !view) grid(%b = floordiv(dim(x, 0), 4))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232, group = 1>} {
  %q = tgpu.alloc : !q
  tgpu.copy_async %x[%b, 0], %q : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<1>>
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @no_slot target "sm_90a" warps 8 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  // expected-error @+1 {{'tgpu.copy_async' op needs an i64 from 1 to 32 as tgpu.ring_stages, but got 0 : i64}}
  tgpu.copy_async %x[%b, 0], %q {tgpu.ring_stages = 0 : i64} : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
}

// -----

!q = !tgpu.shared<128x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
tgpu.kernel @many_slots target "sm_90a" warps 8 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %q = tgpu.alloc : !q
  // expected-error @+1 {{'tgpu.copy_async' op needs an i64 from 1 to 32 as tgpu.ring_stages, but got 33 : i64}}
  tgpu.copy_async %x[%b, 0], %q {tgpu.ring_stages = 33 : i64} : !view, !q
  %r = tgpu.read %q : !q -> tensor<128x64xbf16, #tgpu.wgmma<2>>
}

// -----

!x = !tgpu.shared<64x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @different_slots target "sm_90a" warps 4 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %a = tgpu.alloc : !x
  %c = tgpu.alloc : !x
  // expected-note @+1 {{one of them}}
  tgpu.copy_async %x[%b, 0], %a {tgpu.ring_stages = 2 : i64} : !view, !x
  // expected-error @+1 {{'tgpu.copy_async' op needs the same tgpu.ring_stages as the other copies that arrive at its barrier}}
  tgpu.copy_async %x[%b, 64], %c {tgpu.ring_stages = 3 : i64} : !view, !x
  %pending = tgpu.wgmma %a, %c : !x, !x -> !acc
  tgpu.wgmma_commit
  %s = tgpu.wgmma_wait pending 0, %pending : !acc
}

// -----

!x = !tgpu.shared<64x64xbf16, b128>
!view = !tile.view<[?, ?], bf16>
!acc = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @slots_of_one_copy target "sm_90a" warps 4 (%x: !view) grid(%b = 1)
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 40, compute_registers = 232>} {
  %a = tgpu.alloc : !x
  %c = tgpu.alloc : !x
  // expected-note @+1 {{one of them}}
  tgpu.copy_async %x[%b, 0], %a : !view, !x
  // expected-error @+1 {{'tgpu.copy_async' op needs the same tgpu.ring_stages as the other copies that arrive at its barrier}}
  tgpu.copy_async %x[%b, 64], %c {tgpu.ring_stages = 3 : i64} : !view, !x
  %pending = tgpu.wgmma %a, %c : !x, !x -> !acc
  tgpu.wgmma_commit
  %s = tgpu.wgmma_wait pending 0, %pending : !acc
}
