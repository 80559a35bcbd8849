// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid expressions and parameter declarations.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

func.func @unknown_function() {
  // expected-error @+1 {{unknown function 'log' in an expression; there are ceildiv, floordiv, mod, min, max, lt, le, gt, ge, eq, ne, and, or, not, select, sm_count, accumulator, bits, finite, block, block_in, replaced, multiprocessors, on_gpu, has_roles, adds_in_order, padded, padded_for, ascending, within, within_first and dim}}
  %0 = tile.param log(A, 2) : i32
}

// -----

func.func @other_name_of_function() {
  // expected-error @+1 {{unknown function 'div' in an expression; did you mean 'floordiv'?}}
  %0 = tile.param div(A, 2) : i32
}

// -----

// In a choice of a derived parameter, too.
// expected-error @+1 {{unknown function 'cieldiv' in an expression; did you mean 'ceildiv'?}}
tile.kernel @mistyped params(D: int, F: flag, let N: int = select(F, D, cieldiv(D, 2))) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a default is that of all parameters before it that share it, and must not read one of them, but got 'D'; declare it with a kind of its own, as in D: int}}
tile.kernel @shared_default params(D, DV: int = D) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{expected ':' and the kind of parameter 'D'; write them after the name, as in D: int}}
tile.kernel @no_kind params(D) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint uses 'ascending', which requires a view of i32 or i64 of rank 1 among the arguments, but got 'x'}}
tile.kernel @of_floats require(ascending(x)) (%x: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint uses 'within', which requires a view of i32 or i64 among the arguments, but got 'n'}}
tile.kernel @of_a_scalar require(within(n, 0, 1)) (%n: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint uses 'within_first', which requires a view of i32 or i64 of rank 2 among the arguments, but got 'x'}}
tile.kernel @of_a_vector require(within_first(x, 0, 1, x, 1)) (%x: !tile.view<[?], i32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint uses 'within_first', which requires a view of i32 or i64 of rank 1 among the arguments, but got '4'}}
tile.kernel @of_no_counts require(within_first(x, 0, 1, 4, 1)) (%x: !tile.view<[?, ?], i32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint must apply 'within' to a value of kind int, but got flag}}
tile.kernel @of_flags require(within(x, 0, true)) (%x: !tile.view<[?], i32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint uses 'ascending' inside an expression; it must be a whole constraint}}
tile.kernel @inside require(not(ascending(x))) (%x: !tile.view<[?], i32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a grid extent uses 'ascending' inside an expression; it must be a whole constraint}}
tile.kernel @of_a_grid (%x: !tile.view<[?], i32>) grid(%i = select(ascending(x), 1, 2)) {}

// -----

func.func @too_few_operands() {
  // expected-error @+1 {{'ceildiv' takes 2 operands, but got 1}}
  %0 = tile.param ceildiv(A) : i32
}

// -----

func.func @too_many_operands() {
  // expected-error @+1 {{'sm_count' takes 0 operands, but got 1}}
  %0 = tile.param sm_count(0) : i32
}

// -----

func.func @no_value() {
  // expected-error @+1 {{expected an integer, a name, a string or '(' in an expression, but got ':'}}
  %0 = tile.param A + : i32
}

// -----

func.func @sign_of_a_name() {
  // expected-error @+1 {{expected integer}}
  %0 = tile.param -A : i32
}

// -----

func.func @huge_integer() {
  // expected-error @+1 {{integer value too large}}
  %0 = tile.param 9223372036854775808 : i64
}

// -----

// Comparisons do not associate.
func.func @chained_comparison() {
  // expected-error @+1 {{expected ':'}}
  %0 = tile.param A < B < C : i1
}

// -----

// '<' would open a bracket of the attribute.
// expected-error @+1 {{unbalanced '<' character in pretty dialect name}}
func.func private @infix_in_attribute() attributes {a = #tile.expr<A < B>}

// -----

func.func @nesting() {
  // expected-error @+3 {{an expression may be nested at most 64 levels deep, but got more; name parts of it by derived parameters (let)}}
  %0 = tile.param
      ((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((((
      A
      ))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))))
      : i32
}

// -----

// expected-error @+1 {{'true' is a literal or a type and cannot name a parameter; choose another name}}
func.func private @literal_as_name() attributes {a = #tile.param_decl<true: flag>}

// -----

// expected-error @+1 {{the attribute must declare one parameter, but got 2}}
func.func private @several_names() attributes {a = #tile.param_decl<A, B: flag>}

// -----

// expected-error @+1 {{'e4m3' is a literal or a type and cannot name a parameter; choose another name}}
func.func private @type_as_name() attributes {a = #tile.param_decl<e4m3: type>}

// -----

// expected-error @+1 {{the kind of a parameter must be int, flag, enum or type, but got 'float'}}
func.func private @unknown_kind() attributes {a = #tile.param_decl<A: float>}

// -----

// expected-error @+1 {{enum parameter 'MODE' must list its values, but got none; write them as in ["a", "b"]}}
func.func private @enum_without_values() attributes {a = #tile.param_decl<MODE: enum>}

// -----

// expected-error @+1 {{an allowed value of parameter 'A' must be of kind int, but got a value of kind flag}}
func.func private @allowed_of_other_kind() attributes {a = #tile.param_decl<A: int in [1, true]>}

// -----

// expected-error @+1 {{an allowed value of a parameter must be a literal, but got 'B'}}
func.func private @allowed_expression() attributes {a = #tile.param_decl<A: int in [B]>}

// -----

// expected-error @+1 {{the default of parameter 'MODE' must be of kind enum, but got a value of kind int; values of an enum are written as strings}}
func.func private @default_of_other_kind() attributes {a = #tile.param_decl<MODE: enum in ["a"] = 1>}

// -----

// expected-error @+1 {{the default of parameter 'A' must be one of its allowed values, but got '32'}}
func.func private @default_not_allowed() attributes {a = #tile.param_decl<A: int in [64, 128] = 32>}

// -----

// Operators of other languages are rejected with the name of the equivalent.
// expected-error @+1 {{there is no '/' in an expression; write floordiv(a, b) or ceildiv(a, b)}}
tile.kernel @slash (%x: !tile.view<[?], f32>) grid(%i = dim(x, 0) / 2) {}

// -----

// expected-error @+1 {{there is no '%' in an expression; write mod(a, b)}}
tile.kernel @percent params(A: int, B: int = A % 2) () grid(%i = 1) {}

// -----

// expected-error @+1 {{there is no '%' in an expression; write mod(a, b)}}
tile.kernel @percent_behind_call params(A: int) require((A + 1) % 2 == 0) () grid(%i = 1) {}

// -----

// expected-error @+1 {{there is no '&&' in an expression; write and(a, b)}}
tile.kernel @ampersands params(A: flag, B: flag) require(A && B) () grid(%i = 1) {}

// -----

// expected-error @+1 {{there is no '||' in an expression; write or(a, b)}}
tile.kernel @bars params(A: flag, B: flag) require(max(1, 2) == 2 || B) () grid(%i = 1) {}

// -----

// expected-error @+1 {{there is no '!=' in an expression; write ne(a, b)}}
tile.kernel @unequal params(A: int) require(A != 3) () grid(%i = 1) {}

// -----

// A comment after an operand is not an operator.
tile.kernel @comment params(A: int, B: int = A // the same
                           ) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' uses block() in an expression, but block() must be the whole default of an integer parameter; declare one, and name it here}}
tile.kernel @part params(A: int = 2 * block()) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' uses block() in an expression, but block() must be the whole default of an integer parameter; declare one, and name it here}}
tile.kernel @derived params(let A: int = block()) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint uses block() in an expression, but block() must be the whole default of an integer parameter; declare one, and name it here}}
tile.kernel @elsewhere params(A: int) require(A == block()) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' uses block_in() in an expression, but block_in() must be the whole default of an integer parameter; declare one, and name it here}}
tile.kernel @part_in params(A: int = 2 * block_in(64)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'A' must be of kind int, but got kind flag}}
tile.kernel @kind_in params(P: flag, A: int = block_in(P)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint takes dim(y, 1), but 'y' has rank 1; dimensions are counted from 0}}
tile.kernel @same_dims_rank require(same_dims(x, y, 0, 1)) (%x: !tile.view<[?, ?], f32>, %y: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+1 {{a constraint may take dim of views among the arguments only, but got 'n'}}
tile.kernel @same_dims_scalar require(same_dims(x, n, 0)) (%x: !tile.view<[?], f32>, %n: i32) grid(%i = 1) {}

// -----

// expected-error @+1 {{expected ','}}
tile.kernel @same_dims_of_none require(same_dims(x, y)) (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>) grid(%i = 1) {}

// -----

// expected-error @+2 {{expected an integer, a name, a string or '(' in an expression, but got the end of the text}}
tile.kernel @k params(B: int =
