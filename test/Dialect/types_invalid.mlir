// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid types.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{a dimension must be between 1 and 2147483647, but got 0}}
func.func private @zero(!tile.tile<[0], f32>)

// -----

// expected-error @+1 {{a dimension must be between 1 and 2147483647, but got -4}}
func.func private @negative(!tile.view<[-4], f32>)

// -----

// expected-error @+1 {{a dimension must be between 1 and 2147483647, but got 2147483648}}
func.func private @beyond_i32(!tile.tile<[2147483648], f32>)

// -----

// expected-error @+1 {{integer value too large}}
func.func private @beyond_i64(!tile.tile<[99999999999999999999], f32>)

// -----

// Only views may have unknown extents.
// expected-error @+1 {{expected a dimension: an integer or the name of a parameter, but got '?'}}
func.func private @unknown_of_tile(!tile.tile<[?], f32>)

// -----

// expected-error @+1 {{expected a dimension: an integer, '?' or the name of a parameter, but got '%n'}}
func.func private @value_as_dimension(!tile.view<[%n], f32>)

// -----

// MLIR would parse the word as the integer 1.
// expected-error @+1 {{expected a dimension: an integer or the name of a parameter, but got 'true'}}
func.func private @flag_as_dimension(!tile.tile<[true], f32>)

// -----

// expected-error @+1 {{elements must be floats, i1, i8, i32, i64 or a type parameter, but got 'i16'}}
func.func private @elements_of_tile(!tile.tile<[4], i16>)

// -----

// expected-error @+1 {{elements must be floats, i1, i8, i32, i64 or a type parameter, but got 'index'}}
func.func private @elements_of_view(!tile.view<[4], index>)

// -----

// expected-error @+1 {{elements must be floats, i1, i8, i32, i64 or a type parameter, but got '!tile.tile<[4], f32>'}}
func.func private @tile_of_tiles(!tile.tile<[4], !tile.tile<[4], f32>>)

// -----

// expected-error @+1 {{expected an element type or the name of a type parameter, but got '4'}}
func.func private @no_element(!tile.tile<[4], 4>)

// -----

// Without quotes, the parameter would be parsed as the type.
// expected-error @+1 {{'f32' is a literal or a type and cannot name a parameter; choose another name}}
func.func private @type_as_name(!tile.param<f32>)

// -----

// expected-error @+1 {{'tensor' is a literal or a type and cannot name a parameter; choose another name}}
func.func private @type_as_element_name(!tile.tile<[4], "tensor">)

// -----

// expected-error @+1 {{'i8' is a literal or a type and cannot name a parameter; choose another name}}
func.func private @integer_as_name(!tile.param<i8>)

// -----

// expected-error @+1 {{'true' is a literal or a type and cannot name a parameter; choose another name}}
func.func private @literal_as_name(!tile.param<true>)

// -----

// A tensor is a tile if its extents are known and positive.
func.func @empty_tensor(%x: tensor<0xf32>) {
  // expected-error @+1 {{operand #0 must be a tile or a scalar, but got 'tensor<0xf32>'}}
  %0 = tile.cast %x : tensor<0xf32> -> tensor<0xf16>
  return
}

// -----

func.func @dynamic_tensor(%x: tensor<?xf32>) {
  // expected-error @+1 {{operand #0 must be a tile, but got 'tensor<?xf32>'}}
  %0 = tile.reshape %x : tensor<?xf32> -> tensor<4xf32>
  return
}

// -----

func.func @vector(%x: vector<4xf32>) {
  // expected-error @+1 {{operand #0 must be a tile, but got 'vector<4xf32>'}}
  %0 = tile.reshape %x : vector<4xf32> -> tensor<4xf32>
  return
}
