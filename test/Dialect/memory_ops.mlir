// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations on views, on symbolic tiles and on tensors.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

tile.capture @slopes : !tile.view<[?, ?], f32>
tile.capture @cap : f32
tile.capture @cell : !tile.view<[], i32>

// One element of a view, of a captured view, and of a captured scalar. Indices may be negative.
// GENERIC: "tile.at"(%{{.*}}, %{{.*}}) <{operandSegmentSizes = array<i32: 1, 1>, static_indices = array<i64: -9223372036854775808, -1>}>
// GENERIC: "tile.at"() <{capture = @cap, operandSegmentSizes = array<i32: 0, 0>, static_indices = array<i64>}>
// CHECK-LABEL: func.func @at(
// CHECK: tile.at %[[X:.*]][%[[I:.*]], -1] : !tile.view<[?, ?], T>
// CHECK-NEXT: tile.at @slopes[%[[I]], 3] : f32
// CHECK-NEXT: tile.at @cap : f32
// CHECK-NEXT: tile.at @cell : i32
// CHECK-NEXT: tile.at @cell : i32
// CHECK-NEXT: tile.at %{{.*}}[] : !tile.view<[], i64>
func.func @at(%x: !tile.view<[?, ?], T>, %y: !tile.view<[], i64>, %i: i32) {
  %0 = tile.at %x[%i, -1] : !tile.view<[?, ?], T>
  %1 = tile.at @slopes[%i, 3] : f32
  %2 = tile.at @cap : f32
  %3 = tile.at @cell : i32
  %4 = tile.at @cell[] : i32
  %5 = tile.at %y[] : !tile.view<[], i64>
  return
}

// GENERIC: "tile.subview"(%{{.*}}, %{{.*}}, %{{.*}}) <{dim = 0 : i64}>
// GENERIC: "tile.dim"(%{{.*}}) <{dim = 1 : i64}>
// GENERIC: "tile.captured"() <{capture = @slopes}>
// GENERIC: "tile.repeat"(%{{.*}}, %{{.*}}, %{{.*}}) <{dim = 1 : i64}>
// CHECK-LABEL: func.func @views(
// CHECK: %[[S:.*]] = tile.subview %{{.*}} dim 0 from %{{.*}} size %{{.*}} : !tile.view<[?, D], T>
// CHECK-NEXT: tile.dim %[[S]], 1 : !tile.view<[?, D], T>
// CHECK-NEXT: %[[C:.*]] = tile.captured @slopes : !tile.view<[?, ?], f32>
// CHECK-NEXT: tile.repeat %[[C]] dim 1 at %{{.*}} when %{{.*}} : !tile.view<[?, ?], f32>
func.func @views(%x: !tile.view<[?, D], T>, %offset: i32, %size: i32, %same: i1) {
  %0 = tile.subview %x dim 0 from %offset size %size : !tile.view<[?, D], T>
  %1 = tile.dim %0, 1 : !tile.view<[?, D], T>
  %2 = tile.captured @slopes : !tile.view<[?, ?], f32>
  %3 = tile.repeat %2 dim 1 at %offset when %same : !tile.view<[?, ?], f32>
  return
}

// Rows in pages that a table names, or in one page.
// GENERIC: "tile.paged"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{condition = #tile.expr<
// GENERIC-SAME: operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}>
// CHECK-LABEL: func.func @pages(
// CHECK: tile.paged %{{.*}} page %{{.*}} by %{{.*}}[%{{.*}}] each ROWS when (ROWS > 0) size %{{.*}} : !tile.view<[?, ?, ?, D], T>, !tile.view<[?, ?], i32> -> !tile.view<[?, ?, D], T>
// CHECK-NEXT: %[[P:.*]] = tile.paged %{{.*}} page %{{.*}} size %{{.*}} : !tile.view<[?, ?, ?, D], T> -> !tile.view<[?, ?, D], T>
// CHECK-NEXT: tile.dim %[[P]], 0
func.func @pages(%x: !tile.view<[?, ?, ?, D], T>, %table: !tile.view<[?, ?], i32>, %b: i32, %size: i32) {
  %0 = tile.paged %x page %b by %table[%b] each ROWS when (ROWS > 0) size %size
      : !tile.view<[?, ?, ?, D], T>, !tile.view<[?, ?], i32> -> !tile.view<[?, ?, D], T>
  %1 = tile.paged %x page %b size %size : !tile.view<[?, ?, ?, D], T> -> !tile.view<[?, ?, D], T>
  %2 = tile.dim %1, 0 : !tile.view<[?, ?, D], T>
  return
}

// Loads along the last dimensions, along listed ones, and with a pad.
// GENERIC: "tile.load"(%{{.*}}, %{{.*}}, %{{.*}}, %{{.*}}) <{dims = array<i64: 2, 1>,
// GENERIC-SAME: operandSegmentSizes = array<i32: 1, 2, 1>, static_indices = array<i64: 0, -9223372036854775808, -9223372036854775808>}>
// CHECK-LABEL: func.func @loads(
// CHECK: tile.load %{{.*}}[%{{.*}}, 0, -4] : !tile.view<[?, ?, D], T> -> !tile.tile<[M, D], T>
// CHECK-NEXT: tile.load %{{.*}}[0, %{{.*}}, %{{.*}}] dims [2, 1] pad %{{.*}} : !tile.param<T> in : !tile.view<[?, ?, D], T> -> !tile.tile<[D, M], T>
// CHECK-NEXT: tile.load %{{.*}}[0, 0, 0] : !tile.view<[?, ?, D], T> -> !tile.tile<[], T>
// CHECK-NEXT: tile.load %{{.*}}[0] : !tile.view<[?], f16> -> tensor<64xf16>
func.func @loads(%x: !tile.view<[?, ?, D], T>, %y: !tile.view<[?], f16>, %i: i32,
                 %pad: !tile.param<T>) {
  %0 = tile.load %x[%i, 0, -4] : !tile.view<[?, ?, D], T> -> !tile.tile<[M, D], T>
  %1 = tile.load %x[0, %i, %i] dims [2, 1] pad %pad : !tile.param<T> in
       : !tile.view<[?, ?, D], T> -> !tile.tile<[D, M], T>
  %2 = tile.load %x[0, 0, 0] : !tile.view<[?, ?, D], T> -> !tile.tile<[], T>
  %3 = tile.load %y[0] : !tile.view<[?], f16> -> tensor<64xf16>
  return
}

// Stores and atomic additions.
// CHECK-LABEL: func.func @writes(
// CHECK: tile.store %{{.*}}, %{{.*}}[%{{.*}}, 0] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>
// CHECK-NEXT: tile.store %{{.*}}, %{{.*}}[0, 0] dims [1, 0] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>
// CHECK-NEXT: tile.atomic_add %{{.*}}, %{{.*}}[%{{.*}}, 0] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>
// CHECK-NEXT: tile.atomic_add %{{.*}}, %{{.*}}[0] : tensor<4xi32>, !tile.view<[?], i32>
// CHECK-NEXT: tile.atomic_add %{{.*}}, %{{.*}}[%{{.*}}, 0] in order of %{{.*}} by %{{.*}}[%{{.*}}] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>, !tile.view<[?], i32>
func.func @writes(%t: !tile.tile<[M, D], T>, %x: !tile.view<[?, D], T>, %u: tensor<4xi32>,
                  %y: !tile.view<[?], i32>, %i: i32) {
  tile.store %t, %x[%i, 0] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>
  tile.store %t, %x[0, 0] dims [1, 0] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>
  tile.atomic_add %t, %x[%i, 0] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>
  tile.atomic_add %u, %y[0] : tensor<4xi32>, !tile.view<[?], i32>
  tile.atomic_add %t, %x[%i, 0] in order of %i by %y[%i] : !tile.tile<[M, D], T>, !tile.view<[?, D], T>, !tile.view<[?], i32>
  return
}

// Access along a tile of indices.
// GENERIC: "tile.gather"(%{{.*}}, %{{.*}}, %{{.*}}) <{along = 0 : i64, dims = array<i64: 0, 2>,
// CHECK-LABEL: func.func @indexed(
// CHECK: tile.gather %{{.*}}[0, %{{.*}}, 0] dims [0, 2] along 0 at %{{.*}} : !tile.view<[?, ?, D], T>, !tile.tile<[N], i32> -> !tile.tile<[N, D], T>
// CHECK-NEXT: tile.gather %{{.*}}[0] along 0 at %{{.*}} : !tile.view<[?], f32>, tensor<8xi32> -> tensor<8xf32>
// CHECK-NEXT: tile.scatter_add %{{.*}}, %{{.*}}[0, %{{.*}}, 0] dims [0, 2] along 0 at %{{.*}} : !tile.tile<[N, D], T>, !tile.view<[?, ?, D], T>, !tile.tile<[N], i32>
// CHECK-NEXT: tile.scatter_add %{{.*}}, %{{.*}}[0] along 0 at %{{.*}} : tensor<8xf32>, !tile.view<[?], f32>, tensor<8xi32>
func.func @indexed(%x: !tile.view<[?, ?, D], T>, %y: !tile.view<[?], f32>,
                   %rows: !tile.tile<[N], i32>, %at: tensor<8xi32>, %i: i32) {
  %0 = tile.gather %x[0, %i, 0] dims [0, 2] along 0 at %rows
       : !tile.view<[?, ?, D], T>, !tile.tile<[N], i32> -> !tile.tile<[N, D], T>
  %1 = tile.gather %y[0] along 0 at %at : !tile.view<[?], f32>, tensor<8xi32> -> tensor<8xf32>
  tile.scatter_add %0, %x[0, %i, 0] dims [0, 2] along 0 at %rows
      : !tile.tile<[N, D], T>, !tile.view<[?, ?, D], T>, !tile.tile<[N], i32>
  tile.scatter_add %1, %y[0] along 0 at %at : tensor<8xf32>, !tile.view<[?], f32>, tensor<8xi32>
  return
}
