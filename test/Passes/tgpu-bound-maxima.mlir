// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A maximum that is raised only if it increases by more than a constant.
// RUN: tilewright-opt %s --allow-unregistered-dialect --tgpu-bound-maxima | FileCheck %s

!s = tensor<128x64xf32, #tgpu.wgmma<2>>
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
!flags = tensor<128xi1, #tgpu.slice<1, #tgpu.wgmma<2>>>
!m = tensor<128x64xf32, #tgpu.mma<8, 1>>
!mrow = tensor<128xf32, #tgpu.slice<1, #tgpu.mma<8, 1>>>
!mflags = tensor<128xi1, #tgpu.slice<1, #tgpu.mma<8, 1>>>

// CHECK-LABEL: func.func @scaled
// CHECK:         %[[LAG:.*]] = arith.constant 8.0
// CHECK-NOT:     tile.reduce
// CHECK:         %[[NEW:.*]] = tgpu.raise_max %arg1 by %[[LAG]] to %arg0 times %arg2 :
// CHECK-NEXT:    return %[[NEW]]
func.func @scaled(%s: !s, %old: !row, %scale: f32) -> !row {
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %scales = tile.full %scale : !row
  %most = tile.reduce max %s dim 1 : !s -> !row
  %scaled = arith.mulf %most, %scales : !row
  %all = arith.maximumf %old, %scaled : !row
  %limit = arith.addf %old, %eights : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %old : !flags, !row
  return %new : !row
}

// CHECK-LABEL: func.func @unscaled
// CHECK:         %[[ONE:.*]] = arith.constant 1.0
// CHECK:         tgpu.raise_max %arg1 by %{{.*}} to %arg0 times %[[ONE]] :
func.func @unscaled(%s: !s, %old: !row) -> !row {
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %most = tile.reduce max %s dim 1 : !s -> !row
  %all = arith.maximumf %most, %old : !row
  %limit = arith.addf %eights, %old : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %old : !flags, !row
  return %new : !row
}

// Not carried; always raised; a negative lag; another use of the maximum; another value kept; another layout; a
// minimum.
// CHECK-NOT:   tgpu.raise_max
func.func @first(%s: !s) -> !row {
  %low = arith.constant -1.0e30 : f32
  %old = tile.full %low : !row
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %most = tile.reduce max %s dim 1 : !s -> !row
  %all = arith.maximumf %old, %most : !row
  %limit = arith.addf %old, %eights : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %old : !flags, !row
  return %new : !row
}
func.func @always(%s: !s, %old: !row) -> !row {
  %most = tile.reduce max %s dim 1 : !s -> !row
  %all = arith.maximumf %old, %most : !row
  return %all : !row
}
func.func @negative(%s: !s, %old: !row) -> !row {
  %eight = arith.constant -8.0 : f32
  %eights = tile.full %eight : !row
  %most = tile.reduce max %s dim 1 : !s -> !row
  %all = arith.maximumf %old, %most : !row
  %limit = arith.addf %old, %eights : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %old : !flags, !row
  return %new : !row
}
func.func @used(%s: !s, %old: !row) -> (!row, !row) {
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %most = tile.reduce max %s dim 1 : !s -> !row
  %all = arith.maximumf %old, %most : !row
  %limit = arith.addf %old, %eights : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %old : !flags, !row
  return %new, %all : !row, !row
}
func.func @other_kept(%s: !s, %old: !row, %other: !row) -> !row {
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %most = tile.reduce max %s dim 1 : !s -> !row
  %all = arith.maximumf %old, %most : !row
  %limit = arith.addf %old, %eights : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %other : !flags, !row
  return %new : !row
}
func.func @other_layout(%s: !m, %old: !mrow) -> !mrow {
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !mrow
  %most = tile.reduce max %s dim 1 : !m -> !mrow
  %all = arith.maximumf %old, %most : !mrow
  %limit = arith.addf %old, %eights : !mrow
  %exceeds = arith.cmpf ogt, %all, %limit : !mrow
  %new = tile.select %exceeds, %all, %old : !mflags, !mrow
  return %new : !mrow
}
func.func @minimum(%s: !s, %old: !row) -> !row {
  %eight = arith.constant 8.0 : f32
  %eights = tile.full %eight : !row
  %least = tile.reduce min %s dim 1 : !s -> !row
  %all = arith.maximumf %old, %least : !row
  %limit = arith.addf %old, %eights : !row
  %exceeds = arith.cmpf ogt, %all, %limit : !row
  %new = tile.select %exceeds, %all, %old : !flags, !row
  return %new : !row
}

// Maxima of products of bytes compare integers: of a product, of a masked one, of a scaled sum of two.
!acc = tensor<128x64xf32, #tgpu.wgmma<2>>
!keep = tensor<128x64xi1, #tgpu.wgmma<2>>
!a = !tgpu.shared<128x64xf8E4M3FN, b64>
!b = !tgpu.shared<64x64xf8E4M3FN, b64>
// CHECK-LABEL: func.func @bytes
// CHECK:         tile.reduce max %[[S:.*]] dim 1 {tgpu.as_integers}
// CHECK:         tile.reduce max %{{.*}} dim 1 {tgpu.as_integers}
// CHECK:         tile.reduce max %{{.*}} dim 1 {tgpu.as_integers}
func.func @bytes(%a: !a, %b: !b, %keep: !keep, %scale: f32, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %low = arith.constant 0xFF800000 : f32
  %none = tile.full %low : !acc
  %scales = tile.full %scale : !acc
  scf.for %i = %c0 to %n step %c1 {
    %pending = tgpu.wgmma %a, %b transpose_b : !a, !b -> !acc
    tgpu.wgmma_commit
    %s = tgpu.wgmma_wait pending 0, %pending : !acc
    %kept = tile.select %keep, %s, %none : !keep, !acc
    %sum = arith.addf %s, %s : !acc
    %scaled = arith.mulf %sum, %scales : !acc
    %m0 = tile.reduce max %s dim 1 : !acc -> !row
    %m1 = tile.reduce max %kept dim 1 : !acc -> !row
    %m2 = tile.reduce max %scaled dim 1 : !acc -> !row
    %m = arith.addf %m0, %m1 : !row
    %all = arith.addf %m, %m2 : !row
    "test.use"(%all) : (!row) -> ()
  }
  return
}

// A minimum; a difference and a product with a negative number, whose NaNs may be negative; a mask that is a tile of
// unknown numbers; products of 16 bits; no loop.
!a16 = !tgpu.shared<128x64xf16, b128>
!b16 = !tgpu.shared<64x64xf16, b128>
// CHECK-LABEL: func.func @not_integers
// CHECK-NOT:     tgpu.as_integers
func.func @not_integers(%a: !a, %b: !b, %a16: !a16, %b16: !b16, %keep: !keep, %others: !acc, %n: index) {
  %c0 = arith.constant 0 : index
  %c1 = arith.constant 1 : index
  %minus = arith.constant -1.0 : f32
  %minuses = tile.full %minus : !acc
  scf.for %i = %c0 to %n step %c1 {
    %pending = tgpu.wgmma %a, %b transpose_b : !a, !b -> !acc
    %pending16 = tgpu.wgmma %a16, %b16 transpose_b : !a16, !b16 -> !acc
    tgpu.wgmma_commit
    %s:2 = tgpu.wgmma_wait pending 0, %pending, %pending16 : !acc, !acc
    %difference = arith.subf %s#0, %s#0 : !acc
    %negated = arith.mulf %s#0, %minuses : !acc
    %masked = tile.select %keep, %s#0, %others : !keep, !acc
    %m0 = tile.reduce min %s#0 dim 1 : !acc -> !row
    %m1 = tile.reduce max %difference dim 1 : !acc -> !row
    %m2 = tile.reduce max %negated dim 1 : !acc -> !row
    %m3 = tile.reduce max %masked dim 1 : !acc -> !row
    %m4 = tile.reduce max %s#1 dim 1 : !acc -> !row
    "test.use"(%m0, %m1, %m2, %m3, %m4) : (!row, !row, !row, !row, !row) -> ()
  }
  %pending = tgpu.wgmma %a, %b transpose_b : !a, !b -> !acc
  tgpu.wgmma_commit
  %s = tgpu.wgmma_wait pending 0, %pending : !acc
  %m = tile.reduce max %s dim 1 : !acc -> !row
  "test.use"(%m) : (!row) -> ()
  return
}
