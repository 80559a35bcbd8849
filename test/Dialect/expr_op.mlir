// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas, and what tile-link makes of them.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --tile-link | FileCheck %s --check-prefix=LINKED

// Operators by precedence; parentheses are printed where they matter.
// CHECK-LABEL: func.func @precedence(
// CHECK-SAME: %[[A:.*]]: i32, %[[B:.*]]: i32, %[[C:.*]]: i32)
// CHECK-NEXT: tile.expr %[[A]] + %[[B]] * %[[C]] - 1 : i32
// CHECK-NEXT: tile.expr (%[[A]] + %[[B]]) * %[[C]] : i32
// CHECK-NEXT: tile.expr %[[A]] - (%[[B]] - %[[C]]) : i32
// CHECK-NEXT: tile.expr %[[A]] / (%[[B]] * %[[C]]) overflow<nsw> : i32
// CHECK-NEXT: tile.expr mod(%[[A]], 8) + ceildiv(%[[B]], %[[C]]) + bitand(%[[A]], -16) : i32
// CHECK-NEXT: tile.expr %[[A]] <= %[[B]] + 1 : i32
// CHECK-NEXT: tile.expr or(and(%[[A]] < %[[B]], ne(%[[B]], %[[C]])), %[[A]] == 0) : i32
// CHECK-NEXT: tile.expr select(%[[A]] > %[[B]], min(%[[A]], %[[C]]), max(%[[B]], 2)) : i32
// LINKED-LABEL: func.func @precedence(
// LINKED-SAME: %[[A:.*]]: i32, %[[B:.*]]: i32, %[[C:.*]]: i32)
// LINKED-NEXT: %[[PRODUCT:.*]] = arith.muli %[[B]], %[[C]] : i32
// LINKED-NEXT: %[[SUM:.*]] = arith.addi %[[A]], %[[PRODUCT]] : i32
// LINKED-NEXT: %[[ONE:.*]] = tile.constant 1 : i32
// LINKED-NEXT: arith.subi %[[SUM]], %[[ONE]] : i32
// LINKED-NEXT: %[[SUM:.*]] = arith.addi %[[A]], %[[B]] : i32
// LINKED-NEXT: arith.muli %[[SUM]], %[[C]] : i32
// LINKED-NEXT: %[[REST:.*]] = arith.subi %[[B]], %[[C]] : i32
// LINKED-NEXT: arith.subi %[[A]], %[[REST]] : i32
// LINKED-NEXT: %[[PRODUCT:.*]] = arith.muli %[[B]], %[[C]] overflow<nsw> : i32
// LINKED-NEXT: arith.divsi %[[A]], %[[PRODUCT]] : i32
// LINKED-NEXT: %[[EIGHT:.*]] = tile.constant 8 : i32
// LINKED-NEXT: %[[MOD:.*]] = arith.remsi %[[A]], %[[EIGHT]] : i32
// LINKED-NEXT: %[[QUOTIENT:.*]] = arith.ceildivsi %[[B]], %[[C]] : i32
// LINKED-NEXT: %[[SUM:.*]] = arith.addi %[[MOD]], %[[QUOTIENT]] : i32
// LINKED-NEXT: %[[MASK:.*]] = tile.constant -16 : i32
// LINKED-NEXT: %[[BITS:.*]] = arith.andi %[[A]], %[[MASK]] : i32
// LINKED-NEXT: arith.addi %[[SUM]], %[[BITS]] : i32
// LINKED:      arith.cmpi sle, %[[A]]
// LINKED-NEXT: %[[LESS:.*]] = arith.cmpi slt, %[[A]], %[[B]] : i32
// LINKED-NEXT: %[[DIFFER:.*]] = arith.cmpi ne, %[[B]], %[[C]] : i32
// LINKED-NEXT: %[[BOTH:.*]] = arith.andi %[[LESS]], %[[DIFFER]] : i1
// LINKED-NEXT: %[[ZERO:.*]] = tile.constant 0 : i32
// LINKED-NEXT: %[[EQUAL:.*]] = arith.cmpi eq, %[[A]], %[[ZERO]] : i32
// LINKED-NEXT: arith.ori %[[BOTH]], %[[EQUAL]] : i1
// LINKED-NEXT: %[[GREATER:.*]] = arith.cmpi sgt, %[[A]], %[[B]] : i32
// LINKED-NEXT: %[[MIN:.*]] = arith.minsi %[[A]], %[[C]] : i32
// LINKED:      %[[MAX:.*]] = arith.maxsi %[[B]],
// LINKED-NEXT: arith.select %[[GREATER]], %[[MIN]], %[[MAX]] : i32
func.func @precedence(%a: i32, %b: i32, %c: i32) {
  %0 = tile.expr %a + %b * %c - 1 : i32
  %1 = tile.expr (%a + %b) * %c : i32
  %2 = tile.expr %a - (%b - %c) : i32
  %3 = tile.expr %a / (%b * %c) overflow<nsw> : i32
  %4 = tile.expr mod(%a, 8) + ceildiv(%b, %c) + bitand(%a, -16) : i32
  %5 = tile.expr (%a <= %b + 1) : i32
  %6 = tile.expr or(and(%a < %b, ne(%b, %c)), %a == 0) : i32
  %7 = tile.expr select(%a > %b, min(%a, %c), max(%b, 2)) : i32
  return
}

// Floats, in tiles of either form and scalars; integers and words are numbers of them.
// CHECK-LABEL: func.func @floats(
// CHECK-NEXT: tile.expr neg(exp2(min(%[[X:.*]] - %[[Y:.*]], 0.000000e+00) * log2e) * %[[Y]]) : !tile.param<ACC>
// CHECK-NEXT: tile.expr select(%[[X]] == minus_inf, 1.000000e+00, exp(%[[X]]) / ln2) : !tile.param<ACC>
// CHECK-NEXT: tile.expr %[[S:.*]] * full(%[[X]]) - expand(%[[R:.*]], 1) fastmath<reassoc,contract> : !tile.tile<[M, N], ACC>
// CHECK-NEXT: tile.expr select(%[[S]] < 2.500000e+00, %[[S]], tanh(%[[S]])) : !tile.tile<[M, N], ACC>
// CHECK-NEXT: tile.expr cast(%[[F:.*]] : tensor<4x8xbf16>) + expand(%{{.*}}, 0) : tensor<4x8xf32> -> tensor<4x8xbf16>
// CHECK-NEXT: tile.expr ne(abs(%[[Z:.*]]), log(sqrt(rsqrt(log2(%[[Z]]))))) : f32
// LINKED-LABEL: func.func @floats(
// LINKED-NEXT: %[[DIFFERENCE:.*]] = arith.subf %[[X:.*]], %[[Y:.*]] : !tile.param<ACC>
// LINKED-NEXT: %[[ZERO:.*]] = tile.constant 0.000000e+00 : !tile.param<ACC>
// LINKED-NEXT: %[[MIN:.*]] = arith.minimumf %[[DIFFERENCE]], %[[ZERO]] : !tile.param<ACC>
// LINKED-NEXT: %[[LOG2E:.*]] = tile.constant 1.44{{.*}} : !tile.param<ACC>
// LINKED-NEXT: %[[BASE2:.*]] = arith.mulf %[[MIN]], %[[LOG2E]] : !tile.param<ACC>
// LINKED-NEXT: %[[EXP:.*]] = math.exp2 %[[BASE2]] : !tile.param<ACC>
// LINKED-NEXT: %[[PRODUCT:.*]] = arith.mulf %[[EXP]], %[[Y]] : !tile.param<ACC>
// LINKED-NEXT: arith.negf %[[PRODUCT]] : !tile.param<ACC>
// LINKED:      arith.cmpf oeq, %[[X]]
// LINKED:      math.exp %[[X]] : !tile.param<ACC>
// LINKED:      arith.select
// LINKED-NEXT: %[[FULL:.*]] = tile.full %[[X]] : !tile.tile<[M, N], ACC>
// LINKED-NEXT: %[[SCALED:.*]] = arith.mulf %[[S:.*]], %[[FULL]] fastmath<reassoc,contract> : !tile.tile<[M, N], ACC>
// LINKED-NEXT: %[[EACH:.*]] = tile.expand %[[R:.*]] dim 1 : !tile.tile<[M], ACC> -> !tile.tile<[M, N], ACC>
// LINKED-NEXT: arith.subf %[[SCALED]], %[[EACH]] fastmath<reassoc,contract> : !tile.tile<[M, N], ACC>
// LINKED-NEXT: tile.constant 2.500000e+00 : !tile.tile<[M, N], ACC>
// LINKED-NEXT: %[[LESS:.*]] = arith.cmpf olt, %[[S]], %{{.*}} : !tile.tile<[M, N], ACC>
// LINKED-NEXT: %[[TANH:.*]] = math.tanh %[[S]] : !tile.tile<[M, N], ACC>
// LINKED-NEXT: tile.select %[[LESS]], %[[S]], %[[TANH]] : !tile.tile<[M, N], i1>, !tile.tile<[M, N], ACC>
// LINKED-NEXT: %[[CAST:.*]] = tile.cast %[[F:.*]] : tensor<4x8xbf16> -> tensor<4x8xf32>
// LINKED-NEXT: %[[EACH:.*]] = tile.expand %{{.*}} dim 0 : tensor<8xf32> -> tensor<4x8xf32>
// LINKED-NEXT: %[[SUM:.*]] = arith.addf %[[CAST]], %[[EACH]] : tensor<4x8xf32>
// LINKED-NEXT: tile.cast %[[SUM]] : tensor<4x8xf32> -> tensor<4x8xbf16>
// LINKED-NEXT: math.absf
// LINKED-NEXT: math.log2
// LINKED-NEXT: math.rsqrt
// LINKED-NEXT: math.sqrt
// LINKED-NEXT: math.log
// LINKED-NEXT: arith.cmpf une
func.func @floats(%x: !tile.param<ACC>, %y: !tile.param<ACC>, %s: !tile.tile<[M, N], ACC>, %r: !tile.tile<[M], ACC>,
                  %f: tensor<4x8xbf16>, %g: tensor<8xf32>, %z: f32) {
  %0 = tile.expr neg(exp2(min(%x - %y, 0) * log2e) * %y) : !tile.param<ACC>
  %1 = tile.expr select(%x == minus_inf, 1, exp(%x) / ln2) : !tile.param<ACC>
  %2 = tile.expr %s * full(%x) - expand(%r, 1) fastmath<reassoc, contract> : !tile.tile<[M, N], ACC>
  %3 = tile.expr select(%s < 2.5, %s, tanh(%s)) : !tile.tile<[M, N], ACC>
  %4 = tile.expr cast(%f : tensor<4x8xbf16>) + expand(%g, 0) : tensor<4x8xf32> -> tensor<4x8xbf16>
  %5 = tile.expr ne(abs(%z), log(sqrt(rsqrt(log2(%z))))) : f32
  return
}

// Parameters; one that is a condition chooses for all elements of a tile. Conditions in a condition.
// CHECK-LABEL: tile.kernel @parameters
// CHECK: tile.expr select(PACKED, %[[I:.*]] * BLOCK, param(max(BLOCK, 2))) : i32
// CHECK-NEXT: %[[HOLDS:.*]] = tile.expr or(param(not(PACKED)), %[[I]] >= 0) : i32
// CHECK-NEXT: tile.expr and(%[[HOLDS]], PACKED) : i1
// CHECK-NEXT: %[[T:.*]] = tile.full %[[I]]
// CHECK-NEXT: tile.expr select(PACKED, %[[T]] + BLOCK, select(%[[T]] == 0, %[[T]], 1)) : !tile.tile<[BLOCK], i32>
// LINKED-LABEL: tile.kernel @parameters
// LINKED:      %[[PACKED:.*]] = tile.param PACKED : i1
// LINKED-NEXT: %[[BLOCK:.*]] = tile.param BLOCK : i32
// LINKED-NEXT: %[[PRODUCT:.*]] = arith.muli %[[I:.*]], %[[BLOCK]] : i32
// LINKED-NEXT: %[[MAX:.*]] = tile.param max(BLOCK, 2) : i32
// LINKED-NEXT: arith.select %[[PACKED]], %[[PRODUCT]], %[[MAX]] : i32
// LINKED-NEXT: tile.param not(PACKED) : i1
// LINKED:      arith.ori
// LINKED-NEXT: %[[PACKED:.*]] = tile.param PACKED : i1
// LINKED-NEXT: arith.andi %{{.*}}, %[[PACKED]] : i1
// LINKED-NEXT: %[[T:.*]] = tile.full %[[I]]
// LINKED-NEXT: %[[PACKED:.*]] = tile.param PACKED : i1
// LINKED-NEXT: %[[BLOCK:.*]] = tile.param BLOCK : i32
// LINKED-NEXT: %[[BLOCKS:.*]] = tile.full %[[BLOCK]] : !tile.tile<[BLOCK], i32>
// LINKED-NEXT: %[[SUM:.*]] = arith.addi %[[T]], %[[BLOCKS]] : !tile.tile<[BLOCK], i32>
// LINKED:      tile.select %{{.*}}, %[[T]], %{{.*}} : !tile.tile<[BLOCK], i1>, !tile.tile<[BLOCK], i32>
// LINKED-NEXT: arith.select %[[PACKED]], %[[SUM]], %{{.*}} : !tile.tile<[BLOCK], i32>
tile.kernel @parameters params(BLOCK: int, PACKED: flag) () grid(%i = 1) {
  %0 = tile.expr select(PACKED, %i * BLOCK, param(max(BLOCK, 2))) : i32
  %1 = tile.expr or(param(not(PACKED)), %i >= 0) : i32
  %2 = tile.expr and(%1, PACKED) : i1
  %t = tile.full %i : !tile.tile<[BLOCK], i32>
  %3 = tile.expr select(PACKED, %t + BLOCK, select(%t == 0, %t, 1)) : !tile.tile<[BLOCK], i32>
}

// Conditions that are repeated: a scalar, a row or a column.
// CHECK-LABEL: func.func @repeated_conditions(
// CHECK-NEXT: tile.expr select(expand(%[[ROW:.*]], 1), %[[S:.*]], 0.000000e+00) : !tile.tile<[M, N], f32>
// CHECK-NEXT: tile.expr select(and(expand(%[[ROW]], 1), %[[S]] < 1.000000e+00), %[[S]], 0.000000e+00) : !tile.tile<[M, N], f32>
// CHECK-NEXT: tile.expr or(full(%[[C:.*]]), expand(%[[ROW]], 1)) : !tile.tile<[M, N], i1>
// LINKED-LABEL: func.func @repeated_conditions(
// LINKED-NEXT: %[[EACH:.*]] = tile.expand %[[ROW:.*]] dim 1 : !tile.tile<[M], i1> -> !tile.tile<[M, N], i1>
// LINKED-NEXT: %[[ZERO:.*]] = tile.constant 0.000000e+00 : !tile.tile<[M, N], f32>
// LINKED-NEXT: tile.select %[[EACH]], %[[S:.*]], %[[ZERO]] : !tile.tile<[M, N], i1>, !tile.tile<[M, N], f32>
func.func @repeated_conditions(%row: !tile.tile<[M], i1>, %s: !tile.tile<[M, N], f32>, %c: i1) {
  %0 = tile.expr select(expand(%row, 1), %s, 0) : !tile.tile<[M, N], f32>
  %1 = tile.expr select(and(expand(%row, 1), %s < 1), %s, 0) : !tile.tile<[M, N], f32>
  %2 = tile.expr or(full(%c), expand(%row, 1)) : !tile.tile<[M, N], i1>
  return
}

// A negation is exclusive or with true.
// CHECK-LABEL: tile.kernel @negations
// CHECK:      %[[ALL:.*]] = tile.expr not(and(%[[I:.*]] > 0, not(%[[I]] > 4))) : i1
// CHECK-NEXT: %[[NONE:.*]] = tile.expr not(%[[ALL]]) : i1
// CHECK:      tile.expr select(not(%[[T:.*]] > 1.000000e+00), %[[T]], 0.000000e+00) : !tile.tile<[N], f32>
// LINKED-LABEL: tile.kernel @negations
// LINKED:      %[[BOTH:.*]] = arith.andi
// LINKED-NEXT: %[[TRUE:.*]] = tile.constant 1 : i1
// LINKED-NEXT: arith.xori %[[BOTH]], %[[TRUE]] : i1
// LINKED:      %[[MORE:.*]] = arith.cmpf ogt
// LINKED-NEXT: %[[EACH:.*]] = tile.constant 1 : !tile.tile<[N], i1>
// LINKED-NEXT: arith.xori %[[MORE]], %[[EACH]] : !tile.tile<[N], i1>
tile.kernel @negations params(N: int) (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %all = tile.expr not(and(%i > 0, not(%i > 4)))
  %none = tile.expr not(%all)
  %t = tile.load %x[%i] : !tile.view<[?], f32> -> !tile.tile<[N], f32>
  %small = tile.expr select(not(%t > 1), %t, 0)
}
