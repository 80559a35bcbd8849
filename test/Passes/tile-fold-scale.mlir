// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-fold-scale | FileCheck %s
// RUN: tilewright-opt %s --tile-fold-scale=assume-fast-math | FileCheck %s --check-prefix=ASSUME

// CHECK-LABEL: @gather
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32>, %[[A:.*]]: f32, %[[B:.*]]: f32)
// CHECK-NEXT:    %[[AB:.*]] = arith.mulf %[[A]], %[[B]] fastmath<reassoc> : f32
// CHECK-NEXT:    %[[TILE:.*]] = tile.full %[[AB]] : tensor<4x8xf32>
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[X]], %[[TILE]] fastmath<reassoc>
// CHECK-NEXT:    return %[[R]]
func.func @gather(%x: tensor<4x8xf32>, %a: f32, %b: f32) -> tensor<4x8xf32> {
  %at = tile.full %a : tensor<4x8xf32>
  %bt = tile.full %b : tensor<4x8xf32>
  %xa = arith.mulf %x, %at fastmath<reassoc> : tensor<4x8xf32>
  %r = arith.mulf %bt, %xa fastmath<reassoc,nnan> : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// A chain of three becomes one product; constants are uniform.
// CHECK-LABEL: @chain
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32>, %[[A:.*]]: f32)
// CHECK:         %[[TWO:.*]] = arith.constant 2.000000e+00 : f32
// CHECK:         %[[A2:.*]] = arith.mulf %[[A]], %[[TWO]]
// CHECK:         %[[A2A:.*]] = arith.mulf %[[A2]], %[[A]]
// CHECK-NEXT:    %[[TILE:.*]] = tile.full %[[A2A]]
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[X]], %[[TILE]]
// CHECK-NEXT:    return %[[R]]
func.func @chain(%x: tensor<4x8xf32>, %a: f32) -> tensor<4x8xf32> {
  %at = tile.full %a : tensor<4x8xf32>
  %two = arith.constant dense<2.0> : tensor<4x8xf32>
  %x1 = arith.mulf %x, %at fastmath<fast> : tensor<4x8xf32>
  %x2 = arith.mulf %x1, %two fastmath<fast> : tensor<4x8xf32>
  %x3 = arith.mulf %x2, %at fastmath<fast> : tensor<4x8xf32>
  return %x3 : tensor<4x8xf32>
}

// CHECK-LABEL: @exponent
// CHECK-SAME:    (%[[S:.*]]: tensor<4x8xf32>, %[[M:.*]]: tensor<4xf32>, %[[C:.*]]: f32)
// CHECK-NEXT:    %[[CT:.*]] = tile.full %[[C]] : tensor<4x8xf32>
// CHECK-NEXT:    %[[CROW:.*]] = tile.full %[[C]] : tensor<4xf32>
// CHECK-NEXT:    %[[MC:.*]] = arith.mulf %[[M]], %[[CROW]] fastmath<reassoc> : tensor<4xf32>
// CHECK-NEXT:    %[[OFFSET:.*]] = tile.expand %[[MC]] dim 1
// CHECK-NEXT:    %[[SC:.*]] = arith.mulf %[[S]], %[[CT]] fastmath<reassoc,contract>
// CHECK-NEXT:    %[[E:.*]] = arith.subf %[[SC]], %[[OFFSET]] fastmath<reassoc,contract>
// CHECK-NEXT:    math.exp2 %[[E]]
func.func @exponent(%s: tensor<4x8xf32>, %m: tensor<4xf32>, %c: f32) -> tensor<4x8xf32> {
  %ct = tile.full %c : tensor<4x8xf32>
  %me = tile.expand %m dim 1 : tensor<4xf32> -> tensor<4x8xf32>
  %d = arith.subf %s, %me fastmath<reassoc> : tensor<4x8xf32>
  %e = arith.mulf %d, %ct fastmath<reassoc> : tensor<4x8xf32>
  %p = math.exp2 %e : tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// Both rules: the scale of the scores is folded into the exponent's product. Also before parameters are bound.
// CHECK-LABEL: @both
// CHECK-SAME:    (%[[S:.*]]: !tile.tile<[M, N], f32>, %[[ROW:.*]]: !tile.tile<[M], f32>, %[[SCALE:.*]]: f32, %[[C:.*]]: f32)
// CHECK:         %[[F:.*]] = arith.mulf %[[SCALE]], %[[C]] fastmath<fast> : f32
// CHECK-NEXT:    %[[FT:.*]] = tile.full %[[F]] : !tile.tile<[M, N], f32>
// CHECK-NEXT:    %[[SF:.*]] = arith.mulf %[[S]], %[[FT]] fastmath<fast>
// CHECK-NEXT:    %[[E:.*]] = arith.subf %[[SF]], %{{.*}} fastmath<fast>
// CHECK-NEXT:    math.exp %[[E]]
func.func @both(%s: !tile.tile<[M, N], f32>, %m: !tile.tile<[M], f32>, %scale: f32, %c: f32)
    -> !tile.tile<[M, N], f32> {
  %st = tile.full %scale : !tile.tile<[M, N], f32>
  %ct = tile.full %c : !tile.tile<[M, N], f32>
  %me = tile.expand %m dim 1 : !tile.tile<[M], f32> -> !tile.tile<[M, N], f32>
  %x = arith.mulf %s, %st fastmath<fast> : !tile.tile<[M, N], f32>
  %d = arith.subf %x, %me fastmath<fast> : !tile.tile<[M, N], f32>
  %e = arith.mulf %ct, %d fastmath<fast> : !tile.tile<[M, N], f32>
  %p = math.exp %e : !tile.tile<[M, N], f32>
  return %p : !tile.tile<[M, N], f32>
}

// Not without permission, which both operations must give. With the option, both rules apply.
// CHECK-LABEL: @strict
// CHECK:         %[[XA:.*]] = arith.mulf %{{.*}}, %{{.*}} fastmath<reassoc>
// CHECK-NEXT:    %[[XAA:.*]] = arith.mulf %[[XA]]
// CHECK-NEXT:    %[[D:.*]] = arith.subf %[[XAA]]
// CHECK-NEXT:    %[[E:.*]] = arith.mulf %[[D]]
// CHECK-NEXT:    math.exp2 %[[E]]
// ASSUME-LABEL: @strict
// ASSUME-SAME:    (%[[X:.*]]: tensor<4x8xf32>
// ASSUME:         %[[XF:.*]] = arith.mulf %[[X]], %{{.*}} fastmath<contract>
// ASSUME-NEXT:    %[[E:.*]] = arith.subf %[[XF]], %{{.*}} fastmath<contract>
// ASSUME-NEXT:    math.exp2 %[[E]]
func.func @strict(%x: tensor<4x8xf32>, %m: tensor<4xf32>, %a: f32) -> tensor<4x8xf32> {
  %at = tile.full %a : tensor<4x8xf32>
  %me = tile.expand %m dim 1 : tensor<4xf32> -> tensor<4x8xf32>
  %xa = arith.mulf %x, %at fastmath<reassoc> : tensor<4x8xf32>
  %xaa = arith.mulf %xa, %at : tensor<4x8xf32>
  %d = arith.subf %xaa, %me : tensor<4x8xf32>
  %e = arith.mulf %d, %at fastmath<reassoc> : tensor<4x8xf32>
  %p = math.exp2 %e : tensor<4x8xf32>
  return %p : tensor<4x8xf32>
}

// Not if the intermediate values have other uses, and not if a factor differs between elements.
// ASSUME-LABEL: @other_uses
// ASSUME:         %[[XA:.*]] = arith.mulf
// ASSUME-NEXT:    arith.mulf %[[XA]]
// ASSUME-LABEL: @difference_used
// ASSUME:         %[[D:.*]] = arith.subf
// ASSUME-NEXT:    %[[E:.*]] = arith.mulf %[[D]]
// ASSUME-NEXT:    math.exp2 %[[E]]
// ASSUME-LABEL: @not_uniform
// ASSUME:         %[[XY:.*]] = arith.mulf
// ASSUME-NEXT:    arith.mulf %[[XY]]
func.func @other_uses(%x: tensor<4x8xf32>, %a: f32) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %at = tile.full %a : tensor<4x8xf32>
  %xa = arith.mulf %x, %at : tensor<4x8xf32>
  %r = arith.mulf %xa, %at : tensor<4x8xf32>
  return %xa, %r : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @difference_used(%s: tensor<4x8xf32>, %m: tensor<4xf32>, %c: f32)
    -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %ct = tile.full %c : tensor<4x8xf32>
  %me = tile.expand %m dim 1 : tensor<4xf32> -> tensor<4x8xf32>
  %d = arith.subf %s, %me : tensor<4x8xf32>
  %e = arith.mulf %d, %ct : tensor<4x8xf32>
  %p = math.exp2 %e : tensor<4x8xf32>
  return %p, %d : tensor<4x8xf32>, tensor<4x8xf32>
}
func.func @not_uniform(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %a: f32) -> tensor<4x8xf32> {
  %at = tile.full %a : tensor<4x8xf32>
  %xy = arith.mulf %x, %y : tensor<4x8xf32>
  %r = arith.mulf %xy, %at : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// A map of a function that returns one of its operands is that tile, and no longer separates two factors. The function
// remains for other callers.
// CHECK:       func.func private @second(
// CHECK-LABEL: @identity
// CHECK-SAME:    (%[[X:.*]]: tensor<4x8xf32>, %[[Y:.*]]: tensor<4x8xf32>, %[[A:.*]]: f32)
// CHECK-NEXT:    %[[AA:.*]] = arith.mulf %[[A]], %[[A]] fastmath<reassoc> : f32
// CHECK-NEXT:    %[[TILE:.*]] = tile.full %[[AA]] : tensor<4x8xf32>
// CHECK-NEXT:    %[[R:.*]] = arith.mulf %[[X]], %[[TILE]] fastmath<reassoc>
// CHECK-NEXT:    return %[[R]]
func.func private @second(%y: f32, %x: f32) -> f32 {
  return %x : f32
}
func.func @identity(%x: tensor<4x8xf32>, %y: tensor<4x8xf32>, %a: f32) -> tensor<4x8xf32> {
  %at = tile.full %a : tensor<4x8xf32>
  %xa = arith.mulf %x, %at fastmath<reassoc> : tensor<4x8xf32>
  %same = tile.map @second(%y, %xa) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  %r = arith.mulf %same, %at fastmath<reassoc> : tensor<4x8xf32>
  return %r : tensor<4x8xf32>
}

// Not if the function computes something, or if it returns a scalar, which is not a tile.
// CHECK-LABEL: @no_identity
// CHECK:         %[[SPREAD:.*]] = tile.map @second(%{{.*}}, %{{.*}}) : (tensor<4x8xf32>, f32) ->
// CHECK-NEXT:    %[[TWICE:.*]] = tile.map @twice(%[[SPREAD]])
// CHECK-NEXT:    return %[[TWICE]]
func.func private @twice(%x: f32) -> f32 {
  %0 = arith.addf %x, %x : f32
  return %0 : f32
}
func.func @no_identity(%x: tensor<4x8xf32>, %a: f32) -> tensor<4x8xf32> {
  %spread = tile.map @second(%x, %a) : (tensor<4x8xf32>, f32) -> tensor<4x8xf32>
  %twice = tile.map @twice(%spread) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %twice : tensor<4x8xf32>
}

// Factors in a mapped function are combined with those around the map; two maps then share the result.
tile.capture @cap : f32
func.func private @softcap(%s: f32) -> f32 {
  %cap = tile.at @cap : f32
  %one = arith.constant 1.0 : f32
  %inverse = arith.divf %one, %cap : f32
  %x = arith.mulf %s, %inverse fastmath<reassoc> : f32
  %t = math.tanh %x : f32
  %r = arith.mulf %cap, %t fastmath<reassoc> : f32
  return %r : f32
}
func.func private @slope(%s: f32, %seed: f32) -> f32 {
  %cap = tile.at @cap : f32
  %one = arith.constant 1.0 : f32
  %inverse = arith.divf %one, %cap : f32
  %x = arith.mulf %s, %inverse fastmath<reassoc> : f32
  %t = math.tanh %x : f32
  %r = arith.mulf %t, %seed : f32
  return %r : f32
}
// CHECK-LABEL: func.func private @softcap_core(%{{.*}}: f32) -> f32
// CHECK-NEXT:    %[[T:.*]] = math.tanh %arg0
// CHECK-NEXT:    return %[[T]]
// CHECK-LABEL: func.func private @slope_core
// CHECK-NEXT:    math.tanh %arg0
// CHECK-LABEL: @around_maps
// CHECK-SAME:    (%[[S:.*]]: tensor<4x8xf32>, %[[SCALE:.*]]: f32, %[[D:.*]]: tensor<4x8xf32>)
// CHECK:         %[[CAP:.*]] = tile.at @cap
// CHECK:         %[[INVERSE:.*]] = arith.divf %{{.*}}, %[[CAP]]
// CHECK:         %[[FACTOR:.*]] = arith.mulf %[[SCALE]], %[[INVERSE]] fastmath<reassoc>
// CHECK:         %[[FACTORS:.*]] = tile.full %[[FACTOR]]
// CHECK:         %[[X:.*]] = arith.mulf %[[S]], %[[FACTORS]] fastmath<reassoc>
// CHECK:         %[[T:.*]] = tile.map @softcap_core(%[[X]])
// CHECK:         %[[BACK:.*]] = arith.mulf %[[CAP]], %{{.*}} fastmath<reassoc> : f32
// CHECK:         %[[BACKS:.*]] = tile.full %[[BACK]]
// CHECK:         %[[R:.*]] = arith.mulf %[[T]], %[[BACKS]] fastmath<reassoc>
// CHECK:         %[[G:.*]] = tile.map @slope_core(%[[X]], %[[D]])
// CHECK-NEXT:    return %[[R]], %[[G]]
func.func @around_maps(%s: tensor<4x8xf32>, %scale: f32, %d: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %scales = tile.full %scale : tensor<4x8xf32>
  %x = arith.mulf %s, %scales fastmath<reassoc> : tensor<4x8xf32>
  %y = tile.map @softcap(%x) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  %log2e = arith.constant dense<1.5> : tensor<4x8xf32>
  %r = arith.mulf %y, %log2e fastmath<reassoc> : tensor<4x8xf32>
  %g = tile.map @slope(%x, %d) : (tensor<4x8xf32>, tensor<4x8xf32>) -> tensor<4x8xf32>
  return %r, %g : tensor<4x8xf32>, tensor<4x8xf32>
}

// Without permission, nothing moves.
// CHECK-LABEL: @rigid_map
// CHECK-NEXT:    tile.map @rigid(
// CHECK-NEXT:    return
func.func private @rigid(%s: f32) -> f32 {
  %cap = tile.at @cap : f32
  %t = math.tanh %s : f32
  %r = arith.mulf %t, %cap : f32
  return %r : f32
}
func.func @rigid_map(%s: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %y = tile.map @rigid(%s) : (tensor<4x8xf32>) -> tensor<4x8xf32>
  return %y : tensor<4x8xf32>
}

// A map or a call that returns a constant becomes the constant, and a factor of one is removed; calls within functions
// remain.
func.func private @one(%i: i32) -> f32 {
  %one = arith.constant 1.0 : f32
  return %one : f32
}
func.func private @two(%i: i32) -> f32 {
  %two = arith.constant 2.0 : f32
  return %two : f32
}
// CHECK-LABEL: func.func private @calls
// CHECK-NEXT:    call @two
func.func private @calls(%i: i32) -> f32 {
  %x = func.call @two(%i) : (i32) -> f32
  return %x : f32
}
// CHECK-LABEL: tile.kernel @trivial
// CHECK:         %[[X:.*]] = tile.load
// CHECK:         %[[TWO:.*]] = arith.constant 2.000000e+00
// CHECK:         tile.full %[[TWO]]
// CHECK-NOT:     @one
// CHECK-NOT:     @two
// CHECK:         %[[Y:.*]] = arith.mulf %[[X]],
// CHECK:         tile.store %[[Y]]
tile.kernel @trivial (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  %rows = tile.iota %i dim 0 : tensor<8xi32>
  %ones = tile.map @one(%rows) : (tensor<8xi32>) -> tensor<8xf32>
  %twos = tile.map @two(%rows) : (tensor<8xi32>) -> tensor<8xf32>
  %same = arith.mulf %t, %ones : tensor<8xf32>
  %double = arith.mulf %same, %twos : tensor<8xf32>
  %two = func.call @two(%i) : (i32) -> f32
  tile.store %double, %x[0] : tensor<8xf32>, !tile.view<[?], f32>
}

// A factor in a function that the mapped function calls leaves the map as well.
tile.capture @factor : f32
func.func private @scaled(%s: f32) -> f32 {
  %factor = tile.at @factor : f32
  %r = arith.mulf %s, %factor fastmath<reassoc> : f32
  return %r : f32
}
func.func private @scaled_sine(%s: f32) -> f32 {
  %x = func.call @scaled(%s) : (f32) -> f32
  %r = math.sin %x : f32
  return %r : f32
}
// CHECK-LABEL: tile.kernel @through_a_call
// CHECK:         %[[F:.*]] = tile.at @factor
// CHECK:         %[[FT:.*]] = tile.full %[[F]]
// CHECK:         %[[P:.*]] = arith.mulf %{{.*}}, %[[FT]] fastmath<reassoc>
// CHECK:         tile.map @scaled_sine_core(%[[P]])
tile.kernel @through_a_call (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> tensor<8xf32>
  %u = tile.map @scaled_sine(%t) : (tensor<8xf32>) -> tensor<8xf32>
  tile.store %u, %x[0] : tensor<8xf32>, !tile.view<[?], f32>
}
