// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tgpu-load-mask-captures | FileCheck %s

#l = #tgpu.mma<4, 1>
!pos = tensor<64x32xi32, #l>
!keep = tensor<64x32xi1, #l>

tile.capture @query_document : !tile.view<[?, ?], i32>
tile.capture @key_document : !tile.view<[?, ?], i32>
tile.capture @pairs : !tile.view<[?, ?], i1>

func.func private @same(%b: i32, %i: i32, %j: i32) -> i1 {
  %of_query = tile.at @query_document[%b, %i] : i32
  %of_key = tile.at @key_document[%b, %j] : i32
  %same = arith.cmpi eq, %of_query, %of_key : i32
  return %same : i1
}

// CHECK-LABEL: func.func private @kept_of_tiles(
// CHECK-SAME:    %[[B:.*]]: i32, %[[I:.*]]: i32, %[[J:.*]]: i32, %[[ROW:.*]]: i32, %[[COLUMN:.*]]: i32) -> i1
// CHECK-NEXT:    %[[SAME:.*]] = arith.cmpi eq, %[[ROW]], %[[COLUMN]]
// CHECK-NEXT:    return %[[SAME]]
func.func private @kept(%b: i32, %i: i32, %j: i32) -> i1 {
  %same = func.call @same(%b, %i, %j) : (i32, i32, i32) -> i1
  return %same : i1
}

// A number of each row and of each column, whose layouts are slices of that of the mask.
// CHECK-LABEL: tgpu.kernel @documents
// CHECK:         scf.for %[[N:.*]] = %{{.*}} to
// CHECK:           %[[QUERIES:.*]] = tile.captured @query_document
// CHECK-NEXT:      %[[Q:.*]] = tgpu.load %[[QUERIES]][%[[B:.*]], %[[M:.*]]] : !tile.view<[?, ?], i32> -> tensor<64xi32, #tgpu.slice<1, #tgpu.mma<4, 1>>>
// CHECK-NEXT:      %[[ROWS:.*]] = tile.expand %[[Q]] dim 1 : {{.*}} -> tensor<64x32xi32, #tgpu.mma<4, 1>>
// CHECK-NEXT:      %[[KEYS:.*]] = tile.captured @key_document
// CHECK-NEXT:      %[[K:.*]] = tgpu.load %[[KEYS]][%[[B]], %[[N]]] : !tile.view<[?, ?], i32> -> tensor<32xi32, #tgpu.slice<0, #tgpu.mma<4, 1>>>
// CHECK-NEXT:      %[[COLUMNS:.*]] = tile.expand %[[K]] dim 0 :
// CHECK:           tile.map @kept_of_tiles(%[[B]], %{{.*}}, %{{.*}}, %[[ROWS]], %[[COLUMNS]])
tgpu.kernel @documents target "sm_80" warps 4 () grid(%b = 1, %m = 2) {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c96 = arith.constant 96 : i32
  scf.for %n = %c0 to %c96 step %c32 : i32 {
    %rows = tile.iota %m dim 0 : !pos
    %columns = tile.iota %n dim 1 : !pos
    %keep = tile.map @kept(%b, %rows, %columns) : (i32, !pos, !pos) -> !keep
    %any = tgpu.any %keep : !keep
  }
}

// A flag of each pair has the layout of the mask.
func.func private @pair(%i: i32, %j: i32) -> i1 {
  %kept = tile.at @pairs[%i, %j] : i1
  return %kept : i1
}
// CHECK-LABEL: tgpu.kernel @matrix
// CHECK:         tgpu.load %{{.*}} : !tile.view<[?, ?], i1> -> tensor<64x32xi1, #tgpu.mma<4, 1>>
// CHECK-NOT:     tile.expand
// CHECK:         tile.map @pair_of_tiles(
tgpu.kernel @matrix target "sm_80" warps 4 () grid(%m = 2, %n = 1) {
  %rows = tile.iota %m dim 0 : !pos
  %columns = tile.iota %n dim 1 : !pos
  %keep = tile.map @pair(%rows, %columns) : (!pos, !pos) -> !keep
  %any = tgpu.any %keep : !keep
}

// Maps with other results, such as scores, are tile-load-captures' job.
func.func private @number(%i: i32, %j: i32) -> i32 {
  %number = tile.at @key_document[%i, %j] : i32
  return %number : i32
}
// CHECK-LABEL: tgpu.kernel @scores
// CHECK-NOT:     tgpu.load
// CHECK:         tile.map @number(
tgpu.kernel @scores target "sm_80" warps 4 () grid(%m = 2, %n = 1) {
  %rows = tile.iota %m dim 0 : !pos
  %columns = tile.iota %n dim 1 : !pos
  %numbers = tile.map @number(%rows, %columns) : (!pos, !pos) -> !pos
  %c0 = arith.constant 0 : i32
  %zeros = tile.full %c0 : !pos
  %keep = arith.cmpi ne, %numbers, %zeros : !pos
  %any = tgpu.any %keep : !keep
}
