// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/loops.mlir --tile-specialize --tile-unroll --canonicalize | FileCheck %t/loops.mlir
// RUN: tilewright-opt %t/errors.mlir --split-input-file --tile-unroll --verify-diagnostics
// A function with a loop is differentiable after the loop is unrolled.
// RUN: tilewright-opt %t/derivative.mlir --tile-unroll --tile-differentiate --canonicalize | FileCheck %t/derivative.mlir

//--- loops.mlir
// The inner bound is the outer induction variable; the loop without the attribute remains. A slice without an offset is
// the tile itself.
// CHECK-LABEL: tile.kernel @k
// CHECK:         %[[T:.*]] = tile.load
// CHECK-NOT:     scf.for
// CHECK:         %[[S1:.*]] = arith.addf %[[T]], %[[T]]
// CHECK:         %[[A:.*]] = tile.slice %[[T]] dim 0 from %{{.*}} : tensor<8xf32>
// CHECK:         %[[S2:.*]] = arith.addf %[[S1]], %[[A]]
// CHECK:         %[[S3:.*]] = arith.addf %[[S2]], %[[T]]
// CHECK-NOT:     arith.addf
// CHECK:         scf.for
// CHECK:           arith.mulf
tile.kernel @k params(TAPS: int = 3) (%x: !tile.view<[?], f32>, %n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %taps = tile.param TAPS : i32
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %sum = scf.for %i = %c0 to %taps step %c1 iter_args(%outer = %t) -> (!tile.tile<[8], f32>) : i32 {
    %r = scf.for %j = %c0 to %i step %c1 iter_args(%inner = %outer) -> (!tile.tile<[8], f32>) : i32 {
      %from = arith.subi %i, %j : i32
      %less = arith.subi %from, %c1 : i32
      %s = tile.slice %t dim 0 from %less : !tile.tile<[8], f32> -> !tile.tile<[8], f32>
      %a = arith.addf %inner, %s : !tile.tile<[8], f32>
      scf.yield %a : !tile.tile<[8], f32>
    } {tile.unroll}
    scf.yield %r : !tile.tile<[8], f32>
  } {tile.unroll}
  %kept = scf.for %i = %c0 to %n step %c1 iter_args(%old = %sum) -> (!tile.tile<[8], f32>) : i32 {
    %a = arith.mulf %old, %t : !tile.tile<[8], f32>
    scf.yield %a : !tile.tile<[8], f32>
  }
  tile.store %kept, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}

//--- errors.mlir
tile.kernel @open(%n: i32) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{an unrolled loop must have bounds and a step that are constant after parameters are bound, but got a non-constant upper bound; compute it from constants and tile.param}}
  scf.for %i = %c0 to %n step %c1 : i32 {
  } {tile.unroll}
}

// -----

tile.kernel @step() grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-error @+1 {{requires a step that is positive, but got 0}}
  scf.for %i = %c0 to %c1 step %c0 : i32 {
  } {tile.unroll}
}

// -----

// Iterations of nested loops count as well.
tile.kernel @many(%x: !tile.view<[?], f32>) grid(%b = 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %most = arith.constant 2000000000 : i32
  // expected-error @+1 {{unrolled loops must have at most 262144 operations, but got 2000000000 iterations of 2 operations here; leave out the attribute}}
  scf.for %i = %c0 to %most step %c1 : i32 {
    %t = tile.load %x[%i] : !tile.view<[?], f32> -> tensor<8xf32>
  } {tile.unroll}
}

//--- derivative.mlir
// CHECK-LABEL: func.func private @cube_gradient_0(
// CHECK-NOT:     scf.for
// CHECK:         return
func.func private @cube(%x: f32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %r = scf.for %i = %c0 to %c2 step %c1 iter_args(%old = %x) -> (f32) : i32 {
    %new = arith.mulf %old, %x : f32
    scf.yield %new : f32
  } {tile.unroll}
  return %r : f32
}
func.func @use(%x: tensor<8xf32>) -> tensor<8xf32> {
  %d = tile.map_gradient @cube(%x) wrt 0 seed %x : tensor<8xf32> : (tensor<8xf32>) -> tensor<8xf32>
  return %d : tensor<8xf32>
}
