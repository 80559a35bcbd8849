// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Warpgroups multiply in turn, and the first product of an iteration is a sum of three, as of rows in parts: all are
// issued in one turn, and waited for after it, if nothing before needs that one of them has ended.
//
// RUN: tilewright-opt %s --tgpu-plan-stages | FileCheck %s
// The result of the first product is used before the last one is issued: behind the second one, and in a region.
// RUN: sed 's|^ *// EARLY: ||' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=NONE
// RUN: sed 's|^ *// REGION: ||' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=NONE
// What a product reads is written, or released in a region.
// RUN: sed 's|^ *// WRITE: ||' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=NONE
// RUN: sed 's|^ *// RELEASE: ||' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=NONE
// The slot of the third product becomes free by the release of the first one's.
// RUN: sed 's|%%k2_full\[|%%k0_full[|' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=NONE

!tile = !tgpu.shared<128x64xbf16, b128>
!ring = !tgpu.ring<1, !tile>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!o = tensor<128x64xf32, #tgpu.wgmma<2>>
!p16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!bars = !tgpu.barriers<1>

// CHECK-LABEL: tgpu.kernel @parts
// CHECK:         tgpu.take_turn %[[TURNS:[^ ]*]]{{$}}
// CHECK-NEXT:    scf.for %{{.*}} iter_args(%{{[a-z0-9]*}} = %{{.*}}, %[[USE:[a-z0-9_]*]] = %{{.*}}) ->
// CHECK:           %[[S0:.*]] = tgpu.wgmma
// CHECK-NEXT:      tgpu.wgmma_commit
// CHECK-NEXT:      tgpu.wait
// CHECK-NEXT:      tgpu.slot
// CHECK-NEXT:      %[[S1:.*]] = tgpu.wgmma
// CHECK-NEXT:      tgpu.wgmma_commit
// CHECK-NEXT:      tgpu.wait
// CHECK-NEXT:      tgpu.slot
// CHECK-NEXT:      %[[S2:.*]] = tgpu.wgmma
// CHECK-NEXT:      tgpu.wgmma_commit
// CHECK-NEXT:      tgpu.pass_turn %[[TURNS]]{{$}}
// CHECK-NEXT:      %[[R0:.*]] = tgpu.wgmma_wait pending 2, %[[S0]]
// CHECK-NEXT:      tgpu.arrive %[[EMPTY0:.*]][%[[USE]]]
// CHECK-NEXT:      %[[R1:.*]] = tgpu.wgmma_wait pending 1, %[[S1]]
// CHECK-NEXT:      tgpu.arrive %{{.*}}[%[[USE]]]
// CHECK-NEXT:      %[[R2:.*]] = tgpu.wgmma_wait pending 0, %[[S2]]
// CHECK-NEXT:      tgpu.arrive
// CHECK-NEXT:      arith.addf %[[R0]], %[[R1]]
// CHECK:           tgpu.take_turn %[[TURNS]] {tgpu.keep_place}
// CHECK-NEXT:      tgpu.wgmma
// Without turns, nothing has moved.
// NONE-LABEL: tgpu.kernel @parts
// NONE-NOT:     tgpu.turns
// NONE-NOT:     _turn
// NONE-NOT:     pending {{[12]}}
// NONE:         tgpu.wgmma_wait pending 0
// NONE-NEXT:    tgpu.arrive
// NONE-NOT:     pending {{[12]}}
// NONE-NOT:     _turn
// NONE:         scf.yield
tgpu.kernel @parts target "sm_90a" warps 12 (%rounds: i32, %is_odd: i1) grid(%b = 1) {
  %q = tgpu.alloc : !tile
  %v = tgpu.alloc : !tile
  %k0_ring = tgpu.alloc_ring : !ring
  %k1_ring = tgpu.alloc_ring : !ring
  %k2_ring = tgpu.alloc_ring : !ring
  %k0_full = tgpu.alloc_barriers arrivals 1 : !bars
  %k1_full = tgpu.alloc_barriers arrivals 1 : !bars
  %k2_full = tgpu.alloc_barriers arrivals 1 : !bars
  %k0_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %k1_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %k2_empty = tgpu.alloc_barriers arrivals 8 : !bars
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !o
      %r:2 = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros, %use = %c0) -> (!o, i32) : i32 {
        tgpu.wait %k0_full[%use] : !bars
        %k0 = tgpu.slot %k0_ring[%use] : !ring
        %s0_pending = tgpu.wgmma %q, %k0 transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s0 = tgpu.wgmma_wait pending 0, %s0_pending : !s
        tgpu.arrive %k0_empty[%use] per warp : !bars
        // RELEASE: scf.if %is_odd { tgpu.arrive %k0_empty[%use] per warp : !bars }
        tgpu.wait %k1_full[%use] : !bars
        %k1 = tgpu.slot %k1_ring[%use] : !ring
        %s1_pending = tgpu.wgmma %q, %k1 transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s1 = tgpu.wgmma_wait pending 0, %s1_pending : !s
        // EARLY: %early = arith.mulf %s0, %s0 : !s
        // REGION: %early = scf.if %is_odd -> !s { %e = math.exp2 %s0 : !s scf.yield %e : !s } else { %e = tile.full %zero : !s scf.yield %e : !s }
        // WRITE: %bytes = tile.full %zero : !o
        // WRITE: %halves = tile.cast %bytes : !o -> tensor<128x64xbf16, #tgpu.wgmma<2>>
        // WRITE: tgpu.write %halves, %q : tensor<128x64xbf16, #tgpu.wgmma<2>>, !tile
        tgpu.arrive %k1_empty[%use] per warp : !bars
        tgpu.wait %k2_full[%use] : !bars
        %k2 = tgpu.slot %k2_ring[%use] : !ring
        %s2_pending = tgpu.wgmma %q, %k2 transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s2 = tgpu.wgmma_wait pending 0, %s2_pending : !s
        tgpu.arrive %k2_empty[%use] per warp : !bars
        %s01 = arith.addf %s0, %s1 : !s
        %s = arith.addf %s01, %s2 : !s
        %p16 = tile.cast %s : !s -> !p16
        %a = tgpu.convert %p16 : !p16 -> !a
        %o_pending = tgpu.wgmma %a, %v, %acc : !a, !tile, !o -> !o
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !o
        %next = arith.addi %use, %c1 : i32
        scf.yield %o, %next : !o, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, turns = 2>}
    }
}
