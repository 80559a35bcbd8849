// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas as operands of statements, functions that are formulas, and views that are restricted together.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --tile-link | FileCheck %s --check-prefix=LINKED
// RUN: tilewright-opt %s --canonicalize | FileCheck %s --check-prefix=CANONICAL

!x = !tile.view<[?, ?], f32>
!row = !tile.tile<[N], f32>
!keep = !tile.tile<[M, N], i1>

// A function that is a formula is a func.func that ends with it. Neighboring arguments share a type.
// CHECK-LABEL: func.func private @quotient(%arg0: f32, %arg1: f32, %arg2: i32) -> f32 {
// CHECK-NEXT:    tile.result select(%arg0 == 0.000000e+00, 0.000000e+00, %arg1 / %arg0) fastmath<contract> : f32
// CHECK-NEXT:  }
tile.function @quotient(%x, %y: f32, %n: i32) -> f32 = select(%x == 0, 0, %y / %x) fastmath<contract>

// It may have several results, attributes, or statements.
// CHECK-LABEL: func.func private @both(%arg0: i32, %arg1: i32) -> (i32, i32) attributes {tile.replaceable} {
// CHECK-NEXT:    tile.result %arg0 / %arg1, mod(%arg0, %arg1) : i32, i32
tile.function @both(%x, %n: i32) -> (i32, i32) attributes {tile.replaceable} = %x / %n, mod(%x, %n)

// CHECK-LABEL: func.func private @called(%arg0: i32) -> (i32, i32) {
// CHECK-NEXT:    tile.result @both(%arg0, 3 : i32) : i32, i32
tile.function @called(%x: i32) -> (i32, i32) = @both(%x, 3 : i32)

// Several results may share a type.
// CHECK-LABEL: func.func private @shared(
// CHECK-NEXT:    %[[B:.*]]:2 = tile.expr @both(%arg0, %arg0) : i32, i32
// CHECK-NEXT:    tile.result %[[B]]#1, %[[B]]#0 : i32, i32
tile.function @shared(%x: i32) -> (i32, i32) {
  %a, %b = tile.expr @both(%x, %x) : i32
  tile.result %b, %a
}

// CHECK-LABEL: func.func private @rounded(%arg0: i32, %arg1: i32) -> i32 {
// CHECK-NEXT:    %[[B:.*]] = tile.expr ceildiv(%arg0, %arg1) : i32
// CHECK-NEXT:    tile.result %[[B]] * %arg1 : i32
tile.function @rounded(%x, %n: i32) -> i32 {
  %blocks = tile.expr ceildiv(%x, %n)
  tile.result %blocks * %n
}

// CHECK-LABEL: func.func private @nothing() {
// CHECK-NEXT:    return
tile.function @nothing() {
}

// A branch and what it yields.
// CHECK-LABEL: func.func private @branch(
// CHECK:         %[[R:.*]]:2 = tile.if param(N > 16) -> (i32, f32) {
// CHECK-NEXT:      tile.yield %arg0 + 1, 0.000000e+00 : i32, f32
// CHECK-NEXT:    } else {
// CHECK-NEXT:      tile.yield %arg0, %arg1 : i32, f32
// CHECK-NEXT:    }
// CHECK-NEXT:    tile.if %arg0 < 3 {
// CHECK-NEXT:      func.call @nothing() : () -> ()
// CHECK-NEXT:    }
// LINKED-LABEL: func.func private @branch(
// LINKED-NEXT:    %[[C:.*]] = tile.param N > 16 : i1
// LINKED-NEXT:    %[[R:.*]]:2 = scf.if %[[C]] -> (i32, f32) {
// LINKED-NEXT:      %[[ONE:.*]] = tile.constant 1 : i32
// LINKED-NEXT:      %[[SUM:.*]] = arith.addi %arg0, %[[ONE]] : i32
// LINKED-NEXT:      %[[ZERO:.*]] = tile.constant 0.000000e+00 : f32
// LINKED-NEXT:      scf.yield %[[SUM]], %[[ZERO]] : i32, f32
// LINKED-NEXT:    } else {
// LINKED-NEXT:      scf.yield %arg0, %arg1 : i32, f32
// LINKED-NEXT:    }
// LINKED:         scf.if
tile.function @branch(%i: i32, %x: f32) -> (i32, f32) {
  %a, %b = tile.if param(N > 16) -> (i32, f32) {
    tile.yield %i + 1, 0 : i32, f32
  } else {
    tile.yield %i, %x
  }
  tile.if %i < 3 {
    func.call @nothing() : () -> ()
  }
  tile.result %a, %b
}

// Loops, with and without a step, and their attributes.
// CHECK-LABEL: tile.kernel @loops
// CHECK:         %[[P:.*]]:2 = tile.subview %x, %y dim 0 from %i size %n when (PACKED) : !tile.view<[?, ?], f32>, !tile.view<[?, ?], f32>
// CHECK-NEXT:    %[[S:.*]] = tile.for %[[K:.*]] in (0 to dim(%[[P]]#0, 1)) step N iter_args(%[[OLD:.*]] = full(1.000000e+00) : !tile.tile<[N], f32>) {
// CHECK-NEXT:      tile.yield %[[OLD]] + load %[[P]]#0[%i, %[[K]]] : !tile.tile<[N], f32>
// CHECK-NEXT:    } {note}
// CHECK-NEXT:    tile.for %[[J:.*]] in (%i to %n) step 1 {
// CHECK-NEXT:      tile.store %[[S]] * full(2.000000e+00), %[[P]]#1[%[[J]] + 1, 0] : !tile.tile<[N], f32>, !tile.view<[?, ?], f32>
// CHECK-NEXT:      tile.store 0.000000e+00, %[[P]]#1[%[[J]], 4] dims [0] {note} : !tile.tile<[N], f32>, !tile.view<[?, ?], f32>
// CHECK-NEXT:      tile.store %[[S]], %[[P]]#1[%[[J]], 4] dims [0] : !tile.tile<[N], f32>, !tile.view<[?, ?], f32>
// CHECK-NEXT:    }
// LINKED-LABEL: tile.kernel @loops
// LINKED:         %[[PX:.*]] = tile.subview %x dim 0 from %i size %n : !tile.view<[?, ?], f32>
// LINKED:         %[[A:.*]] = arith.select %{{.*}}, %[[PX]], %x
// LINKED:         %[[PY:.*]] = tile.subview %y dim 0 from %i size %n : !tile.view<[?, ?], f32>
// LINKED:         %[[B:.*]] = arith.select %{{.*}}, %[[PY]], %y
// LINKED:         %[[HIGH:.*]] = tile.dim %[[A]], 1
// LINKED-NEXT:    %[[STEP:.*]] = tile.param N : i32
// LINKED-NEXT:    %[[F:.*]] = tile.constant 1.000000e+00 : f32
// LINKED-NEXT:    %[[INIT:.*]] = tile.full %[[F]]
// LINKED-NEXT:    %[[LOW:.*]] = arith.constant 0 : i32
// LINKED-NEXT:    scf.for %[[K:.*]] = %[[LOW]] to %[[HIGH]] step %[[STEP]] iter_args(%[[OLD:.*]] = %[[INIT]]) -> (!tile.tile<[N], f32>)  : i32 {
// LINKED-NEXT:      %[[T:.*]] = tile.load %[[A]][%i, %[[K]]]
// LINKED-NEXT:      %[[SUM:.*]] = arith.addf %[[OLD]], %[[T]]
// LINKED-NEXT:      scf.yield %[[SUM]]
// LINKED-NEXT:    } {note}
// LINKED:         scf.for
// LINKED:           %[[TWICE:.*]] = arith.mulf
// LINKED:           %[[NEXT:.*]] = arith.addi
// LINKED-NEXT:      tile.store %[[TWICE]], %[[B]][%[[NEXT]], 0]
tile.kernel @loops params(N: int, PACKED: flag) (%x, %y: !x, %n: i32) grid(%i = 1) {
  %a, %b = tile.subview %x, %y dim 0 from %i size %n when (PACKED)
  %sum = tile.for %k in (0 to dim(%a, 1)) step N iter_args(%old = full(1) : !row) {
    tile.yield %old + load %a[%i, %k] : !row
  } {note}
  tile.for %j in (%i to %n) {
    tile.store %sum * full(2), %b[%j + 1, 0] : !row
    tile.store 0, %b[%j, 4] dims [0] {note} : !row, !x
    tile.store %sum, %b[%j, 4] dims [0] : !row
  }
}

// A block loop yields a formula; its folder waits for the link step.
// CHECK-LABEL: tile.kernel @blocks
// CHECK:           tile.yield max(%[[OLD:.*]], 0.000000e+00) : !tile.tile<[N], f32>
// CANONICAL-LABEL: tile.kernel @blocks
// CANONICAL:       tile.yield max(
// LINKED-LABEL: tile.kernel @blocks
// LINKED:          %[[MAX:.*]] = arith.maximumf
// LINKED-NEXT:     tile.yield %[[MAX]] : !tile.tile<[N], f32>
tile.kernel @blocks params(M, N: int) (%y: !x, %n: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !row
  %a = tile.for_blocks %j in (%c0 to %n) against (%c0 to %n) keep %keep : !keep iter_args(%old = %zero : !row) {
    tile.yield max(%old, 0)
  }
  tile.store %a, %y[%i, 0] : !row
}
