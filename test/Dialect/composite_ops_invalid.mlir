// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics

func.func @extremum_dim(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{must name one of 2 dimensions, counted from 0, but got 2}}
  %0, %1 = tile.argmax %x dim 2 : tensor<4x8xf32> -> tensor<4xf32>, tensor<4xi32>
}

// -----

func.func @extremum_inferred(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{the operation must name dimensions of its operand, so that the result type can be inferred, but got 'tensor<4x8xf32>'}}
  %0, %1 = tile.argmin %x dim 2 : tensor<4x8xf32>
}

// -----

func.func @extremum_shape(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{result must have shape [4], but got [8]}}
  %0, %1 = tile.argmax %x dim 1 : tensor<4x8xf32> -> tensor<8xf32>, tensor<8xi32>
}

// -----

func.func @extremum_elements(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{elements of the result must be 'f32', but got 'f16'}}
  %0, %1 = tile.argmax %x dim 1 : tensor<4x8xf32> -> tensor<4xf16>, tensor<4xi32>
}

// -----

func.func @extremum_positions(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{positions must be i32 in the shape of the elements, [4], but got 'tensor<4xi64>'}}
  %0, %1 = tile.argmax %x dim 1 : tensor<4x8xf32> -> tensor<4xf32>, tensor<4xi64>
}

// -----

func.func @extremum_flags(%x: tensor<4x8xi1>) {
  // expected-error @+1 {{'tile.argmin' op does not support i1; convert with tile.cast}}
  %0, %1 = tile.argmin %x dim 1 : tensor<4x8xi1>
}

// -----

func.func @largest_dim(%x: tensor<8xf32>) {
  // expected-error @+1 {{must name one of 1 dimensions, counted from 0, but got 1}}
  %0, %1 = tile.top_k %x dim 1 : tensor<8xf32> -> tensor<2xf32>
}

// -----

func.func @largest_shape(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{result must have shape [4, 2], but got [3, 2]}}
  %0, %1 = tile.top_k %x dim 1 : tensor<4x8xf32> -> tensor<3x2xf32>
}

// -----

func.func @largest_rank(%x: tensor<4x8xf32>) {
  // expected-error @+1 {{result must have shape [4, 8], but got [4]}}
  %0, %1 = tile.top_k %x dim 1 : tensor<4x8xf32> -> tensor<4xf32>
}

// -----

func.func @largest_elements(%x: tensor<8xf32>) {
  // expected-error @+1 {{elements of the result must be 'f32', but got 'i32'}}
  %0, %1 = tile.top_k %x dim 0 : tensor<8xf32> -> tensor<2xi32>
}

// -----

func.func @largest_positions(%x: tensor<8xf32>) {
  // expected-error @+1 {{positions must be i32 in the shape of the elements, [2], but got 'tensor<3xi32>'}}
  %0, %1 = "tile.top_k"(%x) {dim = 0 : i64} : (tensor<8xf32>) -> (tensor<2xf32>, tensor<3xi32>)
}

// -----

func.func @largest_many(%x: tensor<8xf32>) {
  // expected-error @+1 {{must have a result of at most 8 elements along dimension 0, but got 9}}
  %0, %1 = tile.top_k %x dim 0 : tensor<8xf32> -> tensor<9xf32>
}

// -----

func.func @largest_flags(%x: tensor<8xi1>) {
  // expected-error @+1 {{'tile.top_k' op does not support i1; convert with tile.cast}}
  %0, %1 = tile.top_k %x dim 0 : tensor<8xi1> -> tensor<2xi1>
}

// -----

func.func @concat_dim(%x: tensor<4xf32>) {
  // expected-error @+1 {{must name one of 1 dimensions, counted from 0, but got 1}}
  %0 = tile.concat %x, %x dim 1 : tensor<4xf32>, tensor<4xf32> -> tensor<8xf32>
}

// -----

func.func @concat_none() {
  // expected-error @+1 {{requires operands, but got none}}
  %0 = "tile.concat"() {dim = 0 : i64} : () -> tensor<8xf32>
}

// -----

func.func @concat_elements(%x: tensor<4xf32>, %y: tensor<4xf16>) {
  // expected-error @+1 {{operand must be of the type of the result, 'tensor<8xf32>', apart from the extent of dimension 0, but got 'tensor<4xf16>'}}
  %0 = tile.concat %x, %y dim 0 : tensor<4xf32>, tensor<4xf16> -> tensor<8xf32>
}

// -----

func.func @concat_shape(%x: tensor<4x2xf32>, %y: tensor<4x3xf32>) {
  // expected-error @+1 {{operand must be of the type of the result, 'tensor<8x2xf32>', apart from the extent of dimension 0, but got 'tensor<4x3xf32>'}}
  %0 = tile.concat %x, %y dim 0 : tensor<4x2xf32>, tensor<4x3xf32> -> tensor<8x2xf32>
}

// -----

func.func @concat_sum(%x: tensor<4xf32>) {
  // expected-error @+1 {{requires extents along dimension 0 that add up to 9, but got 8}}
  %0 = tile.concat %x, %x dim 0 : tensor<4xf32>, tensor<4xf32> -> tensor<9xf32>
}

// -----

func.func @insert_dim(%x: tensor<4xf32>, %y: tensor<8xf32>, %i: i32) {
  // expected-error @+1 {{must name one of 1 dimensions, counted from 0, but got 1}}
  %0 = tile.insert %x into %y dim 1 from %i : tensor<4xf32> -> tensor<8xf32>
}

// -----

func.func @insert_rank(%x: tensor<4xf32>, %y: tensor<8x4xf32>, %i: i32) {
  // expected-error @+1 {{part must be of the type of the result, 'tensor<8x4xf32>', apart from the extent of dimension 0, but got 'tensor<4xf32>'}}
  %0 = tile.insert %x into %y dim 0 from %i : tensor<4xf32> -> tensor<8x4xf32>
}

// -----

func.func @insert_into(%x: tensor<4xf32>, %y: tensor<8xf32>, %i: i32) {
  // expected-error @+1 {{failed to verify that all of {into, result} have same type}}
  %0 = "tile.insert"(%x, %y, %i) {dim = 0 : i64} : (tensor<4xf32>, tensor<8xf32>, i32) -> tensor<9xf32>
}

// -----

func.func @assert_elements(%x: tensor<4xi32>) {
  // expected-error @+1 {{condition must be i1, but got elements of 'i32'}}
  tile.assert %x, "never" : tensor<4xi32>
}

// -----

func.func @print_limit(%x: tensor<4xi32>) {
  // expected-error @+1 {{'tile.print' op must have a limit of at least 1 element, but got 0; leave it out to write all}}
  tile.print "x" %x limit 0 : tensor<4xi32>
}
