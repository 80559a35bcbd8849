// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --pass-pipeline="builtin.module(tgpu.kernel(tgpu-join-segments))" | FileCheck %s
// RUN: tilewright-opt %s --pass-pipeline="builtin.module(tgpu-clone-segments,tgpu.kernel(tgpu-join-segments))" \
// RUN:   | FileCheck %s --check-prefix=SPLIT

// The first loop that is valid for all iterations executes them.
// CHECK-LABEL: tgpu.kernel @three
// CHECK-COUNT-1: scf.for
// CHECK-SAME:    %{{.*}} = %lower to %upper step %{{.*}} iter_args(%[[ACC:.*]] = %{{.*}}, %[[USE:.*]] = %lower)
// CHECK-NEXT:      %[[X:.*]] = tile.at %y
// CHECK-NEXT:      %[[NEW:.*]] = arith.mulf %[[ACC]], %[[X]]
// CHECK-NEXT:      %[[NEXT:.*]] = arith.addi %[[USE]],
// CHECK-NEXT:      scf.yield %[[NEW]], %[[NEXT]]
// CHECK-NEXT:    } {tgpu.general}
// CHECK-NOT:     scf.for
// CHECK:         tile.full
tgpu.kernel @three target "sm_80" warps 4 (%y: !tile.view<[?], f32>, %lower: i32, %upper: i32, %begin: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %r0:2 = scf.for %i = %lower to %begin step %c1 iter_args(%acc = %zero, %use = %lower) -> (f32, i32) : i32 {
    %x = tile.at %y[%i] : !tile.view<[?], f32>
    %new = arith.mulf %acc, %x : f32
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : f32, i32
  } {tgpu.general}
  %r1:2 = scf.for %i = %begin to %end step %c1 iter_args(%acc = %r0#0, %use = %r0#1) -> (f32, i32) : i32 {
    %x = tile.at %y[%i] : !tile.view<[?], f32>
    %new = arith.addf %acc, %x : f32
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : f32, i32
  }
  %r2:2 = scf.for %i = %end to %upper step %c1 iter_args(%acc = %r1#0, %use = %r1#1) -> (f32, i32) : i32 {
    %x = tile.at %y[%i] : !tile.view<[?], f32>
    %new = arith.mulf %acc, %x : f32
    %next = arith.addi %use, %c1 : i32
    scf.yield %new, %next : f32, i32
  } {tgpu.general}
  %row = tile.full %r2#0 : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[%r2#1] : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], f32>
}

// Only the last loop is valid for all iterations. Values that are computed between the loops stay before it.
// CHECK-LABEL: tgpu.kernel @last
// CHECK-NOT:     scf.for
// CHECK:         %[[TWICE:.*]] = arith.addi %upper, %upper
// CHECK-NEXT:    scf.for %{{.*}} = %lower to %upper step %{{.*}} iter_args(%[[USE:.*]] = %lower)
// CHECK-NEXT:      arith.addi %[[USE]], %[[TWICE]]
// CHECK-NOT:     scf.for
// CHECK:         tgpu.store
tgpu.kernel @last target "sm_80" warps 4 (%y: !tile.view<[?], f32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %twice = arith.addi %upper, %upper : i32
  %r1 = scf.for %i = %end to %upper step %c1 iter_args(%use = %r0) -> (i32) : i32 {
    %next = arith.addi %use, %twice : i32
    scf.yield %next : i32
  } {tgpu.general}
  %row = tile.full %zero : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[%r1] : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], f32>
}

// Not joined: no loop is valid for all iterations, at most one iteration is outside of the range, something has an
// effect between the loops, another operation uses a result, the bound of the last loop is not yet known, the loops are in
// a role.
// CHECK-LABEL: tgpu.kernel @none_general
// CHECK-COUNT-2: scf.for
// CHECK-LABEL: tgpu.kernel @one_before
// CHECK-COUNT-2: scf.for
// CHECK-LABEL: tgpu.kernel @effect
// CHECK-COUNT-2: scf.for
// CHECK-LABEL: tgpu.kernel @other_user
// CHECK-COUNT-2: scf.for
// CHECK-LABEL: tgpu.kernel @bound_between
// CHECK-COUNT-2: scf.for
// CHECK-LABEL: tgpu.kernel @role
// CHECK-COUNT-2: scf.for
tgpu.kernel @none_general target "sm_80" warps 4 (%y: !tile.view<[?], i32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %r1 = scf.for %i = %end to %upper step %c1 iter_args(%use = %r0) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %row = tile.full %r1 : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[0] : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], i32>
}

tgpu.kernel @one_before target "sm_80" warps 4 (%y: !tile.view<[?], i32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  } {tgpu.general, tgpu.one_before}
  %r1 = scf.for %i = %end to %upper step %c1 iter_args(%use = %r0) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %row = tile.full %r1 : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[0] : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], i32>
}

tgpu.kernel @effect target "sm_80" warps 4 (%y: !tile.view<[?], i32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  } {tgpu.general}
  tgpu.sync
  %r1 = scf.for %i = %end to %upper step %c1 iter_args(%use = %r0) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %row = tile.full %r1 : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[0] : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], i32>
}

tgpu.kernel @other_user target "sm_80" warps 4 (%y: !tile.view<[?], i32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  } {tgpu.general}
  %r1 = scf.for %i = %end to %upper step %c1 iter_args(%use = %r0) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %row = tile.full %r1 : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[%r0] : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], i32>
}

tgpu.kernel @bound_between target "sm_80" warps 4 (%y: !tile.view<[?], i32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  %c1 = arith.constant 1 : i32
  %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  } {tgpu.general}
  %last = arith.addi %upper, %end : i32
  %r1 = scf.for %i = %end to %last step %c1 iter_args(%use = %r0) -> (i32) : i32 {
    %next = arith.addi %use, %c1 : i32
    scf.yield %next : i32
  }
  %row = tile.full %r1 : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[0] : tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], i32>
}

tgpu.kernel @role target "sm_90a" warps 8 (%y: !tile.view<[?], i32>, %lower: i32, %upper: i32, %end: i32) grid(%b = 1) {
  tgpu.roles
    role "load" warps 4 registers 40 {
    }
    role "compute" warps 4 registers 232 {
      %c1 = arith.constant 1 : i32
      %r0 = scf.for %i = %lower to %end step %c1 iter_args(%use = %lower) -> (i32) : i32 {
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      } {tgpu.general}
      %r1 = scf.for %i = %end to %upper step %c1 iter_args(%use = %r0) -> (i32) : i32 {
        %next = arith.addi %use, %c1 : i32
        scf.yield %next : i32
      }
      %twice = arith.addi %r1, %r1 : i32
    }
}

// What tgpu-clone-segments splits, in a loop and without it, becomes one loop without the branch.
// SPLIT-LABEL: tgpu.kernel @nested
// SPLIT:         scf.for %{{.*}} = %{{.*}} to %heads
// SPLIT:           scf.for %{{.*}} = %lower to %upper step
// SPLIT-NOT:         scf.
// SPLIT:             tile.at
// SPLIT-NEXT:        arith.mulf
// SPLIT-NEXT:        scf.yield
// SPLIT-NOT:       scf.
// SPLIT:           scf.yield
// SPLIT-NOT:     scf.for
// SPLIT:         tgpu.store
tgpu.kernel @nested target "sm_80" warps 4 (%y: !tile.view<[?], f32>, %lower: i32, %upper: i32, %begin: i32, %end: i32, %heads: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant 0.0 : f32
  %all = scf.for %h = %c0 to %heads step %c1 iter_args(%sum = %zero) -> (f32) : i32 {
    %r = scf.for %i = %lower to %upper step %c1 iter_args(%acc = %sum) -> (f32) : i32 {
      %after = arith.cmpi sge, %i, %begin : i32
      %before = arith.cmpi slt, %i, %end : i32
      %full = arith.andi %after, %before : i1
      %x = tile.at %y[%i] : !tile.view<[?], f32>
      %new = scf.if %full -> (f32) {
        %0 = arith.addf %acc, %x : f32
        scf.yield %0 : f32
      } else {
        %0 = arith.mulf %acc, %x : f32
        scf.yield %0 : f32
      } {tgpu.special_case}
      scf.yield %new : f32
    }
    scf.yield %r : f32
  }
  %row = tile.full %all : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
  tgpu.store %row, %y[0] : tensor<64xf32, #tgpu.slice<1, #tgpu.mma<4, 1>>>, !tile.view<[?], f32>
}
