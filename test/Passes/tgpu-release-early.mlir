// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-release-early | FileCheck %s

!view = !tile.view<[?, ?, 64], bf16>
!map = !tgpu.tensor_map<1x128x64xbf16, b128>
!buffer = !tgpu.shared<128x64xbf16, b128>
!ring = !tgpu.ring<2, !buffer>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>

// The first loop is the last reader of %q, in both branches of the condition; the product after it reads %k. If nothing
// reads %q, the arrival moves to the start of the branch, but not before the wait for its copy. The arrival of an
// iteration remains if it is in the right place.
// CHECK-LABEL: tgpu.kernel @last_reader
// CHECK:         %[[Q_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
// CHECK:         %[[K_EMPTY:.*]] = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
// CHECK:         role "compute"
// CHECK:           tgpu.wait
// CHECK-NEXT:      scf.if
// CHECK-NEXT:        scf.for
// CHECK:               tgpu.wgmma_wait
// CHECK-NEXT:          tgpu.arrive %[[K_EMPTY]]
// CHECK:             tgpu.arrive %[[Q_EMPTY]][%{{.*}}] per {{ *}}warp
// CHECK-NEXT:        tgpu.wait
// CHECK:             tgpu.wgmma
// CHECK:             tgpu.wgmma_wait
// CHECK-NOT:         tgpu.arrive %[[Q_EMPTY]]
// CHECK:           } else {
// CHECK-NEXT:        tgpu.arrive %[[Q_EMPTY]]
// CHECK:           }
// CHECK-NOT:       tgpu.arrive %[[Q_EMPTY]]
tgpu.kernel @last_reader target "sm_90a" warps 12 (%x: !view, %n: i32, %some: i1) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %q = tgpu.alloc : !buffer
  %q_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %q_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %k_ring = tgpu.alloc_ring : !ring
  %k_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %k_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "load" warps 1 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        tgpu.acquire %q_empty[%t] : !tgpu.barriers<1>
        tgpu.expect %q_full[%t] bytes 16384 : !tgpu.barriers<1>
        tgpu.tma_load %map[%b, %t, 0], %q, %q_full[%t] : !map, !buffer, !tgpu.barriers<1>
        tgpu.acquire %k_empty[%t] : !tgpu.barriers<2>
        tgpu.expect %k_full[%t] bytes 16384 : !tgpu.barriers<2>
        %k = tgpu.slot %k_ring[%t] : !ring
        tgpu.tma_load %map[%b, %t, 0], %k, %k_full[%t] : !map, !buffer, !tgpu.barriers<2>
      }
    }
    role "idle" warps 3 {
    }
    role "compute" warps 8 {
      scf.for %t = %c0 to %n step %c1 : i32 {
        tgpu.wait %q_full[%t] : !tgpu.barriers<1>
        scf.if %some {
          scf.for %i = %c0 to %n step %c1 : i32 {
            %pending = tgpu.wgmma %q, %q transpose_b : !buffer, !buffer -> !s
            tgpu.wgmma_commit
            %s = tgpu.wgmma_wait pending 0, %pending : !s
            tgpu.arrive %k_empty[%i] per warp : !tgpu.barriers<2>
          } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
          tgpu.wait %k_full[%t] : !tgpu.barriers<2>
          %k = tgpu.slot %k_ring[%t] : !ring
          %pending = tgpu.wgmma %k, %k transpose_b : !buffer, !buffer -> !s
          tgpu.wgmma_commit
          %s = tgpu.wgmma_wait pending 0, %pending : !s
        } else {
          tgpu.wait %k_full[%t] : !tgpu.barriers<2>
        }
        tgpu.arrive %q_empty[%t] per warp : !tgpu.barriers<1>
      }
    }
}

// Not moved: the arrival after a direct read of the slot, after a copy whose wait is in the branch, and for a buffer
// without a copy.
// CHECK-LABEL: tgpu.kernel @stays
// CHECK:         role "compute"
// CHECK:           tgpu.read
// CHECK-NEXT:      tgpu.arrive %[[FULL:.*]][
// CHECK:           tgpu.sync on
// CHECK-NEXT:      tgpu.arrive
tgpu.kernel @stays target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %q = tgpu.alloc : !buffer
  %q_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %q_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %own = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %meet = tgpu.named_barrier warps 8 : index
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "load" warps 1 {
      tgpu.acquire %q_empty[%c0] : !tgpu.barriers<1>
      tgpu.expect %q_full[%c0] bytes 16384 : !tgpu.barriers<1>
      tgpu.tma_load %map[%b, %n, 0], %q, %q_full[%c0] : !map, !buffer, !tgpu.barriers<1>
    }
    role "idle" warps 3 {
    }
    role "compute" warps 8 {
      tgpu.wait %q_full[%c0] : !tgpu.barriers<1>
      %tile = tgpu.read %q : !buffer -> tensor<128x64xbf16, #tgpu.wgmma<2>>
      tgpu.arrive %q_empty[%c0] per warp : !tgpu.barriers<1>
      tgpu.sync on %meet
      tgpu.arrive %own[%c0] per warp : !tgpu.barriers<1>
    }
}

// The wait for a sum is a wait for the products that its accumulator depends on.
// CHECK-LABEL: tgpu.kernel @sum
// CHECK:         role "compute"
// CHECK:           tgpu.wgmma_wait
// CHECK-NEXT:      tgpu.arrive
tgpu.kernel @sum target "sm_90a" warps 12 (%x: !view, %n: i32) grid(%b = 1) {
  %map = tgpu.tensor_map %x : !view -> !map
  %q = tgpu.alloc : !buffer
  %other = tgpu.alloc : !buffer
  %q_full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<1>
  %q_empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<1>
  %c0 = arith.constant 0 : i32
  tgpu.roles
    role "load" warps 1 {
      tgpu.acquire %q_empty[%c0] : !tgpu.barriers<1>
      tgpu.expect %q_full[%c0] bytes 16384 : !tgpu.barriers<1>
      tgpu.tma_load %map[%b, %n, 0], %q, %q_full[%c0] : !map, !buffer, !tgpu.barriers<1>
    }
    role "idle" warps 3 {
    }
    role "compute" warps 8 {
      tgpu.wait %q_full[%c0] : !tgpu.barriers<1>
      %first = tgpu.wgmma %q, %q transpose_b : !buffer, !buffer -> !s
      %second = tgpu.wgmma %other, %other transpose_b, %first : !buffer, !buffer, !tgpu.pending<!s> -> !s
      tgpu.wgmma_commit
      %sum = tgpu.wgmma_wait pending 0, %second : !s
      tgpu.arrive %q_empty[%c0] per warp : !tgpu.barriers<1>
    }
}
