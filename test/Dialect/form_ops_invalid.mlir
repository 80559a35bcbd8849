// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid statements with formulas, and functions that are formulas.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// expected-error @+1 {{'%z' must be an argument of the function; correct the name, or add it}}
tile.function @unknown(%x: f32) -> f32 = %x + %z

// -----

// expected-error @+1 {{arguments must have different names, but got '%x' twice}}
tile.function @twice(%x, %x: f32) -> f32 = %x

// -----

// expected-error @+1 {{expected ':' and the type of '%y'; write it after the name, as in %y: i32}}
tile.function @untyped(%x: f32, %y) -> f32 = %x

// -----

// expected-error @+1 {{a value of type 'f32' is required here, but got 'i32'; write cast(...)}}
tile.function @other_type(%x: i32) -> f32 = %x

// -----

// expected-error @+1 {{must have a type for each of 2 formulas, but got 1}}
tile.function @count(%x: f32) -> f32 = %x, %x

// -----

// expected-error @+1 {{has no generic form; use its custom assembly format, or func.func}}
"tile.function"() : () -> ()

// -----

func.func @no_condition(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{a value of type 'i1' is required here, but got 'f32'; compare it, as in x > 0}}
  tile.if %x[0] {
  }
  return
}

// -----

func.func @no_else(%x: i1) {
  // expected-error @+1 {{must have a second region, 'else', since it has results}}
  %0 = tile.if %x -> (i32) {
    tile.yield 1 : i32
  }
  return
}

// -----

func.func @other_results(%x: i1, %y: f32) {
  %0 = tile.if %x -> (i32) {
    // expected-error @+1 {{must yield the types of the results, ('i32'), but got ('f32')}}
    tile.yield %y : f32
  } else {
    tile.yield 1 : i32
  }
  return
}

// -----

func.func @no_yield(%x: i1) {
  // expected-error @+1 {{must end its first region with tile.yield}}
  tile.if %x {
    func.return
  }
  return
}

// -----

func.func @no_second_yield(%x: i1) {
  // expected-error @+1 {{must end its second region with tile.yield}}
  tile.if %x {
  } else {
    func.return
  }
  return
}

// -----

func.func @no_body_yield(%n: i32) {
  // expected-error @+1 {{must end its body with tile.yield}}
  tile.for %i in (0 to %n) {
    func.return
  }
  return
}

// -----

func.func @two_conditions() {
  // expected-error @+1 {{must have one condition of type i1, but got ('i32')}}
  "tile.if"() ({
    %0 = tile.constant 0 : i32
    tile.yield %0 : i32
  }, {
    tile.yield
  }, {
  }) : () -> ()
  return
}

// -----

func.func @carried(%n: i32) {
  %0 = tile.for %i in (0 to %n) iter_args(%old = 0 : i32) {
    // expected-error @+1 {{must yield the types of the results, ('i32'), but got ()}}
    tile.yield
  }
  return
}

// -----

func.func @generic_loop() {
  // expected-error @+1 {{must have bounds and a step of i32, and initial values and arguments of the types of its results, but got ('i32') and ('i32'); use its custom assembly format}}
  "tile.for"() ({
    %0 = tile.constant 0 : i32
    tile.yield %0 : i32
  }, {
  ^bb0(%i: i32):
    tile.yield
  }) : () -> ()
  return
}

// -----

func.func @generic_yield(%x: i32, %c: i1) {
  %0 = tile.if %c -> (i32) {
    // expected-error @+1 {{must have values or formulas; use its custom assembly format}}
    "tile.yield"(%x) ({
      %1 = tile.constant 0 : i32
      tile.yield %1 : i32
    }) : (i32) -> ()
  } else {
    tile.yield %x
  }
  return
}

// -----

func.func @no_text(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{has no text of its own; write tile.store}}
  tile.store_form 0, %x[0] : tensor<8xf32>
  return
}

// -----

func.func @no_store() {
  // expected-error @+1 {{must end with a store; use the custom assembly format of tile.store}}
  "tile.store_form"() ({
    tile.yield
  }) : () -> ()
  return
}

// -----

func.func @store_types(%x: !tile.view<[?], f32>, %y: tensor<8xf32>) {
  // expected-error @+1 {{must have the types of the tile and of the view, but got 3 types}}
  tile.store %y, %x[0] : tensor<8xf32>, !tile.view<[?], f32>, i32
  return
}

// -----

func.func @store_elements(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{view and tile must have the same elements, but got 'f32' and 'f16'; convert the tile with tile.cast}}
  tile.store full(1), %x[0] : tensor<8xf16>
  return
}

// -----

func.func @views_text(%x: !tile.view<[?], f32>, %n: i32) {
  // expected-error @+1 {{has no text of its own; write tile.subview}}
  %0 = tile.subviews %x dim 0 from %n size %n
  return
}

// -----

func.func @views(%x: !tile.view<[?], f32>, %n: i32) {
  // expected-error @+1 {{must have a result of the type of each view, ('!tile.view<[?], f32>'), but got ()}}
  "tile.subviews"(%x, %n, %n) {dim = 0 : i64} : (!tile.view<[?], f32>, i32, i32) -> ()
  return
}

// -----

func.func @restricted(%x: !tile.view<[?], f32>, %y: !tile.view<[8], f32>, %n: i32) {
  // expected-error @+1 {{restricts dimension 0, which must be '?' since its extent changes, but got '!tile.view<[8], f32>'}}
  %0, %1 = tile.subview %x, %y dim 0 from %n size %n
  return
}

// -----

// expected-error @+1 {{must name a file, but got none}}
"tile.link"() {files = []} : () -> ()
