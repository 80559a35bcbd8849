// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Errors of tile-specialize for values that the kernels set themselves; errors that depend on the option `params` are
// in tile-specialize-options.mlir.
//
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --tile-specialize

// expected-error @+1 {{every parameter of kernel @k needs a value, but there is none for D, T; give each as NAME=VALUE}}
tile.kernel @k params(D: int, HALF: int = floordiv(D, 2), T: type) () grid(%i = 1) {}

// -----

// expected-error @+1 {{constraint 'D * B <= 256' of kernel @k must hold, but got D = 20, B = 40}}
tile.kernel @k params(D: int = 20, B: int = D * 2) require(D > 0, D * B <= 256) () grid(%i = 1) {}

// -----

// expected-error @+1 {{constraint 'mod(B, D) == 0' of kernel @k cannot be checked: division by zero in 'mod(2, 0)'}}
tile.kernel @k params(D: int = 0, B: int = 2) require(mod(B, D) == 0) () grid(%i = 1) {}

// -----

// expected-error @+1 {{the default of parameter 'B' of kernel @k cannot be computed: division by zero in 'ceildiv(4, 0)'}}
tile.kernel @k params(A: int = 0, B: int = ceildiv(4, A)) () grid(%i = 1) {}

// -----

// expected-error @+1 {{cannot be computed: overflow of 64 bits in '4611686018427387904 * 2'}}
tile.kernel @k params(A: int = 4611686018427387904, B: int = A * 2) () grid(%i = 1) {}

// -----

// expected-error @+1 {{parameter 'B' of kernel @k must be one of 1, 2, but got 3}}
tile.kernel @k params(A: int = 3, B: int in [1, 2] = A) () grid(%i = 1) {}

// -----

// A known condition determines which operands are evaluated.
tile.kernel @k params(A: int = 0, B: int = select(A == 0, 1, floordiv(1, A)),
                      C: flag = or(A == 0, mod(1, A) == 0), D: flag = and(ne(A, 0), mod(1, A) == 0))
    () grid(%i = 1) {}

// -----

tile.kernel @k params(D: int = 0) (%x: !tile.view<[?], f32>) grid(%i = 1) {
  // expected-error @+1 {{uses 'D' as a dimension, which must be from 1 to 2147483647, but got 0}}
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[D], f32>
}

// -----

tile.kernel @k params(D: int = 65536) (%x: !tile.view<[?, ?], f32>) grid(%i = 1) {
  // expected-error @+1 {{must have tiles of at most 2147483647 elements, but got '!tile.tile<[D, D], f32>' with D = 65536}}
  %t = tile.load %x[0, 0] : !tile.view<[?, ?], f32> -> !tile.tile<[D, D], f32>
}

// -----

tile.kernel @k params(D: int = 4294967296) () grid(%i = 1) {
  // expected-error @+1 {{must have a value of 'i32', but got '4294967296'}}
  %t = tile.param D : i32
}

// -----

// expected-error @+1 {{an extent of the grid must be from 0 to 2147483647, but got 'D - 8' = -4}}
tile.kernel @k params(D: int = 4) () grid(%i = D - 8) {}

// -----

// expected-error @+1 {{an extent of the grid 'ceildiv(n, D)' cannot be computed: division by zero in 'ceildiv(8, 0)'}}
tile.kernel @k params(D: int = 0, n: int = 8) () grid(%i = ceildiv(n, D)) {}

// -----

func.func @f() -> i1 {
  // expected-error @+1 {{reads parameter 'CAUSAL', which kernel @k does not declare}}
  %c = tile.param CAUSAL : i1
  return %c : i1
}
func.func @g(%x: f32) -> f32 {
  %c = func.call @f() : () -> i1
  return %x : f32
}
// expected-note @+1 {{reached from here}}
tile.kernel @k() grid(%i = 1) {
  %zero = arith.constant 0.0 : f32
  %t = tile.full %zero : !tile.tile<[4], f32>
  %m = tile.map @g(%t) : (!tile.tile<[4], f32>) -> !tile.tile<[4], f32>
}

// -----

// expected-error @+1 {{uses 'D' as a type, but got '64'}}
func.func @f(%x: !tile.param<D>) -> !tile.param<D> {
  return %x : !tile.param<D>
}
tile.kernel @k params(D: int = 64) () grid(%i = 1) {
  %zero = arith.constant 0.0 : f32
  %t = tile.full %zero : !tile.tile<[4], f32>
  %m = tile.map @f(%t) : (!tile.tile<[4], f32>) -> !tile.tile<[4], f32>
}

// -----

// A replacement for f32, in a kernel that now accumulates in f64.
func.func @score_mod(%x: f32) -> f32 {
  return %x : f32
}
// expected-error @+1 {{kernel @k must be well-typed for the chosen values, but is not for T = f64, ACC = f64}}
tile.kernel @k params(T: type = f64, ACC: type = accumulator(T)) () grid(%i = 1) {
  %zero = arith.constant 0.0 : !tile.param<ACC>
  %t = tile.full %zero : !tile.tile<[4], ACC>
  // expected-error @+1 {{@score_mod is 'f32', but got elements of 'f64'}}
  %m = tile.map @score_mod(%t) : (!tile.tile<[4], ACC>) -> !tile.tile<[4], ACC>
}

// -----

tile.kernel @k params(D: int, E: int) () grid(%i = 1) {}
tile.program @p params(D: int = 1) () {
  // expected-error @+1 {{every parameter of kernel @k needs a value, but there is none for E; declare it in program @p or give it by with (NAME = ...)}}
  tile.launch @k()
}

// -----

tile.kernel @k params(MODE: enum in ["a", "b"]) () grid(%i = 1) {}
tile.program @p params(MODE: enum in ["a", "c"] = "c") () {
  // expected-error @+1 {{parameter 'MODE' of kernel @k must be one of "a", "b", but got "c"}}
  tile.launch @k()
}

// -----

tile.kernel @k params(D: flag) () grid(%i = 1) {}
tile.program @p params(D: int = 1) () {
  // expected-error @+1 {{parameter 'D' of kernel @k must be true or false, but got '1'}}
  tile.launch @k()
}

// -----

tile.kernel @k params(D: int) () grid(%i = 1) {}
tile.program @p params(N: int = 0) () {
  // expected-error @+1 {{the value of 'D' cannot be computed: division by zero in 'floordiv(1, 0)'}}
  tile.launch @k() with (D = floordiv(1, N))
}

// -----

tile.kernel @k() grid(%i = 1) {}
tile.program @p params(N: int = 0) () {
  // expected-error @+1 {{the condition of a launch cannot be computed: division by zero in 'floordiv(1, 0)'}}
  tile.launch @k() when (floordiv(1, N) > 0)
}

// -----

tile.kernel @k(%x: !tile.view<[?], f32>) grid(%i = 1) {}
tile.program @p params(N: int = 1) () {
  // expected-error @+1 {{an extent of a workspace must be from 0 to 2147483647, but got 'N - 2' = -1}}
  %w = tile.workspace [N - 2] : !tile.view<[?], f32>
  tile.launch @k(%w) : !tile.view<[?], f32>
}

// -----

// expected-error @+1 {{capture 'bias' must have one type, but its uses require T = f32 and another type}}
tile.capture @bias : !tile.param<T>
tile.kernel @k params(T: type) () grid(%i = 1) {
  %b = tile.at @bias : !tile.param<T>
}
tile.program @p() {
  tile.launch @k() with (T = f16)
  tile.launch @k() with (T = f32)
}

// -----

// expected-error @+1 {{expected a module with a kernel or a program, but there is none}}
module {
  func.func @f() { return }
}

// -----

// expected-error @+1 {{one kernel or program must be chosen by name, but got none; the module has a, b}}
module {
  tile.kernel @a() grid(%i = 1) {}
  tile.kernel @b() grid(%i = 1) {}
}

// -----

// A step that is not positive, regardless of how it becomes constant.
tile.kernel @k params(BY: int = 0) () grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %by = tile.param BY : i32
  // expected-error @+1 {{requires a step that is positive, but got 0}}
  scf.for %n = %c0 to %c8 step %by : i32 {
  }
}

// -----

func.func @f(%x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %by = tile.param BY : i32
  %double = arith.addi %by, %by : i32
  %back = arith.subi %c0, %double : i32
  // expected-error @+1 {{requires a step that is positive, but got -6}}
  %r = scf.for %n = %c0 to %c8 step %back iter_args(%old = %x) -> (f32) : i32 {
    %new = arith.addf %old, %x : f32
    scf.yield %new : f32
  }
  return %r : f32
}
tile.kernel @k params(BY: int = 3) () grid(%i = 1) {
  %zero = arith.constant 0.0 : f32
  %t = tile.full %zero : !tile.tile<[4], f32>
  %m = tile.map @f(%t) : (!tile.tile<[4], f32>) -> !tile.tile<[4], f32>
}

// -----

// Unsigned, -1 is a large step; values known only at run time are not checked.
tile.kernel @k params(BY: int = -1) (%step: i32) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %c8 = arith.constant 8 : i32
  %by = tile.param BY : i32
  scf.for unsigned %n = %c0 to %c8 step %by : i32 {
  }
  scf.for %n = %c0 to %c8 step %step : i32 {
  }
}

// -----

// Derived parameters do not follow the program.
// expected-error @+1 {{parameter 'B' of kernel @k must be one of 4, but got 2}}
tile.kernel @k params(A: int = 1, let B: int in [4] = A * 2) () grid(%i = 1) {}

// -----

// Without a preceding tile-link.
// expected-error @+1 {{a function must not be recursive, but got the cycle @f -> @g -> @f}}
func.func private @f(%x: f32) -> f32 {
  %r = func.call @g(%x) : (f32) -> f32
  return %r : f32
}
func.func private @g(%x: f32) -> f32 {
  %r = func.call @f(%x) : (f32) -> f32
  return %r : f32
}
tile.kernel @k(%s: f32) grid(%i = 1) {
  %r = func.call @f(%s) : (f32) -> f32
}
