// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-scale-after-max | FileCheck %s
// RUN: tilewright-opt %s --tile-scale-after-max=always-branch=true | FileCheck %s --check-prefix=ALWAYS

!tile = tensor<4x8xf32>
!row = tensor<4xf32>

// If the factor is positive and finite, the row is scaled; otherwise the tile, as in the source. The scaled tile has no
// other use and is removed.
// CHECK-LABEL: @both
// CHECK-SAME:    (%[[S:.*]]: tensor<4x8xf32>, %[[SCALE:.*]]: f32)
// CHECK-NEXT:    %[[C:.*]] = tile.full %[[SCALE]] : tensor<4x8xf32>
// CHECK-NEXT:    %[[ZERO:.*]] = arith.constant 0.000000e+00 : f32
// CHECK-NEXT:    %[[POSITIVE:.*]] = arith.cmpf ogt, %[[SCALE]], %[[ZERO]] : f32
// CHECK-NEXT:    %[[INF:.*]] = arith.constant 0x7F800000 : f32
// CHECK-NEXT:    %[[FINITE:.*]] = arith.cmpf olt, %[[SCALE]], %[[INF]] : f32
// CHECK-NEXT:    %[[IS:.*]] = arith.andi %[[POSITIVE]], %[[FINITE]] : i1
// CHECK-NEXT:    %[[M:.*]] = scf.if %[[IS]] -> (tensor<4xf32>) {
// CHECK-NEXT:      %[[MAX:.*]] = tile.reduce max %[[S]] dim 1
// CHECK-NEXT:      %[[ROW:.*]] = tile.full %[[SCALE]] : tensor<4xf32>
// CHECK-NEXT:      %[[SCALED:.*]] = arith.mulf %[[MAX]], %[[ROW]] : tensor<4xf32>
// CHECK-NEXT:      scf.yield %[[SCALED]]
// CHECK-NEXT:    } else {
// CHECK-NEXT:      %[[X:.*]] = arith.mulf %[[S]], %[[C]] : tensor<4x8xf32>
// CHECK-NEXT:      %[[WRITTEN:.*]] = tile.reduce max %[[X]] dim 1
// CHECK-NEXT:      scf.yield %[[WRITTEN]]
// CHECK-NEXT:    }
// CHECK-NEXT:    return %[[M]]
func.func @both(%s: !tile, %scale: f32) -> !row {
  %c = tile.full %scale : !tile
  %x = arith.mulf %s, %c fastmath<contract> : !tile
  %m = tile.reduce max %x dim 1 : !tile -> !row
  return %m : !row
}

// Minus infinity does not change under a positive factor, so the mask is moved as well. The product and the select move
// past the branch to their other user, and keep the permission to be fused with it.
// CHECK-LABEL: @masked
// CHECK-SAME:    (%[[S:.*]]: tensor<4x8xf32>, %[[KEEP:.*]]: tensor<4x8xi1>, %[[SCALE:.*]]: f32)
// CHECK-NEXT:    %[[C:.*]] = tile.full %[[SCALE]] : tensor<4x8xf32>
// CHECK-NEXT:    %[[LOW:.*]] = arith.constant dense<0xFF800000> : tensor<4x8xf32>
// CHECK-NOT:     arith.mulf
// CHECK:         %[[M:.*]] = scf.if
// CHECK-NEXT:      %[[KEPT:.*]] = tile.select %[[KEEP]], %[[S]], %[[LOW]]
// CHECK-NEXT:      %[[MAX:.*]] = tile.reduce max %[[KEPT]] dim 1
// CHECK-NEXT:      %[[ROW:.*]] = tile.full %[[SCALE]] : tensor<4xf32>
// CHECK-NEXT:      arith.mulf %[[MAX]], %[[ROW]] : tensor<4xf32>
// CHECK:         else
// CHECK-NEXT:      %[[X:.*]] = arith.mulf %[[C]], %[[S]] : tensor<4x8xf32>
// CHECK-NEXT:      %[[Y:.*]] = tile.select %[[KEEP]], %[[X]], %[[LOW]]
// CHECK-NEXT:      tile.reduce max %[[Y]] dim 1
// CHECK:         }
// CHECK-NEXT:    %[[SUNK:.*]] = arith.mulf %[[C]], %[[S]] fastmath<fast>
// CHECK-NEXT:    %[[MASKED:.*]] = tile.select %[[KEEP]], %[[SUNK]], %[[LOW]]
// CHECK-NEXT:    %[[ME:.*]] = tile.expand %[[M]] dim 1
// CHECK-NEXT:    arith.subf %[[MASKED]], %[[ME]] fastmath<contract>
func.func @masked(%s: !tile, %keep: tensor<4x8xi1>, %scale: f32) -> (!row, !tile) {
  %c = tile.full %scale : !tile
  %inf = arith.constant dense<0xFF800000> : !tile
  %x = arith.mulf %c, %s fastmath<fast> : !tile
  %y = tile.select %keep, %x, %inf : tensor<4x8xi1>, !tile
  %m = tile.reduce max %y dim 1 : !tile -> !row
  %me = tile.expand %m dim 1 : !row -> !tile
  %d = arith.subf %y, %me fastmath<contract> : !tile
  return %m, %d : !row, !tile
}

// Also if minus infinity is a scalar that is broadcast to a tile.
// CHECK-LABEL: @scalar_infinity
// CHECK:         %[[INF:.*]] = arith.constant 0xFF800000 : f32
// CHECK-NEXT:    %[[LOW:.*]] = tile.full %[[INF]] : tensor<4x8xf32>
// CHECK:         scf.if
// CHECK-NEXT:      %[[KEPT:.*]] = tile.select %{{.*}}, %{{.*}}, %[[LOW]]
// CHECK-NEXT:      tile.reduce max %[[KEPT]] dim 1
func.func @scalar_infinity(%s: !tile, %keep: tensor<4x8xi1>, %scale: f32) -> !row {
  %c = tile.full %scale : !tile
  %low = arith.constant 0xFF800000 : f32
  %inf = tile.full %low : !tile
  %x = arith.mulf %s, %c : !tile
  %y = tile.select %keep, %x, %inf : tensor<4x8xi1>, !tile
  %m = tile.reduce max %y dim 1 : !tile -> !row
  return %m : !row
}

// Another use of the product before the maximum keeps it there.
// CHECK-LABEL: @used_before
// CHECK:         %[[X:.*]] = arith.mulf
// CHECK-NEXT:    math.exp2 %[[X]]
// CHECK:         scf.if
// CHECK:         else
// CHECK-NEXT:      arith.mulf
// CHECK:         }
// CHECK-NEXT:    return
func.func @used_before(%s: !tile, %scale: f32) -> (!row, !tile) {
  %c = tile.full %scale : !tile
  %x = arith.mulf %s, %c : !tile
  %e = math.exp2 %x : !tile
  %m = tile.reduce max %x dim 1 : !tile -> !row
  return %m, %e : !row, !tile
}

// A factor that is positive and finite in all launches, by the constraints of the kernel, needs no branch.
// ALWAYS-LABEL: tile.kernel @constrained
// ALWAYS:        scf.if
// ALWAYS:        tile.store
// CHECK-LABEL: tile.kernel @constrained
// CHECK:         %[[CAP:.*]] = tile.at @cap : f32
// CHECK:         %[[FACTOR:.*]] = arith.mulf %[[CAP]], %{{.*}} : f32
// CHECK-NEXT:    %[[WIDE:.*]] = tile.cast %[[FACTOR]] : f32 -> f64
// CHECK-NOT:     scf.if
// CHECK:         %[[KEPT:.*]] = tile.select %{{.*}}, %[[S:.*]], %[[LOW:.*]] :
// CHECK-NEXT:    %[[MAX:.*]] = tile.reduce max %[[KEPT]] dim 1
// CHECK-NEXT:    %[[ROW:.*]] = tile.full %[[WIDE]] : tensor<4xf64>
// CHECK-NEXT:    %[[M:.*]] = arith.mulf %[[MAX]], %[[ROW]]
// CHECK-NEXT:    %[[X:.*]] = arith.mulf %[[S]], %{{.*}} fastmath<contract>
// CHECK-NEXT:    %[[Y:.*]] = tile.select %{{.*}}, %[[X]], %[[LOW]] :
// CHECK-NOT:     scf.if
// CHECK:         tile.store
// CHECK-NOT:     scf.if
// CHECK-LABEL: tile.kernel @argument
// CHECK-NOT:     scf.if
// CHECK:         %[[MAX:.*]] = tile.reduce max %{{.*}} dim 1
// CHECK-NEXT:    tile.full %c : tensor<4xf32>
// CHECK-NOT:     scf.if
// CHECK-LABEL: tile.kernel @constant
// CHECK-NOT:     scf.if
// CHECK:         %[[MAX:.*]] = tile.reduce max
// CHECK-NOT:     scf.if
// These leave zero, infinity, or an infinite product; or the factor is an element of a view; or a constraint is none of
// the factor.
// CHECK-LABEL: tile.kernel @zero
// CHECK:         scf.if
// CHECK-LABEL: tile.kernel @unbounded
// CHECK:         scf.if
// CHECK-LABEL: tile.kernel @overflow
// CHECK:         scf.if
// CHECK-LABEL: tile.kernel @element
// CHECK:         scf.if
// CHECK-LABEL: tile.kernel @other
// CHECK:         scf.if
// CHECK-LABEL: tile.kernel @negative
// CHECK:         scf.if
!wide = tensor<4x8xf64>
tile.capture @cap : f32
tile.capture @caps : !tile.view<[?], f32>
tile.kernel @constrained require(cap > 0, 1000 >= cap)
    (%x: !tile.view<[4, 8], f64>, %keep: !tile.view<[4, 8], i1>, %y: !tile.view<[4, 8], f64>, %z: !tile.view<[4], f64>) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f64> -> !wide
  %k = tile.load %keep[0, 0] : !tile.view<[4, 8], i1> -> tensor<4x8xi1>
  %cap = tile.at @cap : f32
  %two = arith.constant 2.0 : f32
  %product = arith.mulf %cap, %two : f32
  %factor = tile.cast %product : f32 -> f64
  %c = tile.full %factor : !wide
  %inf = arith.constant dense<0xFFF0000000000000> : !wide
  %p = arith.mulf %s, %c fastmath<contract> : !wide
  %q = tile.select %k, %p, %inf : tensor<4x8xi1>, !wide
  %m = tile.reduce max %q dim 1 : !wide -> tensor<4xf64>
  tile.store %m, %z[0] : tensor<4xf64>, !tile.view<[4], f64>
  tile.store %q, %y[0, 0] : !wide, !tile.view<[4, 8], f64>
}
tile.kernel @argument require(c >= 1, c < 8) (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>, %c: f32) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @constant (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %c = arith.constant 0.5 : f32
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @zero require(c >= 0, c < 8) (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>, %c: f32) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @unbounded require(c > 0) (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>, %c: f32) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @overflow require(c > 0, c <= 1000000000000000000)
    (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>, %c: f32) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %square = arith.mulf %c, %c : f32
  %cube = arith.mulf %square, %c : f32
  %f = tile.full %cube : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @element require(dim(caps, 0) > 0, dim(caps, 0) < 8)
    (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %zero = arith.constant 0 : i32
  %c = tile.at @caps[%zero] : f32
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @other require(d > 0, d <= 8) (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>, %c: f32, %d: f32) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}
tile.kernel @negative require(c > 0 - 2, c <= 8) (%x: !tile.view<[4, 8], f32>, %z: !tile.view<[4], f32>, %c: f32) grid(%i = 1) {
  %s = tile.load %x[0, 0] : !tile.view<[4, 8], f32> -> !tile
  %f = tile.full %c : !tile
  %p = arith.mulf %s, %f : !tile
  %m = tile.reduce max %p dim 1 : !tile -> !row
  tile.store %m, %z[0] : !row, !tile.view<[4], f32>
}

// Unchanged: the maximum of a sum, a factor per element, a mask with another value than minus infinity, and a reduction
// other than a maximum.
// CHECK-LABEL: @of_a_sum
// CHECK-NOT:     scf.if
// CHECK:         %[[X:.*]] = arith.addf
// CHECK-NEXT:    %[[M:.*]] = tile.reduce max %[[X]] dim 1
// CHECK-NEXT:    return %[[M]]
// CHECK-LABEL: @other_factor
// CHECK:         %[[X:.*]] = arith.mulf
// CHECK-NEXT:    %[[M:.*]] = tile.reduce max %[[X]] dim 1
// CHECK-NEXT:    return %[[M]]
// CHECK-LABEL: @masked_with_zero
// CHECK:         %[[X:.*]] = arith.mulf
// CHECK-NEXT:    %[[Y:.*]] = tile.select %{{.*}}, %[[X]],
// CHECK-NEXT:    %[[M:.*]] = tile.reduce max %[[Y]] dim 1
// CHECK-NEXT:    return %[[M]]
// CHECK-LABEL: @sum
// CHECK:         %[[X:.*]] = arith.mulf
// CHECK-NEXT:    %[[M:.*]] = tile.reduce add %[[X]] dim 1
// CHECK-NEXT:    return %[[M]]
func.func @of_a_sum(%s: !tile, %scale: f32) -> !row {
  %c = tile.full %scale : !tile
  %x = arith.addf %s, %c : !tile
  %m = tile.reduce max %x dim 1 : !tile -> !row
  return %m : !row
}
func.func @other_factor(%s: !tile, %t: !tile) -> !row {
  %x = arith.mulf %s, %t : !tile
  %m = tile.reduce max %x dim 1 : !tile -> !row
  return %m : !row
}
func.func @masked_with_zero(%s: !tile, %keep: tensor<4x8xi1>, %scale: f32) -> !row {
  %c = tile.full %scale : !tile
  %zero = arith.constant dense<0.0> : !tile
  %x = arith.mulf %s, %c : !tile
  %y = tile.select %keep, %x, %zero : tensor<4x8xi1>, !tile
  %m = tile.reduce max %y dim 1 : !tile -> !row
  return %m : !row
}
func.func @sum(%s: !tile, %scale: f32) -> !row {
  %c = tile.full %scale : !tile
  %x = arith.mulf %s, %c : !tile
  %m = tile.reduce add %x dim 1 : !tile -> !row
  return %m : !row
}
