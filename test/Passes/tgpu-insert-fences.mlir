// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A fence is inserted only between writes for wgmma or TMA and the barrier that publishes them.
// RUN: tilewright-opt %s --tgpu-insert-fences -split-input-file | FileCheck %s --implicit-check-not=tgpu.fence_async
// RUN: tilewright-opt %s --tgpu-insert-fences --tgpu-insert-fences -split-input-file | FileCheck %s --implicit-check-not=tgpu.fence_async

!tile = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<1>>

// Two writes, one fence. Only threads read the third buffer.
// CHECK-LABEL: tgpu.kernel @store
// CHECK:         tgpu.write %{{.*}}, %[[X:.*]] :
// CHECK-NEXT:    tgpu.write %{{.*}}, %[[Y:.*]] :
// CHECK-NEXT:    tgpu.fence_async
// CHECK-NEXT:    tgpu.sync{{$}}
// CHECK-NEXT:    tgpu.tma_store %[[X]]
// CHECK-NEXT:    tgpu.tma_reduce_add %[[Y]]
// CHECK:         tgpu.write
// CHECK-NEXT:    tgpu.sync{{$}}
tgpu.kernel @store target "sm_90a" warps 4 (%o: !tile.view<[?, 64], bf16>) grid(%b = 1) {
  %map = tgpu.tensor_map %o : !tile.view<[?, 64], bf16> -> !tgpu.tensor_map<128x64xbf16, b128>
  %x = tgpu.alloc : !tile
  %y = tgpu.alloc : !tile
  %z = tgpu.alloc : !tile
  %zero = arith.constant 0.0 : bf16
  %zeros = tile.full %zero : !acc
  tgpu.write %zeros, %x : !acc, !tile
  tgpu.write %zeros, %y : !acc, !tile
  tgpu.sync
  tgpu.tma_store %x, %map[0, 0] : !tile, !tgpu.tensor_map<128x64xbf16, b128>
  tgpu.tma_reduce_add %y, %map[0, 0] : !tile, !tgpu.tensor_map<128x64xbf16, b128>
  tgpu.bulk_commit
  tgpu.bulk_wait pending 0 read
  tgpu.write %zeros, %z : !acc, !tile
  tgpu.sync
  %read = tgpu.read %z : !tile -> !acc
}

// -----

!view = !tile.view<[?, 64], bf16>
!tile = !tgpu.shared<64x64xbf16, b128>
!ring = !tgpu.ring<2, !tile>

// Copies by threads count as writes at their wait, also across iterations.
// CHECK-LABEL: tgpu.kernel @loop
// CHECK:         tgpu.copy_wait pending 0
// CHECK-NEXT:    tgpu.fence_async
// CHECK-NEXT:    tgpu.sync{{$}}
// CHECK-NEXT:    scf.for
// CHECK:           tgpu.copy_async
// CHECK-NEXT:      tgpu.copy_commit
// CHECK:           tgpu.copy_wait pending 0
// CHECK-NEXT:      tgpu.fence_async
// CHECK-NEXT:      tgpu.sync{{$}}
// CHECK:         tgpu.sync{{$}}
tgpu.kernel @loop target "sm_90a" warps 4 (%k: !view, %n: i32) grid(%b = 1) {
  %ring = tgpu.alloc_ring : !ring
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = tgpu.slot %ring[%c0] : !ring
  tgpu.copy_async %k[0, 0], %first : !view, !tile
  tgpu.copy_commit
  tgpu.copy_wait pending 0
  tgpu.sync
  scf.for %i = %c0 to %n step %c1 : i32 {
    %next = arith.addi %i, %c1 : i32
    %slot = tgpu.slot %ring[%i] : !ring
    %free = tgpu.slot %ring[%next] : !ring
    tgpu.copy_async %k[%next, 0], %free : !view, !tile
    tgpu.copy_commit
    %issued = tgpu.wgmma %slot, %slot : !tile, !tile -> tensor<64x64xf32, #tgpu.wgmma<1>>
    tgpu.wgmma_commit
    %product = tgpu.wgmma_wait pending 0, %issued : tensor<64x64xf32, #tgpu.wgmma<1>>
    tgpu.copy_wait pending 0
    tgpu.sync
  }
  tgpu.sync
}

// -----

!view = !tile.view<[?, 64], bf16>
!map = !tgpu.tensor_map<64x64xbf16, b128>
!tile = !tgpu.shared<64x64xbf16, b128>
!acc = tensor<64x64xbf16, #tgpu.wgmma<1>>

// In the role that writes; a write in a branch is published by the barrier after the branch.
// CHECK-LABEL: tgpu.kernel @roles
// CHECK:         role "store"
// CHECK-NEXT:      tgpu.wait
// CHECK-NEXT:      tgpu.tma_store
// CHECK:         role "compute"
// CHECK:           scf.if
// CHECK-NEXT:        tgpu.write
// CHECK-NEXT:      }
// CHECK-NEXT:      tgpu.fence_async
// CHECK-NEXT:      tgpu.arrive
// CHECK-NEXT:      scf.if
// CHECK-NEXT:        tgpu.write
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:      } else {
// CHECK-NEXT:        tgpu.write
// CHECK-NEXT:        tgpu.fence_async
// CHECK-NEXT:      }
// CHECK-NEXT:      tgpu.arrive
tgpu.kernel @roles target "sm_90a" warps 5 (%o: !view, %flag: i1) grid(%b = 1) {
  %map = tgpu.tensor_map %o : !view -> !map
  %x = tgpu.alloc : !tile
  %full = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "store" warps 1 {
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      tgpu.tma_store %x, %map[0, 0] : !tile, !map
      tgpu.bulk_commit
      tgpu.bulk_wait pending 0
    }
    role "compute" warps 4 {
      %zero = arith.constant 0.0 : bf16
      %zeros = tile.full %zero : !acc
      scf.if %flag {
        tgpu.write %zeros, %x : !acc, !tile
      }
      tgpu.arrive %full[%c0] per warp : !tgpu.barriers<1>
      scf.if %flag {
        tgpu.write %zeros, %x : !acc, !tile
        tgpu.fence_async
      } else {
        tgpu.write %zeros, %x : !acc, !tile
        tgpu.fence_async
      }
      tgpu.arrive %full[%c1] per warp : !tgpu.barriers<1>
    }
}

// -----

!tile = !tgpu.shared<128x64xbf16, b128>
!acc = tensor<128x64xbf16, #tgpu.wgmma<1>>

// An arrival that other threads wait for publishes the write. One that they acquire lets them write, not read.
// CHECK-LABEL: tgpu.kernel @arrivals
// CHECK:         tgpu.write
// CHECK-NEXT:    tgpu.arrive %[[EMPTY:[0-9]+]]
// CHECK-NEXT:    tgpu.fence_async
// CHECK-NEXT:    tgpu.arrive %[[FULL:[0-9]+]]
tgpu.kernel @arrivals target "sm_90a" warps 8 (%o: !tile.view<[?, 64], bf16>) grid(%b = 1) {
  %map = tgpu.tensor_map %o : !tile.view<[?, 64], bf16> -> !tgpu.tensor_map<128x64xbf16, b128>
  %x = tgpu.alloc : !tile
  %empty = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  %full = tgpu.alloc_barriers arrivals 4 : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "stores" warps 4 registers 40 {
      tgpu.acquire %empty[%c0] : !tgpu.barriers<1>
      tgpu.wait %full[%c0] : !tgpu.barriers<1>
      tgpu.tma_store %x, %map[0, 0] : !tile, !tgpu.tensor_map<128x64xbf16, b128>
    }
    role "compute" warps 4 registers 232 {
      %zero = arith.constant 0.0 : bf16
      %zeros = tile.full %zero : !acc
      tgpu.write %zeros, %x : !acc, !tile
      tgpu.arrive %empty[%c0] per warp : !tgpu.barriers<1>
      tgpu.arrive %full[%c0] per warp : !tgpu.barriers<1>
    }
}
