// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Requirements of captures become constraints of the entries that use them, and only of these.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/main.mlir --tile-specialize=entry=k | FileCheck %s
// RUN: tilewright-opt %t/main.mlir --tile-specialize=entry=p | FileCheck %s --check-prefix=PROGRAM
// RUN: tilewright-opt %t/main.mlir --tile-link=with=%t/also.mlir --tile-specialize=entry=k | FileCheck %s --check-prefix=BOTH
//
// CHECK:         tile.capture @share : f32{{$}}
// CHECK:         tile.kernel @k
// CHECK-NEXT:      require(n > 0, share >= 0)
// PROGRAM:       tile.kernel @k
// PROGRAM-NEXT:    require(n > 0)
// PROGRAM:       tile.program @p
// PROGRAM-NEXT:    require(share >= 0)
//
// If files share a capture, the requirements of both apply.
// BOTH:          tile.kernel @k
// BOTH-NEXT:       require(n > 0, share >= 0, share < 1)

// They may read parameters, arguments and other captures. One that mentions an argument that the parameters exclude
// holds.
// RUN: tilewright-opt %t/table.mlir --tile-specialize="entry=k params=BY_ROW=true" | FileCheck %s --check-prefix=ROWS
// RUN: tilewright-opt %t/table.mlir --tile-specialize="entry=k params=BY_ROW=false" | FileCheck %s --check-prefix=SAME
// ROWS:          tile.kernel @k
// ROWS-NEXT:       require(radius >= 0, dim(table, 0) == dim(rows, 0), dim(table, 1) == 2 * radius + 1, dim(table, 0) == dim(rows, 0))
// SAME:          tile.kernel @k
// SAME-NEXT:       require(radius >= 0, or(dim(table, 0) == 1, dim(table, 0) == dim(x, 0)), dim(table, 1) == 2 * radius + 1)

//--- table.mlir
tile.capture @table : !tile.view<[?, ?], f32> require(
    select(BY_ROW, dim(table, 0) == dim(rows, 0), or(dim(table, 0) == 1, dim(table, 0) == dim(x, 0))),
    dim(table, 1) == 2 * radius + 1, or(not(BY_ROW), dim(table, 0) == dim(rows, 0)))
tile.capture @radius : i32 require(radius >= 0)
func.func private @f(%x: f32) -> f32 {
  %radius = tile.at @radius : i32
  %entry = tile.at @table[%radius, %radius] : f32
  %y = arith.mulf %x, %entry : f32
  return %y : f32
}
tile.kernel @k params(BY_ROW: flag) (%x: !tile.view<[?], f32>, %rows: !tile.view<[?], f32> when (BY_ROW)) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @f(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
//--- main.mlir
tile.capture @share : f32 require(share >= 0)
tile.capture @other : f32 require(other >= 0)
func.func private @f(%x: f32) -> f32 attributes {tile.replaceable} {
  %share = tile.at @share : f32
  %y = arith.mulf %x, %share : f32
  return %y : f32
}
tile.kernel @k require(n > 0) (%x: !tile.view<[?], f32>, %n: i32) grid(%i = 1) {
  %t = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[8], f32>
  %u = tile.map @f(%t) : (!tile.tile<[8], f32>) -> !tile.tile<[8], f32>
  tile.store %u, %x[0] : !tile.tile<[8], f32>, !tile.view<[?], f32>
}
tile.program @p (%x: !tile.view<[?], f32>, %n: i32) {
  tile.launch @k(%x, %n) : !tile.view<[?], f32>, i32
}
//--- also.mlir
tile.capture @share : f32 require(share >= 0, share < 1)
func.func private @f(%x: f32) -> f32 {
  %share = tile.at @share : f32
  %y = arith.addf %x, %share : f32
  return %y : f32
}
