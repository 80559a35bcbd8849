// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/calls.mlir --tile-inline-calls | FileCheck %t/calls.mlir
// RUN: tilewright-opt %t/errors.mlir --split-input-file --tile-inline-calls --verify-diagnostics
// RUN: tilewright-opt %t/tiles.mlir --tile-inline-calls=of-tiles-only | FileCheck %t/tiles.mlir
// A chain of 20,000 functions, each of which calls the next, in time proportional to its length.
// RUN: %python %S/Inputs/write_calls.py chain 20000 > %t/chain.mlir
// RUN: timeout 60 tilewright-opt %t/chain.mlir --tile-inline-calls | FileCheck %s --check-prefix=CHAIN
// 30 functions, each of which calls the next twice, are rejected before any copy, by all users of the inliner.
// RUN: %python %S/Inputs/write_calls.py double 30 > %t/double.mlir
// RUN: not timeout 60 tilewright-opt %t/double.mlir --tile-inline-calls 2>&1 | FileCheck %s --check-prefix=DOUBLE
// RUN: not timeout 60 tilewright-opt %t/double.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=DOUBLE
// RUN: not timeout 60 tilewrightc %t/double.mlir --target=sm_80 --emit=ptx 2>&1 | FileCheck %s --check-prefix=DOUBLE
// RUN: not timeout 60 tilewright-run %t/double.mlir --out x=%t/x.npy@8 2>&1 | FileCheck %s --check-prefix=DOUBLE
// A count of 2^100 operations does not wrap.
// RUN: %python %S/Inputs/write_calls.py double 100 > %t/more.mlir
// RUN: not timeout 60 tilewright-opt %t/more.mlir --tile-link 2>&1 | FileCheck %s --check-prefix=DOUBLE
// Gradients, and factors that leave maps, of a number that is added to itself 60 times.
// RUN: %python %S/Inputs/write_calls.py uniform 60 > %t/uniform.mlir
// RUN: timeout 60 tilewright-opt %t/uniform.mlir --tile-differentiate --tile-fold-scale | FileCheck %s --check-prefix=UNIFORM
// UNIFORM: func.func private @f_gradient_0
// UNIFORM: tile.map @f_core

// CHAIN-NOT: call @
// CHAIN:     tile.kernel @k
// DOUBLE:      {{double|more}}.mlir:{{[0-9]+}}:1: error: function @f17 must have at most 262144 operations, counting a function once for each call of it, but got 524285; call functions less often, or in a loop (scf.for)
// DOUBLE:      {{double|more}}.mlir:{{[0-9]+}}:{{[0-9]+}}: note: reached from here

//--- calls.mlir
// Only functions that an operation applies remain, without calls, also within regions.
// CHECK-NOT:   @leaf
// CHECK:       func.func private @mapped(%[[X:.*]]: f32, %[[C:.*]]: i1) -> f32
// CHECK-NEXT:    %[[N:.*]] = arith.negf %[[X]] : f32
// CHECK-NEXT:    %[[R:.*]] = scf.if %[[C]] -> (f32) {
// CHECK-NEXT:      %[[M:.*]] = arith.negf %[[N]] : f32
// CHECK-NEXT:      scf.yield %[[M]] : f32
// CHECK-NEXT:    } else {
// CHECK-NEXT:      scf.yield %[[X]] : f32
// CHECK-NEXT:    }
// CHECK-NEXT:    return %[[R]] : f32
// CHECK:       func.func @public() -> i32
// CHECK-NEXT:    %[[ONE:.*]] = arith.constant 1 : i32
// CHECK-NEXT:    return %[[ONE]] : i32
// CHECK:       tile.kernel @k
// CHECK:         arith.constant 1 : i32
// CHECK-NEXT:    %[[T:.*]] = tile.load
// CHECK-NEXT:    tile.map @mapped(%[[T]], %{{.*}})
// CHECK-NOT:   @middle
func.func private @leaf(%x: f32) -> f32 {
  %y = arith.negf %x : f32
  return %y : f32
}
func.func private @middle(%x: f32) -> f32 {
  %y = func.call @leaf(%x) : (f32) -> f32
  return %y : f32
}
func.func private @mapped(%x: f32, %c: i1) -> f32 {
  %y = func.call @middle(%x) : (f32) -> f32
  %z = scf.if %c -> (f32) {
    %a = func.call @leaf(%y) : (f32) -> f32
    scf.yield %a : f32
  } else {
    scf.yield %x : f32
  }
  return %z : f32
}
func.func private @one() -> i32 {
  %one = arith.constant 1 : i32
  return %one : i32
}
func.func @public() -> i32 {
  %one = func.call @one() : () -> i32
  return %one : i32
}
tile.kernel @k(%x: !tile.view<[?], f32>, %c: i1) grid(%b = 1) {
  %one = func.call @one() : () -> i32
  %t = tile.load %x[%one] : !tile.view<[?], f32> -> tensor<8xf32>
  %m = tile.map @mapped(%t, %c) : (tensor<8xf32>, i1) -> tensor<8xf32>
  tile.store %m, %x[%one] : tensor<8xf32>, !tile.view<[?], f32>
}

//--- tiles.mlir
// With of-tiles-only: calls that pass or return a tile or a view with unbound parameters; calls on numbers in them
// remain.
!row = !tile.tile<[M], f32>
!view = !tile.view<[?], f32>
// CHECK-NOT:   @twice
// CHECK-NOT:   @first
// CHECK:       func.func private @next
func.func private @next(%i: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %next = arith.addi %i, %c1 : i32
  return %next : i32
}
func.func private @first(%x: !view, %i: i32) -> i32 {
  %count = tile.dim %x, 0 : !view
  %least = arith.minsi %i, %count : i32
  %first = func.call @next(%least) : (i32) -> i32
  return %first : i32
}
func.func private @twice(%x: !row) -> !row {
  %sum = arith.addf %x, %x : !row
  return %sum : !row
}
// CHECK-LABEL: tile.kernel @k
// CHECK:         %[[COUNT:.*]] = tile.dim %x, 0
// CHECK-NEXT:    %[[LEAST:.*]] = arith.minsi %g, %[[COUNT]]
// CHECK-NEXT:    %[[I:.*]] = func.call @next(%[[LEAST]])
// CHECK-NEXT:    %[[LOADED:.*]] = tile.load %x[%[[I]]]
// CHECK-NEXT:    %[[SUM:.*]] = arith.addf %[[LOADED]], %[[LOADED]]
// CHECK-NEXT:    tile.store %[[SUM]], %x[%[[I]]]
tile.kernel @k params(M: int) (%x: !view) grid(%g = 4) {
  %i = func.call @first(%x, %g) : (!view, i32) -> i32
  %loaded = tile.load %x[%i] : !view -> !row
  %sum = func.call @twice(%loaded) : (!row) -> !row
  tile.store %sum, %x[%i] : !row, !view
}

//--- errors.mlir
// expected-error @+1 {{a function must not be recursive, but got the cycle @a -> @b -> @a}}
func.func private @a(%x: f32) -> f32 {
  %y = func.call @b(%x) : (f32) -> f32
  return %y : f32
}
func.func private @b(%x: f32) -> f32 {
  %y = func.call @a(%x) : (f32) -> f32
  return %y : f32
}
