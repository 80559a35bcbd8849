// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-skip-idle-rounds --split-input-file | FileCheck %s

#w = #tgpu.wgmma<2>
!buffer = !tgpu.shared<64x64xf16, b128>
!s = tensor<128x64xf32, #w>

// In the iterations before its first one, a warpgroup waits for the slot and releases it; the counter advances.
// CHECK-LABEL: tgpu.kernel @ring
// CHECK:         %[[FIRST:.*]] = tgpu.first_round %[[C0:.*]] of
// CHECK:         %[[USE:.*]] = scf.for %{{.*}} = %[[C0]] to %[[FIRST]] step %{{.*}} iter_args(%[[AT:.*]] = %[[C0]]) -> (i32)
// CHECK-NEXT:      tgpu.wait %{{.*}}[%[[AT]]]
// CHECK-NEXT:      tgpu.arrive %{{.*}}[%[[AT]]] per warp
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addi %[[AT]]
// CHECK-NEXT:      scf.yield %[[NEXT]]
// CHECK-NEXT:    } {tgpu.idle_rounds}
// CHECK-NEXT:    scf.for %{{.*}} = %[[FIRST]] to %{{.*}} iter_args(%{{.*}} = %{{.*}}, %{{.*}} = %[[USE]])
//
// A rare loop with tgpu.any starts at the first iteration of all warpgroups.
// CHECK:         scf.for %{{.*}} = %[[C0]] to
// CHECK:           tgpu.any
tgpu.kernel @ring target "sm_90a" warps 12 (%out: !tile.view<[?, 64], f32>, %n: i32, %r0: i32) grid(%b = 1) {
  %ring = tgpu.alloc_ring : !tgpu.ring<2, <64x64xf16, b128>>
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  %all = tgpu.named_barrier warps 8 : index
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %yes = arith.constant true
      %flags = tile.full %yes : tensor<128x64xi1, #w>
      %none = tile.full %zero : !s
      %first = tgpu.first_round %c0 of %r0, %c0
      %r:2 = scf.for %i = %first to %n step %c1 iter_args(%x = %none, %use = %c0) -> (!s, i32) : i32 {
        tgpu.wait %full[%use] : !tgpu.barriers<2>
        %slot = tgpu.slot %ring[%use] : !tgpu.ring<2, <64x64xf16, b128>>
        %y = arith.addf %x, %x : !s
        tgpu.arrive %empty[%use] per warp : !tgpu.barriers<2>
        %next = arith.addi %use, %c1 : i32
        scf.yield %y, %next : !s, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
      %q:2 = scf.for %i = %first to %n step %c1 iter_args(%x = %none, %use = %c0) -> (!s, i32) : i32 {
        tgpu.wait %full[%use] : !tgpu.barriers<2>
        %any = tgpu.any %flags on %all : tensor<128x64xi1, #w>
        %y = arith.addf %x, %x : !s
        tgpu.arrive %empty[%use] per warp : !tgpu.barriers<2>
        %next = arith.addi %use, %c1 : i32
        scf.yield %y, %next : !s, i32
      } {tgpu.rare}
      %sum = arith.addf %r#0, %q#0 : !s
      tgpu.store %sum, %out[0, 0] : !s, !tile.view<[?, 64], f32>
    }
}

// -----

// Without roles all warps copy.
// CHECK-LABEL: tgpu.kernel @together
// CHECK-NOT:     tgpu.first_round
// CHECK:         scf.for %{{.*}} = %c0
tgpu.kernel @together target "sm_90a" warps 8 (%out: !tile.view<[?], i32>, %n: i32, %r0: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %first = tgpu.first_round %c0 of %r0, %c0
  %r = scf.for %i = %first to %n step %c1 iter_args(%x = %c0) -> (i32) : i32 {
    %y = arith.addi %x, %c1 : i32
    scf.yield %y : i32
  } {tgpu.schedule = #tgpu.schedule<skeleton = multistage, stages = 2>}
  %t = tile.full %r : tensor<16xi32, #tgpu.slice<1, #tgpu.mma<8, 1>>>
}

// -----

// Column maxima are exchanged between all warps of the role.
// CHECK-LABEL: tgpu.kernel @columns
// CHECK-NOT:     tgpu.first_round
// CHECK:         scf.for %{{.*}} = %c0
// CHECK:           tile.reduce max
tgpu.kernel @columns target "sm_90a" warps 12 (%n: i32, %r0: i32) grid(%b = 1) {
  %full = tgpu.alloc_barriers arrivals 1 : !tgpu.barriers<2>
  %empty = tgpu.alloc_barriers arrivals 8 : !tgpu.barriers<2>
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 8 registers 232 {
      %c0 = arith.constant 0 : i32
      %c1 = arith.constant 1 : i32
      %zero = arith.constant 0.0 : f32
      %none = tile.full %zero : tensor<128x64xf32, #tgpu.wgmma<2>>
      %first = tgpu.first_round %c0 of %r0, %c0
      %r:2 = scf.for %i = %first to %n step %c1 iter_args(%x = %none, %use = %c0) -> (tensor<128x64xf32, #tgpu.wgmma<2>>, i32) : i32 {
        tgpu.wait %full[%use] : !tgpu.barriers<2>
        %most = tile.reduce max %x dim 0 : tensor<128x64xf32, #tgpu.wgmma<2>> -> tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>>
        %each = tile.expand %most dim 0 : tensor<64xf32, #tgpu.slice<0, #tgpu.wgmma<2>>> -> tensor<128x64xf32, #tgpu.wgmma<2>>
        tgpu.arrive %empty[%use] per warp : !tgpu.barriers<2>
        %next = arith.addi %use, %c1 : i32
        scf.yield %each, %next : tensor<128x64xf32, #tgpu.wgmma<2>>, i32
      } {tgpu.schedule = #tgpu.schedule<skeleton = producer_consumer, stages = 2>}
    }
}
