// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid formulas.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

func.func @unknown_function(%x: f32) {
  // expected-error @+1 {{formulas have no function 'sin'; write param(...) for an expression over parameters}}
  %0 = tile.expr sin(%x) : f32
}

// -----

func.func @operand_count(%x: f32) {
  // expected-error @+1 {{expected ','}}
  %0 = tile.expr min(%x) : f32
}

// -----

func.func @no_value(%x: f32) {
  // expected-error @+1 {{expected a value, a number, a name or '(' in a formula}}
  %0 = tile.expr %x + : f32
}

// -----

func.func @negative(%x: f32) {
  // expected-error @+1 {{expected a number behind the sign; write neg(x) for the negative of a value}}
  %0 = tile.expr -%x : f32
}

// -----

func.func @of_integers(%x: f32) {
  // expected-error @+1 {{'mod' is a function of integers, but the type is 'f32'; cast its operand with tile.cast}}
  %0 = tile.expr mod(%x, 2) : f32
}

// -----

func.func @of_floats(%x: i32) {
  // expected-error @+1 {{'exp2' is a function of floats, but the type is 'i32'; cast its operand with tile.cast}}
  %0 = tile.expr exp2(%x) : i32
}

// -----

func.func @number_of_floats(%x: i32) {
  // expected-error @+1 {{an integer is required here, since the type is 'i32', but got a float; leave out its fraction, or cast the operands}}
  %0 = tile.expr %x + 0.5 : i32
}

// -----

func.func @condition_as_number(%x: i32) {
  // expected-error @+1 {{a number is required here, but got a condition; write select(condition, a, b)}}
  %0 = tile.expr %x + (%x < 1) : i32
}

// -----

func.func @number_as_condition(%x: i32) {
  // expected-error @+1 {{a condition is required here, but got a number; compare it}}
  %0 = tile.expr select(%x + 1, %x, 0) : i32
}

// -----

func.func @parameter_of_floats(%x: f32) {
  // expected-error @+1 {{a parameter has no place in a formula of floats, whose type is 'f32'; cast it with tile.cast}}
  %0 = tile.expr %x * BLOCK : f32
}

// -----

func.func @full_of_scalars(%x: f32) {
  // expected-error @+1 {{'full' makes a tile, but the type is 'f32'}}
  %0 = tile.expr full(%x) : f32
}

// -----

func.func @expand_beyond(%x: tensor<8xf32>) {
  // expected-error @+1 {{must reduce one dimension of a tile and leave another, but got dimension 2 of 'tensor<4x8xf32>'}}
  %0 = tile.expr expand(%x, 2) : tensor<4x8xf32>
}

// -----

func.func @type(%x: vector<4xf32>) {
  // expected-error @+1 {{a formula must be of tiles or scalars, but got 'vector<4xf32>'}}
  %0 = tile.expr %x + %x : vector<4xf32>
}

// -----

func.func @too_deep(%x: f32) {
  // expected-error @+1 {{a formula may be nested at most 64 levels deep, but got more; name parts of it by another tile.expr}}
  %0 = tile.expr ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((%x)))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))) : f32
}

// -----

func.func @body(%x: f32) {
  // expected-error @+1 {{must end by yielding its result; use its custom assembly format}}
  %0 = "tile.expr"() <{type = f32}> ({
    "tile.yield"() : () -> ()
  }) : () -> f32
  return
}

// -----

func.func @foreign(%x: f32) {
  %0 = "tile.expr"() <{type = f32}> ({
    // expected-error @+1 {{has no place in a formula; use the custom assembly format of tile.expr}}
    %1 = math.sin %x : f32
    tile.yield %1 : f32
  }) : () -> f32
  return
}
