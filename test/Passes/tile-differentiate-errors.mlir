// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --split-input-file --tile-differentiate --verify-diagnostics

// The bits of a float are not differentiable.
func.func private @bits(%s: f32) -> f32 {
  // expected-error @+1 {{'arith.bitcast' has no derivative, but the gradient of @bits with respect to operand 0 passes through it; use operations of arith and math that have one}}
  %n = arith.bitcast %s : f32 to i32
  %r = arith.sitofp %n : i32 to f32
  return %r : f32
}
func.func @bitcast(%s: tensor<8xf32>) {
  // expected-note @+1 {{differentiated here}}
  %0 = tile.map_gradient @bits(%s) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

// In a called function.
func.func private @inner(%x: f32) -> f32 {
  // expected-error @+1 {{'math.asinh' has no derivative, but the gradient of @outer with respect to operand 0 passes through it}}
  %r = math.asinh %x : f32
  return %r : f32
}
func.func private @outer(%s: f32) -> f32 {
  %r = func.call @inner(%s) : (f32) -> f32
  return %r : f32
}
func.func @called(%s: tensor<8xf32>) {
  // expected-note @+1 {{differentiated here}}
  %0 = tile.map_gradient @outer(%s) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @branch(%s: f32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %positive = arith.cmpf ogt, %s, %zero : f32
  // expected-error @+1 {{'scf.if' has no derivative, but the gradient of @branch with respect to operand 0 passes through it; choose between values with arith.select}}
  %r = scf.if %positive -> f32 {
    scf.yield %s : f32
  } else {
    scf.yield %zero : f32
  }
  return %r : f32
}
func.func @region(%s: tensor<8xf32>) {
  // expected-note @+1 {{differentiated here}}
  %0 = tile.map_gradient @branch(%s) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return
}

// -----

func.func private @loop(%s: f32, %n: i32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{'scf.for' has no derivative, but the gradient of @loop with respect to operand 0 passes through it}}
  %r = scf.for %i = %c0 to %n step %c1 iter_args(%x = %s) -> (f32) : i32 {
    %y = arith.mulf %x, %x : f32
    scf.yield %y : f32
  }
  return %r : f32
}
func.func @in_a_loop(%s: tensor<8xf32>, %n: i32) {
  // expected-note @+1 {{differentiated here}}
  %0 = tile.map_gradient @loop(%s, %n) wrt 0 seed %s : tensor<8xf32> : (tensor<8xf32>, i32) -> tensor<8xf32>
  return
}

// -----

// The same for captures.
tile.capture @table : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32) -> f32 {
  %t = tile.at @table[%h] : f32
  // expected-error @+1 {{'math.asinh' has no derivative, but the gradient of capture @table passes through it}}
  %a = math.asinh %t : f32
  %r = arith.addf %s, %a : f32
  return %r : f32
}
tile.kernel @kernel (%x: !tile.view<[?], f32>) grid(%h = 1) {
  %s = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  // expected-note @+1 {{differentiated here}}
  tile.add_gradients @score(%s, %h) seed %s : tensor<8xf32> : (tensor<8xf32>, i32)
}

// -----

tile.capture @table : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32, %on: i1) -> f32 {
  %zero = arith.constant 0.0 : f32
  %t = scf.if %on -> f32 {
    // expected-error @+1 {{a captured float whose gradient is requested must be read outside of regions; read it before and choose with arith.select}}
    %x = tile.at @table[%h] : f32
    scf.yield %x : f32
  } else {
    scf.yield %zero : f32
  }
  %r = arith.addf %s, %t : f32
  return %r : f32
}
tile.kernel @kernel (%x: !tile.view<[?], f32>, %on: i1) grid(%h = 1) {
  %s = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  // expected-note @+1 {{differentiated here}}
  tile.add_gradients @score(%s, %h, %on) seed %s : tensor<8xf32> : (tensor<8xf32>, i32, i1)
}

// -----

// A program must clear the gradient, and convert exact sums.
tile.capture @table : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32) -> f32 {
  %t = tile.at @table[%h] : f32
  %r = arith.addf %s, %t : f32
  return %r : f32
}
tile.kernel @kernel (%x: !tile.view<[?], f32>) grid(%h = 1) {
  %s = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  // expected-error @+1 {{needs a program that launches its kernel, to clear or convert the gradient of capture @table, but got none; write a program with tile.launch @kernel}}
  tile.add_gradients @score(%s, %h) seed %s : tensor<8xf32> : (tensor<8xf32>, i32)
}

// -----

tile.capture @table : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32) -> f32 {
  %t = tile.at @table[%h] : f32
  %r = arith.addf %s, %t : f32
  return %r : f32
}
tile.kernel @kernel (%x: !tile.view<[?], f32>) grid(%h = 1) {
  %s = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  // expected-note @+1 {{the other place}}
  tile.add_gradients @score(%s, %h) seed %s : tensor<8xf32> : (tensor<8xf32>, i32)
  // expected-error @+1 {{must have 'exact' if and only if the other gradients of captures in the kernel have it; write 'exact' on all or on none}}
  tile.add_gradients @score(%s, %h) seed %s : tensor<8xf32> exact : (tensor<8xf32>, i32)
}
tile.program @run (%x: !tile.view<[?], f32>) {
  tile.launch @kernel(%x) : !tile.view<[?], f32>
}

// -----

tile.capture @table : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32) -> f32 {
  %t = tile.at @table[%h] : f32
  %r = arith.addf %s, %t : f32
  return %r : f32
}
// expected-error @+1 {{has an argument 'd_table', which is the name of the gradient of capture @table; rename one of them}}
tile.kernel @kernel (%d_table: !tile.view<[?], f32>) grid(%h = 1) {
  %s = tile.load %d_table[0] : !tile.view<[?], f32> -> tensor<8xf32>
  tile.add_gradients @score(%s, %h) seed %s : tensor<8xf32> : (tensor<8xf32>, i32)
}
tile.program @run (%x: !tile.view<[?], f32>) {
  tile.launch @kernel(%x) : !tile.view<[?], f32>
}

// -----

tile.capture @table : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32) -> f32 {
  %t = tile.at @table[%h] : f32
  %r = arith.addf %s, %t : f32
  return %r : f32
}
tile.kernel @kernel (%x: !tile.view<[?], f32>) grid(%h = 1) {
  %s = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  tile.add_gradients @score(%s, %h) seed %s : tensor<8xf32> : (tensor<8xf32>, i32)
}
// expected-error @+1 {{has an argument 'd_table', which is the name of the gradient of capture @table; rename one of them}}
tile.program @run (%d_table: !tile.view<[?], f32>) {
  tile.launch @kernel(%d_table) : !tile.view<[?], f32>
}

// -----

// Only bound kernels can be differentiated.
func.func private @f(%s: f32) -> f32 {
  return %s : f32
}
tile.kernel @unbound params(N: int) (%x: !tile.view<[?], f32>) grid(%h = 1) {
  %s = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[N], f32>
  // expected-error @+1 {{can be differentiated only after the parameters of its kernel are bound; run tile-specialize first}}
  %0 = tile.map_gradient @f(%s) wrt 0 seed %s : !tile.tile<[N], f32> : (!tile.tile<[N], f32>) -> !tile.tile<[N], f32>
}

// -----

// Each read of a captured float gets a separate function.
tile.capture @cap : f32
func.func private @read(%s: f32) -> f32 {
  %c = tile.at @cap : f32
  %r = arith.mulf %s, %c : f32
  return %r : f32
}
func.func private @read4(%s: f32) -> f32 {
  %a = func.call @read(%s) : (f32) -> f32
  %b = func.call @read(%a) : (f32) -> f32
  %c = func.call @read(%b) : (f32) -> f32
  %d = func.call @read(%c) : (f32) -> f32
  return %d : f32
}
func.func private @read32(%s: f32) -> f32 {
  %a = func.call @read4(%s) : (f32) -> f32
  %b = func.call @read4(%a) : (f32) -> f32
  %c = func.call @read4(%b) : (f32) -> f32
  %d = func.call @read4(%c) : (f32) -> f32
  %e = func.call @read4(%d) : (f32) -> f32
  %f = func.call @read4(%e) : (f32) -> f32
  %g = func.call @read4(%f) : (f32) -> f32
  %h = func.call @read4(%g) : (f32) -> f32
  return %h : f32
}
// expected-error @+1 {{gradients of captures must take at most 262144 operations for one function, but @read512 reads captured floats in 512 places and has 1024 operations; read each float in one place}}
func.func private @read512(%s: f32) -> f32 {
  %a = func.call @read32(%s) : (f32) -> f32
  %b = func.call @read32(%a) : (f32) -> f32
  %c = func.call @read32(%b) : (f32) -> f32
  %d = func.call @read32(%c) : (f32) -> f32
  %e = func.call @read32(%d) : (f32) -> f32
  %f = func.call @read32(%e) : (f32) -> f32
  %g = func.call @read32(%f) : (f32) -> f32
  %h = func.call @read32(%g) : (f32) -> f32
  %i = func.call @read32(%h) : (f32) -> f32
  %j = func.call @read32(%i) : (f32) -> f32
  %k = func.call @read32(%j) : (f32) -> f32
  %l = func.call @read32(%k) : (f32) -> f32
  %m = func.call @read32(%l) : (f32) -> f32
  %n = func.call @read32(%m) : (f32) -> f32
  %o = func.call @read32(%n) : (f32) -> f32
  %p = func.call @read32(%o) : (f32) -> f32
  return %p : f32
}
tile.program @many(%x: !tile.view<[?], f32>) {
  tile.launch @many_kernel(%x) : !tile.view<[?], f32>
}
tile.kernel @many_kernel(%x: !tile.view<[?], f32>) grid(%b = 1) {
  %t = tile.load %x[%b] : !tile.view<[?], f32> -> tensor<8xf32>
  // expected-note @+1 {{differentiated here}}
  tile.add_gradients @read512(%t) seed %t : tensor<8xf32> : (tensor<8xf32>)
}
