// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-expand-composites --canonicalize | FileCheck %s

// The first of the elements that equal the maximum, or of NaNs, which are unequal to all.
// CHECK-LABEL: func.func @argmax(
// CHECK-SAME:      %[[X:[a-z0-9]+]]: tensor<4x8xf32>
// CHECK-DAG:     %[[C8:.*]] = arith.constant 8 : i32
// CHECK-DAG:     %[[C0:.*]] = arith.constant 0 : i32
// CHECK:         %[[COLUMNS:.*]] = tile.iota %[[C0]] dim 1 : tensor<4x8xi32>
// CHECK:         %[[MAX:.*]] = tile.reduce max %[[X]] dim 1 : tensor<4x8xf32> -> tensor<4xf32>
// CHECK:         %[[EACH:.*]] = tile.expand %[[MAX]] dim 1
// CHECK:         %[[EQUAL:.*]] = arith.cmpf oeq, %[[X]], %[[EACH]]
// CHECK:         %[[NAN:.*]] = arith.cmpf uno, %[[X]], %[[X]]
// CHECK:         %[[IS:.*]] = arith.ori %[[EQUAL]], %[[NAN]]
// CHECK:         %[[BEYOND:.*]] = tile.full %[[C8]] : tensor<4x8xi32>
// CHECK:         %[[AT:.*]] = tile.select %[[IS]], %[[COLUMNS]], %[[BEYOND]]
// CHECK:         %[[FIRST:.*]] = tile.reduce min %[[AT]] dim 1 : tensor<4x8xi32> -> tensor<4xi32>
// CHECK:         return %[[MAX]], %[[FIRST]]
func.func @argmax(%x: tensor<4x8xf32>) -> (tensor<4xf32>, tensor<4xi32>) {
  %0, %1 = tile.argmax %x dim 1 : tensor<4x8xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xi32>
}

// Integers have no NaN.
// CHECK-LABEL: func.func @argmin(
// CHECK:         tile.reduce min %{{.*}} dim 0 : tensor<8xi32> -> tensor<i32>
// CHECK:         arith.cmpi eq
// CHECK-NOT:     arith.ori
// CHECK:         tile.reduce min
func.func @argmin(%x: tensor<8xi32>) -> tensor<i32> {
  %0, %1 = tile.argmin %x dim 0 : tensor<8xi32>
  return %1 : tensor<i32>
}

// A loop with a round for each result. e4m3 has no infinity.
// CHECK-LABEL: func.func @top_k(
// CHECK-DAG:     arith.constant -4.480000e+02 : f8E4M3FN
// CHECK-DAG:     %[[C3:.*]] = arith.constant 3 : i32
// CHECK:         scf.for %[[ROUND:.*]] = %{{.*}} to %[[C3]] step %{{.*}} iter_args(%[[POSITIONS:.*]] = %{{.*}}, %{{.*}} = %{{.*}}, %{{.*}} = %{{.*}})
// CHECK:           %[[GONE:.*]] = arith.cmpi eq, %[[POSITIONS]], %[[BEYOND:.*]] : tensor<4x8xi32>
// CHECK:           tile.select %[[GONE]]
// CHECK:           tile.reduce max
// CHECK:           %[[INDEX:.*]] = tile.reduce min
// CHECK:           %[[TAKEN:.*]] = tile.expand %[[INDEX]] dim 1 : tensor<4xi32> -> tensor<4x8xi32>
// CHECK:           arith.cmpi eq, %[[POSITIONS]], %[[TAKEN]]
// CHECK:           scf.yield
func.func @top_k(%x: tensor<4x8xf8E4M3FN>) -> (tensor<4x3xf8E4M3FN>, tensor<4x3xi32>) {
  %0, %1 = tile.top_k %x dim 1 : tensor<4x8xf8E4M3FN> -> tensor<4x3xf8E4M3FN>
  return %0, %1 : tensor<4x3xf8E4M3FN>, tensor<4x3xi32>
}

// A tile of rank 1 is a row, since a GPU has no tiles of rank 0.
// CHECK-LABEL: func.func @smallest(
// CHECK-DAG:     arith.constant 0x7F800000 : f32
// CHECK:         tile.reshape %{{.*}} : tensor<8xf32> -> tensor<1x8xf32>
// CHECK:         scf.for
// CHECK:           tile.reduce min %{{.*}} dim 1 : tensor<1x8xf32> -> tensor<1xf32>
// CHECK:         tile.reshape %{{.*}} : tensor<1x3xf32> -> tensor<3xf32>
func.func @smallest(%x: tensor<8xf32>) -> tensor<3xf32> {
  %0, %1 = tile.top_k %x dim 0 smallest : tensor<8xf32> -> tensor<3xf32>
  return %0 : tensor<3xf32>
}

// CHECK-LABEL: func.func @insert(
// CHECK-SAME:      %[[PART:[a-z0-9]+]]: tensor<2x8xf32>, %[[INTO:[a-z0-9]+]]: tensor<8x8xf32>, %[[I:[a-z0-9]+]]: i32
// CHECK:         %[[START:.*]] = arith.subi %{{.*}}, %[[I]] : i32
// CHECK:         %[[MOVED:.*]] = tile.slice %[[PART]] dim 0 from %[[START]] : tensor<2x8xf32> -> tensor<8x8xf32>
// CHECK:         %[[AT:.*]] = tile.iota %[[START]] dim 0
// CHECK:         %[[INSIDE:.*]] = arith.cmpi ult, %[[AT]]
// CHECK:         tile.select %[[INSIDE]], %[[MOVED]], %[[INTO]]
func.func @insert(%part: tensor<2x8xf32>, %into: tensor<8x8xf32>, %i: i32) -> tensor<8x8xf32> {
  %0 = tile.insert %part into %into dim 0 from %i : tensor<2x8xf32> -> tensor<8x8xf32>
  return %0 : tensor<8x8xf32>
}

// CHECK-LABEL: func.func @concat(
// CHECK:         tile.slice %{{.*}} dim 0 from %{{.*}} : tensor<2xf32> -> tensor<6xf32>
// CHECK:         tile.slice %{{.*}} dim 0 from %c-2{{.*}} : tensor<3xf32> -> tensor<6xf32>
// CHECK:         tile.select
// CHECK:         tile.slice %{{.*}} dim 0 from %c-5{{.*}} : tensor<1xf32> -> tensor<6xf32>
// CHECK:         tile.select
func.func @concat(%a: tensor<2xf32>, %b: tensor<3xf32>, %c: tensor<1xf32>) -> tensor<6xf32> {
  %0 = tile.concat %a, %b, %c dim 0 : tensor<2xf32>, tensor<3xf32>, tensor<1xf32> -> tensor<6xf32>
  return %0 : tensor<6xf32>
}

// A concatenation of one tile is the tile; a symbolic tile has no extents.
// CHECK-LABEL: func.func @kept(
// CHECK-NOT:     tile.slice
// CHECK:         tile.argmax
// CHECK:         return
func.func @kept(%a: tensor<2xf32>, %x: !tile.tile<[M, N], f32>) -> (tensor<2xf32>, !tile.tile<[M], i32>) {
  %0 = tile.concat %a dim 0 : tensor<2xf32> -> tensor<2xf32>
  %1, %2 = tile.argmax %x dim 1 : !tile.tile<[M, N], f32>
  return %0, %2 : tensor<2xf32>, !tile.tile<[M], i32>
}
