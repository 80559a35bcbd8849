// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folders and canonicalization patterns, on the tensors of bound kernels.
// RUN: tilewright-opt %s --canonicalize | FileCheck %s

// A reshape to the same shape is removed.
// CHECK-LABEL: func.func @reshape_identity(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshape_identity(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = tile.reshape %x : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Two reshapes become one.
// CHECK-LABEL: func.func @reshape_twice(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT: %[[R:.*]] = tile.reshape %[[X]] : tensor<4x6xf32> -> tensor<24xf32>
// CHECK-NEXT: return %[[R]]
func.func @reshape_twice(%x: tensor<4x6xf32>) -> tensor<24xf32> {
  %0 = tile.reshape %x : tensor<4x6xf32> -> tensor<3x8xf32>
  %1 = tile.reshape %0 : tensor<3x8xf32> -> tensor<24xf32>
  return %1 : tensor<24xf32>
}

// A reshape and its inverse are removed.
// CHECK-LABEL: func.func @reshape_back(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT: return %[[X]]
func.func @reshape_back(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = tile.reshape %x : tensor<4x6xf32> -> tensor<24xf32>
  %1 = tile.reshape %0 : tensor<24xf32> -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// CHECK-LABEL: func.func @transpose_identity(
// CHECK-SAME: %[[X:.*]]: tensor<4x6xf32>
// CHECK-NEXT: return %[[X]]
func.func @transpose_identity(%x: tensor<4x6xf32>) -> tensor<4x6xf32> {
  %0 = tile.transpose %x [0, 1] : tensor<4x6xf32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// Transposes compose: dimension d of the result is dimension p1[p2[d]] of the operand.
// CHECK-LABEL: func.func @transpose_twice(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: %[[T:.*]] = tile.transpose %[[X]] [2, 1, 0] : tensor<2x3x4xf32> -> tensor<4x3x2xf32>
// CHECK-NEXT: return %[[T]]
func.func @transpose_twice(%x: tensor<2x3x4xf32>) -> tensor<4x3x2xf32> {
  %0 = tile.transpose %x [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = tile.transpose %0 [1, 0, 2] : tensor<3x4x2xf32> -> tensor<4x3x2xf32>
  return %1 : tensor<4x3x2xf32>
}

// CHECK-LABEL: func.func @transpose_back(
// CHECK-SAME: %[[X:.*]]: tensor<2x3x4xf32>
// CHECK-NEXT: return %[[X]]
func.func @transpose_back(%x: tensor<2x3x4xf32>) -> tensor<2x3x4xf32> {
  %0 = tile.transpose %x [1, 2, 0] : tensor<2x3x4xf32> -> tensor<3x4x2xf32>
  %1 = tile.transpose %0 [2, 0, 1] : tensor<3x4x2xf32> -> tensor<2x3x4xf32>
  return %1 : tensor<2x3x4xf32>
}

// A permutation without effect remains if it changes the form of the type.
// CHECK-LABEL: func.func @forms(
// CHECK-SAME: %[[X:.*]]: !tile.tile<[4, 6], f32>
// CHECK-NEXT: %[[T:.*]] = tile.transpose %[[X]] [0, 1] : !tile.tile<[4, 6], f32> -> tensor<4x6xf32>
// CHECK-NEXT: return %[[T]]
func.func @forms(%x: !tile.tile<[4, 6], f32>) -> tensor<4x6xf32> {
  %0 = tile.transpose %x [0, 1] : !tile.tile<[4, 6], f32> -> tensor<4x6xf32>
  return %0 : tensor<4x6xf32>
}

// A reshaped or transposed splat is a splat.
// CHECK-LABEL: func.func @shapes_of_full(
// CHECK-SAME: %[[X:.*]]: f32
// CHECK-NEXT: %[[F:.*]] = tile.full %[[X]] : tensor<6x4x1xf32>
// CHECK-NEXT: return %[[F]]
func.func @shapes_of_full(%x: f32) -> tensor<6x4x1xf32> {
  %0 = tile.full %x : tensor<24xf32>
  %1 = tile.reshape %0 : tensor<24xf32> -> tensor<4x6xf32>
  %2 = tile.transpose %1 [1, 0] : tensor<4x6xf32> -> tensor<6x4xf32>
  %3 = tile.expand %2 dim 2 : tensor<6x4xf32> -> tensor<6x4x1xf32>
  return %3 : tensor<6x4x1xf32>
}

// A select of equal values is the value.
// CHECK-LABEL: func.func @select_same(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>)
// CHECK-NEXT: return %[[X]]
func.func @select_same(%c: tensor<4xi1>, %x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tile.select %c, %x, %x : tensor<4xi1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}

// A constant flag selects all elements.
// CHECK-LABEL: func.func @select_known(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>, %[[Y:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: return %[[X]], %[[Y]]
func.func @select_known(%x: tensor<4xf32>, %y: tensor<4xf32>) -> (tensor<4xf32>, tensor<4xf32>) {
  %true = arith.constant true
  %false = arith.constant false
  %0 = tile.select %true, %x, %y : i1, tensor<4xf32>
  %1 = tile.select %false, %x, %y : i1, tensor<4xf32>
  return %0, %1 : tensor<4xf32>, tensor<4xf32>
}

// A splat of a constant flag does, too.
// CHECK-LABEL: func.func @select_full(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>, %[[Y:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: return %[[Y]]
func.func @select_full(%x: tensor<4xf32>, %y: tensor<4xf32>) -> tensor<4xf32> {
  %false = arith.constant false
  %mask = tile.full %false : tensor<4xi1>
  %0 = tile.select %mask, %x, %y : tensor<4xi1>, tensor<4xf32>
  return %0 : tensor<4xf32>
}

// CHECK-LABEL: func.func @cast_identity(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4xf32>
// CHECK-NEXT: return %[[X]]
func.func @cast_identity(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tile.cast %x : tensor<4xf32> -> tensor<4xf32>
  return %0 : tensor<4xf32>
}

// Constants are converted with ties to even; values too large for e4m3 become NaN.
// CHECK-LABEL: func.func @cast_constants(
// CHECK-DAG: %[[TIE:.*]] = arith.constant 1.000000e+00 : bf16
// CHECK-DAG: %[[INF:.*]] = arith.constant 0x7C00 : f16
// CHECK-DAG: %[[NAN:.*]] = arith.constant 0x7F : f8E4M3FN
// CHECK: return %[[TIE]], %[[INF]], %[[NAN]]
func.func @cast_constants() -> (bf16, f16, f8E4M3FN) {
  %tie = arith.constant 1.00390625 : f32
  %large = arith.constant 1.0e6 : f32
  %0 = tile.cast %tie : f32 -> bf16
  %1 = tile.cast %large : f32 -> f16
  %2 = tile.cast %large : f32 -> f8E4M3FN
  return %0, %1, %2 : bf16, f16, f8E4M3FN
}

// Two conversions that round do not become one.
// CHECK-LABEL: func.func @casts_stay(
// CHECK: tile.cast %{{.*}} : tensor<4xf32> -> tensor<4xf16>
// CHECK-NEXT: tile.cast %{{.*}} : tensor<4xf16> -> tensor<4xf32>
func.func @casts_stay(%x: tensor<4xf32>) -> tensor<4xf32> {
  %0 = tile.cast %x : tensor<4xf32> -> tensor<4xf16>
  %1 = tile.cast %0 : tensor<4xf16> -> tensor<4xf32>
  return %1 : tensor<4xf32>
}

// Transposes fold into the operands of a product.
// CHECK-LABEL: func.func @dot_of_transposes(
// CHECK-SAME: %[[A:.*]]: tensor<8x4xf32>, %[[B:.*]]: tensor<6x8xf32>
// CHECK-NEXT: %[[D:.*]] = tile.dot %[[A]], %[[B]] transpose_a transpose_b : tensor<8x4xf32>, tensor<6x8xf32> -> tensor<4x6xf32>
// CHECK-NEXT: return %[[D]]
func.func @dot_of_transposes(%a: tensor<8x4xf32>, %b: tensor<6x8xf32>) -> tensor<4x6xf32> {
  %0 = tile.transpose %a [1, 0] : tensor<8x4xf32> -> tensor<4x8xf32>
  %1 = tile.transpose %b [1, 0] : tensor<6x8xf32> -> tensor<8x6xf32>
  %2 = tile.dot %0, %1 : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %2 : tensor<4x6xf32>
}

// Two transposes of an operand cancel.
// CHECK-LABEL: func.func @dot_of_transposed_transpose(
// CHECK-SAME: %[[A:.*]]: tensor<4x8xf32>, %[[B:.*]]: tensor<8x6xf32>
// CHECK-NEXT: tile.dot %[[A]], %[[B]] : tensor<4x8xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
func.func @dot_of_transposed_transpose(%a: tensor<4x8xf32>, %b: tensor<8x6xf32>) -> tensor<4x6xf32> {
  %0 = tile.transpose %a [1, 0] : tensor<4x8xf32> -> tensor<8x4xf32>
  %1 = tile.dot %0, %b transpose_a : tensor<8x4xf32>, tensor<8x6xf32> -> tensor<4x6xf32>
  return %1 : tensor<4x6xf32>
}

// A zero accumulator is removed; another one remains.
// CHECK-LABEL: func.func @dot_of_zero(
// CHECK: %[[ONE:.*]] = arith.constant 1.0
// CHECK: %[[ONES:.*]] = tile.full %[[ONE]]
// CHECK: tile.dot %[[A:.*]], %[[A]] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
// CHECK: tile.dot %[[A]], %[[A]], %[[ONES]] : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
func.func @dot_of_zero(%a: tensor<4x4xf16>) -> (tensor<4x4xf32>, tensor<4x4xf32>) {
  %zero = arith.constant 0.0 : f32
  %one = arith.constant 1.0 : f32
  %zeros = tile.full %zero : tensor<4x4xf32>
  %ones = tile.full %one : tensor<4x4xf32>
  %0 = tile.dot %a, %a, %zeros : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
  %1 = tile.dot %a, %a, %ones : tensor<4x4xf16>, tensor<4x4xf16> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x4xf32>, tensor<4x4xf32>
}

// The extent of an optional view may be zero, regardless of its type.
// CHECK-LABEL: func.func @dim_stays(
// CHECK: tile.dim %{{.*}}, 0 : !tile.view<[4], f32>
func.func @dim_stays(%x: !tile.view<[4], f32>) -> i32 {
  %0 = tile.dim %x, 0 : !tile.view<[4], f32>
  return %0 : i32
}

// A slice of the whole tile.
// CHECK-LABEL: func.func @slice_of_all(
// CHECK-SAME: %[[X:.*]]: tensor<4x8xf32>
// CHECK-NEXT: %[[C:.*]] = arith.constant 0 : i32
// CHECK-NEXT: %[[PART:.*]] = tile.slice %[[X]] dim 1 from %[[C]] : tensor<4x8xf32> -> tensor<4x4xf32>
// CHECK-NEXT: return %[[X]], %[[PART]]
func.func @slice_of_all(%x: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x4xf32>) {
  %c0 = arith.constant 0 : i32
  %0 = tile.slice %x dim 1 from %c0 : tensor<4x8xf32> -> tensor<4x8xf32>
  %1 = tile.slice %x dim 1 from %c0 : tensor<4x8xf32> -> tensor<4x4xf32>
  return %0, %1 : tensor<4x8xf32>, tensor<4x4xf32>
}

// A value that every block yields unchanged is replaced by its initial value, in the body and after the loop, also if
// another carried value yields it. Other carried values and attributes of the loop remain.
func.func private @windowed(i32, i32, i32) -> i1
func.func private @bounds(i32, i32, i32, i32, i32) -> (i32, i32, i32, i32, i1)
// CHECK-LABEL: func.func @for_blocks_unchanged(
// CHECK-SAME: %[[N:.*]]: i32, %[[LIST:.*]]: !tile.view<[?, ?, ?], i32>,
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>, %[[Y:[a-z0-9]+]]: tensor<4x8xf32>)
// CHECK-NEXT: %[[R:.*]]:2 = tile.for_blocks %{{.*}} in (%[[N]] to %[[N]] listed %[[LIST]][%[[N]], %[[N]]] count %[[N]] :
// CHECK-SAME: against (%[[N]] to %[[N]]) descending
// CHECK-NEXT: where @windowed(block, %[[N]], against : i32) ranges @bounds
// CHECK-NEXT: keep %[[KEEP:.*]] : tensor<4x8xi1>
// CHECK-NEXT: iter_args(%[[A:.*]] = %[[X]] : tensor<4x8xf32>, %{{.*}} = %[[X]] : tensor<4x8xf32>) attributes {note = "kept"} {
// CHECK-NEXT: %[[NEXT:.*]] = tile.select %[[KEEP]], %[[A]], %[[Y]] :
// CHECK-NEXT: tile.yield %[[NEXT]], %[[Y]] : tensor<4x8xf32>, tensor<4x8xf32>
// CHECK: return %[[R]]#0, %[[Y]], %[[R]]#1
func.func @for_blocks_unchanged(%n: i32, %list: !tile.view<[?, ?, ?], i32>, %x: tensor<4x8xf32>, %y: tensor<4x8xf32>)
    -> (tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>) {
  %0:3 = tile.for_blocks %b in (%n to %n listed %list[%n, %n] count %n : !tile.view<[?, ?, ?], i32>)
      against (%n to %n) descending where @windowed(block, %n, against : i32) ranges @bounds
      keep %keep : tensor<4x8xi1>
      iter_args(%a = %x : tensor<4x8xf32>, %same = %y : tensor<4x8xf32>, %c = %x : tensor<4x8xf32>)
      attributes {note = "kept"} {
    %next = tile.select %keep, %a, %same : tensor<4x8xi1>, tensor<4x8xf32>
    tile.yield %next, %same, %same : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %0#0, %0#1, %0#2 : tensor<4x8xf32>, tensor<4x8xf32>, tensor<4x8xf32>
}

// A loop that carries nothing else then carries nothing.
// CHECK-LABEL: func.func @for_blocks_all_unchanged(
// CHECK-SAME: %[[X:[a-z0-9]+]]: tensor<4x8xf32>)
// CHECK-NEXT: tile.for_blocks %[[B:.*]] in
// CHECK-NEXT: keep %{{.*}} : tensor<4x8xi1> {
// CHECK-NEXT: func.call @visit(%[[B]], %[[X]])
// CHECK-NEXT: }
// CHECK-NEXT: return %[[X]]
func.func private @visit(i32, tensor<4x8xf32>)
func.func @for_blocks_all_unchanged(%n: i32, %x: tensor<4x8xf32>) -> tensor<4x8xf32> {
  %0 = tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x8xi1>
      iter_args(%same = %x : tensor<4x8xf32>) {
    func.call @visit(%b, %same) : (i32, tensor<4x8xf32>) -> ()
    tile.yield %same : tensor<4x8xf32>
  }
  return %0 : tensor<4x8xf32>
}

// Swapped values are not replaced by the initial ones.
// CHECK-LABEL: func.func @for_blocks_changed(
// CHECK: %[[R:.*]]:2 = tile.for_blocks
// CHECK: iter_args(%[[A:.*]] = %{{.*}} : tensor<4x8xf32>, %[[C:.*]] = %{{.*}} : tensor<4x8xf32>) {
// CHECK-NEXT: tile.yield %[[C]], %[[A]] :
// CHECK: return %[[R]]#0, %[[R]]#1
func.func @for_blocks_changed(%n: i32, %x: tensor<4x8xf32>, %y: tensor<4x8xf32>) -> (tensor<4x8xf32>, tensor<4x8xf32>) {
  %0:2 = tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x8xi1>
      iter_args(%a = %x : tensor<4x8xf32>, %c = %y : tensor<4x8xf32>) {
    tile.yield %c, %a : tensor<4x8xf32>, tensor<4x8xf32>
  }
  return %0#0, %0#1 : tensor<4x8xf32>, tensor<4x8xf32>
}

// The order of a loop whose condition is known.
// CHECK-LABEL: func.func @for_blocks_order(
// CHECK: tile.for_blocks %{{.*}} in (%{{.*}} to %{{.*}}) against (%{{.*}} to %{{.*}}) descending{{$}}
// CHECK: tile.for_blocks %{{.*}} in (%{{.*}} to %{{.*}}) against (%{{.*}} to %{{.*}}){{$}}
// CHECK: tile.for_blocks %{{.*}} in (%{{.*}} to %{{.*}}) against (%{{.*}} to %{{.*}}) descending if %{{.*}}
func.func @for_blocks_order(%n: i32, %x: tensor<4x8xf32>, %down: i1) {
  %true = arith.constant true
  %false = arith.constant false
  tile.for_blocks %b in (%n to %n) against (%n to %n) descending if %true keep %keep : tensor<4x8xi1> {
    func.call @visit(%b, %x) : (i32, tensor<4x8xf32>) -> ()
  }
  tile.for_blocks %b in (%n to %n) against (%n to %n) descending if %false keep %keep : tensor<4x8xi1> {
    func.call @visit(%b, %x) : (i32, tensor<4x8xf32>) -> ()
  }
  tile.for_blocks %b in (%n to %n) against (%n to %n) descending if %down keep %keep : tensor<4x8xi1> {
    func.call @visit(%b, %x) : (i32, tensor<4x8xf32>) -> ()
  }
  return
}
