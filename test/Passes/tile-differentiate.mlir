// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --split-input-file --tile-differentiate | FileCheck %s
// RUN: tilewright-opt %s --split-input-file --tile-differentiate --canonicalize --cse | FileCheck %s --check-prefix=CLEAN

// The derivative is one times the seed: no function remains.
func.func private @identity(%s: f32, %i: i32) -> f32 {
  return %s : f32
}
// CHECK-LABEL: func.func @seed
// CHECK-SAME:    (%{{.*}}, %{{.*}}, %[[SEED:.*]]: tensor<4x8xf32>)
// CHECK-NEXT:    return %[[SEED]]
func.func @seed(%s: tensor<4x8xf32>, %i: i32, %seed: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tile.map_gradient @identity(%s, %i) wrt 0 seed %seed : tensor<4x8xf32>
      : (tensor<4x8xf32>, i32) -> tensor<4x8xf32>
  return %0 : tensor<4x8xf32>
}

// -----

// Adding a value that does not depend on the operand does not change the derivative.
tile.capture @table : !tile.view<[?], f32>
func.func private @bias(%s: f32, %i: i32) -> f32 {
  %t = tile.at @table[%i] : f32
  %bits = arith.bitcast %t : f32 to i32
  %x = arith.sitofp %bits : i32 to f32
  %r = arith.addf %s, %x : f32
  return %r : f32
}
// CHECK-LABEL: func.func @seed_of_a_bias
// CHECK-SAME:    (%{{.*}}, %{{.*}}, %[[SEED:.*]]: tensor<8xf32>)
// CHECK-NEXT:    return %[[SEED]]
func.func @seed_of_a_bias(%s: tensor<8xf32>, %i: tensor<8xi32>, %seed: tensor<8xf32>)
    -> tensor<8xf32> {
  %0 = tile.map_gradient @bias(%s, %i) wrt 0 seed %seed : tensor<8xf32>
      : (tensor<8xf32>, tensor<8xi32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Comparisons and conversions to integers are constant.
func.func private @steps(%s: f32) -> f32 {
  %n = arith.fptosi %s : f32 to i32
  %r = arith.sitofp %n : i32 to f32
  return %r : f32
}
// CHECK-LABEL: func.func @zero
// CHECK:         %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %[[TILE:.*]] = tile.full %[[ZERO]] : tensor<8xf32>
// CHECK-NEXT:    return %[[TILE]]
func.func @zero(%s: tensor<8xf32>, %seed: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.map_gradient @steps(%s) wrt 0 seed %seed : tensor<8xf32>
      : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Calls are differentiated; the divisor is uniform and needs no guard. If products may be reassociated, uniform factors
// are combined.
// CLEAN-LABEL: func.func private @softcap_gradient_0
// CLEAN-SAME:    (%[[S:.*]]: f32, %[[SEED:.*]]: f32) -> f32
// CLEAN-DAG:     %[[ONE:.*]] = arith.constant 1.000000e+00 : f32
// CLEAN-DAG:     %[[CAP:.*]] = tile.at @cap : f32
// CLEAN:         %[[INVERSE:.*]] = arith.divf %[[ONE]], %[[CAP]] : f32
// CLEAN-NEXT:    %[[X:.*]] = arith.mulf %[[S]], %[[INVERSE]] fastmath<reassoc> : f32
// CLEAN-NEXT:    %[[T:.*]] = math.tanh %[[X]] : f32
// CLEAN-NEXT:    %[[MINUS:.*]] = arith.negf %[[T]] : f32
// CLEAN-NEXT:    %[[D:.*]] = math.fma %[[MINUS]], %[[T]], %[[ONE]] : f32
// CLEAN-NEXT:    %[[A:.*]] = arith.mulf %[[SEED]], %[[D]] : f32
// CLEAN-NEXT:    %[[FACTOR:.*]] = arith.mulf %[[CAP]], %[[INVERSE]] fastmath<reassoc> : f32
// CLEAN-NEXT:    %[[R:.*]] = arith.mulf %[[A]], %[[FACTOR]] fastmath<reassoc> : f32
// CLEAN-NEXT:    return %[[R]]
tile.capture @cap : f32
func.func private @bounded(%x: f32) -> f32 {
  %t = math.tanh %x : f32
  return %t : f32
}
func.func private @softcap(%s: f32) -> f32 {
  %cap = tile.at @cap : f32
  %one = arith.constant 1.0 : f32
  %inverse = arith.divf %one, %cap : f32
  %x = arith.mulf %s, %inverse fastmath<reassoc> : f32
  %t = func.call @bounded(%x) : (f32) -> f32
  %r = arith.mulf %t, %cap fastmath<reassoc> : f32
  return %r : f32
}
// CLEAN-LABEL: func.func @call
// CLEAN-SAME:    (%[[S:.*]]: tensor<8xf32>, %[[SEED:.*]]: tensor<8xf32>)
// CLEAN-NEXT:    tile.map @softcap_gradient_0(%[[S]], %[[SEED]])
func.func @call(%s: tensor<8xf32>, %seed: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.map_gradient @softcap(%s) wrt 0 seed %seed : tensor<8xf32>
      : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Without permission to reassociate, products keep their order.
// CLEAN-LABEL: func.func private @scaled_gradient_0
// CLEAN-SAME:    (%{{.*}}: f32, %[[SEED:.*]]: f32) -> f32
// CLEAN-DAG:     %[[CAP:.*]] = tile.at @cap : f32
// CLEAN:         %[[A:.*]] = arith.mulf %[[SEED]], %[[CAP]] : f32
// CLEAN:         %[[R:.*]] = arith.divf %{{.*}}, %[[CAP]] : f32
// CLEAN-NEXT:    return %[[R]]
tile.capture @cap : f32
func.func private @scaled(%s: f32) -> f32 {
  %cap = tile.at @cap : f32
  %x = arith.divf %s, %cap : f32
  %t = math.sin %x : f32
  %r = arith.mulf %t, %cap : f32
  return %r : f32
}
func.func @in_place(%s: tensor<8xf32>, %seed: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.map_gradient @scaled(%s) wrt 0 seed %seed : tensor<8xf32>
      : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A quotient is guarded: a zero seed gives zero even if the derivative is infinite.
// CLEAN-LABEL: func.func private @inverse_gradient_0
// CLEAN-SAME:    (%[[S:.*]]: f32, %[[SEED:.*]]: f32)
// CLEAN:         %[[IS_ZERO:.*]] = arith.cmpf oeq, %[[SEED]], %[[ZERO:.*]] : f32
// CLEAN-NEXT:    %[[R:.*]] = arith.select %[[IS_ZERO]], %[[ZERO]], %{{.*}} : f32
// CLEAN-NEXT:    return %[[R]]
func.func private @inverse(%s: f32) -> f32 {
  %one = arith.constant 1.0 : f32
  %r = arith.divf %one, %s : f32
  return %r : f32
}
func.func @guard(%s: tensor<8xf32>, %seed: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.map_gradient @inverse(%s) wrt 0 seed %seed : tensor<8xf32>
      : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// A product with a value that may have overflowed is guarded as well, here e^s; the product with s needs no guard, but
// the exponential does.
// CLEAN-LABEL: func.func private @gated_gradient_0
// CLEAN-SAME:    (%[[S:.*]]: f32, %[[SEED:.*]]: f32)
// CLEAN:         %[[E:.*]] = math.exp %[[S]] : f32
// CLEAN-NEXT:    %[[OF_S:.*]] = arith.mulf %[[SEED]], %[[E]] : f32
// CLEAN-NEXT:    %[[IS_ZERO:.*]] = arith.cmpf oeq, %[[SEED]], %[[ZERO:.*]] : f32
// CLEAN-NEXT:    %[[LEFT:.*]] = arith.select %[[IS_ZERO]], %[[ZERO]], %[[OF_S]] : f32
// CLEAN-NEXT:    %[[OF_E:.*]] = arith.mulf %[[SEED]], %[[S]] : f32
// CLEAN-NEXT:    %[[OF_EXP:.*]] = arith.mulf %[[OF_E]], %[[E]] : f32
// CLEAN-NEXT:    %[[IS_ZERO:.*]] = arith.cmpf oeq, %[[OF_E]], %[[ZERO]] : f32
// CLEAN-NEXT:    %[[RIGHT:.*]] = arith.select %[[IS_ZERO]], %[[ZERO]], %[[OF_EXP]] : f32
// CLEAN-NEXT:    arith.addf %[[LEFT]], %[[RIGHT]] : f32
func.func private @gated(%s: f32) -> f32 {
  %e = math.exp %s : f32
  %r = arith.mulf %s, %e : f32
  return %r : f32
}
func.func @overflow(%s: tensor<8xf32>, %seed: tensor<8xf32>) -> tensor<8xf32> {
  %0 = tile.map_gradient @gated(%s) wrt 0 seed %seed : tensor<8xf32>
      : (tensor<8xf32>) -> tensor<8xf32>
  return %0 : tensor<8xf32>
}

// -----

// Adjoints of 16-bit values are f32.
// CLEAN-LABEL: func.func private @square_gradient_0
// CLEAN-SAME:    (%[[S:.*]]: f16, %[[SEED:.*]]: f16) -> f16
// CLEAN-DAG:     %[[SEED32:.*]] = tile.cast %[[SEED]] : f16 -> f32
// CLEAN-DAG:     %[[S32:.*]] = tile.cast %[[S]] : f16 -> f32
// CLEAN:         %[[A:.*]] = arith.mulf %[[SEED32]], %[[S32]] : f32
// CLEAN-NEXT:    %[[B:.*]] = arith.addf %[[A]], %[[A]] : f32
// CLEAN-NEXT:    %[[R:.*]] = tile.cast %[[B]] : f32 -> f16
// CLEAN-NEXT:    return %[[R]]
func.func private @square(%s: f16) -> f16 {
  %r = arith.mulf %s, %s : f16
  return %r : f16
}
func.func @narrow(%s: tensor<8xf16>, %seed: tensor<8xf16>) -> tensor<8xf16> {
  %0 = tile.map_gradient @square(%s) wrt 0 seed %seed : tensor<8xf16>
      : (tensor<8xf16>) -> tensor<8xf16>
  return %0 : tensor<8xf16>
}

// -----

// With respect to another operand, and once for two identical requests.
// CHECK-LABEL: func.func private @product_gradient_1
// CHECK-NOT:   func.func private @product_gradient
func.func private @product(%s: f32, %x: f32) -> f32 {
  %r = arith.mulf %s, %x : f32
  return %r : f32
}
func.func @twice(%s: tensor<8xf32>, %x: f32, %seed: tensor<8xf32>) -> (tensor<8xf32>, tensor<8xf32>) {
  %0 = tile.map_gradient @product(%s, %x) wrt 1 seed %seed : tensor<8xf32>
      : (tensor<8xf32>, f32) -> tensor<8xf32>
  %1 = tile.map_gradient @product(%s, %x) wrt 1 seed %0 : tensor<8xf32>
      : (tensor<8xf32>, f32) -> tensor<8xf32>
  return %0, %1 : tensor<8xf32>, tensor<8xf32>
}

// -----

// Gradients of captures. Reads at scalar indices are summed over the tile, reads along one dimension over the other and
// added as a row; others are added element by element; an absent capture gets no code. The integer has no gradient, nor
// does a capture that the result does not depend on.
tile.capture @scalar : f32
tile.capture @by_head : !tile.view<[?], f32>
tile.capture @by_row : !tile.view<[?], f16>
tile.capture @by_pair : !tile.view<[?, 7], f32>
tile.capture @radius : i32
tile.capture @unused : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32, %i: i32, %j: i32) -> f32 {
  %c = tile.at @scalar : f32
  %head = tile.at @by_head[%h] : f32
  %row_f16 = tile.at @by_row[%i] : f16
  %row = arith.extf %row_f16 : f16 to f32
  %radius = tile.at @radius : i32
  %ahead = arith.subi %j, %i : i32
  %near = arith.minsi %ahead, %radius : i32
  %pair = tile.at @by_pair[%h, %near] : f32
  %unused = tile.at @unused[%i] : f32
  %n = arith.fptosi %unused : f32 to i32
  %f = arith.sitofp %n : i32 to f32
  %0 = arith.mulf %s, %c : f32
  %1 = arith.addf %0, %head : f32
  %2 = arith.addf %1, %row : f32
  %3 = arith.addf %2, %pair : f32
  %4 = arith.addf %3, %f : f32
  return %4 : f32
}

// CHECK-LABEL: tile.kernel @backward
// CHECK-NEXT:    (%{{.*}}: !tile.view<[?, ?], f32>, %[[D_SCALAR:.*]]: optional !tile.view<[1], f32>, %[[D_HEAD:.*]]: optional !tile.view<[?], f32>, %[[D_ROW:.*]]: optional !tile.view<[?], f32>, %[[D_PAIR:.*]]: optional !tile.view<[?, 7], f32>)
// CHECK-NEXT:    grid(%[[H:.*]] = 2)
// CHECK:         %[[S:.*]] = tile.load
// CHECK:         %[[EXTENT:.*]] = tile.dim %[[D_SCALAR]], 0
// CHECK:         %[[PRESENT:.*]] = arith.cmpi sgt, %[[EXTENT]]
// CHECK-NEXT:    scf.if %[[PRESENT]] {
// CHECK-NEXT:      %[[A:.*]] = tile.map @score_gradient_of_read_0(%[[S]], %[[H]], {{.*}}, %[[S]])
// CHECK-NEXT:      %[[C0:.*]] = arith.constant 0 : i32
// CHECK-NEXT:      tile.add_at %[[A]], %[[D_SCALAR]][%[[C0]]]
// CHECK:         scf.if
// CHECK-NEXT:      tile.add_at %[[S]], %[[D_HEAD]][%[[H]]]
// CHECK:         scf.if
// CHECK-NEXT:      %[[ROW:.*]] = tile.reduce add %[[S]] dim 1 : tensor<16x32xf32> -> tensor<16xf32>
// CHECK-NEXT:      tile.atomic_add %[[ROW]], %[[D_ROW]][%{{.*}}] dims [0] : tensor<16xf32>, !tile.view<[?], f32>
// CHECK:         scf.if
// CHECK-NEXT:      %[[COLUMN:.*]] = tile.map @score_index_1_of_read_3(%[[ROWS:.*]], %[[COLS:.*]]) : (tensor<16x32xi32>, tensor<16x32xi32>) -> tensor<16x32xi32>
// CHECK-NEXT:      tile.add_at %[[S]], %[[D_PAIR]][%[[H]], %[[COLUMN]]]
// CHECK-NOT:     d_unused
// CHECK-NOT:     d_radius
tile.kernel @backward (%x: !tile.view<[?, ?], f32>) grid(%h = 2) {
  %c0 = arith.constant 0 : i32
  %s = tile.load %x[%c0, 0] : !tile.view<[?, ?], f32> -> tensor<16x32xf32>
  %rows = tile.iota %c0 dim 0 : tensor<16x32xi32>
  %cols = tile.iota %c0 dim 1 : tensor<16x32xi32>
  tile.add_gradients @score(%s, %h, %rows, %cols) seed %s : tensor<16x32xf32>
      : (tensor<16x32xf32>, i32, tensor<16x32xi32>, tensor<16x32xi32>)
}

// The program takes the gradients after its own arguments, clears them first, and requires the extents of the captures.
// CHECK-LABEL: tile.program @run
// CHECK-NEXT:    require(dim(d_by_head, 0) == dim(by_head, 0), dim(d_by_row, 0) == dim(by_row, 0), dim(d_by_pair, 0) == dim(by_pair, 0), dim(d_by_pair, 1) == dim(by_pair, 1))
// CHECK-NEXT:    (%x: !tile.view<[?, ?], f32>, %d_scalar: optional !tile.view<[1], f32>, %d_by_head: optional !tile.view<[?], f32>, %d_by_row: optional !tile.view<[?], f32>, %d_by_pair: optional !tile.view<[?, 7], f32>)
// CHECK:         tile.launch @clear_d_scalar(%d_scalar)
// CHECK-NEXT:    tile.launch @clear_d_by_head(%d_by_head)
// CHECK-NEXT:    tile.launch @clear_d_by_row(%d_by_row)
// CHECK-NEXT:    tile.launch @clear_d_by_pair(%d_by_pair)
// CHECK-NEXT:    tile.launch @backward(%x, %d_scalar, %d_by_head, %d_by_row, %d_by_pair)
tile.program @run (%x: !tile.view<[?, ?], f32>) {
  tile.launch @backward(%x) : !tile.view<[?, ?], f32>
}

// CHECK-LABEL: tile.kernel @clear_d_by_pair
// CHECK-NEXT:    (%[[D:.*]]: optional !tile.view<[?, 7], f32>)
// CHECK-NEXT:    grid(%[[BLOCK:.*]] = ceildiv(dim(d_by_pair, 1), 256), %[[I0:.*]] = dim(d_by_pair, 0))
// CHECK:         tile.store %{{.*}}, %[[D]][%[[I0]], %{{.*}}] : tensor<256xf32>

// -----

// A block of adjoints is added as a tile. If each element of the launch has a separate place, it is stored; if an
// extent of 1 is broadcast, which is known at launch, it is added.
tile.capture @own : !tile.view<[?, ?, ?], f32>
tile.capture @shared : !tile.view<[?, ?, ?], f32>
tile.capture @table : !tile.view<[?, ?], f32>
tile.capture @both : !tile.view<[?, ?, ?], f32>
func.func private @score(%s: f32, %h: i32, %i: i32, %j: i32) -> f32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %next = arith.addi %j, %c1 : i32
  %own = tile.at @own[%h, %i, %next] : f32
  %extent = tile.dim @shared, 1
  %is_same = arith.cmpi eq, %extent, %c1 : i32
  %row = arith.select %is_same, %c0, %i : i32
  %shared = tile.at @shared[%h, %row, %j] : f32
  %table = tile.at @table[%i, %j] : f32
  %here = tile.at @both[%h, %i, %j] : f32
  %there = tile.at @both[%h, %i, %next] : f32
  %0 = arith.addf %s, %own : f32
  %1 = arith.addf %0, %shared : f32
  %2 = arith.addf %1, %table : f32
  %3 = arith.addf %2, %here : f32
  %4 = arith.addf %3, %there : f32
  return %4 : f32
}

// CHECK-LABEL: tile.kernel @blocks
// CHECK-NEXT:    (%{{.*}}, %[[OWN:.*]]: optional !tile.view<[?, ?, ?], f32>, %[[SHARED:.*]]: optional !tile.view<[?, ?, ?], f32>, %[[TABLE:.*]]: optional !tile.view<[?, ?], f32>, %[[BOTH:.*]]: optional !tile.view<[?, ?, ?], f32>)
// CHECK-NEXT:    grid(%[[H:.*]] = 2)
// CHECK:         %[[S:.*]] = tile.load
// CHECK:           tile.store %[[S]], %[[OWN]][%[[H]], %{{.*}}, %{{.*}}] dims [1, 2]
// CHECK:           %[[SAME:.*]] = arith.cmpi eq
// CHECK:           %[[REPEATED:.*]] = tile.repeat %[[SHARED]] dim 1 at %{{.*}} when %[[SAME]]
// CHECK:           scf.if %[[SAME]] {
// CHECK-NEXT:        tile.atomic_add %[[S]], %[[REPEATED]][%[[H]], %{{.*}}, %{{.*}}] dims [1, 2]
// CHECK-NEXT:      } else {
// CHECK-NEXT:        tile.store %[[S]], %[[SHARED]][%[[H]], %{{.*}}, %{{.*}}] dims [1, 2]
// Equal for all heads, and read in two places.
// CHECK:           tile.atomic_add %[[S]], %[[TABLE]][%{{.*}}, %{{.*}}] dims [0, 1]
// CHECK:           tile.atomic_add %[[S]], %[[BOTH]]
// CHECK:           tile.atomic_add %[[S]], %[[BOTH]]
// CHECK-NOT:       tile.store %[[S]]
// Without the guarantee, nothing is stored.
// CHECK-LABEL: tile.kernel @many_times
// CHECK-NOT:     tile.store
// CHECK:         tile.program
tile.kernel @blocks (%x: !tile.view<[?, ?], f32>) grid(%h = 2) {
  %c0 = arith.constant 0 : i32
  %s = tile.load %x[%c0, 0] : !tile.view<[?, ?], f32> -> tensor<16x32xf32>
  %rows = tile.iota %c0 dim 0 : tensor<16x32xi32>
  %cols = tile.iota %c0 dim 1 : tensor<16x32xi32>
  tile.add_gradients @score(%s, %h, %rows, %cols) seed %s : tensor<16x32xf32> once
      : (tensor<16x32xf32>, i32, tensor<16x32xi32>, tensor<16x32xi32>)
}
tile.kernel @many_times (%x: !tile.view<[?, ?], f32>) grid(%h = 2) {
  %c0 = arith.constant 0 : i32
  %s = tile.load %x[%c0, 0] : !tile.view<[?, ?], f32> -> tensor<16x32xf32>
  %rows = tile.iota %c0 dim 0 : tensor<16x32xi32>
  %cols = tile.iota %c0 dim 1 : tensor<16x32xi32>
  tile.add_gradients @score(%s, %h, %rows, %cols) seed %s : tensor<16x32xf32>
      : (tensor<16x32xf32>, i32, tensor<16x32xi32>, tensor<16x32xi32>)
}
tile.program @p (%x: !tile.view<[?, ?], f32>) {
  tile.launch @blocks(%x) : !tile.view<[?, ?], f32>
  tile.launch @many_times(%x) : !tile.view<[?, ?], f32>
}

// -----

// Exact sums: words in a workspace, which no argument holds, and their final conversion.
tile.capture @gain : !tile.view<[?], f32>
func.func private @score(%s: f32, %h: i32) -> f32 {
  %g = tile.at @gain[%h] : f32
  %r = arith.mulf %s, %g : f32
  return %r : f32
}
// CHECK-LABEL: tile.kernel @backward
// CHECK-NEXT:    (%{{.*}}: !tile.view<[?, ?], f32>, %[[WORDS:.*]]: !tile.view<[?, 13], i64>)
// CHECK:           tile.add_at %{{.*}}, %[[WORDS]][%{{.*}}] exact : tensor<16x32xf32>, !tile.view<[?, 13], i64>, (i32)
tile.kernel @backward (%x: !tile.view<[?, ?], f32>) grid(%h = 2) {
  %c0 = arith.constant 0 : i32
  %s = tile.load %x[%c0, 0] : !tile.view<[?, ?], f32> -> tensor<16x32xf32>
  tile.add_gradients @score(%s, %h) seed %s : tensor<16x32xf32> exact : (tensor<16x32xf32>, i32)
}
// CHECK-LABEL: tile.program @run
// CHECK:         %[[SUMS:.*]] = tile.workspace [dim(d_gain, 0), 13] fill 0 : !tile.view<[?, 13], i64>
// CHECK-NEXT:    tile.launch @backward(%{{.*}}, %[[SUMS]])
// CHECK-NEXT:    tile.launch @convert_d_gain(%[[SUMS]], %{{.*}})
tile.program @run (%x: !tile.view<[?, ?], f32>) {
  tile.launch @backward(%x) : !tile.view<[?, ?], f32>
}
// CHECK-LABEL: tile.kernel @convert_d_gain
// CHECK:         tile.load %{{.*}}[%[[FIRST:.*]], 0] dims [0] : !tile.view<[?, 13], i64> -> tensor<256xi64>
// CHECK:         tile.load %{{.*}}[%[[FIRST]], 12] dims [0]
// CHECK-NEXT:    %[[FLOATS:.*]] = tile.map @exact_sum_to_f32
// CHECK-NEXT:    tile.store %[[FLOATS]], %{{.*}}[%[[FIRST]]]
