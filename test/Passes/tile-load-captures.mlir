// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-load-captures | FileCheck %s

!s = tensor<64x32xf32>
!pos = tensor<64x32xi32>

tile.capture @bias : !tile.view<[?, ?, ?], f32>
tile.capture @halves : !tile.view<[?, ?], bf16>
tile.capture @starts : !tile.view<[?], i32>
tile.capture @offset : i32

// Reads of a called function become loads here.
func.func private @index_or_zero(%index: i32, %extent: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %is_same = arith.cmpi eq, %extent, %c1 : i32
  %result = arith.select %is_same, %c0, %index : i32
  return %result : i32
}

// CHECK-LABEL: func.func private @block_of_tiles(
// CHECK-SAME:    %[[S:.*]]: f32, %{{.*}}: i32, %{{.*}}: i32, %{{.*}}: i32, %[[READ:.*]]: f32) -> f32
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[S]], %[[READ]]
// CHECK-NEXT:    return %[[SUM]]
func.func private @block(%s: f32, %h: i32, %i: i32, %j: i32) -> f32 {
  %c3 = arith.constant 3 : i32
  %next = arith.addi %j, %c3 : i32
  %offset = tile.at @offset : i32
  %column = arith.subi %next, %offset : i32
  %x = tile.at @bias[%h, %i, %column] : f32
  %sum = arith.addf %s, %x : f32
  return %sum : f32
}

// The load is inserted as soon as its indices are available; rows and columns in order need no `dims`.
// CHECK-LABEL: func.func @blocks
// CHECK-SAME:    (%[[A:.*]]: tensor<64x32xf32>, %[[H:.*]]: i32, %[[M:.*]]: i32, %[[N:.*]]: i32)
// CHECK-NEXT:    %[[VIEW:.*]] = tile.captured @bias : !tile.view<[?, ?, ?], f32>
// CHECK-NEXT:    %[[C3:.*]] = arith.constant 3
// CHECK-NEXT:    %[[N3:.*]] = arith.addi %[[N]], %[[C3]]
// CHECK-NEXT:    %[[OFFSET:.*]] = tile.at @offset
// CHECK-NEXT:    %[[START:.*]] = arith.subi %[[N3]], %[[OFFSET]]
// CHECK-NEXT:    %[[TILE:.*]] = tile.load %[[VIEW]][%[[H]], %[[M]], %[[START]]] : !tile.view<[?, ?, ?], f32> -> tensor<64x32xf32>
// CHECK-NEXT:    arith.negf
// CHECK:         tile.map @block_of_tiles(%{{.*}}, %[[H]], %{{.*}}, %{{.*}}, %[[TILE]])
func.func @blocks(%a: !s, %h: i32, %m: i32, %n: i32) -> !s {
  %b = arith.negf %a : !s
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %r = tile.map @block(%b, %h, %rows, %cols) : (!s, i32, !pos, !pos) -> !s
  return %r : !s
}

// Rows of the tile along the last dimension of the view. A tile with equal elements counts as a scalar.
// CHECK-LABEL: func.func @transposed
// CHECK:         tile.load %{{.*}}[%{{.*}}, %{{.*}}, %{{.*}}] dims [2, 1] :
func.func @transposed(%a: !s, %h: i32, %m: i32, %n: i32) -> !s {
  %heads = tile.full %h : !pos
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %r = tile.map @block(%a, %heads, %cols, %rows) : (!s, !pos, !pos, !pos) -> !s
  return %r : !s
}

// CHECK-LABEL: func.func private @row_of_tiles(
// CHECK-NEXT:    tile.cast %{{.*}} : bf16 -> f32
func.func private @row(%s: f32, %h: i32, %j: i32) -> f32 {
  %x = tile.at @halves[%h, %j] : bf16
  %wide = tile.cast %x : bf16 -> f32
  %sum = arith.addf %s, %wide : f32
  return %sum : f32
}

// CHECK-LABEL: func.func @rows_and_columns
// CHECK-DAG:     %[[EACH:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<[?, ?], bf16> -> tensor<64xbf16>
// CHECK-DAG:     %[[COLUMN:.*]] = tile.load %{{.*}}[5, %{{.*}}] : !tile.view<[?, ?], bf16> -> tensor<64xbf16>
// CHECK-DAG:     %[[COLUMNS:.*]] = tile.expand %[[COLUMN]] dim 1 : tensor<64xbf16> -> tensor<64x32xbf16>
// CHECK-DAG:     %[[ROW:.*]] = tile.load %{{.*}}[%{{.*}}, %{{.*}}] : !tile.view<[?, ?], bf16> -> tensor<32xbf16>
// CHECK-DAG:     %[[ROWS:.*]] = tile.expand %[[ROW]] dim 0 : tensor<32xbf16> -> tensor<64x32xbf16>
// CHECK:         tile.map @row_of_tiles(%{{.*}}, %{{.*}}, %{{.*}}, %[[ROWS]])
// CHECK:         tile.map @fifth_of_tiles(%{{.*}}, %{{.*}}, %[[COLUMNS]])
// CHECK:         tile.map @row_of_tiles(%{{.*}}, %{{.*}}, %{{.*}}, %[[EACH]]) : (tensor<64xf32>,
func.func @rows_and_columns(%a: !s, %v: tensor<64xf32>, %h: i32, %m: i32, %n: i32) -> (!s, !s, tensor<64xf32>) {
  %cols = tile.iota %n dim 1 : !pos
  %r = tile.map @row(%a, %h, %cols) : (!s, i32, !pos) -> !s
  %each = tile.iota %m dim 0 : tensor<64xi32>
  %rows = tile.expand %each dim 1 : tensor<64xi32> -> !pos
  %q = tile.map @fifth(%a, %rows) : (!s, !pos) -> !s
  %p = tile.map @row(%v, %h, %each) : (tensor<64xf32>, i32, tensor<64xi32>) -> tensor<64xf32>
  return %r, %q, %p : !s, !s, tensor<64xf32>
}

func.func private @fifth(%s: f32, %i: i32) -> f32 {
  %x = tile.at @halves[5, %i] : bf16
  %wide = tile.cast %x : bf16 -> f32
  %sum = arith.addf %s, %wide : f32
  return %sum : f32
}

// An index that is fixed by a condition: the view is broadcast. A scalar index is not broadcast.
func.func private @broadcast(%s: f32, %h: i32, %i: i32, %j: i32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %heads = tile.dim @bias, 0
  %rows = tile.dim @bias, 1
  %columns = tile.dim @bias, 2
  %h_bias = func.call @index_or_zero(%h, %heads) : (i32, i32) -> i32
  %i_bias = func.call @index_or_zero(%i, %rows) : (i32, i32) -> i32
  %many = arith.cmpi ne, %columns, %c1 : i32
  %j_bias = arith.select %many, %j, %c0 : i32
  %x = tile.at @bias[%h_bias, %i_bias, %j_bias] : f32
  %sum = arith.addf %s, %x : f32
  return %sum : f32
}

// CHECK-LABEL: func.func @broadcasts
// CHECK-SAME:    (%{{.*}}: tensor<64x32xf32>, %[[H:.*]]: i32, %[[M:.*]]: i32, %[[N:.*]]: i32)
// CHECK-DAG:     %[[HEADS:.*]] = tile.dim @bias, 0
// CHECK-DAG:     %[[SAME_H:.*]] = arith.cmpi eq, %[[HEADS]], %{{.*}}
// CHECK:         %[[START_H:.*]] = arith.select %[[SAME_H]], %{{.*}}, %[[H]]
// CHECK:         %[[ROWS:.*]] = tile.dim @bias, 1
// CHECK:         %[[SAME_I:.*]] = arith.cmpi eq, %[[ROWS]], %{{.*}}
// CHECK:         %[[BY_ROW:.*]] = tile.repeat %{{.*}} dim 1 at %{{.*}} when %[[SAME_I]] : !tile.view<[?, ?, ?], f32>
// CHECK:         %[[START_I:.*]] = arith.select %[[SAME_I]], %{{.*}}, %[[M]]
// CHECK:         %[[MANY:.*]] = arith.cmpi ne, %{{.*}}, %{{.*}}
// CHECK:         %[[SAME_J:.*]] = arith.xori %[[MANY]], %true
// CHECK:         %[[BY_COLUMN:.*]] = tile.repeat %[[BY_ROW]] dim 2 at %{{.*}} when %[[SAME_J]]
// CHECK:         %[[START_J:.*]] = arith.select %[[SAME_J]], %{{.*}}, %[[N]]
// CHECK:         tile.load %[[BY_COLUMN]][%[[START_H]], %[[START_I]], %[[START_J]]]
func.func @broadcasts(%a: !s, %h: i32, %m: i32, %n: i32) -> !s {
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %r = tile.map @broadcast(%a, %h, %rows, %cols) : (!s, i32, !pos, !pos) -> !s
  return %r : !s
}

// If a table gives the start of rows, the row at each start is still a tile.
// CHECK-LABEL: func.func @from_a_start
// CHECK:         %[[AT:.*]] = tile.at @starts[%{{.*}}] : i32
// CHECK:         %[[SUM:.*]] = arith.addi %{{.*}}, %[[AT]]
// CHECK:         tile.load %{{.*}}[0, %[[SUM]]]
func.func private @start(%s: f32, %b: i32, %j: i32) -> f32 {
  %start = tile.at @starts[%b] : i32
  %column = arith.addi %j, %start : i32
  %x = tile.at @halves[0, %column] : bf16
  %wide = tile.cast %x : bf16 -> f32
  %sum = arith.addf %s, %wide : f32
  return %sum : f32
}
func.func @from_a_start(%a: !s, %b: i32, %n: i32) -> !s {
  %cols = tile.iota %n dim 1 : !pos
  %r = tile.map @start(%a, %b, %cols) : (!s, i32, !pos) -> !s
  return %r : !s
}

// Reads whose index is not a sum of one position and scalars remain reads of elements: an index that depends on data, a
// difference of positions, a product, a clamp, a diagonal, and reads in a region, as do reads that are equal for all
// elements.
func.func private @rejected(%s: f32, %i: i32, %j: i32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %zero = arith.constant 0.0 : f32
  %data = tile.at @starts[%j] : i32
  %by_data = tile.at @bias[0, 0, %data] : f32
  %distance = arith.subi %j, %i : i32
  %by_distance = tile.at @bias[0, 1, %distance] : f32
  %twice = arith.muli %j, %c2 : i32
  %by_twice = tile.at @bias[0, 2, %twice] : f32
  %clamped = arith.maxsi %j, %c2 : i32
  %by_clamped = tile.at @bias[0, 3, %clamped] : f32
  %reversed = arith.subi %c2, %j : i32
  %by_reversed = tile.at @bias[0, 4, %reversed] : f32
  %diagonal = tile.at @bias[0, %i, %i] : f32
  %is_first = arith.cmpi eq, %i, %c0 : i32
  %chosen = arith.select %is_first, %c0, %j : i32
  %by_choice = tile.at @bias[0, 5, %chosen] : f32
  %in_region = scf.if %is_first -> f32 {
    %x = tile.at @bias[0, 6, %j] : f32
    scf.yield %x : f32
  } else {
    scf.yield %zero : f32
  }
  %same = tile.at @bias[0, 7, 8] : f32
  %s0 = arith.addf %s, %by_data : f32
  %s1 = arith.addf %s0, %by_distance : f32
  %s2 = arith.addf %s1, %by_twice : f32
  %s3 = arith.addf %s2, %by_clamped : f32
  %s4 = arith.addf %s3, %by_reversed : f32
  %s5 = arith.addf %s4, %diagonal : f32
  %s6 = arith.addf %s5, %by_choice : f32
  %s7 = arith.addf %s6, %in_region : f32
  %s8 = arith.addf %s7, %same : f32
  return %s8 : f32
}

// Only the index is loaded.
// CHECK-LABEL: func.func @rejections
// CHECK-NEXT:    tile.captured @starts
// CHECK-NEXT:    tile.load %{{.*}} : !tile.view<[?], i32> -> tensor<32xi32>
// CHECK-NEXT:    tile.expand
// CHECK-NEXT:    tile.iota
// CHECK-NEXT:    tile.iota
// CHECK-NEXT:    tile.map @rejected_of_tiles
func.func @rejections(%a: !s, %m: i32, %n: i32) -> !s {
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %r = tile.map @rejected(%a, %rows, %cols) : (!s, !pos, !pos) -> !s
  return %r : !s
}

// Unknown positions, and tiles of rank 3.
// CHECK-LABEL: func.func @unknown
// CHECK-NOT:     tile.load
// CHECK:         tile.map @row(
// CHECK:         tile.map @row(
func.func @unknown(%a: !s, %h: i32, %where: !pos, %n: i32, %c: tensor<2x4x8xf32>) -> (!s, tensor<2x4x8xf32>) {
  %r = tile.map @row(%a, %h, %where) : (!s, i32, !pos) -> !s
  %last = tile.iota %n dim 2 : tensor<2x4x8xi32>
  %q = tile.map @row(%c, %h, %last) : (tensor<2x4x8xf32>, i32, tensor<2x4x8xi32>) -> tensor<2x4x8xf32>
  return %r, %q : !s, tensor<2x4x8xf32>
}
