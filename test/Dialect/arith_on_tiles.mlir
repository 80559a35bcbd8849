// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations of arith, math, scf and func on tiles. Types are equal if their dimension names are equal.
// RUN: tilewright-opt %s -split-input-file --verify-roundtrip -verify-diagnostics | FileCheck %s

!s = !tile.tile<[M, N], ACC>
!i = !tile.tile<[M, N], i32>

// Elementwise operations.
// CHECK-LABEL: func.func @elementwise(
// CHECK: arith.addf %{{.*}}, %{{.*}} : !tile.tile<[M, N], ACC>
// CHECK-NEXT: arith.maximumf %{{.*}}, %{{.*}} : !tile.tile<[M, N], ACC>
// CHECK-NEXT: math.exp2 %{{.*}} : !tile.tile<[M, N], ACC>
// CHECK-NEXT: math.fma %{{.*}}, %{{.*}}, %{{.*}} : !tile.tile<[M, N], ACC>
// CHECK-NEXT: arith.divsi %{{.*}}, %{{.*}} : !tile.tile<[M, N], i32>
// CHECK-NEXT: arith.shli %{{.*}}, %{{.*}} : !tile.tile<[M, N], i32>
func.func @elementwise(%x: !s, %i: !i) {
  %0 = arith.addf %x, %x : !s
  %1 = arith.maximumf %0, %x : !s
  %2 = math.exp2 %1 : !s
  %3 = math.fma %2, %1, %0 : !s
  %4 = arith.divsi %i, %i : !i
  %5 = arith.shli %4, %i : !i
  return
}

// A comparison returns a tile of i1 with the same dimensions.
// CHECK-LABEL: func.func @comparisons(
// CHECK: %[[F:.*]] = arith.cmpf olt, %{{.*}}, %{{.*}} : !tile.tile<[M, N], ACC>
// CHECK-NEXT: %[[I:.*]] = arith.cmpi sle, %{{.*}}, %{{.*}} : !tile.tile<[M, N], i32>
// CHECK-NEXT: %[[B:.*]] = arith.andi %[[F]], %[[I]] : !tile.tile<[M, N], i1>
// CHECK-NEXT: tile.select %[[B]], %{{.*}}, %{{.*}} : !tile.tile<[M, N], i1>, !tile.tile<[M, N], ACC>
func.func @comparisons(%x: !s, %i: !i) {
  %0 = arith.cmpf olt, %x, %x : !s
  %1 = arith.cmpi sle, %i, %i : !i
  %2 = arith.andi %0, %1 : !tile.tile<[M, N], i1>
  %3 = tile.select %2, %x, %x : !tile.tile<[M, N], i1>, !s
  return
}

// A type parameter is a float type: literals keep the precision of f64 until it is bound.
// CHECK-LABEL: func.func @scalars(
// CHECK: arith.constant 1.4426950408889634 : !tile.param<ACC>
// CHECK-NEXT: arith.constant 0xFFF0000000000000 : !tile.param<ACC>
// CHECK-NEXT: arith.mulf %{{.*}}, %{{.*}} : !tile.param<ACC>
// CHECK-NEXT: arith.select %{{.*}}, %{{.*}}, %{{.*}} : !tile.param<ACC>
func.func @scalars(%x: !tile.param<ACC>, %c: i1) {
  %log2e = arith.constant 1.4426950408889634 : !tile.param<ACC>
  %minus_inf = arith.constant 0xFFF0000000000000 : !tile.param<ACC>
  %0 = arith.mulf %x, %log2e : !tile.param<ACC>
  %1 = arith.select %c, %0, %minus_inf : !tile.param<ACC>
  return
}

// Tiles pass through control flow and calls.
// CHECK-LABEL: func.func @control(
// CHECK: scf.if %{{.*}} -> (!tile.tile<[M, N], ACC>) {
// CHECK: scf.for %{{.*}} iter_args(%{{.*}} = %{{.*}}) -> (!tile.tile<[M, N], ACC>)
// CHECK: call @control(%{{.*}}, %{{.*}}, %{{.*}}) : (!tile.tile<[M, N], ACC>, i1, i32) -> !tile.tile<[M, N], ACC>
func.func @control(%x: !s, %c: i1, %n: i32) -> !s {
  %0 = scf.if %c -> !s {
    scf.yield %x : !s
  } else {
    scf.yield %x : !s
  }
  %1 = scf.for %i = %n to %n step %n iter_args(%a = %0) -> !s : i32 {
    scf.yield %a : !s
  }
  %2 = func.call @control(%1, %c, %n) : (!s, i1, i32) -> !s
  return %2 : !s
}

// -----

// Different names are different types, even with equal extents.
func.func @names_differ(%x: !tile.tile<[M, N], f32>, %y: !tile.tile<[N, M], f32>) {
  // expected-note @-1 {{prior use here}}
  // expected-error @+1 {{use of value '%y' expects different type than prior uses: '!tile.tile<[M, N], f32>' vs '!tile.tile<[N, M], f32>'}}
  %0 = arith.addf %x, %y : !tile.tile<[M, N], f32>
}

// -----

// A type parameter differs from the type that it may be bound to.
func.func @elements_differ(%x: !tile.tile<[M], T>, %y: !tile.tile<[M], f32>) {
  // expected-error @+1 {{requires the same type for all operands and results}}
  %0 = "arith.addf"(%x, %y) : (!tile.tile<[M], T>, !tile.tile<[M], f32>) -> !tile.tile<[M], T>
}
