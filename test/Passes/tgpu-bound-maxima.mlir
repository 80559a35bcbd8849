// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A maximum that is raised only if it increases by more than a constant.
// RUN: tilewright-opt %s --tgpu-bound-maxima | FileCheck %s

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
