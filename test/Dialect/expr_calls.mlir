// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls, choices, loads and products in formulas, tile.result, and types that operands tell.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --tile-link | FileCheck %s --check-prefix=LINKED

tile.capture @table : !tile.view<[?], f32>

// A function may end with a formula. Comparisons have the type of their operands.
// CHECK-LABEL: func.func private @or_zero(
// CHECK-NEXT:    tile.result select(%[[X:.*]] == 0.000000e+00, 0.000000e+00, 1.000000e+00 / %[[X]]) : f32
// LINKED-LABEL: func.func private @or_zero(
// LINKED:         %[[CHOSEN:.*]] = arith.select
// LINKED-NEXT:    return %[[CHOSEN]] : f32
func.func private @or_zero(%x: f32) -> f32 {
  tile.result select(%x == 0, 0, 1 / %x) : f32
}

// Or with several, whose operations are in the order of the text.
// CHECK-LABEL: func.func private @both(
// CHECK-NEXT:    tile.result %[[I:.*]] < %[[J:.*]], max(%[[I]], %[[J]]) fastmath<contract> : i1, f32
// LINKED-LABEL: func.func private @both(
// LINKED-NEXT:    %[[LESS:.*]] = arith.cmpf olt, %[[I:.*]], %[[J:.*]] : f32
// LINKED-NEXT:    %[[MAX:.*]] = arith.maximumf %[[I]], %[[J]] fastmath<contract> : f32
// LINKED-NEXT:    return %[[LESS]], %[[MAX]] : i1, f32
func.func private @both(%i: f32, %j: f32) -> (i1, f32) {
  tile.result %i < %j, max(%i, %j) fastmath<contract> : i1, f32
}

// A call of two results; the operands have types of their own.
// CHECK-LABEL: func.func private @forwards(
// CHECK-NEXT:    tile.result @both(@or_zero(%{{.*}}) : f32, 2.000000e+00 : f32) : i1, f32
// LINKED-LABEL: func.func private @forwards(
// LINKED-NEXT:    %[[ZERO:.*]] = call @or_zero(%{{.*}}) : (f32) -> f32
// LINKED-NEXT:    %[[TWO:.*]] = tile.constant 2.000000e+00 : f32
// LINKED-NEXT:    %[[BOTH:.*]]:2 = call @both(%[[ZERO]], %[[TWO]]) : (f32, f32) -> (i1, f32)
// LINKED-NEXT:    return %[[BOTH]]#0, %[[BOTH]]#1 : i1, f32
func.func private @forwards(%x: f32) -> (i1, f32) {
  tile.result @both(@or_zero(%x) : f32, 2 : f32) : i1, f32
}

// Only the chosen side of a choice is computed. A side may be a list.
// CHECK-LABEL: func.func private @choices(
// CHECK-NEXT:    %{{.*}} = tile.expr choose(ROWS, exp(%[[X:.*]]), %[[X]]) : f32
// CHECK-NEXT:    %{{.*}}:2 = tile.expr choose(param(not(ROWS)), @both(%[[X]], %[[X]]), (%[[X]] > 1.000000e+00, neg(%[[X]]))) : i1, f32
// CHECK-NEXT:    tile.result choose(%{{.*}}#0, @both(%[[X]], %[[X]]), @forwards(%[[X]])) : i1, f32
// LINKED-LABEL: func.func private @choices(
// LINKED-NEXT:    %[[ROWS:.*]] = tile.param ROWS : i1
// LINKED-NEXT:    scf.if %[[ROWS]] -> (f32) {
// LINKED-NEXT:      %[[EXP:.*]] = math.exp %[[X:.*]] : f32
// LINKED-NEXT:      scf.yield %[[EXP]] : f32
// LINKED-NEXT:    } else {
// LINKED-NEXT:      scf.yield %[[X]] : f32
// LINKED-NEXT:    }
// LINKED-NEXT:    tile.param not(ROWS) : i1
// LINKED-NEXT:    scf.if %{{.*}} -> (i1, f32) {
// LINKED-NEXT:      call @both
// LINKED-NEXT:      scf.yield
// LINKED-NEXT:    } else {
// LINKED-NEXT:      tile.constant 1.000000e+00 : f32
// LINKED-NEXT:      arith.cmpf ogt
// LINKED-NEXT:      arith.negf
// LINKED-NEXT:      scf.yield
func.func private @choices(%x: f32) -> (i1, f32) {
  %0 = tile.expr choose(ROWS, exp(%x), %x) : f32
  %1, %2 = tile.expr choose(param(not(ROWS)), @both(%x, %x), (%x > 1, neg(%x))) : i1, f32
  tile.result choose(%1, @both(%x, %x), @forwards(%x)) : i1, f32
}

// Elements of views and captures, extents, conversions without a type, and a formula whose operands tell its type.
// CHECK-LABEL: func.func private @elements(
// CHECK-NEXT:    %[[NEXT:.*]] = tile.expr %[[V:.*]][%[[B:.*]] + 1] - %[[V]][0] : i32
// CHECK-NEXT:    %[[END:.*]] = tile.expr min(dim(%[[V]], 0), %[[NEXT]]) : i32
// CHECK-NEXT:    tile.expr cast(@table[%[[END]]] : f32) * cast(%[[END]] : i32) : f64
// CHECK-NEXT:    tile.expr (@table[%[[B]]] : f32) < 2.000000e+00 : i1
// LINKED-LABEL: func.func private @elements(
// LINKED:         tile.at %[[V:.*]][%{{.*}}] : !tile.view<[?], i32>
// LINKED-NEXT:    tile.at %[[V]][0] : !tile.view<[?], i32>
// LINKED-NEXT:    arith.subi
// LINKED-NEXT:    tile.dim %[[V]], 0 : !tile.view<[?], i32>
// LINKED:         tile.at @table[%{{.*}}] : f32
// LINKED-NEXT:    tile.cast %{{.*}} : f32 -> f64
// LINKED-NEXT:    tile.cast %{{.*}} : i32 -> f64
func.func private @elements(%v: !tile.view<[?], i32>, %b: i32) {
  %next = tile.expr %v[%b + 1] - %v[0]
  %end = tile.expr min(dim(%v, 0), %next)
  %0 = tile.expr cast(@table[%end] : f32) * cast(%end) : f64
  %1 = tile.expr (@table[%b] : f32) < 2.0
  return
}

// Tiles: loads, products, reductions, positions, functions of elements; a scalar condition for all elements.
// CHECK-LABEL: tile.kernel @tiles
// CHECK:         %[[S:.*]] = tile.expr dot(load %[[V:.*]][%[[I:.*]], 0] : !tile.tile<[M, D], T>, %[[K:.*]] transpose_b) * full(%[[X:.*]]) : !tile.tile<[M, N], f32>
// CHECK-NEXT:    %[[R:.*]] = tile.expr reduce max(%[[S]] + %[[S]] : !tile.tile<[M, N], f32>, 1) : !tile.tile<[M], f32>
// CHECK-NEXT:    tile.expr select(%[[I]] == 0, expand(map @or_zero(%[[R]]), 1), %[[S]]) : !tile.tile<[M, N], f32>
// CHECK-NEXT:    tile.expr dot(load %[[V]][0, %[[I]]] dims [1, 0] : !tile.tile<[N, M], T>, %[[Q:.*]], expand(%{{.*}}, 1) : !tile.tile<[N, D], f32>) : !tile.tile<[N, D], f32>
// CHECK-NEXT:    tile.expr iota(%[[I]] + 1, 0) : !tile.tile<[M], i32>
// LINKED-LABEL: tile.kernel @tiles
// LINKED:         tile.load %{{.*}}[%{{.*}}, 0]
// LINKED-NEXT:    tile.dot %{{.*}}, %{{.*}} transpose_b : !tile.tile<[M, D], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, N], f32>
// LINKED-NEXT:    tile.full
// LINKED-NEXT:    arith.mulf
// LINKED-NEXT:    arith.addf
// LINKED-NEXT:    tile.reduce max
// LINKED:         tile.map @or_zero
// LINKED-NEXT:    tile.expand
// LINKED-NEXT:    arith.select
// LINKED-NEXT:    tile.load %{{.*}} dims [1, 0]
// LINKED-NEXT:    tile.expand
// LINKED-NEXT:    tile.dot
// LINKED:         tile.iota
tile.kernel @tiles params(M, N, D: int, T: type)
    (%v: !tile.view<[?, ?], T>, %x: f32, %row: !tile.view<[?], f32>) grid(%i = 1) {
  %k = tile.load %v[0, 0] : !tile.view<[?, ?], T> -> !tile.tile<[N, D], T>
  %q = tile.load %v[0, 0] : !tile.view<[?, ?], T> -> !tile.tile<[M, D], T>
  %sums = tile.load %row[0] : !tile.view<[?], f32> -> !tile.tile<[N], f32>
  %s = tile.expr dot(load %v[%i, 0] : !tile.tile<[M, D], T>, %k transpose_b) * full(%x) : !tile.tile<[M, N], f32>
  %r = tile.expr reduce max(%s + %s, 1)
  %0 = tile.expr select(%i == 0, expand(map @or_zero(%r), 1), %s)
  %1 = tile.expr dot(load %v[0, %i] dims [1, 0] : !tile.tile<[N, M], T>, %q, expand(%sums, 1)) : !tile.tile<[N, D], f32>
  %2 = tile.expr iota(%i + 1, 0) : !tile.tile<[M], i32>
}
