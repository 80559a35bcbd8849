// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Accumulators that iterations add to memory are passed through a ring to a role that adds them.
//
// RUN: tilewright-opt %s --tgpu-assign-roles | FileCheck %s
// RUN: tilewright-opt %s --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null

// Several tiles per block, from a counter: the role that adds also reads the number of the next tile, after all
// additions.
// RUN: sed 's/reduce_stages = 2>/reduce_stages = 2, group = 8, dynamic = 1>/' %s | tilewright-opt --tgpu-assign-roles | FileCheck %s --check-prefix=TILES
// RUN: sed 's/reduce_stages = 2>/reduce_stages = 2, group = 8, dynamic = 1>/' %s | tilewright-opt --tgpu-assign-roles --canonicalize --tgpu-plan-shared-memory --tgpu-insert-fences --tgpu-verify-sync -o /dev/null
// TILES-LABEL: tgpu.kernel @adds
// TILES:         %[[NUMBERS:.*]] = tgpu.alloc_ring : !tgpu.ring<1, <4xi32, none>>
// TILES-NEXT:    %[[FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
// TILES-NEXT:    %[[EMPTY:.*]] = tgpu.alloc_barriers arrivals 10 : !tgpu.barriers<1>
// TILES:         role "reduce"
// TILES:           scf.while
// TILES:             tgpu.tma_reduce_add
// TILES:             tgpu.wait %[[FULL]][%[[T:.*]]]
// TILES:             tgpu.receive %{{.*}} -> i32, i32{{$}}
// TILES-NEXT:        tgpu.arrive %[[EMPTY]][%[[T]]] per {{ *}}warp
// TILES:         role "schedule"
// TILES:           tgpu.take_tile
// TILES:         role "compute"
// TILES:           tgpu.receive

!view = !tile.view<[?, ?, 64], bf16>
!row_view = !tile.view<[?, ?], f32>
!sum = !tile.view<[?, ?, 64], f32>
!x = !tgpu.shared<128x64xbf16, b128>
!row = !tgpu.shared<128xf32, none>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!s16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!d = tensor<128x64xf32, #tgpu.wgmma<2>>

// A row is copied with the tile that is read before it. Both branches of a special case use one ring, and the roles
// that move data do not branch; if tgpu.any is false, zeros are passed through the ring.
// CHECK-LABEL: tgpu.kernel @adds target "sm_90a" warps 12
// CHECK:         %[[X_FULL:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK:         %[[D:.*]] = tgpu.alloc_ring : !tgpu.ring<2, <128x64xf32, b32>>
// CHECK-NEXT:    %[[D_FULL:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK-NEXT:    %[[D_EMPTY:.*]] = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
// CHECK-NOT:     tgpu.alloc_ring {{.*}}xf32, b32
// CHECK:         role "load" warps 1 registers 24
// CHECK:           tgpu.expect %[[X_FULL]][%[[U:.*]]] bytes 16896
// CHECK:           tgpu.tma_load {{.*}}, %[[X_FULL]][%[[U]]] : !tgpu.tensor_map<1x128xf32, none>
// CHECK:           tgpu.tma_load {{.*}}, %[[X_FULL]][%[[U]]] : !tgpu.tensor_map<1x128x64xbf16, b128>
// CHECK-NOT:       scf.if
// CHECK:         role "reduce" warps 1 registers 24
// CHECK:           scf.for
// CHECK-NOT:         scf.if
// CHECK:             tgpu.wait %[[D_FULL]][%[[N:.*]]] :
// CHECK:             %[[SLOT:.*]] = tgpu.slot %[[D]][%[[N]]]
// CHECK-NEXT:        tgpu.tma_reduce_add %[[SLOT]], %{{.*}}[%b, %{{.*}}, 0]
// CHECK-NEXT:        tgpu.bulk_commit
// CHECK-NEXT:        tgpu.bulk_wait pending 0 read
// CHECK-NEXT:        tgpu.arrive %[[D_EMPTY]][%[[N]]] per {{ *}}role
// CHECK-NOT:         tgpu.tma_reduce_add
// CHECK:         role "idle" warps 2 registers 24
// CHECK:         role "compute" warps 8 registers 240
// CHECK-NOT:       tgpu.atomic_add
// CHECK:           scf.if %full
// CHECK:             tgpu.acquire %[[D_EMPTY]][%[[C:.*]]] :
// CHECK:             tgpu.write %{{.*}}, %{{.*}} : tensor<128x64xf32
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:        tgpu.arrive %[[D_FULL]][%[[C]]] per {{ *}}warp
// CHECK:           else
// CHECK:             scf.if %[[ANY:.*]] ->
// CHECK:               tgpu.write
// CHECK:             else
// CHECK:               %[[ZEROS:.*]] = tile.full %{{.*}} : tensor<128x64xf32
// CHECK:               tgpu.acquire %[[D_EMPTY]]
// CHECK:               tgpu.write %[[ZEROS]],
// CHECK:               tgpu.arrive %[[D_FULL]]
tgpu.kernel @adds target "sm_90a" warps 8 (%x: !view, %row: !row_view, %sum: !sum, %full: i1, %tight: i1)
    grid(%b = dim(x, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, reduce_stages = 2>} {
  %x_buffer = tgpu.alloc : !x
  %row_buffer = tgpu.alloc : !row
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %true = arith.constant true
  %rows = tile.dim %x, 1 : !view
  %rounds = arith.ceildivsi %rows, %c128 : i32
  scf.for %i = %c0 to %rounds step %c1 : i32 {
    %m = arith.muli %i, %c128 : i32
    tgpu.copy_async %row[%b, %m], %row_buffer : !row_view, !row
    tgpu.copy_async %x[%b, %m, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %r = tgpu.read %row_buffer : !row -> tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
    %each = tile.expand %r dim 0 : tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>> -> !s
    %p = arith.mulf %s, %each : !s
    %p16 = tile.cast %p : !s -> !s16
    %a = tgpu.convert %p16 : !s16 -> !a
    scf.if %full {
      %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
      tgpu.wgmma_commit
      %d = tgpu.wgmma_wait pending 0, %d_pending : !d
      tgpu.atomic_add %d, %sum[%b, %m, 0] : !d, !sum
    } else {
      %limit = tile.full %zero : !s
      %keep = arith.cmpf ogt, %p, %limit : !s
      %any = scf.if %tight -> (i1) {
        scf.yield %true : i1
      } else {
        %vote = tgpu.any %keep : tensor<128x128xi1, #tgpu.wgmma<2>>
        scf.yield %vote : i1
      }
      %unused = scf.if %any -> (i32) {
        %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
        tgpu.wgmma_commit
        %d = tgpu.wgmma_wait pending 0, %d_pending : !d
        tgpu.atomic_add %d, %sum[%b, %m, 0] : !d, !sum
        scf.yield %c0 : i32
      } else {
        scf.yield %c1 : i32
      }
    } {tgpu.special_case}
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
}

// For full blocks, the role adds, and branches as compute does; for blocks that tgpu.any may skip, compute adds.
// CHECK-LABEL: tgpu.kernel @mixed
// CHECK:         role "reduce"
// CHECK:           scf.if %full
// CHECK:             tgpu.tma_reduce_add
// CHECK-NOT:         tgpu.tma_reduce_add
// CHECK:         role "compute"
// CHECK:           scf.if %full
// CHECK:             tgpu.acquire
// CHECK:           else
// CHECK:             scf.if
// CHECK:               tgpu.atomic_add
// CHECK-NOT:         tgpu.acquire
tgpu.kernel @mixed target "sm_90a" warps 8 (%x: !view, %row: !row_view, %sum: !sum, %full: i1)
    grid(%b = dim(x, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, reduce_stages = 2>} {
  %x_buffer = tgpu.alloc : !x
  %row_buffer = tgpu.alloc : !row
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %rows = tile.dim %x, 1 : !view
  %rounds = arith.ceildivsi %rows, %c128 : i32
  scf.for %i = %c0 to %rounds step %c1 : i32 {
    %m = arith.muli %i, %c128 : i32
    tgpu.copy_async %row[%b, %m], %row_buffer : !row_view, !row
    tgpu.copy_async %x[%b, %m, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %r = tgpu.read %row_buffer : !row -> tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
    %each = tile.expand %r dim 0 : tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>> -> !s
    %p = arith.mulf %s, %each : !s
    %p16 = tile.cast %p : !s -> !s16
    %a = tgpu.convert %p16 : !s16 -> !a
    scf.if %full {
      %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
      tgpu.wgmma_commit
      %d = tgpu.wgmma_wait pending 0, %d_pending : !d
      tgpu.atomic_add %d, %sum[%b, %m, 0] : !d, !sum
    } else {
      %limit = tile.full %zero : !s
      %keep = arith.cmpf ogt, %p, %limit : !s
      %any = tgpu.any %keep : tensor<128x128xi1, #tgpu.wgmma<2>>
      %unused = scf.if %any -> (i32) {
        %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
        tgpu.wgmma_commit
        %d = tgpu.wgmma_wait pending 0, %d_pending : !d
        tgpu.atomic_add %d, %sum[%b, %m, 0] : !d, !sum
        scf.yield %c0 : i32
      } else {
        scf.yield %c1 : i32
      }
    } {tgpu.special_case}
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
}

// Only tgpu.any decides, which the role that adds cannot compute, so the sum is added from registers.
// CHECK-LABEL: tgpu.kernel @votes
// CHECK-NOT:     role "reduce"
// CHECK:         role "compute"
// CHECK:           tgpu.atomic_add
tgpu.kernel @votes target "sm_90a" warps 8 (%x: !view, %sum: !sum)
    grid(%b = dim(x, 0))
    attributes {tgpu.role_schedule = #tgpu.role_schedule<load_registers = 24, compute_registers = 240, reduce_stages = 2>} {
  %x_buffer = tgpu.alloc : !x
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c128 = arith.constant 128 : i32
  %zero = arith.constant 0.0 : f32
  %rows = tile.dim %x, 1 : !view
  %rounds = arith.ceildivsi %rows, %c128 : i32
  scf.for %i = %c0 to %rounds step %c1 : i32 {
    %m = arith.muli %i, %c128 : i32
    tgpu.copy_async %x[%b, %m, 0], %x_buffer : !view, !x
    tgpu.copy_commit
    tgpu.copy_wait pending 0
    tgpu.sync
    %s_pending = tgpu.wgmma %x_buffer, %x_buffer transpose_b : !x, !x -> !s
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %s_pending : !s
    %limit = tile.full %zero : !s
    %keep = arith.cmpf ogt, %s, %limit : !s
    %any = tgpu.any %keep : tensor<128x128xi1, #tgpu.wgmma<2>>
    scf.if %any {
      %s16 = tile.cast %s : !s -> !s16
      %a = tgpu.convert %s16 : !s16 -> !a
      %d_pending = tgpu.wgmma %a, %x_buffer : !a, !x -> !d
      tgpu.wgmma_commit
      %d = tgpu.wgmma_wait pending 0, %d_pending : !d
      tgpu.atomic_add %d, %sum[%b, %m, 0] : !d, !sum
    }
  } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
}
