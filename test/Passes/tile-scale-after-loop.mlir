// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-scale-after-loop | FileCheck %s

!p = tensor<4x8xf32>
!v = tensor<8x16xbf16>
!o = tensor<4x16xf32>

// A sum of products that is rescaled by rows, as in an online softmax.
// CHECK-LABEL: @products
// CHECK-SAME:    (%[[P:[a-z0-9]+]]: tensor<4x8xf32>, %{{.*}}: tensor<8x16xbf16>, %[[C:[a-z0-9]+]]: f32,
// CHECK:         %[[SUM:.*]] = scf.for
// CHECK-NEXT:      tile.expand
// CHECK-NEXT:      %[[KEPT:.*]] = arith.mulf
// CHECK-NEXT:      %[[ROUNDED:.*]] = tile.cast %[[P]]
// CHECK-NEXT:      %[[NEW:.*]] = tile.dot %[[ROUNDED]], %{{.*}}, %[[KEPT]]
// CHECK-NEXT:      scf.yield %[[NEW]]
// CHECK-NEXT:    }
// CHECK-NEXT:    %[[FULL:.*]] = tile.full %[[C]] : tensor<4x16xf32>
// CHECK-NEXT:    %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[FULL]] fastmath<reassoc>
// CHECK-NEXT:    return %[[SCALED]]
func.func @products(%p: !p, %v: !v, %c: f32, %row: tensor<4xf32>, %n: i32) -> !o {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !o
  %sum = scf.for %i = %c0 to %n step %c1 iter_args(%old = %zero) -> (!o) : i32 {
    %each = tile.expand %row dim 1 : tensor<4xf32> -> !o
    %kept = arith.mulf %old, %each : !o
    %factor = tile.full %c : !p
    %scaled = arith.mulf %p, %factor fastmath<reassoc> : !p
    %rounded = tile.cast %scaled : !p -> tensor<4x8xbf16>
    %new = tile.dot %rounded, %v, %kept : tensor<4x8xbf16>, !v -> !o
    scf.yield %new : !o
  }
  return %sum : !o
}

// Two terms with one constant factor, added by a nested loop.
// CHECK-LABEL: @nested
// CHECK-SAME:    (%[[A:[a-z0-9]+]]: tensor<4x8xf32>, %[[B:[a-z0-9]+]]: tensor<4x8xf32>,
// CHECK:         %[[SUM:.*]] = scf.for {{.*}} iter_args(%[[OUTER:.*]] = %{{.*}})
// CHECK-NEXT:      scf.for {{.*}} iter_args(%[[OLD:.*]] = %[[OUTER]])
// CHECK-NEXT:        %[[FIRST:.*]] = arith.addf %[[OLD]], %[[A]]
// CHECK-NEXT:        arith.addf %[[B]], %[[FIRST]]
// CHECK:         %[[TWO:.*]] = arith.constant 2.0
// CHECK-NEXT:    %[[FULL:.*]] = tile.full %[[TWO]]
// CHECK-NEXT:    %[[SCALED:.*]] = arith.mulf %[[SUM]], %[[FULL]]
// CHECK-NEXT:    return %[[SCALED]]
func.func @nested(%a: !p, %b: !p, %n: i32) -> !p {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !p
  %two = arith.constant dense<2.0> : !p
  %all = scf.for %i = %c0 to %n step %c1 iter_args(%outer = %zero) -> (!p) : i32 {
    %sum = scf.for %j = %c0 to %n step %c1 iter_args(%old = %outer) -> (!p) : i32 {
      %twice_a = arith.mulf %a, %two fastmath<reassoc> : !p
      %twice_b = arith.mulf %two, %b fastmath<reassoc> : !p
      %first = arith.addf %old, %twice_a : !p
      %second = arith.addf %twice_b, %first : !p
      scf.yield %second : !p
    }
    scf.yield %sum : !p
  }
  return %all : !p
}

// Unchanged: a factor of the iteration, a term without the factor, a nonzero initial sum, a sum or a scaled tile that
// the iteration uses, and no permission.
// CHECK-LABEL: @stays
// CHECK-COUNT-6: arith.mulf {{.*}} : tensor<4x8xf32>
// CHECK:         scf.yield
// CHECK-NEXT:    }
// CHECK-NEXT:    return
func.func @stays(%p: !p, %row: tensor<4xf32>, %c: f32, %begin: !p, %n: i32) -> (!p, !p, !p, !p, !p, !p, !p, !p) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = arith.constant dense<0.0> : !p
  %factor = tile.full %c : !p
  %r:8 = scf.for %i = %c0 to %n step %c1
      iter_args(%s0 = %zero, %s1 = %zero, %s2 = %begin, %s3 = %zero, %s4 = %zero, %s5 = %zero, %s6 = %zero, %s7 = %zero)
      -> (!p, !p, !p, !p, !p, !p, !p, !p) : i32 {
    %i_f32 = arith.sitofp %i : i32 to f32
    %of_round = tile.full %i_f32 : !p
    %x0 = arith.mulf %p, %of_round fastmath<reassoc> : !p
    %n0 = arith.addf %s0, %x0 : !p
    %x1 = arith.mulf %p, %factor fastmath<reassoc> : !p
    %m1 = arith.addf %s1, %x1 : !p
    %n1 = arith.addf %m1, %p : !p
    %x2 = arith.mulf %p, %factor fastmath<reassoc> : !p
    %n2 = arith.addf %s2, %x2 : !p
    %x3 = arith.mulf %p, %factor fastmath<reassoc> : !p
    %n3 = arith.addf %s3, %x3 : !p
    %x4 = arith.mulf %p, %factor fastmath<reassoc> : !p
    %n4 = arith.addf %s4, %x4 : !p
    %x5 = arith.mulf %p, %factor : !p
    %n5 = arith.addf %s5, %x5 : !p
    %n6 = arith.addf %s6, %s3 : !p
    %n7 = arith.addf %s7, %x4 : !p
    scf.yield %n0, %n1, %n2, %n3, %n4, %n5, %n6, %n7 : !p, !p, !p, !p, !p, !p, !p, !p
  }
  return %r#0, %r#1, %r#2, %r#3, %r#4, %r#5, %r#6, %r#7 : !p, !p, !p, !p, !p, !p, !p, !p
}
