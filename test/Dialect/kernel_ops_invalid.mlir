// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid signatures of kernels and programs, parameters, captures and grids.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Duplicate names.
// expected-error @+1 {{parameter 'A' has the name of another parameter; names must differ}}
tile.kernel @same_parameters params(A: int, A: int) () grid(%i = 1) {}

// -----

// expected-error @+1 {{argument 'A' has the name of another parameter; names must differ}}
tile.kernel @parameter_and_argument params(A: int) (%A: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{grid id 'A' has the name of another parameter; names must differ}}
tile.kernel @parameter_and_id params(A: int) () grid(%A = 1) {}

// -----

// expected-note @+2 {{previously referenced here}}
// expected-error @+1 {{region entry argument '%x' is already in use}}
tile.kernel @argument_and_id (%x: i32) grid(%x = 1) {}

// -----

// expected-error @+1 {{argument 'false' must not have the name of a literal or a type; rename it}}
tile.kernel @literal_as_name (%false: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{an argument must have a name of letters, digits and '_', but got %0}}
tile.kernel @number_as_name (%0: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{a grid id must have a name of letters, digits and '_', but got %a.b}}
tile.kernel @no_word_as_id () grid(%a.b = 1) {}

// -----

// expected-error @+1 {{'tile.kernel' op needs a name, but got an empty one}}
tile.kernel @"" () grid(%i = 1) {}

// -----

// Types.
// expected-error @+1 {{uses type '!tile.view<[?, D], f32>', but 'D' is not a parameter of @unknown_dimension; declare it there, or correct the name}}
tile.kernel @unknown_dimension (%x: !tile.view<[?, D], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{uses type '!tile.view<[?], T>', but 'T' is not a parameter of @unknown_element; declare it there, or correct the name}}
tile.kernel @unknown_element (%x: !tile.view<[?], T>) grid(%i = 1) {}

// -----

// expected-error @+1 {{uses type '!tile.view<[T], f32>', which needs 'T' to be a parameter of kind int, but got kind type}}
tile.kernel @type_as_dimension params(T: type) (%x: !tile.view<[T], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{uses type '!tile.param<D>', which needs 'D' to be a parameter of kind type, but got kind int}}
tile.kernel @integer_as_type params(D: int) (%x: !tile.param<D>) grid(%i = 1) {}

// -----

tile.kernel @unknown_in_body params(M: int) (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{uses type '!tile.tile<[N], f32>', but 'N' is not a parameter of @unknown_in_body; declare it there, or correct the name}}
  %0 = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[N], f32>
}

// -----

// Also inside another type.
tile.kernel @unknown_in_tensor (%x: f32) grid(%i = 1) {
  // expected-error @+1 {{uses type 'tensor<4x!tile.param<T>>', but 'T' is not a parameter of @unknown_in_tensor; declare it there, or correct the name}}
  %0 = builtin.unrealized_conversion_cast %x : f32 to tensor<4x!tile.param<T>>
}

// -----

tile.kernel @unknown_in_loop params(M: int) (%n: i32) grid(%i = 1) {
  // expected-error @+1 {{uses type '!tile.tile<[M, N], i1>', but 'N' is not a parameter of @unknown_in_loop; declare it there, or correct the name}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : !tile.tile<[M, N], i1> {}
}

// -----

tile.kernel @constant_tile params(T: type) () grid(%i = 1) {
  // expected-error @+1 {{cannot make a constant of type '!tile.tile<[4], f32>'; write a scalar constant and tile.full}}
  %0 = arith.constant dense<0.0> : !tile.tile<[4], f32>
}

// -----

// Defaults.
// expected-error @+1 {{the default of parameter 'A' names 'B', which is not a parameter of @unknown_in_default}}
tile.kernel @unknown_in_default params(A: int = B) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' may read parameters only, but got the argument 'n'}}
tile.kernel @argument_in_default params(A: int = n) (%n: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' may read parameters only, but got dim(x, 0)}}
tile.kernel @extent_in_default params(A: int = dim(x, 0)) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' may read parameters only, but got sm_count()}}
tile.kernel @device_in_default params(A: int = sm_count()) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' must be of kind int, but got kind flag}}
tile.kernel @kind_of_default params(A: int = B, B: flag) () grid(%i = 1) {}

// -----

// expected-error @+1 {{defaults of parameters must not form a cycle, but got A -> B -> C -> A}}
tile.kernel @cycle params(A: int = B + 1, B: int = C * 2, C: int = max(A, 1)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{defaults of parameters must not form a cycle, but got B -> B}}
tile.kernel @cycle_of_one params(A: int = B, B: int = B) () grid(%i = 1) {}

// -----

// Constraints.
// expected-error @+1 {{a constraint names 'B', which is neither a parameter nor an argument of @unknown_in_constraint; declare it there, or correct the name}}
tile.kernel @unknown_in_constraint params(A: int) require(A < B) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint takes dim(x, 1), but 'x' has rank 1; dimensions are counted from 0}}
tile.kernel @rank_in_constraint require(dim(x, 1) == 4) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must be of kind flag, but got kind int}}
tile.kernel @kind_of_constraint params(A: int) require(A + 1) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply '<' to a value of kind int, but got type}}
tile.kernel @comparison_of_types params(T: type) require(T < 4) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply 'not' to a value of kind flag, but got int}}
tile.kernel @negated_integer params(A: int) require(not(A)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply 'bits' to a value of kind type, but got int}}
tile.kernel @bits_of_integer params(A: int) require(bits(A) == 16) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply '==' to values of one kind, but got int and enum}}
tile.kernel @different_kinds params(A: int) require(A == "none") () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply 'select' to values of one kind, but got int and flag}}
tile.kernel @select_of_kinds params(A: int) require(select(true, A, false)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply 'select' to a value of kind flag, but got int}}
tile.kernel @select_by_integer params(A: int) require(select(A, true, false)) () grid(%i = 1) {}

// -----

// A misspelled value would never be equal.
// expected-error @+1 {{a constraint compares parameter 'MODE' with "topleft", which is not one of its values}}
tile.kernel @unknown_value params(MODE: enum in ["none", "top_left"]) require(ne(MODE, "topleft")) () grid(%i = 1) {}

// -----

// Arguments.
// expected-error @+1 {{argument 'x' must be a view or a scalar, but got 'index'}}
tile.kernel @index_argument (%x: index) grid(%i = 1) {}

// -----

// expected-error @+1 {{argument 'x' must be a view or a scalar, but got '!tile.tile<[4], f32>'}}
tile.kernel @tile_argument (%x: !tile.tile<[4], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{only views may be optional, but got argument 'n' of type 'i32'; give a scalar a default instead}}
tile.kernel @optional_scalar (%n: optional i32) grid(%i = 1) {}

// -----

// Grids.
// expected-error @+1 {{needs at least one grid extent; write grid(%id = 1) for a single instance}}
tile.kernel @no_grid () grid() {}

// -----

// expected-error @+1 {{a grid extent names 'm', which is neither a parameter nor an argument of @unknown_in_grid; declare it there, or correct the name}}
tile.kernel @unknown_in_grid (%n: i32) grid(%i = m) {}

// -----

// expected-error @+1 {{a grid extent uses the view 'x' as a number; write dim(x, position) for an extent}}
tile.kernel @view_as_number (%x: !tile.view<[?], f32>) grid(%i = x) {}

// -----

// expected-error @+1 {{a grid extent may read integer scalars only, but got 'f' of type 'f32'}}
tile.kernel @float_in_grid (%f: f32) grid(%i = f) {}

// -----

// expected-error @+1 {{a grid extent must be of kind int, but got kind flag}}
tile.kernel @flag_as_extent (%f: i1) grid(%i = f) {}

// -----

// expected-error @+1 {{a grid extent may take dim of views among the arguments only, but got 'n'}}
tile.kernel @extent_of_scalar (%n: i32) grid(%i = dim(n, 0)) {}

// -----

// expected-error @+1 {{a grid extent may take dim of views among the arguments only, but got 'y'}}
tile.kernel @extent_of_unknown (%n: i32) grid(%i = dim(y, 0)) {}

// -----

// expected-error @+1 {{a grid extent takes dim(x, 2), but 'x' has rank 2; dimensions are counted from 0}}
tile.kernel @extent_beyond_rank (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, 2)) {}

// -----

// expected-error @+1 {{a grid extent takes dim(x, -1), but 'x' has rank 2; dimensions are counted from 0}}
tile.kernel @negative_position (%x: !tile.view<[?, ?], f32>) grid(%i = dim(x, -1)) {}

// -----

// Values of parameters.
// expected-error @+1 {{'tile.param' op is allowed in kernels and functions only; a program binds parameters in the 'with' clauses of its launches}}
%0 = tile.param A : i32

// -----

tile.kernel @unknown_parameter params(A: int) () grid(%i = 1) {
  // expected-error @+1 {{its expression names 'B', which is not a parameter of @unknown_parameter}}
  %0 = tile.param B : i32
}

// -----

tile.kernel @kind_of_value params(A: flag) () grid(%i = 1) {
  // expected-error @+1 {{its expression must be of kind int, but got kind flag}}
  %0 = tile.param A : i32
}

// -----

tile.kernel @kind_of_flag params(A: int) () grid(%i = 1) {
  // expected-error @+1 {{its expression must be of kind flag, but got kind int}}
  %0 = tile.param A : i1
}

// -----

tile.kernel @float_value params(A: int) () grid(%i = 1) {
  // expected-error @+1 {{result #0 must be 1-bit signless integer or 32-bit signless integer or 64-bit signless integer, but got 'f32'}}
  %0 = tile.param A : f32
}

// -----

tile.kernel @argument_as_parameter (%n: i32) grid(%i = 1) {
  // expected-error @+1 {{its expression may read parameters only, but got the argument 'n'}}
  %0 = tile.param n : i32
}

// -----

// A function may use parameters that it does not declare, but no arguments of a kernel.
func.func @extent_in_function(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{its expression may read parameters only, but got dim(x, 0)}}
  %0 = tile.param dim(x, 0) : i32
  return
}

// -----

func.func @device_in_function() {
  // expected-error @+1 {{its expression may read parameters only, but got sm_count()}}
  %0 = tile.param sm_count() : i32
  return
}

// -----

// Captures.
// expected-error @+1 {{'tile.capture' op must be a view or a scalar, but got 'tensor<4xf32>'}}
tile.capture @tensor : tensor<4xf32>

// -----

// expected-error @+1 {{'tile.capture' op needs a name}}
tile.capture @"" : f32

// -----

tile.kernel @capture_inside () grid(%i = 1) {
  // expected-error @+1 {{symbol's parent must have the SymbolTable trait}}
  tile.capture @x : f32
}

// -----

tile.kernel @outer () grid(%i = 1) {
  // expected-error @+1 {{'tile.kernel' op expects parent op 'builtin.module'}}
  tile.kernel @inner () grid(%j = 1) {}
}

// -----

// Kernels are isolated from above.
%outside = arith.constant 0 : i32
// expected-note @+1 {{required by region isolation constraints}}
tile.kernel @isolated (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{using value defined outside the region}}
  %0 = tile.at %x[%outside] : !tile.view<[?], f32>
}

// -----

// Derived parameters.
// expected-error @+1 {{derived parameter 'DP' must have a value, but got none; write let DP: int = ...}}
tile.kernel @without_value params(D: int, let DP: int) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'DP' may read parameters only, but got the argument 'n'}}
tile.kernel @derived_from_argument params(let DP: int = n) (%n: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{defaults of parameters must not form a cycle, but got A -> B -> A}}
tile.kernel @derived_cycle params(let A: int = B, let B: int = A) () grid(%i = 1) {}

// -----

// Defaults of scalars.
// expected-error @+1 {{only scalars may have a default, but got argument 'x' of type '!tile.view<[?], f32>'}}
tile.kernel @view_with_default (%x: !tile.view<[?], f32> = 1) grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of argument 'n' must be an i32, but got 2147483648 : i64}}
tile.kernel @wide_default (%n: i32 = 2147483648) grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of argument 'n' must be an i32, but got true}}
tile.kernel @flag_as_number (%n: i32 = true) grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of argument 'on' must be true or false, but got 1 : i64}}
tile.kernel @number_as_flag (%on: i1 = 1) grid(%i = 1) {}

// -----

// expected-error @+1 {{expected floating point literal}}
tile.kernel @word_as_float (%scale: f32 = one) grid(%i = 1) {}

// -----

// Floats in constraints.
// expected-error @+1 {{a constraint must apply '+' to a value of kind int, but got float}}
tile.kernel @sum_of_floats require(p + 1 < 2) (%p: f32) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply 'finite' to a value of kind float, but got int}}
tile.kernel @finite_integer require(finite(n)) (%n: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply '==' to values of one kind, but got float and flag}}
tile.kernel @float_and_flag require(p == true) (%p: f32) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must be of kind flag, but got kind float}}
tile.kernel @float_as_constraint require(p) (%p: f32) grid(%i = 1) {}

// -----

// expected-error @+1 {{'finite' takes 1 operands, but got 2}}
tile.kernel @finite_of_two require(finite(p, p)) (%p: f32) grid(%i = 1) {}

// -----

// expected-error @+1 {{must constrain 'x', but got 'y < 2', which does not read it; state it in the kernel, or with the capture that it reads}}
tile.capture @x : f32 require(x < y, y < 2)

// -----

// expected-error @+1 {{the condition of argument 'x' may read parameters only, but got the argument 'n'}}
tile.kernel @condition_on_argument (%x: !tile.view<[?], f32> when (n), %n: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{the condition of argument 'x' must be of kind flag, but got kind int}}
tile.kernel @kind_of_condition params(N: int) (%x: !tile.view<[?], f32> when (N)) grid(%i = 1) {}
