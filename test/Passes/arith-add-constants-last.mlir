// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --arith-add-constants-last | FileCheck %s

// A constant is moved through a difference and a product.
// CHECK-LABEL: func.func @penalty
// CHECK-SAME:      %[[I:.*]]: f32, %[[FIRST:.*]]: f32, %[[SLOPE:.*]]: f32
// CHECK:         %[[BASE:.*]] = arith.subf %[[FIRST]], %[[I]] fastmath<reassoc,contract> : f32
// CHECK:         %[[SCALED:.*]] = arith.mulf %[[BASE]], %[[SLOPE]] fastmath<reassoc,contract> : f32
// CHECK:         %[[EIGHT:.*]] = arith.constant 8.000000e+00 : f32
// CHECK:         %[[MORE:.*]] = arith.mulf %[[EIGHT]], %[[SLOPE]] fastmath<reassoc,contract> : f32
// CHECK:         %[[SUM:.*]] = arith.addf %[[SCALED]], %[[MORE]] fastmath<reassoc,contract> : f32
// CHECK-NEXT:    return %[[SUM]]
func.func @penalty(%i: f32, %first: f32, %slope: f32) -> f32 {
  %c8 = arith.constant 8.0 : f32
  %j = arith.addf %first, %c8 fastmath<reassoc, contract> : f32
  %ahead = arith.subf %j, %i fastmath<reassoc, contract> : f32
  %penalty = arith.mulf %slope, %ahead fastmath<reassoc, contract> : f32
  return %penalty : f32
}

// The sign of a subtracted constant changes. Constants of both operands are combined, as are constant factors.
// CHECK-LABEL: func.func @both_sides
// CHECK-SAME:      %[[X:.*]]: f64, %[[Y:.*]]: f64
// CHECK:         %[[BASE:.*]] = arith.subf %[[X]], %[[Y]] fastmath<reassoc> : f64
// CHECK:         %[[TWICE:.*]] = arith.mulf %[[BASE]], %{{.*}} fastmath<reassoc> : f64
// CHECK:         %[[MINUS_FOUR:.*]] = arith.constant -4.000000e+00 : f64
// CHECK:         %[[SUM:.*]] = arith.addf %[[TWICE]], %[[MINUS_FOUR]] fastmath<reassoc> : f64
// CHECK-NEXT:    return %[[SUM]]
func.func @both_sides(%x: f64, %y: f64) -> f64 {
  %c1 = arith.constant 1.0 : f64
  %c2 = arith.constant 2.0 : f64
  %c3 = arith.constant 3.0 : f64
  %x1 = arith.addf %c1, %x fastmath<reassoc> : f64
  %y3 = arith.addf %y, %c3 fastmath<reassoc> : f64
  %difference = arith.subf %x1, %y3 fastmath<reassoc> : f64
  %twice = arith.mulf %difference, %c2 fastmath<reassoc> : f64
  return %twice : f64
}

// The same for a sum whose first term has no constant.
// CHECK-LABEL: func.func @one_side
// CHECK-SAME:      %[[X:.*]]: f32, %[[Y:.*]]: f32
// CHECK:         %[[BASE:.*]] = arith.addf %[[X]], %[[Y]] fastmath<reassoc> : f32
// CHECK:         arith.addf %[[BASE]], %{{.*}} fastmath<reassoc> : f32
func.func @one_side(%x: f32, %y: f32) -> f32 {
  %c3 = arith.constant 3.0 : f32
  %y3 = arith.addf %y, %c3 fastmath<reassoc> : f32
  %sum = arith.addf %x, %y3 fastmath<reassoc> : f32
  return %sum : f32
}

// Both operations must allow reassociation.
// CHECK-LABEL: func.func @not_allowed
// CHECK:         %[[J:.*]] = arith.addf %{{.*}}, %{{.*}} : f32
// CHECK-NEXT:    %[[AHEAD:.*]] = arith.subf %[[J]], %{{.*}} fastmath<reassoc> : f32
// CHECK-NEXT:    %[[K:.*]] = arith.addf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
// CHECK-NEXT:    %[[BEHIND:.*]] = arith.subf %[[K]], %{{.*}} fastmath<contract> : f32
// CHECK-NEXT:    return %[[AHEAD]], %[[BEHIND]]
func.func @not_allowed(%i: f32, %first: f32) -> (f32, f32) {
  %c8 = arith.constant 8.0 : f32
  %j = arith.addf %first, %c8 : f32
  %ahead = arith.subf %j, %i fastmath<reassoc> : f32
  %k = arith.addf %first, %c8 fastmath<reassoc> : f32
  %behind = arith.subf %k, %i fastmath<contract> : f32
  return %ahead, %behind : f32, f32
}

// A sum with only one constant does not change, nor does a sum with other uses.
// CHECK-LABEL: func.func @stays
// CHECK:         %[[J:.*]] = arith.addf %{{.*}}, %{{.*}} fastmath<reassoc> : f32
// CHECK:         arith.subf
// CHECK:         arith.addf
// CHECK:         return %[[J]], %{{.*}}
func.func @stays(%i: f32, %first: f32) -> (f32, f32) {
  %c8 = arith.constant 8.0 : f32
  %j = arith.addf %first, %c8 fastmath<reassoc> : f32
  %ahead = arith.subf %j, %i fastmath<reassoc> : f32
  return %j, %ahead : f32, f32
}
