// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derivatives and additions at indices, before and after binding.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s

func.func private @f(%s: f32, %i: i32) -> f32

// CHECK-LABEL: @gradients
// CHECK-NEXT: tile.map_gradient @f(%{{.*}}, %{{.*}}) wrt 0 seed %{{.*}} : !tile.tile<[M, N], f32> : (!tile.tile<[M, N], f32>, i32) -> !tile.tile<[M, N], f32>
// CHECK-NEXT: tile.map_gradient @f(%{{.*}}, %{{.*}}) wrt 0 seed %{{.*}} : tensor<8xf32> : (tensor<8xf32>, i32) -> tensor<8xf32>
// CHECK-NEXT: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : !tile.tile<[M, N], f32> : (!tile.tile<[M, N], f32>, i32)
// CHECK-NEXT: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : tensor<8xf32> exact : (tensor<8xf32>, i32)
// CHECK-NEXT: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : tensor<8xf32> once : (tensor<8xf32>, i32)
// CHECK-NEXT: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : tensor<8xf32> exact once : (tensor<8xf32>, i32)
// CHECK-NEXT: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : tensor<8xf32> : (f32, i32)
func.func @gradients(%s: !tile.tile<[M, N], f32>, %t: tensor<8xf32>, %x: f32, %i: i32) {
  %0 = tile.map_gradient @f(%s, %i) wrt 0 seed %s : !tile.tile<[M, N], f32> : (!tile.tile<[M, N], f32>, i32) -> !tile.tile<[M, N], f32>
  %1 = tile.map_gradient @f(%t, %i) wrt 0 seed %t : tensor<8xf32> : (tensor<8xf32>, i32) -> tensor<8xf32>
  tile.add_gradients @f(%s, %i) seed %s : !tile.tile<[M, N], f32> : (!tile.tile<[M, N], f32>, i32)
  tile.add_gradients @f(%t, %i) seed %t : tensor<8xf32> exact : (tensor<8xf32>, i32)
  tile.add_gradients @f(%t, %i) seed %t : tensor<8xf32> once : (tensor<8xf32>, i32)
  tile.add_gradients @f(%t, %i) seed %t : tensor<8xf32> exact once : (tensor<8xf32>, i32)
  // The seed is a tile, even if no operand of the function is.
  tile.add_gradients @f(%x, %i) seed %t : tensor<8xf32> : (f32, i32)
  return
}

// CHECK-LABEL: tile.kernel @exact_by_parameter
// CHECK: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : tensor<8xf32> exact when (P) : (f32, i32)
// CHECK: tile.add_gradients @f(%{{.*}}, %{{.*}}) seed %{{.*}} : tensor<8xf32> exact when (not(P)) once : (f32, i32)
tile.kernel @exact_by_parameter params(P: flag) (%x: f32) grid(%i = 1) {
  %t = tile.full %x : tensor<8xf32>
  tile.add_gradients @f(%x, %i) seed %t : tensor<8xf32> exact when (P) : (f32, i32)
  tile.add_gradients @f(%x, %i) seed %t : tensor<8xf32> exact when (not(P)) once : (f32, i32)
}

// CHECK-LABEL: @add_at
// CHECK-NEXT: tile.add_at %{{.*}}, %{{.*}}[%{{.*}}, %{{.*}}] : !tile.tile<[M], T>, !tile.view<[?, 7], T>, (i32, !tile.tile<[M], i32>)
// CHECK-NEXT: tile.add_at %{{.*}}, %{{.*}}[%{{.*}}] exact : tensor<8xf64>, !tile.view<[?, 13], i64>, (i32)
func.func @add_at(%s: !tile.tile<[M], T>, %at: !tile.tile<[M], i32>, %x: !tile.view<[?, 7], T>, %t: tensor<8xf64>, %w: !tile.view<[?, 13], i64>, %i: i32) {
  tile.add_at %s, %x[%i, %at] : !tile.tile<[M], T>, !tile.view<[?, 7], T>, (i32, !tile.tile<[M], i32>)
  tile.add_at %t, %w[%i] exact : tensor<8xf64>, !tile.view<[?, 13], i64>, (i32)
  return
}

// A constraint may read the extents of captures.
// CHECK: tile.program @constraint
// CHECK-NEXT: require(dim(x, 0) == dim(table, 0))
tile.capture @table : !tile.view<[?], f32>
tile.program @constraint require(dim(x, 0) == dim(table, 0)) (%x: !tile.view<[?], f32>) {
}
