// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-unite-counters --canonicalize | FileCheck %s

!ring = !tgpu.ring<2, <128x64xbf16, b128>>
!full = !tgpu.barriers<2>

// Two counters from tile to tile become one; in iterations where one is ahead by one, the next value of the other is
// its previous value. After the loop, in a branch and without one, both counters are equal again.
// CHECK-LABEL: tgpu.kernel @ahead
// CHECK:         role "compute"
// CHECK:           scf.for %{{.*}} = %{{.*}} to %n step %{{.*}} iter_args(%[[USE:.*]] = %{{.*}}) -> (i32)
// CHECK:             scf.if
// CHECK:               tgpu.wait %[[K:.*]][%[[USE]]]
// CHECK:               %[[FIRST:.*]] = arith.addi %[[USE]], %c1
// CHECK:               %[[R:.*]]:2 = scf.for {{.*}} iter_args(%[[UK:.*]] = %[[FIRST]], %[[UV:.*]] = %[[USE]])
// CHECK-NEXT:            tgpu.wait %[[K]][%[[UK]]]
// CHECK-NEXT:            tgpu.wait %[[V:.*]][%[[UV]]]
// CHECK-NEXT:            %[[NEXT:.*]] = arith.addi %[[UK]], %c1
// CHECK-NEXT:            scf.yield %[[NEXT]], %[[UK]]
// CHECK:               tgpu.wait %[[V]][%[[R]]#1]
tgpu.kernel @ahead target "sm_90a" warps 8 (%n: i32, %some: i1) grid(%b = 1) {
  %k_full = tgpu.alloc_barriers arrivals 1 : !full
  %v_full = tgpu.alloc_barriers arrivals 1 : !full
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "compute" warps 8 {
      %end:2 = scf.for %t = %c0 to %n step %c1 iter_args(%k = %c0, %v = %c0) -> (i32, i32) : i32 {
        %used:2 = scf.if %some -> (i32, i32) {
          tgpu.wait %k_full[%k] : !full
          %k1 = arith.addi %k, %c1 : i32
          %r:2 = scf.for %i = %c0 to %n step %c1 iter_args(%uk = %k1, %uv = %v) -> (i32, i32) : i32 {
            tgpu.wait %k_full[%uk] : !full
            tgpu.wait %v_full[%uv] : !full
            %uk_next = arith.addi %uk, %c1 : i32
            %uv_next = arith.addi %uv, %c1 : i32
            scf.yield %uk_next, %uv_next : i32, i32
          }
          tgpu.wait %v_full[%r#1] : !full
          %v1 = arith.addi %r#1, %c1 : i32
          scf.yield %r#0, %v1 : i32, i32
        } else {
          scf.yield %k, %v : i32, i32
        }
        scf.yield %used#0, %used#1 : i32, i32
      }
    }
}

// Tiles from a counter: the arguments of a while.
// CHECK-LABEL: tgpu.kernel @taken
// CHECK:         role "compute"
// CHECK:           scf.while
// CHECK:           } do {
// CHECK:             tgpu.wait %{{.*}}[%[[K:.*]]] :
// CHECK-NEXT:        tgpu.wait %{{.*}}[%[[K]]]
tgpu.kernel @taken target "sm_90a" warps 8 (%n: i32) grid(%b = 1) {
  %k_full = tgpu.alloc_barriers arrivals 1 : !full
  %v_full = tgpu.alloc_barriers arrivals 1 : !full
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  tgpu.roles
    role "compute" warps 8 {
      %end:3 = scf.while (%t = %c0, %k = %c0, %v = %c0) : (i32, i32, i32) -> (i32, i32, i32) {
        %more = arith.cmpi slt, %t, %n : i32
        scf.condition(%more) %t, %k, %v : i32, i32, i32
      } do {
      ^bb0(%t: i32, %k: i32, %v: i32):
        tgpu.wait %k_full[%k] : !full
        tgpu.wait %v_full[%v] : !full
        %t_next = arith.addi %t, %c1 : i32
        %k_next = arith.addi %k, %c1 : i32
        %v_next = arith.addi %v, %c1 : i32
        scf.yield %t_next, %k_next, %v_next : i32, i32, i32
      }
    }
}

// Unchanged: a counter that is only incremented in a branch, and one with step two.
// CHECK-LABEL: tgpu.kernel @stay
// CHECK:         scf.for {{.*}} iter_args(%[[A:.*]] = %{{.*}}, %[[B:.*]] = %{{.*}}, %[[C:.*]] = %{{.*}}) -> (i32, i32, i32)
// CHECK-NEXT:      tgpu.wait %{{.*}}[%[[A]]]
// CHECK-NEXT:      tgpu.wait %{{.*}}[%[[B]]]
// CHECK-NEXT:      tgpu.wait %{{.*}}[%[[C]]]
tgpu.kernel @stay target "sm_90a" warps 8 (%n: i32, %some: i1) grid(%b = 1) {
  %full = tgpu.alloc_barriers arrivals 1 : !full
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  tgpu.roles
    role "compute" warps 8 {
      %end:3 = scf.for %t = %c0 to %n step %c1 iter_args(%a = %c0, %b_use = %c0, %c = %c0) -> (i32, i32, i32) : i32 {
        tgpu.wait %full[%a] : !full
        tgpu.wait %full[%b_use] : !full
        tgpu.wait %full[%c] : !full
        %a_next = arith.addi %a, %c1 : i32
        %b_next = scf.if %some -> (i32) {
          %b_more = arith.addi %b_use, %c1 : i32
          scf.yield %b_more : i32
        } else {
          scf.yield %b_use : i32
        }
        %c_next = arith.addi %c, %c2 : i32
        scf.yield %a_next, %b_next, %c_next : i32, i32, i32
      }
    }
}

// Two results of a branch that are equal on both sides become one. Two that differ on one side remain.
// CHECK-LABEL: tgpu.kernel @branch
// CHECK:         role "compute"
// CHECK:           scf.while
// CHECK:           } do {
// CHECK:             %[[USED:.*]]:2 = scf.if %{{.*}} -> (i32, i32) {
// CHECK:             tgpu.wait %[[K:.*]][%[[USED]]#0]
// CHECK-NEXT:        tgpu.wait %[[V:.*]][%[[USED]]#0]
// CHECK-NEXT:        tgpu.wait %[[V]][%[[USED]]#1]
tgpu.kernel @branch target "sm_90a" warps 8 (%n: i32, %some: i1) grid(%b = 1) {
  %k_full = tgpu.alloc_barriers arrivals 1 : !full
  %v_full = tgpu.alloc_barriers arrivals 1 : !full
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  tgpu.roles
    role "compute" warps 8 {
      %end:3 = scf.while (%t = %c0, %k = %c0, %v = %c0) : (i32, i32, i32) -> (i32, i32, i32) {
        %more = arith.cmpi slt, %t, %n : i32
        scf.condition(%more) %t, %k, %v : i32, i32, i32
      } do {
      ^bb0(%tile: i32, %uk: i32, %uv: i32):
        %used:3 = scf.if %some -> (i32, i32, i32) {
          %k2 = arith.addi %uk, %c2 : i32
          %v1 = arith.addi %uv, %c1 : i32
          %v2 = arith.addi %v1, %c1 : i32
          scf.yield %k2, %v2, %v1 : i32, i32, i32
        } else {
          scf.yield %uk, %uv, %uv : i32, i32, i32
        }
        tgpu.wait %k_full[%used#0] : !full
        tgpu.wait %v_full[%used#1] : !full
        tgpu.wait %v_full[%used#2] : !full
        %next = arith.addi %tile, %c1 : i32
        scf.yield %next, %used#0, %used#1 : i32, i32, i32
      }
    }
}
