// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-plan-stages | FileCheck %s
// RUN: sed '/^!held_/s/<2/<3/' %s | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=THREE
// RUN: sed '/^!tile/s/128x64/128x128/;/^!o/s/128x64/128x128/;/^.. The first product reads/,$d' %s \
// RUN:   | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=WIDE
// RUN: sed 's/in_flight = 1/in_flight = 0/;/^.. The first product reads/,$d' %s \
// RUN:   | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=EXCLUSIVE
// RUN: sed 's/in_flight = 1/in_flight = 0/;s/^  tgpu.roles/  %%met = tgpu.named_barrier warps 8 : index\n&/;s/^ *%%p = math.exp2.*/&\ntgpu.sync on %%met/;/^.. The first product reads/,$d' %s \
// RUN:   | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=MEET
// RUN: sed 's/in_flight = 1, turns = 1/turns = 2/;/^.. The first product reads/,$d' %s \
// RUN:   | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=PRODUCTS
// RUN: sed 's/in_flight = 1, turns = 1/turns = 2/;s/^  tgpu.roles/  %%met = tgpu.named_barrier warps 8 : index\n&/;s/^ *%%p = math.exp2.*/&\ntgpu.sync on %%met/;/^.. The first product reads/,$d' %s \
// RUN:   | tilewright-opt --tgpu-plan-stages | FileCheck %s --check-prefix=MEET

!tile = !tgpu.shared<128x64xbf16, b128>
!ring = !tgpu.ring<2, !tile>
!s = tensor<128x128xf32, #tgpu.wgmma<2>>
!o = tensor<128x64xf32, #tgpu.wgmma<2>>
!p16 = tensor<128x128xbf16, #tgpu.wgmma<2>>
!a = tensor<128x128xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
!bars = !tgpu.barriers<2>

// S = Q K and O = O + exp2(S) V, where the sum is rescaled by a result of stage 0. The product whose result is not used
// in the iteration is stage 1; waits for slots come before the products that read them, and releases after the waits
// for these products; operations that depend on the sum come last, after the conversion of the next iteration's
// operand.
// CHECK-LABEL: tgpu.kernel @overlap
// CHECK: %[[TURNS:.*]] = tgpu.turns warpgroups 2
// CHECK: tgpu.wait %{{.*}}[%[[K:arg[0-9]+]]] {tgpu.place = array<i64: 0, [[WAITK:1]]>}
// CHECK: %{{.*}} = tgpu.slot %{{.*}}[%[[K]]] {tgpu.place = array<i64: 0, 0>}
// CHECK: tgpu.wait %{{.*}}[%[[V:arg[0-9]+]]] {tgpu.place = array<i64: 1, 6>}
// CHECK: %[[S:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b {tgpu.place = array<i64: 0, 3>}
// CHECK-NEXT: tgpu.wgmma_commit {tgpu.place = array<i64: 0, 4>}
// CHECK-NEXT: tgpu.wgmma_wait pending 0, %[[S]] {tgpu.place = array<i64: 0, 10>}
// CHECK: math.exp2 %{{.*}} {tgpu.place = array<i64: 0, 12>}
// CHECK: tile.cast %{{.*}} {tgpu.place = array<i64: 0, [[#CAST:]]>}
// CHECK: tgpu.convert %{{.*}} {tgpu.place = array<i64: 0, [[#CAST+1]]>}
// CHECK: arith.mulf %{{.*}}, %{{.*}} {tgpu.place = array<i64: 0, [[#CAST+3]]>}
// CHECK: tgpu.slot %{{.*}}[%[[V]]] {tgpu.place = array<i64: 1, 5>}
// CHECK-NEXT: %[[O:.*]] = tgpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} {tgpu.place = array<i64: 1, 7>}
// CHECK-NEXT: tgpu.wgmma_commit {tgpu.place = array<i64: 1, 8>}
// CHECK-NEXT: tgpu.wgmma_wait pending 0, %[[O]] {tgpu.place = array<i64: 1, [[#CAST-3]]>}
// CHECK: tgpu.arrive %{{.*}}[%[[K]]] per warp {tgpu.place = array<i64: 0, 11>}
// CHECK: tgpu.arrive %{{.*}}[%[[V]]] per warp {tgpu.place = array<i64: 1, [[#CAST-2]]>}
// CHECK: tgpu.take_turn %[[TURNS]] {tgpu.place = array<i64: 0, 2>}
// CHECK: tgpu.pass_turn %[[TURNS]] {tgpu.place = array<i64: 1, 9>}
// With 64 registers per thread, the sum is rescaled one iteration later, between the two products, together with the
// operands of the factors.
// WIDE-LABEL: tgpu.kernel @overlap
// WIDE: tgpu.wgmma_commit {tgpu.place = array<i64: 0, 4>}
// WIDE: tile.full %{{.*}} {tgpu.place = array<i64: 1, 6>} : tensor<128x128xf32
// WIDE: arith.mulf %{{.*}}, %{{.*}} {tgpu.keep_place, tgpu.place = array<i64: 1, 7>}
// WIDE: tgpu.wgmma %{{.*}}, %{{.*}}, %{{.*}} {tgpu.place = array<i64: 1, 9>}
// Without products in flight, one warpgroup at a time executes the code between its products.
// EXCLUSIVE-LABEL: tgpu.kernel @overlap
// EXCLUSIVE-NOT: tgpu.place
// EXCLUSIVE: tgpu.wgmma_wait
// EXCLUSIVE-NEXT: tgpu.take_turn
// EXCLUSIVE-NEXT: math.exp2
// EXCLUSIVE: tgpu.pass_turn
// EXCLUSIVE-NEXT: tgpu.wgmma
// With turns 2, one warpgroup at a time multiplies: from the last product of an iteration until the first one of the
// next is issued.
// PRODUCTS-LABEL: tgpu.kernel @overlap
// PRODUCTS-NOT: tgpu.place
// PRODUCTS:     tgpu.take_turn %[[TURNS:[^ ]*]]{{$}}
// PRODUCTS-NEXT: scf.for
// PRODUCTS-NEXT: tgpu.wait
// PRODUCTS:     tgpu.wgmma
// PRODUCTS-NEXT: tgpu.wgmma_commit
// PRODUCTS-NEXT: tgpu.pass_turn %[[TURNS]]{{$}}
// PRODUCTS-NEXT: tgpu.wgmma_wait
// PRODUCTS:     tgpu.slot
// PRODUCTS-NEXT: tgpu.take_turn %[[TURNS]] {tgpu.keep_place}
// PRODUCTS-NEXT: tgpu.wgmma
// PRODUCTS-NEXT: tgpu.wgmma_commit
// PRODUCTS-NEXT: tgpu.wgmma_wait
// PRODUCTS-NOT: _turn
// PRODUCTS:     scf.yield
// PRODUCTS-NEXT: } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, turns = 2>}
// PRODUCTS-NEXT: tgpu.pass_turn %[[TURNS]]{{$}}
// Unless all warpgroups meet there: the one that has the turn would wait for the others.
// MEET-LABEL: tgpu.kernel @overlap
// MEET-NOT: take_turn
// MEET: tgpu.sync on
// MEET-NOT: take_turn
tgpu.kernel @overlap target "sm_90a" warps 12 (%rounds: i32, %factor: f32) grid(%b = 1) {
  %q = tgpu.alloc : !tile
  %k_ring = tgpu.alloc_ring : !ring
  %v_ring = tgpu.alloc_ring : !ring
  %k_full = tgpu.alloc_barriers arrivals 1 : !bars
  %k_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %v_full = tgpu.alloc_barriers arrivals 1 : !bars
  %v_empty = tgpu.alloc_barriers arrivals 8 : !bars
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !o
      %r:3 = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros, %use_k = %c0, %use_v = %c0)
          -> (!o, i32, i32) : i32 {
        tgpu.wait %k_full[%use_k] : !bars
        %k = tgpu.slot %k_ring[%use_k] : !ring
        tgpu.wait %v_full[%use_v] : !bars
        %s_pending = tgpu.wgmma %q, %k transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %p = math.exp2 %s : !s
        %p16 = tile.cast %p : !s -> !p16
        %a = tgpu.convert %p16 : !p16 -> !a
        %factors = tile.full %factor : !o
        %kept = arith.mulf %acc, %factors : !o
        %v = tgpu.slot %v_ring[%use_v] : !ring
        %o_pending = tgpu.wgmma %a, %v, %kept : !a, !tile, !o -> !o
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !o
        tgpu.arrive %k_empty[%use_k] per warp : !bars
        %next_k = arith.addi %use_k, %c1 : i32
        tgpu.arrive %v_empty[%use_v] per warp : !bars
        %next_v = arith.addi %use_v, %c1 : i32
        scf.yield %o, %next_k, %next_v : !o, i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1, turns = 1>}
    }
}

// The first product reads the result of the second: nothing can run during its wait, so there is one stage, in the
// order of the text.
// CHECK-LABEL: tgpu.kernel @chain
// CHECK-NOT: tgpu.turns
// CHECK: tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 0, 0>}
// CHECK: tgpu.wgmma_wait {{.*}} {tgpu.place = array<i64: 0, 2>}
// CHECK: tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 0, 5>}
// CHECK: tgpu.wgmma_wait {{.*}} {tgpu.place = array<i64: 0, 7>}
// CHECK-NOT: tgpu.turns
tgpu.kernel @chain target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %x = tgpu.alloc : !tgpu.shared<128x64xbf16, b128>
  %y = tgpu.alloc : !tgpu.shared<64x64xbf16, b128>
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !o
      %r = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros) -> (!o) : i32 {
        %s_pending = tgpu.wgmma %x, %y transpose_b, %acc
            : !tgpu.shared<128x64xbf16, b128>, !tgpu.shared<64x64xbf16, b128>, !o -> !o
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !o
        %s16 = tile.cast %s : !o -> tensor<128x64xbf16, #tgpu.wgmma<2>>
        %a = tgpu.convert %s16 : tensor<128x64xbf16, #tgpu.wgmma<2>> -> tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>
        %o_pending = tgpu.wgmma %a, %y
            : tensor<128x64xbf16, #tgpu.operand<a, #tgpu.wgmma<2>>>, !tgpu.shared<64x64xbf16, b128> -> !o
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !o
        scf.yield %o : !o
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1, turns = 1>}
    }
}

!row = !tgpu.shared<128xf32, none>
!row_ring = !tgpu.ring<2, !row>
!row_tile = tensor<128xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>

// A row of the slot is read into registers: iterations overlap as without it, and the slot is released when the product
// has ended and the row has been read.
// CHECK-LABEL: tgpu.kernel @rows
// CHECK: tgpu.wait %{{.*}}[%[[K:arg[0-9]+]]] {tgpu.place = array<i64: 0, 1>}
// CHECK: %[[S:.*]] = tgpu.wgmma %{{.*}}, %{{.*}} transpose_b {tgpu.place = array<i64: 0, 2>}
// CHECK: tgpu.wgmma_wait pending 0, %[[S]] {tgpu.place = array<i64: 0, [[#WAIT:]]>}
// CHECK-NEXT: tgpu.read %{{.*}} {tgpu.place = array<i64: 0, [[#WAIT+1]]>}
// CHECK: tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 1, 6>}
// CHECK: tgpu.arrive %{{.*}}[%[[K]]] per warp {tgpu.place = array<i64: 0, [[#WAIT+2]]>}
tgpu.kernel @rows target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %q = tgpu.alloc : !tile
  %k_ring = tgpu.alloc_ring : !ring
  %row_ring = tgpu.alloc_ring : !row_ring
  %v_ring = tgpu.alloc_ring : !ring
  %k_full = tgpu.alloc_barriers arrivals 1 : !bars
  %k_empty = tgpu.alloc_barriers arrivals 8 : !bars
  %v_full = tgpu.alloc_barriers arrivals 1 : !bars
  %v_empty = tgpu.alloc_barriers arrivals 8 : !bars
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !o
      %r:3 = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros, %use_k = %c0, %use_v = %c0)
          -> (!o, i32, i32) : i32 {
        tgpu.wait %k_full[%use_k] : !bars
        %k = tgpu.slot %k_ring[%use_k] : !ring
        %row = tgpu.slot %row_ring[%use_k] : !row_ring
        %s_pending = tgpu.wgmma %q, %k transpose_b : !tile, !tile -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %factor = tgpu.read %row : !row -> !row_tile
        %factors = tile.expand %factor dim 0 : !row_tile -> !s
        %p = arith.mulf %s, %factors : !s
        %p16 = tile.cast %p : !s -> !p16
        %a = tgpu.convert %p16 : !p16 -> !a
        tgpu.wait %v_full[%use_v] : !bars
        %v = tgpu.slot %v_ring[%use_v] : !ring
        %o_pending = tgpu.wgmma %a, %v, %acc : !a, !tile, !o -> !o
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !o
        tgpu.arrive %k_empty[%use_k] per warp : !bars
        %next_k = arith.addi %use_k, %c1 : i32
        tgpu.arrive %v_empty[%use_v] per warp : !bars
        %next_v = arith.addi %use_v, %c1 : i32
        scf.yield %o, %next_k, %next_v : !o, i32, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}

!square = !tgpu.shared<128x128xbf16, b128>
!held_ring = !tgpu.ring<2, !square>
!held_bars = !tgpu.barriers<2>

// Both products read one slot, which overlap would occupy for two iterations. Of two slots, none would be free for
// copies, so iterations do not overlap. With three, they do.
// CHECK-LABEL: tgpu.kernel @held
// CHECK: tgpu.wait %{{.*}} {tgpu.place = array<i64: 0, 0>}
// CHECK: %[[S:.*]] = tgpu.wgmma %{{.*}} transpose_b {tgpu.place = array<i64: 0, 2>}
// CHECK: tgpu.wgmma_wait pending 0, %[[S]] {tgpu.place = array<i64: 0, 4>}
// CHECK: %[[O:.*]] = tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 0, 8>}
// CHECK: tgpu.wgmma_wait pending 0, %[[O]] {tgpu.place = array<i64: 0, 10>}
// CHECK-NEXT: tgpu.arrive %{{.*}} {tgpu.place = array<i64: 0, 11>}
// CHECK-NOT: array<i64: 1,
// THREE-LABEL: tgpu.kernel @held
// THREE: tgpu.wait %{{.*}} {tgpu.place = array<i64: 0, 1>} : !tgpu.barriers<3>
// THREE: %[[S:.*]] = tgpu.wgmma %{{.*}} transpose_b {tgpu.place = array<i64: 0, 2>}
// THREE: tgpu.wgmma_wait pending 0, %[[S]] {tgpu.place = array<i64: 0, 7>}
// THREE: %[[O:.*]] = tgpu.wgmma %{{.*}} {tgpu.place = array<i64: 1, 5>}
// THREE: tgpu.wgmma_wait pending 0, %[[O]] {tgpu.place = array<i64: 1, [[#WAITO:]]>}
// THREE-NEXT: tgpu.arrive %{{.*}} {tgpu.place = array<i64: 1, [[#WAITO+1]]>}
tgpu.kernel @held target "sm_90a" warps 12 (%rounds: i32) grid(%b = 1) {
  %q = tgpu.alloc : !square
  %k_ring = tgpu.alloc_ring : !held_ring
  %full = tgpu.alloc_barriers arrivals 1 : !held_bars
  %empty = tgpu.alloc_barriers arrivals 8 : !held_bars
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %zeros = tile.full %zero : !s
      %r:2 = scf.for %i = %c0 to %rounds step %c1 iter_args(%acc = %zeros, %use = %c0) -> (!s, i32) : i32 {
        tgpu.wait %full[%use] : !held_bars
        %k = tgpu.slot %k_ring[%use] : !held_ring
        %s_pending = tgpu.wgmma %q, %k transpose_b : !square, !square -> !s
        tgpu.wgmma_commit
        %s = tgpu.wgmma_wait pending 0, %s_pending : !s
        %p16 = tile.cast %s : !s -> !p16
        %a = tgpu.convert %p16 : !p16 -> !a
        %o_pending = tgpu.wgmma %a, %k, %acc : !a, !square, !s -> !s
        tgpu.wgmma_commit
        %o = tgpu.wgmma_wait pending 0, %o_pending : !s
        tgpu.arrive %empty[%use] per warp : !held_bars
        %next = arith.addi %use, %c1 : i32
        scf.yield %o, %next : !s, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2, in_flight = 1>}
    }
}
