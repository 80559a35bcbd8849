// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Additions in order: the role that adds waits for its turn, stores tile 0 and adds the others, and ends its turn when
// its writes are complete. All tiles of the grid come from a counter, including the first.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/adds.mlir --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %t/adds.mlir --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
// RUN: sed 's/, group = 8, dynamic = 1>/>/' %t/adds.mlir | not tilewright-opt --tgpu-assign-roles 2>&1 | FileCheck %s --check-prefix=STATIC
// RUN: tilewright-opt %t/errors.mlir -split-input-file -verify-diagnostics --tgpu-verify-sync

// STATIC: error: 'tgpu.kernel' op adds in order, which requires blocks that take tiles from a counter and a separate role for additions, but got the schedule dynamic=0, reduce_stages=2; use dynamic=1 and a grid of extents and numbers, and reduce_stages=1 or more

//--- adds.mlir

!view = !tile.view<[?, ?, 64], bf16>
!sum = !tile.view<[?, ?, 64], f32>
!turns = !tile.view<[?, ?], i32>
!x = !tgpu.shared<128x64xbf16, b128>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!d = tensor<128x64xf32, #tgpu.wgmma<2>>

// CHECK-LABEL: tgpu.kernel @adds
// CHECK:         role "reduce"
// CHECK:           scf.for %[[I:[a-z0-9]+]] =
// CHECK:             %[[M:[0-9]+]] = arith.muli %[[I]],
// CHECK:             tgpu.await_turn %[[N:[a-z0-9]+]] of %turns[%[[B:[a-z0-9]+]], %[[I]]] : !tile.view<[?, ?], i32>
// CHECK-NEXT:        tgpu.wait
// CHECK:             %[[FIRST_OF_ALL:.*]] = arith.cmpi eq, %[[N]], %{{.*}} : i32
// CHECK-NEXT:        scf.if %[[FIRST_OF_ALL]] {
// CHECK-NEXT:          tgpu.tma_store %[[SLOT:.*]], %[[MAP:.*]][%[[B]], %[[M]], 0]
// CHECK-NEXT:        } else {
// CHECK-NEXT:          tgpu.tma_reduce_add %[[SLOT]], %[[MAP]][%[[B]], %[[M]], 0]
// CHECK-NEXT:        }
// CHECK-NEXT:        tgpu.bulk_commit
// CHECK-NEXT:        tgpu.bulk_wait pending 0 read
// CHECK-NEXT:        tgpu.arrive
// CHECK-NEXT:        tgpu.bulk_wait pending 0{{$}}
// CHECK-NEXT:        tgpu.end_turn %[[N]] of %turns[%[[B]], %[[I]]] : !tile.view<[?, ?], i32>
// CHECK:         role "schedule"
// CHECK:           %[[FIRST:.*]] = tgpu.take_tile of %{{.*}} all
// CHECK:           scf.while (%{{.*}} = %[[FIRST]],
// CHECK:           } do {
// CHECK:             tgpu.take_tile of %{{.*}} all
// CHECK:         role "compute"
// CHECK-NOT:       turn
tgpu.kernel @adds target "sm_90a" warps 8 (%x: !view, %sum: !sum, %turns: !turns)
    grid(%n = dim(x, 0), %b = dim(sum, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, reduce_stages = 2, group = 8, dynamic = 1>} {
  %x_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %rows = tile.dim %x, 1 : !view
  %rounds = arith.ceildivsi %rows, %c128 : i32
  scf.for %i = %c0 to %rounds step %c1 : i32 {
    %m = arith.muli %i, %c128 : i32
    tgpu.copy_async %x[%n, %m, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %p16 = tile.cast %s : !s -> !s16
    %a = tgpu.convert %p16 : !s16 -> !a
    %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
    tgpu.wgmma_commit
    %d = tgpu.wgmma_wait pending 0, %d_pending : !d
    tgpu.atomic_add %d, %sum[%b, %m, 0] in order of %n by %turns[%b, %i] : !d, !sum, !turns
    tgpu.sync
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
}

//--- errors.mlir

!sum = !tile.view<[?], f32>
!turns = !tile.view<[?], i32>
!d = tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 4, 1>>
tgpu.kernel @warps_that_compute target "sm_80" warps 4 (%sum: !sum, %turns: !turns, %x: f32) grid(%n = dim(sum, 0)) {
  %c0 = arith.constant 0 : i32
  %d = tile.full %x : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>
  // expected-error @+1 {{adds in order, which requires a separate role, on sm_90a, and accumulators of wgmma in a loop, but got an addition by the compute warps; use such a target and blocks, or leave out 'in order'}}
  tgpu.atomic_add %d, %sum[0] in order of %n by %turns[%c0] : tensor<128xf32, #tgpu.blocked<1, lanes 32, warps 1, 4>>, !sum, !turns
}

// -----

!turns = !tile.view<[?], i32>
tgpu.kernel @other_number target "sm_90a" warps 8 (%turns: !turns) grid(%n = 4) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "reduce" warps 4 {
      tgpu.await_turn %c0 of %turns[0] : !turns
      // expected-error @+1 {{ends a turn that its thread has not awaited; tgpu.await_turn of the same number and counter must come before}}
      tgpu.end_turn %c1 of %turns[0] : !turns
    }
    role "compute" warps 4 {
    }
}

// -----

!turns = !tile.view<[?], i32>
tgpu.kernel @other_counter target "sm_90a" warps 8 (%turns: !turns) grid(%n = 4) {
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "reduce" warps 4 {
      tgpu.await_turn %c0 of %turns[0] : !turns
      // expected-error @+1 {{ends a turn that its thread has not awaited}}
      tgpu.end_turn %c0 of %turns[1] : !turns
    }
    role "compute" warps 4 {
    }
}

// -----

!turns = !tile.view<[?], i32>
tgpu.kernel @two_turns target "sm_90a" warps 8 (%turns: !turns) grid(%n = 4) {
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "reduce" warps 4 {
      // expected-note @+1 {{the other turn}}
      tgpu.await_turn %c0 of %turns[0] : !turns
      // expected-error @+1 {{awaits a turn while its thread has another, so that blocks may deadlock; tgpu.end_turn must come before}}
      tgpu.await_turn %c0 of %turns[1] : !turns
    }
    role "compute" warps 4 {
    }
}

// -----

!turns = !tile.view<[?], i32>
tgpu.kernel @never_ended target "sm_90a" warps 8 (%turns: !turns) grid(%n = 4) {
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "reduce" warps 4 {
      // expected-error @+1 {{awaits a turn that is never ended; tgpu.end_turn must follow}}
      tgpu.await_turn %c0 of %turns[0] : !turns
    }
    role "compute" warps 4 {
    }
}

// -----

// It is not sufficient that shared memory has been read.
!turns = !tile.view<[?], i32>
!sum = !tile.view<[?, 64], f32>
!map = !tgpu.tensor_map<64x32xf32, b128>
!buffer = !tgpu.shared<64x64xf32, b128>
!d = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @only_read target "sm_90a" warps 8 (%turns: !turns, %sum: !sum, %x: f32) grid(%n = 4) {
  %c0 = arith.constant 0 : i32
  %map = tgpu.tensor_map %sum : !sum -> !map
  %buffer = tgpu.alloc : !buffer
  %full = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  tgpu.roles
    role "reduce" warps 4 {
      tgpu.await_turn %c0 of %turns[0] : !turns
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      // expected-note @+1 {{the write}}
      tgpu.tma_reduce_add %buffer, %map[%c0, 0] : !buffer, !map
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0 read
      // expected-error @+1 {{releases the turn before its writes to the view have completed; tgpu.bulk_wait pending 0 without 'read' must come before}}
      tgpu.end_turn %c0 of %turns[0] : !turns
    }
    role "compute" warps 4 {
      %d = tile.full %x : !d
      tgpu.write %d, %buffer : !d, !buffer
      tgpu.fence_async
      tgpu.arrive %full[%c0] per warp : !tgpu.barriers<1>
    }
}

// -----

// The same for the store of tile 0.
!turns = !tile.view<[?], i32>
!sum = !tile.view<[?, 64], f32>
!map = !tgpu.tensor_map<64x32xf32, b128>
!buffer = !tgpu.shared<64x64xf32, b128>
!d = tensor<64x64xf32, #tgpu.wgmma<1>>
tgpu.kernel @only_read_by_store target "sm_90a" warps 8 (%turns: !turns, %sum: !sum, %x: f32) grid(%n = 4) {
  %c0 = arith.constant 0 : i32
  %map = tgpu.tensor_map %sum : !sum -> !map
  %buffer = tgpu.alloc : !buffer
  %full = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  tgpu.roles
    role "reduce" warps 4 {
      tgpu.await_turn %c0 of %turns[0] : !turns
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      // expected-note @+1 {{the write}}
      tgpu.tma_store %buffer, %map[%c0, 0] : !buffer, !map
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0 read
      // expected-error @+1 {{releases the turn before its writes to the view have completed; tgpu.bulk_wait pending 0 without 'read' must come before}}
      tgpu.end_turn %c0 of %turns[0] : !turns
    }
    role "compute" warps 4 {
      %d = tile.full %x : !d
      tgpu.write %d, %buffer : !d, !buffer
      tgpu.fence_async
      tgpu.arrive %full[%c0] per warp : !tgpu.barriers<1>
    }
}
