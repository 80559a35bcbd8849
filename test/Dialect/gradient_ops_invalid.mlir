// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid derivatives and additions at indices.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// tile.map_gradient.
func.func private @f(%s: f32, %i: i32) -> f32
func.func @beyond(%s: tensor<8xf32>, %i: i32) {
  // expected-error @+1 {{differentiates with respect to operand 2, but there are 2 operands, counted from 0}}
  %0 = tile.map_gradient @f(%s, %i) wrt 2 seed %s : tensor<8xf32> : (tensor<8xf32>, i32) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32, %i: i32) -> f32
func.func @integer(%s: tensor<8xf32>, %i: i32) {
  // expected-error @+1 {{differentiates with respect to a float, but got operand 1 of 'i32' elements}}
  %0 = tile.map_gradient @f(%s, %i) wrt 1 seed %s : tensor<8xf32> : (tensor<8xf32>, i32) -> tensor<8xi32>
  return
}

// -----

func.func private @f(%s: f16) -> f32
func.func @result_elements(%s: tensor<8xf16>, %seed: tensor<8xf32>) {
  // expected-error @+1 {{result must have the elements of operand 0, 'f16', but got 'f32'}}
  %0 = tile.map_gradient @f(%s) wrt 0 seed %seed : tensor<8xf32> : (tensor<8xf16>) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @seed_shape(%s: tensor<8xf32>, %seed: tensor<4xf32>) {
  // expected-error @+1 {{seed must have the shape of the result, [8], but got [4]}}
  %0 = tile.map_gradient @f(%s) wrt 0 seed %seed : tensor<4xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @seed_of_integers(%s: tensor<8xf32>, %seed: tensor<8xi32>) {
  // expected-error @+1 {{seed must be a tile of floats, but got elements of 'i32'}}
  %0 = tile.map_gradient @f(%s) wrt 0 seed %seed : tensor<8xi32> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @seed_elements(%s: tensor<8xf32>, %seed: tensor<8xf16>) {
  // expected-error @+1 {{needs @f to return one 'f16', but it is '(f32) -> f32'}}
  %0 = tile.map_gradient @f(%s) wrt 0 seed %seed : tensor<8xf16> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32, %x: f32) -> f32
func.func @shapes(%s: tensor<8xf32>, %x: tensor<4xf32>) {
  // expected-error @+1 {{tiles must have one shape, [8], but got [4]}}
  %0 = tile.map_gradient @f(%s, %x) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>, tensor<4xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @scalars(%s: f32, %seed: tensor<8xf32>) {
  // expected-error @+1 {{needs a tile among its operands; use tile.full of func.call for scalars}}
  %0 = tile.map_gradient @f(%s) wrt 0 seed %seed : tensor<8xf32> : (f32) -> tensor<8xf32>
  return
}

// -----

func.func @unknown(%s: tensor<8xf32>) {
  // expected-error @+1 {{must apply a function of this module, but got @g; define it, or link the file that does}}
  %0 = tile.map_gradient @g(%s) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @count(%s: tensor<8xf32>) {
  // expected-error @+1 {{must pass 1 operands to @f, but got 2}}
  %0 = tile.map_gradient @f(%s, %s) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>, tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// tile.add_gradients.
func.func private @f(%s: f32) -> f32
func.func @sums_seed(%s: tensor<8xf32>, %seed: tensor<8xi1>) {
  // expected-error @+1 {{seed must be a tile of floats, but got elements of 'i1'}}
  tile.add_gradients @f(%s) seed %seed : tensor<8xi1> : (tensor<8xf32>)
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @sums_shape(%s: tensor<8xf32>, %seed: tensor<4xf32>) {
  // expected-error @+1 {{tiles must have one shape, [4], but got [8]}}
  tile.add_gradients @f(%s) seed %seed : tensor<4xf32> : (tensor<8xf32>)
  return
}

// -----

func.func private @f(%s: f32) -> f32
func.func @sums_operand(%s: tensor<8xf16>, %seed: tensor<8xf32>) {
  // expected-error @+1 {{operand 0 of @f is 'f32', but got elements of 'f16'}}
  tile.add_gradients @f(%s) seed %seed : tensor<8xf32> : (tensor<8xf16>)
  return
}

// -----

// tile.add_at.
func.func @rank(%x: tensor<8xf32>, %v: !tile.view<[?, ?], f32>, %i: i32) {
  // expected-error @+1 {{needs one index for each dimension of what it adds to: rank 2, but got 1 index}}
  tile.add_at %x, %v[%i] : tensor<8xf32>, !tile.view<[?, ?], f32>, (i32)
  return
}

// -----

func.func @index_type(%x: tensor<8xf32>, %v: !tile.view<[?], f32>, %i: i64) {
  // expected-error @+1 {{indices are i32, but got 'i64'}}
  tile.add_at %x, %v[%i] : tensor<8xf32>, !tile.view<[?], f32>, (i64)
  return
}

// -----

func.func @index_shape(%x: tensor<8xf32>, %v: !tile.view<[?], f32>, %i: tensor<4xi32>) {
  // expected-error @+1 {{indices must have the shape of the value, [8], but got [4]}}
  tile.add_at %x, %v[%i] : tensor<8xf32>, !tile.view<[?], f32>, (tensor<4xi32>)
  return
}

// -----

func.func @elements(%x: tensor<8xf16>, %v: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{view and tile must have the same elements, but got 'f32' and 'f16'; convert the tile with tile.cast}}
  tile.add_at %x, %v[%i] : tensor<8xf16>, !tile.view<[?], f32>, (i32)
  return
}

// -----

func.func @integers(%x: tensor<8xi32>, %v: !tile.view<[?], i32>, %i: i32) {
  // expected-error @+1 {{requires floats, but got 'i32'}}
  tile.add_at %x, %v[%i] : tensor<8xi32>, !tile.view<[?], i32>, (i32)
  return
}

// -----

func.func @words(%x: tensor<8xf32>, %v: !tile.view<[?, 12], i64>, %i: i32) {
  // expected-error @+1 {{'exact' requires a view of i64 whose last extent is 13, but got '!tile.view<[?, 12], i64>'}}
  tile.add_at %x, %v[%i] exact : tensor<8xf32>, !tile.view<[?, 12], i64>, (i32)
  return
}

// -----

func.func @exact_elements(%x: tensor<8xf16>, %v: !tile.view<[?, 13], i64>, %i: i32) {
  // expected-error @+1 {{'exact' requires elements of f32 or f64, but got 'f16'; convert it with tile.cast}}
  tile.add_at %x, %v[%i] exact : tensor<8xf16>, !tile.view<[?, 13], i64>, (i32)
  return
}

// -----

// A constraint may read the extents of a captured view, but no other properties of captures.
tile.capture @scale : f32
// expected-error @+1 {{a constraint may take dim of views among the arguments only, but got 'scale'}}
tile.program @scalar_capture require(dim(x, 0) == dim(scale, 0)) (%x: !tile.view<[?], f32>) {
}

// -----

tile.capture @table : !tile.view<[?], f32>
// expected-error @+1 {{takes dim(table, 1), but 'table' has rank 1; dimensions are counted from 0}}
tile.program @beyond_capture require(dim(x, 0) == dim(table, 1)) (%x: !tile.view<[?], f32>) {
}

// -----

tile.capture @table : !tile.view<[?], f32>
tile.program @in_workspace (%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{an extent may take dim of views among the arguments only, but got 'table'}}
  %w = tile.workspace [dim(table, 0)] : !tile.view<[?], f32>
}

// -----

func.func private @f(%s: f32, %i: i32) -> f32
tile.kernel @exact_kind params(P: int) (%x: f32) grid(%i = 1) {
  %t = tile.full %x : tensor<8xf32>
  // expected-error @+1 {{the condition of 'exact' must be of kind flag, but got kind int}}
  tile.add_gradients @f(%x, %i) seed %t : tensor<8xf32> exact when (P) : (f32, i32)
}

// -----

func.func private @f(%s: f32) -> f32
func.func @condition_without_exact(%x: f32, %t: tensor<8xf32>) {
  // expected-error @+1 {{'when' requires 'exact', but got it alone; remove it, or write 'exact' before it}}
  "tile.add_gradients"(%x, %t) <{function = @f, exact_condition = #tile.expr<true>}> : (f32, tensor<8xf32>) -> ()
  return
}
