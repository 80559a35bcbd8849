// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A maximum that is raised only by more than a constant is computed only where it exceeds that.
// RUN: tilewright-opt %s --tgpu-bound-maxima | FileCheck %s

!s = tensor<128x64xf32, #tgpu.wgmma<2>>
!row = tensor<128xf32, #tgpu.slice<1, #tgpu.wgmma<2>>>
!flags = tensor<128xi1, #tgpu.slice<1, #tgpu.wgmma<2>>>
!m = tensor<128x64xf32, #tgpu.mma<8, 1>>
!mrow = tensor<128xf32, #tgpu.slice<1, #tgpu.mma<8, 1>>>
!mflags = tensor<128xi1, #tgpu.slice<1, #tgpu.mma<8, 1>>>

// The threshold goes before the maximum.
// CHECK-LABEL: func.func @scaled
// CHECK-NOT:     tile.reduce
// CHECK:         %[[LIMIT:.*]] = arith.addf %[[OLD:.*]], %{{.*}} : tensor<128xf32
// CHECK-NEXT:    %[[MOST:.*]] = tgpu.max_above %arg0 times %arg2 above %[[LIMIT]] :
// CHECK-NEXT:    %[[ALL:.*]] = arith.maximumf %[[OLD]], %[[MOST]]
// CHECK-NEXT:    arith.cmpf ogt, %[[ALL]], %[[LIMIT]]
// CHECK-NEXT:    tile.select
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
// CHECK:         tgpu.max_above %arg0 times %[[ONE]] above
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

// Always raised; lags by a negative number; the maximum is used otherwise; another layout; a minimum; nothing carried.
// CHECK-NOT:   tgpu.max_above
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
