// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-hoist-uniforms | FileCheck %s

tile.capture @slopes : !tile.view<[?], f32>
tile.capture @cap : f32

// Values that depend only on the scalar leave the function; values that depend on a position remain, as do values that
// read no memory.
// CHECK-LABEL: func.func private @f_varying(
// CHECK-SAME:    %[[S:.*]]: f32, %{{.*}}: i32, %[[J:.*]]: i32, %[[TWICE:.*]]: f32) -> f32
// CHECK-NEXT:    %[[CAP:.*]] = tile.at @cap : f32
// CHECK-NEXT:    %[[AT:.*]] = tile.at @slopes[%[[J]]] : f32
// CHECK-NEXT:    %[[A:.*]] = arith.mulf %[[S]], %[[TWICE]]
// CHECK-NEXT:    %[[B:.*]] = arith.addf %[[A]], %[[CAP]]
// CHECK-NEXT:    %[[C:.*]] = arith.addf %[[B]], %[[AT]]
// CHECK-NEXT:    return %[[C]]
func.func private @f(%s: f32, %h: i32, %j: i32) -> f32 {
  %c1 = arith.constant 1 : i32
  %next = arith.addi %h, %c1 : i32
  %slope = tile.at @slopes[%next] : f32
  %twice = arith.addf %slope, %slope : f32
  %cap = tile.at @cap : f32
  %at = tile.at @slopes[%j] : f32
  %a = arith.mulf %s, %twice : f32
  %b = arith.addf %a, %cap : f32
  %c = arith.addf %b, %at : f32
  return %c : f32
}

// Other scalars give another function; a call without scalars does not change.
func.func private @in_a_region(%s: f32, %h: i32) -> f32 {
  %zero = arith.constant 0.0 : f32
  %c = arith.cmpf ogt, %s, %zero : f32
  %r = scf.if %c -> f32 {
    %x = tile.at @slopes[%h] : f32
    scf.yield %x : f32
  } else {
    scf.yield %zero : f32
  }
  return %r : f32
}

// CHECK-LABEL: func.func @kernel
// CHECK-SAME:    (%[[S:.*]]: tensor<8xf32>, %[[H:.*]]: i32, %[[J:.*]]: tensor<8xi32>)
// CHECK:         %[[NEXT:.*]] = arith.addi %[[H]],
// CHECK-NEXT:    %[[SLOPE:.*]] = tile.at @slopes[%[[NEXT]]] : f32
// CHECK-NEXT:    %[[TWICE:.*]] = arith.addf %[[SLOPE]], %[[SLOPE]]
// CHECK-NEXT:    tile.map @f_varying(%[[S]], %[[H]], %[[J]], %[[TWICE]]) : (tensor<8xf32>, i32, tensor<8xi32>, f32)
// CHECK:         tile.at @slopes
// CHECK:         tile.map @f_varying_0(%[[S]], %[[H]], %[[H]], %{{.*}}, %{{.*}})
// CHECK:         tile.map @f(%[[S]], %[[J]], %[[J]])
// CHECK:         tile.map @in_a_region(%[[S]], %[[H]])
func.func @kernel(%s: tensor<8xf32>, %h: i32, %j: tensor<8xi32>) {
  %a = tile.map @f(%s, %h, %j) : (tensor<8xf32>, i32, tensor<8xi32>) -> tensor<8xf32>
  %b = tile.map @f(%s, %h, %h) : (tensor<8xf32>, i32, i32) -> tensor<8xf32>
  %c = tile.map @f(%s, %j, %j) : (tensor<8xf32>, tensor<8xi32>, tensor<8xi32>) -> tensor<8xf32>
  %d = tile.map @in_a_region(%s, %h) : (tensor<8xf32>, i32) -> tensor<8xf32>
  return
}
