// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels, programs and their declarations: both forms of each operation.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | FileCheck %s --check-prefix=GENERIC

// GENERIC: "tile.capture"() <{sym_name = "slopes", type = !tile.view<[?], f32>}> : () -> ()
// CHECK: tile.capture @slopes : !tile.view<[?], f32>
tile.capture @slopes : !tile.view<[?], f32>

// A file of functions. Until the module is linked, it may use symbols that it does not define.
// CHECK: tile.link "lib/functions.mlir"
tile.link "lib/functions.mlir"
// CHECK: tile.map @of_the_library
func.func @uses_it(%t: tensor<8xf32>) -> tensor<8xf32> {
  %u = tile.map @of_the_library(%t) : (tensor<8xf32>) -> tensor<8xf32>
  return %u : tensor<8xf32>
}

// An extent of a capture.
// CHECK: tile.dim @slopes, 0
// GENERIC: "tile.dim"() <{capture = @slopes, dim = 0 : i64}> : () -> i32
func.func @extent() -> i32 {
  %n = tile.dim @slopes, 0
  return %n : i32
}

// How functions of several files are combined, and the function that denotes the replaced one.
// CHECK: attributes {tile.replaceable = "compose"}
func.func private @changed(%x: f32, %i: i32) -> f32 attributes {tile.replaceable = "compose"} {
  return %x : f32
}
// CHECK: attributes {tile.replaceable = "and"}
func.func private @allowed(i32) -> i1 attributes {tile.replaceable = "and"}
// CHECK: attributes {tile.replaceable = "multiply"}
func.func private @weight(i32) -> !tile.param<ACC> attributes {tile.replaceable = "multiply"}
// CHECK: func.func private @before(f32, i32) -> f32 attributes {tile.base = @changed}
func.func private @before(f32, i32) -> f32 attributes {tile.base = @changed}

// A captured scalar, and one without a value.
// CHECK: tile.capture @cap : f32
tile.capture @cap : f32
// CHECK: tile.capture @share : f32 require(share >= 0, share < 1)
tile.capture @share : f32 require(share >= 0, share < 1)
// CHECK: tile.capture @table : !tile.view<[?, ?], f32> require(dim(table, 0) == 2)
tile.capture @table : !tile.view<[?, ?], f32> require(dim(table, 0) == 2)

// The smallest kernel.
// GENERIC: "tile.kernel"() <{arg_names = [], arg_optional = array<i1>, constraints = [], grid = [#tile.expr<1>],
// GENERIC-SAME: grid_names = ["i"], params = [], sym_name = "smallest"}>
// CHECK-LABEL: tile.kernel @smallest
// CHECK-NEXT: {{^}}    ()
// CHECK-NEXT: grid(%i = 1) {
// CHECK-NEXT: }
tile.kernel @smallest () grid(%i = 1) {}

// All parts of a signature.
// CHECK-LABEL: tile.kernel @everything
// CHECK-NEXT: params(BLOCK: int in [64, 128] = 128, D: int, DP: int = ceildiv(D, 8) * 8, T: type, MODE: enum in ["a", "b"] = "a", FLAG: flag = D < 64)
// CHECK-NEXT: require(D <= 256, or(FLAG, MODE == "b"))
// CHECK-NEXT: (%x: !tile.view<[?, D], T>, %y: optional !tile.view<[?], f32>, %scale: f32, %n: i32, %seed: i64, %on: i1, %value: !tile.param<T>)
// CHECK-NEXT: grid(%block = ceildiv(dim(x, 0), BLOCK), %j = select(on, n, sm_count())) {
// CHECK-NEXT: tile.dim %x, 0 : !tile.view<[?, D], T>
// CHECK-NEXT: arith.addi %block, %n : i32
tile.kernel @everything
    params(BLOCK: int in [64, 128] = 128, D: int, DP: int = ceildiv(D, 8) * 8, T: type,
           MODE: enum in ["a", "b"] = "a", FLAG: flag = D < 64)
    require(D <= 256, or(FLAG, MODE == "b"))
    (%x: !tile.view<[?, D], T>, %y: optional !tile.view<[?], f32>, %scale: f32, %n: i32,
     %seed: i64, %on: i1, %value: !tile.param<T>)
    grid(%block = ceildiv(dim(x, 0), BLOCK), %j = select(on, n, sm_count())) {
  %rows = tile.dim %x, 0 : !tile.view<[?, D], T>
  %sum = arith.addi %block, %n : i32
}

// A derived parameter, defaults of scalars, and constraints on floats.
// CHECK-LABEL: tile.kernel @derived
// CHECK-NEXT: params(D: int, let DP: int = ceildiv(D, 8) * 8, let MODE: enum in ["a", "b"] = "a")
// CHECK-NEXT: require(finite(scale), p >= 0, p < 1, p == scale, ne(p, D))
// CHECK-NEXT: (%p: f32 = 5.000000e-01, %scale: f32, %n: i32 = -1, %seed: i64 = 5000000000, %on: i1 = true)
tile.kernel @derived
    params(D: int, let DP: int = ceildiv(D, 8) * 8, let MODE: enum in ["a", "b"] = "a")
    require(finite(scale), p >= 0, p < 1, p == scale, ne(p, D))
    (%p: f32 = 0.5, %scale: f32, %n: i32 = -1, %seed: i64 = 5000000000, %on: i1 = true)
    grid(%i = 1) {}

// CHECK: #tile.param_decl<let ACC: type = accumulator(T)>
func.func private @declaration() attributes {a = #tile.param_decl<let ACC: type = accumulator(T)>}

// Functions that another file may replace.
// CHECK: func.func @replaceable() attributes {tile.replaceable}
func.func @replaceable() attributes {tile.replaceable} {
  return
}

// A bound kernel has the values of its parameters; other attributes remain.
// CHECK-LABEL: tile.kernel @bound
// CHECK: grid(%i = ceildiv(dim(x, 0), 128)) attributes {bindings = {BLOCK = 128 : i64, T = f16}, note = "kept"} {
tile.kernel @bound (%x: !tile.view<[?], f16>) grid(%i = ceildiv(dim(x, 0), 128))
    attributes {bindings = {BLOCK = 128 : i64, T = f16}, note = "kept"} {}

// Parameters as values, in a kernel.
// CHECK-LABEL: tile.kernel @parameters
// CHECK: tile.param A * 2 : i32
// CHECK-NEXT: tile.param A : i64
// CHECK-NEXT: tile.param MODE == "on" : i1
tile.kernel @parameters params(A: int, MODE: enum in ["on", "off"]) () grid(%i = 1) {
  %0 = tile.param A * 2 : i32
  %1 = tile.param A : i64
  %2 = tile.param MODE == "on" : i1
}

// The smallest program.
// CHECK-LABEL: tile.program @empty
// CHECK-NEXT: {{^}}    () {
// CHECK-NEXT: }
tile.program @empty () {}

// Workspace and launches with every clause.
// GENERIC: "tile.launch"(%{{.*}}, %{{.*}}) <{condition = #tile.expr<lt(n, 4)>, kernel = @copy,
// GENERIC-SAME: with_names = ["BLOCK", "T"], with_values = [#tile.expr<BLOCK * 2>, #tile.expr<f32>]}>
// CHECK-LABEL: tile.program @steps
// CHECK: %[[SUM:.*]] = tile.workspace [dim(x, 0), n + 1, 4] fill 0.000000e+00 : !tile.view<[?, ?, 4], f32>
// CHECK-NEXT: %[[FREE:.*]] = tile.workspace [dim(x, 0)] : !tile.view<[?], f32>
// CHECK-NEXT: tile.workspace [4] fill -1 : !tile.view<[4], i32> {note = "kept"}
// CHECK-NEXT: tile.workspace [4] fill 0 : !tile.view<[4], i64>
// CHECK-NEXT: tile.workspace [4] fill -0.000000e+00 : !tile.view<[4], f16>
// CHECK-NEXT: tile.workspace [4] fill 3.000000e+00 : !tile.view<[4], T>
// CHECK-NEXT: tile.workspace [4] fill minus_inf : !tile.view<[4], f32>
// CHECK-NEXT: tile.workspace [4] fill nan : !tile.view<[4], bf16>
// CHECK-NEXT: tile.launch @smallest()
// CHECK-NEXT: tile.launch @copy(%x, %[[FREE]]) : !tile.view<[?], f32>, !tile.view<[?], f32>
// CHECK-NEXT: tile.launch @copy(%x, %[[FREE]]) with (BLOCK = BLOCK * 2, T = f32) when (n < 4) : !tile.view<[?], f32>, !tile.view<[?], f32>
// CHECK-NEXT: tile.launch @copy(%x, %[[FREE]]) when (FAST) : !tile.view<[?], f32>, !tile.view<[?], f32>
tile.program @steps params(BLOCK: int = 64, T: type = f32, FAST: flag = true) require(BLOCK >= 64)
    (%x: !tile.view<[?], f32>, %n: i32) {
  %sum = tile.workspace [dim(x, 0), n + 1, 4] fill 0.0 : !tile.view<[?, ?, 4], f32>
  %free = tile.workspace [dim(x, 0)] : !tile.view<[?], f32>
  %found = tile.workspace [4] fill -1 : !tile.view<[4], i32> {note = "kept"}
  %words = tile.workspace [4] fill 0 : !tile.view<[4], i64>
  %minus = tile.workspace [4] fill -0 : !tile.view<[4], f16>
  %three = tile.workspace [4] fill 3 : !tile.view<[4], T>
  %largest = tile.workspace [4] fill minus_inf : !tile.view<[4], f32>
  %unknown = tile.workspace [4] fill nan : !tile.view<[4], bf16>
  tile.launch @smallest()
  tile.launch @copy(%x, %free) : !tile.view<[?], f32>, !tile.view<[?], f32>
  tile.launch @copy(%x, %free) with (BLOCK = BLOCK * 2, T = f32) when (n < 4)
      : !tile.view<[?], f32>, !tile.view<[?], f32>
  tile.launch @copy(%x, %free) when (FAST) : !tile.view<[?], f32>, !tile.view<[?], f32>
}

// An absent argument may be passed to an optional one; `f32` is compatible with T, which may be bound to it.
// CHECK-LABEL: tile.kernel @copy
tile.kernel @copy params(BLOCK: int, T: type) (%x: !tile.view<[?], T>, %y: optional !tile.view<[?], T>)
    grid(%i = 1) {}
// CHECK-LABEL: tile.program @passes_on
// CHECK: tile.launch @copy(%x, %y)
tile.program @passes_on params(BLOCK: int, T: type)
    (%x: !tile.view<[?], f32>, %y: optional !tile.view<[?], T>) {
  tile.launch @copy(%x, %y) : !tile.view<[?], f32>, !tile.view<[?], T>
}
