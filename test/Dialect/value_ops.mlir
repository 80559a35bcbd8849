// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that compute tiles from tiles, on symbolic tiles and on tensors.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// Tiles from scalars.
// GENERIC: "tile.full"(%{{.*}}) : (f32) -> tensor<4x8xf32>
// GENERIC: "tile.iota"(%{{.*}}) <{dim = 1 : i64}> : (i32) -> tensor<4x8xi32>
// CHECK-LABEL: func.func @make(
// CHECK: tile.full %{{.*}} : !tile.tile<[M, D], T>
// CHECK-NEXT: tile.full %{{.*}} : tensor<4x8xf32>
// CHECK-NEXT: tile.iota %{{.*}} dim 0 : !tile.tile<[M], i32>
// CHECK-NEXT: tile.iota %{{.*}} dim 1 : tensor<4x8xi32>
func.func @make(%value: !tile.param<T>, %x: f32, %n: i32) {
  %0 = tile.full %value : !tile.tile<[M, D], T>
  %1 = tile.full %x : tensor<4x8xf32>
  %2 = tile.iota %n dim 0 : !tile.tile<[M], i32>
  %3 = tile.iota %n dim 1 : tensor<4x8xi32>
  return
}

// Shape changes.
// GENERIC: "tile.transpose"(%{{.*}}) <{permutation = array<i64: 1, 0>}>
// CHECK-LABEL: func.func @shapes(
// CHECK: tile.expand %{{.*}} dim 1 : !tile.tile<[M], T> -> !tile.tile<[M, N], T>
// CHECK-NEXT: tile.expand %{{.*}} dim 0 : tensor<6xf32> -> tensor<4x6xf32>
// CHECK-NEXT: tile.reshape %{{.*}} : !tile.tile<[M, N], T> -> !tile.tile<[ROWS], T>
// CHECK-NEXT: tile.reshape %{{.*}} : tensor<4x6xf32> -> tensor<2x1x12xf32>
// CHECK-NEXT: tile.transpose %{{.*}} [1, 0] : !tile.tile<[M, N], T> -> !tile.tile<[N, M], T>
// CHECK-NEXT: tile.transpose %{{.*}} [2, 0, 1] : tensor<2x1x12xf32> -> tensor<12x2x1xf32>
func.func @shapes(%x: !tile.tile<[M], T>, %y: tensor<6xf32>) {
  %0 = tile.expand %x dim 1 : !tile.tile<[M], T> -> !tile.tile<[M, N], T>
  %1 = tile.expand %y dim 0 : tensor<6xf32> -> tensor<4x6xf32>
  %2 = tile.reshape %0 : !tile.tile<[M, N], T> -> !tile.tile<[ROWS], T>
  %3 = tile.reshape %1 : tensor<4x6xf32> -> tensor<2x1x12xf32>
  %4 = tile.transpose %0 [1, 0] : !tile.tile<[M, N], T> -> !tile.tile<[N, M], T>
  %5 = tile.transpose %3 [2, 0, 1] : tensor<2x1x12xf32> -> tensor<12x2x1xf32>
  return
}

// Products with all clauses.
// GENERIC: "tile.dot"(%{{.*}}, %{{.*}}, %{{.*}}) <{precision = #tile<dot_precision tf32>, transpose_a, transpose_b}>
// CHECK-LABEL: func.func @products(
// CHECK: tile.dot %{{.*}}, %{{.*}} transpose_b : !tile.tile<[M, D], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, N], ACC>
// CHECK-NEXT: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_a : !tile.tile<[M, D], T>, !tile.tile<[M, N], T> -> !tile.tile<[D, N], ACC>
// CHECK-NEXT: tile.dot %{{.*}}, %{{.*}} : tensor<8x4xf16>, tensor<4x8xf16> -> tensor<8x8xf32>
// CHECK-NEXT: tile.dot %{{.*}}, %{{.*}} : tensor<4x4xf64>, tensor<4x4xf64> -> tensor<4x4xf64>
// CHECK-NEXT: tile.dot %{{.*}}, %{{.*}}, %{{.*}} transpose_a transpose_b precision tf32 : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
func.func @products(%q: !tile.tile<[M, D], T>, %k: !tile.tile<[N, D], T>, %p: !tile.tile<[M, N], T>,
                    %o: !tile.tile<[D, N], ACC>, %a: tensor<8x4xf16>, %b: tensor<4x8xf16>,
                    %x: tensor<4x8xf32>, %y: tensor<8x4xf32>, %z: tensor<4x4xf64>) {
  %0 = tile.dot %q, %k transpose_b : !tile.tile<[M, D], T>, !tile.tile<[N, D], T> -> !tile.tile<[M, N], ACC>
  %1 = tile.dot %q, %p, %o transpose_a : !tile.tile<[M, D], T>, !tile.tile<[M, N], T> -> !tile.tile<[D, N], ACC>
  %2 = tile.dot %a, %b : tensor<8x4xf16>, tensor<4x8xf16> -> tensor<8x8xf32>
  %3 = tile.dot %z, %z precision ieee : tensor<4x4xf64>, tensor<4x4xf64> -> tensor<4x4xf64>
  %4 = tile.dot %x, %y, %2 transpose_a transpose_b precision tf32
       : tensor<4x8xf32>, tensor<8x4xf32> -> tensor<8x8xf32>
  return
}

// Reductions of every kind.
// GENERIC: "tile.reduce"(%{{.*}}) <{dim = 1 : i64, kind = #tile<reduce_kind add>}>
// CHECK-LABEL: func.func @reductions(
// CHECK: tile.reduce add %{{.*}} dim 1 : !tile.tile<[M, N], T> -> !tile.tile<[M], T>
// CHECK-NEXT: tile.reduce mul %{{.*}} dim 0 : !tile.tile<[M, N], T> -> !tile.tile<[N], T>
// CHECK-NEXT: tile.reduce max %{{.*}} dim 0 : !tile.tile<[N], T> -> !tile.tile<[], T>
// CHECK-NEXT: tile.reduce min %{{.*}} dim 1 : tensor<4x8xi32> -> tensor<4xi32>
// CHECK-NEXT: tile.reduce and %{{.*}} dim 1 : tensor<4x8xi32> -> tensor<4xi32>
// CHECK-NEXT: tile.reduce or %{{.*}} dim 0 : tensor<8xi1> -> tensor<i1>
func.func @reductions(%x: !tile.tile<[M, N], T>, %y: tensor<4x8xi32>, %z: tensor<8xi1>) {
  %0 = tile.reduce add %x dim 1 : !tile.tile<[M, N], T> -> !tile.tile<[M], T>
  %1 = tile.reduce mul %x dim 0 : !tile.tile<[M, N], T> -> !tile.tile<[N], T>
  %2 = tile.reduce max %1 dim 0 : !tile.tile<[N], T> -> !tile.tile<[], T>
  %3 = tile.reduce min %y dim 1 : tensor<4x8xi32> -> tensor<4xi32>
  %4 = tile.reduce and %y dim 1 : tensor<4x8xi32> -> tensor<4xi32>
  %5 = tile.reduce or %z dim 0 : tensor<8xi1> -> tensor<i1>
  return
}

// A scalar function applied to tiles; a type parameter of the function may be a concrete type at the call.
// CHECK-LABEL: func.func @mapped(
// CHECK: tile.map @score(%{{.*}}, %{{.*}}) : (!tile.tile<[M], ACC>, i32) -> !tile.tile<[M], ACC>
// CHECK-NEXT: tile.map @score(%{{.*}}, %{{.*}}) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
func.func private @score(!tile.param<ACC>, i32) -> !tile.param<ACC>
func.func @mapped(%x: !tile.tile<[M], ACC>, %h: i32, %y: tensor<4xf32>, %i: tensor<4xi32>) {
  %0 = tile.map @score(%x, %h) : (!tile.tile<[M], ACC>, i32) -> !tile.tile<[M], ACC>
  %1 = tile.map @score(%y, %i) : (tensor<4xf32>, tensor<4xi32>) -> tensor<4xf32>
  return
}

// Selections by a tile, by one flag, and of scalars.
// CHECK-LABEL: func.func @selections(
// CHECK: tile.select %{{.*}}, %{{.*}}, %{{.*}} : !tile.tile<[M], i1>, !tile.tile<[M], T>
// CHECK-NEXT: tile.select %{{.*}}, %{{.*}}, %{{.*}} : i1, tensor<4xf32>
// CHECK-NEXT: tile.select %{{.*}}, %{{.*}}, %{{.*}} : i1, !tile.param<T>
func.func @selections(%keep: !tile.tile<[M], i1>, %x: !tile.tile<[M], T>, %flag: i1, %y: tensor<4xf32>,
                      %s: !tile.param<T>) {
  %0 = tile.select %keep, %x, %x : !tile.tile<[M], i1>, !tile.tile<[M], T>
  %1 = tile.select %flag, %y, %y : i1, tensor<4xf32>
  %2 = tile.select %flag, %s, %s : i1, !tile.param<T>
  return
}

// Conversions.
// CHECK-LABEL: func.func @casts(
// CHECK: tile.cast %{{.*}} : !tile.tile<[M], T> -> !tile.tile<[M], f32>
// CHECK-NEXT: tile.cast %{{.*}} : tensor<4xi1> -> tensor<4xf8E4M3FN>
// CHECK-NEXT: tile.cast %{{.*}} : f32 -> !tile.param<T>
// CHECK-NEXT: tile.cast %{{.*}} : f32 -> i64
// CHECK-NEXT: tile.cast %{{.*}} reassoc : i64 -> !tile.param<T>
func.func @casts(%x: !tile.tile<[M], T>, %y: tensor<4xi1>, %s: f32) {
  %0 = tile.cast %x : !tile.tile<[M], T> -> !tile.tile<[M], f32>
  %1 = tile.cast %y : tensor<4xi1> -> tensor<4xf8E4M3FN>
  %2 = tile.cast %s : f32 -> !tile.param<T>
  %3 = tile.cast %s : f32 -> i64
  %4 = tile.cast %3 reassoc : i64 -> !tile.param<T>
  return
}

// Random bits for a scalar and for tiles.
// CHECK-LABEL: func.func @bits(
// CHECK: tile.random %{{.*}}, %{{.*}} at(%{{.*}}, %{{.*}}, %{{.*}}) : i32
// CHECK-NEXT: tile.random %{{.*}}, %{{.*}} at(%{{.*}}, %{{.*}}, %{{.*}}) bits 16 rounds 7 : !tile.tile<[M, N], i32>
func.func @bits(%seed: i64, %offset: i64, %i: i32, %x: !tile.tile<[M, N], i32>) {
  %0 = tile.random %seed, %offset at (%i, %i, %i) : i32
  %1 = tile.random %seed, %offset at (%x, %x, %x) bits 16 rounds 7 : !tile.tile<[M, N], i32>
  return
}

// Constants: with a float type, an integer literal is a float.
// CHECK-LABEL: func.func @literals(
// CHECK-NEXT: tile.constant 1.000000e+00 : !tile.tile<[M], T>
// CHECK-NEXT: tile.constant -2.000000e+00 : !tile.param<T>
// CHECK-NEXT: tile.constant -0.000000e+00 : tensor<4xf32>
// CHECK-NEXT: tile.constant minus_inf : tensor<4xf16>
// CHECK-NEXT: tile.constant inf : f32
// CHECK-NEXT: tile.constant nan : f64
// CHECK-NEXT: tile.constant -7 : tensor<4xi32>
// CHECK-NEXT: tile.constant 1 : !tile.tile<[M], i1>
// CHECK-NEXT: tile.constant 1.000000e-01 : f32
func.func @literals() {
  %0 = tile.constant 1.0 : !tile.tile<[M], T>
  %1 = tile.constant -2 : !tile.param<T>
  %2 = tile.constant -0 : tensor<4xf32>
  %3 = tile.constant minus_inf : tensor<4xf16>
  %4 = tile.constant inf : f32
  %5 = tile.constant nan : f64
  %6 = tile.constant -7 : tensor<4xi32>
  %7 = tile.constant 1 : !tile.tile<[M], i1>
  %8 = tile.constant 0.1 : f32
  return
}

// Slices.
// CHECK-LABEL: func.func @slices(
// CHECK-NEXT: tile.slice %{{.*}} dim 0 from %{{.*}} : !tile.tile<[M, N], T> -> !tile.tile<[H, N], T>
// CHECK-NEXT: tile.slice %{{.*}} dim 1 from %{{.*}} fill %{{.*}} : tensor<4x8xf32> -> tensor<4x8xf32>
func.func @slices(%x: !tile.tile<[M, N], T>, %y: tensor<4x8xf32>, %i: i32, %s: f32) {
  %0 = tile.slice %x dim 0 from %i : !tile.tile<[M, N], T> -> !tile.tile<[H, N], T>
  %1 = tile.slice %y dim 1 from %i fill %s : tensor<4x8xf32> -> tensor<4x8xf32>
  return
}

// Scans.
// CHECK-LABEL: func.func @scans(
// CHECK-NEXT: tile.scan add %{{.*}} dim 0 : !tile.tile<[M, N], T>
// CHECK-NEXT: tile.scan max %{{.*}} dim 1 reverse : tensor<4x8xf32>
// CHECK-NEXT: tile.scan or %{{.*}} dim 0 : tensor<8xi1>
func.func @scans(%x: !tile.tile<[M, N], T>, %y: tensor<4x8xf32>, %z: tensor<8xi1>) {
  %0 = tile.scan add %x dim 0 : !tile.tile<[M, N], T>
  %1 = tile.scan max %y dim 1 reverse : tensor<4x8xf32>
  %2 = tile.scan or %z dim 0 : tensor<8xi1>
  return
}

// Inferred result types.
// CHECK-LABEL: func.func @inferred(
// CHECK: tile.reduce add %{{.*}} dim 0 : !tile.tile<[M, 4], T> -> !tile.tile<[4], T>
// CHECK-NEXT: tile.reduce max %{{.*}} dim 1 : tensor<4x8xf32> -> tensor<4xf32>
// CHECK-NEXT: tile.transpose %{{.*}} [1, 0] : !tile.tile<[M, 4], T> -> !tile.tile<[4, M], T>
// CHECK-NEXT: tile.transpose %{{.*}} [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
func.func @inferred(%x: !tile.tile<[M, 4], T>, %y: tensor<4x8xf32>) {
  %0 = tile.reduce add %x dim 0 : !tile.tile<[M, 4], T>
  %1 = tile.reduce max %y dim 1 : tensor<4x8xf32>
  %2 = tile.transpose %x [1, 0] : !tile.tile<[M, 4], T>
  %3 = tile.transpose %y [1, 0] : tensor<4x8xf32>
  return
}
