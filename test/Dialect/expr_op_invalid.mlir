// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid formulas.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

func.func @unknown_function(%x: f32) {
  // expected-error @+1 {{formulas have no function 'sin'; write a statement math.sin before it}}
  %0 = tile.expr sin(%x) : f32
}

// -----

func.func @mistyped_function(%x: f32) {
  // expected-error @+1 {{formulas have no function 'rsqr'; did you mean 'rsqrt'?}}
  %0 = tile.expr rsqr(%x) : f32
}

// -----

func.func @other_name_of_function(%x: f32) {
  // expected-error @+1 {{formulas have no function 'where'; did you mean 'select'?}}
  %0 = tile.expr where(%x < 0, %x, 1) : f32
}

// -----

func.func @no_function(%x: f32) {
  // expected-error @+1 {{formulas have no function 'activation'; there are abs, and, bitand, cast, ceildiv, choose, dim, dot, exp, exp2, expand, full, iota, load, log, log2, map, max, min, mod, ne, neg, not, or, reduce, rsqrt, select, sqrt, tanh, and @NAME(...) for a function of the module}}
  %0 = tile.expr activation(%x) : f32
}

// -----

func.func @scalar_for_tile(%x: !tile.tile<[M, N], f32>, %s: f32) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], f32>' is required here, but got 'f32'; write full(...)}}
  %0 = tile.expr %x * %s : !tile.tile<[M, N], f32>
}

// -----

func.func @other_scalar_for_tile(%x: !tile.tile<[M, N], f32>, %s: i32) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], f32>' is required here, but got 'i32'; write full(cast(...))}}
  %0 = tile.expr %x * %s : !tile.tile<[M, N], f32>
}

// -----

func.func @row_for_tile(%x: !tile.tile<[M, N], f32>, %row: !tile.tile<[M], f32>) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], f32>' is required here, but got '!tile.tile<[M], f32>'; write expand(..., 1)}}
  %0 = tile.expr %x * %row : !tile.tile<[M, N], f32>
}

// -----

func.func @other_row_for_tile(%x: !tile.tile<[M, N], f32>, %row: !tile.tile<[N], f16>) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], f32>' is required here, but got '!tile.tile<[N], f16>'; write expand(cast(...), 0)}}
  %0 = tile.expr %x * %row : !tile.tile<[M, N], f32>
}

// -----

func.func @row_or_column_for_tile(%x: !tile.tile<[N, N], f32>, %row: !tile.tile<[N], f32>) {
  // expected-error @+1 {{a value of type '!tile.tile<[N, N], f32>' is required here, but got '!tile.tile<[N], f32>'; write expand(..., 0) or expand(..., 1)}}
  %0 = tile.expr %x * %row : !tile.tile<[N, N], f32>
}

// -----

func.func @other_elements(%x: !tile.tile<[M, N], f32>, %y: !tile.tile<[M, N], f16>) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], f32>' is required here, but got '!tile.tile<[M, N], f16>'; write cast(...)}}
  %0 = tile.expr %x * %y : !tile.tile<[M, N], f32>
}

// -----

func.func @other_extents(%x: !tile.tile<[M, N], f32>, %y: !tile.tile<[N, M], f32>) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], f32>' is required here, but got '!tile.tile<[N, M], f32>'; give both the same extents}}
  %0 = tile.expr %x * %y : !tile.tile<[M, N], f32>
}

// -----

func.func @tile_for_scalar(%x: f32, %y: !tile.tile<[M], f32>) {
  // expected-error @+1 {{a value of type 'f32' is required here, but got '!tile.tile<[M], f32>'; reduce the tile, or read an element of a view}}
  %0 = tile.expr %x * %y : f32
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
  // expected-error @+1 {{expected a number after the sign; write neg(x) for the negative of a value}}
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
  // expected-error @+1 {{a condition is required here, but got a number; compare it, as in x > 0}}
  %0 = tile.expr select(%x + 1, %x, 0) : i32
}

// -----

func.func @parameter_of_floats(%x: f32) {
  // expected-error @+1 {{a parameter has no place in a formula of floats, whose type is 'f32'; write cast(BLOCK : i32)}}
  %0 = tile.expr %x * BLOCK : f32
}

// -----

func.func @parameter_of_float_tiles(%x: !tile.tile<[M], f32>) {
  // expected-error @+1 {{a parameter has no place in a formula of floats, whose type is '!tile.tile<[M], f32>'; write full(cast(param(M * 2) : i32))}}
  %0 = tile.expr %x * param(M * 2) : !tile.tile<[M], f32>
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

func.func @reduce_row(%x: tensor<8xf32>) {
  // expected-error @+1 {{must reduce one dimension of a tile and leave another, but got dimension 0 of 'tensor<8xf32>'; repeat a row to reduce it to one number: reduce add(expand(%x, 0) : !rows, 1) gives the number once for each of the rows}}
  %0 = tile.expr reduce add(%x, 0) : tensor<1xf32>
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

// -----

func.func private @f(f32) -> f32
func.func @no_type_of_operand(%x: f32) {
  // expected-error @+1 {{the type of this operand is not known; write it after the operand, as in (x : f32)}}
  %0 = tile.expr @f(1.0) : f32
}

// -----

func.func @no_type(%x: f32) {
  // expected-error @+1 {{the operands do not tell the type of the formula; write it after a colon}}
  %0 = tile.expr cast(%x)
}

// -----

func.func @undefined(%x: f32) {
  // expected-error @+1 {{'%y' must be defined above the formula that reads it}}
  %0 = tile.expr cast(%y) : f32
}

// -----

func.func @no_such_result(%x: f32) {
  // expected-error @+1 {{reference to invalid result number}}
  %0 = tile.expr cast(%x#3) : f32
}

// -----

func.func @other_type(%v: !tile.view<[?], i32>) {
  // expected-error @+1 {{a value of type 'f32' is required here, but got 'i32'; write cast(...)}}
  %0 = tile.expr 2.0 * %v[0] : f32
}

// -----

func.func @no_view(%x: i32) {
  // expected-error @+1 {{a view is required here, but got 'i32'}}
  %0 = tile.expr dim(%x, 0) : i32
}

// -----

func.func @load_of_scalar(%v: !tile.view<[?], f32>) {
  // expected-error @+1 {{'load' makes a tile, but the type is 'f32'}}
  %0 = tile.expr load %v[0] : f32
}

// -----

func.func @one_operand(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{a product has two operands, and may have a sum, but got 1}}
  %0 = tile.expr dot(%x) : tensor<8x8xf32>
}

// -----

func.func @reduced_beyond(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{must reduce one dimension of a tile and leave another, but got dimension 2 of 'tensor<8x8xf32>'}}
  %0 = tile.expr reduce add(%x, 2) : tensor<8xf32>
}

// -----

func.func @reduction(%x: tensor<8x8xf32>) {
  // expected-error @+1 {{the kind of a reduction must be add, mul, max, min, and or or}}
  %0 = tile.expr reduce sum(%x, 1) : tensor<8xf32>
}

// -----

func.func @compared(%x: i1) {
  // expected-error @+1 {{numbers are compared, but the operands are 'i1'}}
  %0 = tile.expr %x == 0 : i32
}

// -----

func.func @two_results(%x: f32) {
  // expected-error @+1 {{a formula with 2 results must be a call, or a choice of calls or lists}}
  %0, %1 = tile.expr %x + 1 : f32, f32
}

// -----

func.func @long_list(%x: f32) {
  // expected-error @+1 {{custom op 'tile.expr' expected a formula or list of 2 results, but got a list of 3}}
  %0, %1 = tile.expr choose(PACKED, (%x, %x), (%x, %x, %x)) : f32, f32
}

// -----

func.func @types(%x: f32) -> (f32, f32) {
  // expected-error @+1 {{must have a type for each of 2 formulas, but got 1}}
  tile.result %x, %x + 1 : f32
}

// -----

func.func @results(%x: f32) -> f32 {
  // expected-error @+1 {{must have the results of its function, 'f32', but got 'f32', 'f32'}}
  tile.result %x, %x + 1 : f32, f32
}

// -----

func.func @no_function(%c: i1, %x: f32) {
  scf.if %c {
    // expected-error @+1 {{must end a function; use the terminator of the region that it is in}}
    "tile.result"() ({
      tile.yield %x : f32
    }) : () -> ()
  }
  return
}

// -----

func.func @many(%x: f32) {
  // expected-error @+1 {{must have one result, or be a call; use its custom assembly format}}
  %0:2 = "tile.expr"() ({
    tile.yield %x, %x : f32, f32
  }) : () -> (f32, f32)
  return
}

// -----

func.func @nothing() {
  // expected-error @+1 {{must end by yielding its results; use its custom assembly format}}
  "tile.result"() ({
    tile.yield
  }) : () -> ()
}

// -----

func.func @power(%x: f32) {
  // expected-error @+1 {{formulas have no function 'pow'; write x * x, or a statement math.powf before it}}
  %0 = tile.expr pow(%x, 2) : f32
}

// -----

func.func @sigmoid(%x: f32) {
  // expected-error @+1 {{formulas have no function 'sigmoid'; write 1 / (1 + exp(neg(x)))}}
  %0 = tile.expr sigmoid(%x) : f32
}

// -----

func.func @sum(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{formulas have no function 'sum'; write reduce add(x, dim)}}
  %0 = tile.expr sum(%x, 1) : !tile.tile<[M], f32>
}

// -----

func.func @statement(%x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{formulas have no function 'top_k'; write a statement tile.top_k before it}}
  %0 = tile.expr top_k(%x) : !tile.tile<[M, N], f32>
}

// -----

func.func @of_parameters(%i: i32) {
  // expected-error @+1 {{formulas have no function 'floordiv'; write param(floordiv(...)), an expression over parameters}}
  %0 = tile.expr %i + floordiv(N, 2) : i32
}

// -----

// Operators of other languages: MLIR's lexer refuses most of them, and the formula tells what there is.
func.func @not_equal(%i: i32) {
  // expected-error @+1 {{invalid type identifier; a formula has no '!='; write ne(a, b)}}
  %0 = tile.expr %i != 0 : i32
}

// -----

func.func @both(%i: i32) {
  // expected-error @+1 {{unexpected character; a formula has no '&&'; write and(a, b)}}
  %0 = tile.expr and(%i > 0 && %i < 4, %i > 1) : i32
}

// -----

func.func @bits(%i: i32) {
  // expected-error @+1 {{unexpected character; a formula has no '&'; write bitand(a, b)}}
  %0 = tile.expr %i & 4 : i32
}

// -----

func.func @either(%i: i32) {
  // expected-error @+1 {{a formula has no '||'; write or(a, b)}}
  %0 = tile.expr %i > 0 || %i < 4 : i32
}

// -----

func.func @negation(%i: i32) {
  // expected-error @+1 {{invalid type identifier; a formula has no '!'; write not(a)}}
  %0 = tile.expr and(%i > 0, !(%i < 4)) : i32
}

// -----

func.func @power_mark(%x: f32) {
  // expected-error @+1 {{a formula has no '**'; write x * x}}
  %0 = tile.expr %x ** 2 : f32
}

// -----

func.func @caret(%x: f32) {
  // expected-error @+2 {{invalid block name; a formula has no '^'; write x * x for a power}}
  %0 = tile.expr %x
      + %x ^ 2 : f32
}

// -----

func.func @remainder(%i: i32, %n: i32) {
  // expected-error @+1 {{invalid SSA name; a formula has no '%'; write mod(a, b)}}
  %0 = tile.expr %i % %n : i32
}

// -----

// A cast would take the lowest bit.
func.func @integer_as_condition(%i: i32, %x: f32) {
  // expected-error @+1 {{a value of type 'i1' is required here, but got 'i32'; compare it, as in %i > 0}}
  %0 = tile.expr choose(%i, %x, 0) : f32
}

// -----

func.func @row_as_conditions(%i: !tile.tile<[M], i32>, %x: !tile.tile<[M, N], f32>) {
  // expected-error @+1 {{a value of type '!tile.tile<[M, N], i1>' is required here, but got '!tile.tile<[M], i32>'; compare it, as in expand(%i > 0, 1)}}
  %0 = tile.expr select(%i, %x, 0) : !tile.tile<[M, N], f32>
}

// -----

func.func @not_of_number(%i: i32, %x: f32) {
  // expected-error @+1 {{a value of type 'i1' is required here, but got 'i32'; compare it, as in %i > 0}}
  %0 = tile.expr choose(not(%i), %x, 0) : f32
}

// -----

func.func @not_as_number(%c: i1, %i: i32) {
  // expected-error @+1 {{a number is required here, but got a condition; write select(condition, a, b)}}
  %0 = tile.expr %i + not(%c) : i32
}

// -----

func.func @not_of_other(%c: i1, %d: i1) {
  %0 = "tile.expr"() <{type = i1}> ({
    // expected-error @+1 {{has no place in a formula; use the custom assembly format of tile.expr}}
    %1 = arith.xori %c, %d : i1
    tile.yield %1 : i1
  }) : () -> i1
  return
}

// -----

func.func private @half(f32) -> f32
tile.kernel @mapped(%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<16xf32>
  // expected-error @+1 {{operand 0 of @half is 'f32', but got 'tensor<16xf32>'; write map @half(...) to apply it to each element}}
  %0 = tile.expr @half(%t) : tensor<16xf32>
}

// -----

!row = !tile.tile<[ROWS], f32>
tile.kernel @mistyped params(ROWS: int)(%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[%i] : !tile.view<[?], f32> -> !row
  // expected-error @+1 {{a value of type '!tile.tile<[ROW], f32>' is required here, but got '!tile.tile<[ROWS], f32>'; 'ROW' is not a parameter of @mistyped; did you mean 'ROWS'?}}
  %0 = tile.expr %t * %t : !tile.tile<[ROW], f32>
}
