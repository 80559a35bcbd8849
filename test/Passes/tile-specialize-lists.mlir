// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists of blocks: a list whose condition does not hold is removed with its argument; and the span of an entry. Masks
// whose condition does not hold.
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/loop.mlir --tile-specialize="params=LISTED=true,SPAN=64" | FileCheck %t/loop.mlir
// RUN: tilewright-opt %t/loop.mlir --tile-specialize="params=LISTED=false,SPAN=0" --tile-drop-arguments | FileCheck %t/loop.mlir --check-prefix=ALL
// RUN: not tilewright-opt %t/loop.mlir --tile-specialize="params=LISTED=true,SPAN=40" 2>&1 | FileCheck %t/loop.mlir --check-prefix=SPAN
// RUN: tilewright-opt %t/function.mlir --tile-specialize="params=SPAN=32" | FileCheck %t/function.mlir
// RUN: tilewright-opt %t/mask.mlir --tile-specialize="params=MASKED=true" | FileCheck %t/mask.mlir
// RUN: tilewright-opt %t/mask.mlir --tile-specialize="params=MASKED=false" | FileCheck %t/mask.mlir --check-prefix=NONE
// RUN: tilewright-opt %t/kept.mlir --tile-specialize="params=MASKED=true" | FileCheck %t/kept.mlir
// RUN: not tilewright-opt %t/undeclared.mlir --tile-specialize 2>&1 | FileCheck %t/undeclared.mlir

//--- loop.mlir
// CHECK: in (%{{.*}} to %{{.*}} listed %list[%i] count %i each 64 : !tile.view<[?, ?], i32>) against
// ALL:     (%n: i32)
// ALL-NOT: listed
// ALL:     in (%i to %n) against
// SPAN: error: 'tile.for_blocks' op each entry of its list must cover a multiple of the 16 positions of a block, but got 'each 40'; choose a block that divides it
tile.kernel @k params(LISTED: flag, SPAN: int) (%list: !tile.view<[?, ?], i32> when (LISTED), %n: i32) grid(%i = 1) {
  tile.for_blocks %b in (%i to %n listed %list[%i] count %i each SPAN when (LISTED) : !tile.view<[?, ?], i32>)
      against (%i to %n) keep %keep : !tile.tile<[8, 16], i1> {}
}

//--- mask.mlir
// CHECK:     where @near(%n, against, block : i32)
// CHECK-NOT: when
// CHECK:     tile.kept_range
// CHECK-NEXT: where @near(%n, against, block : i32){{$}}
// NONE:      tile.for_blocks
// NONE-NOT:  where
// NONE:      keep
// NONE:      tile.kept_range
// NONE-NOT:  where
func.func private @near(%n: i32, %i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sle, %j, %n : i32
  return %keep : i1
}
tile.kernel @k params(MASKED: flag) (%n: i32) grid(%i = 1) {
  tile.for_blocks %b in (%i to %n) against (%i to %n) where @near(%n, against, block : i32) when (MASKED)
      keep %keep : tensor<8x16xi1> {}
  %0, %1 = tile.kept_range in (%i to %n) against (%i to %n) where @near(%n, against, block : i32) when (MASKED)
}

//--- kept.mlir
// A function is bound to the parameters that the condition of tile.kept_range reads, and nothing else in it.
// CHECK-LABEL: func.func private @keys
// CHECK:         where @near(%{{.*}}, against, block : i32){{$}}
func.func private @near(%n: i32, %i: i32, %j: i32) -> i1 {
  %keep = arith.cmpi sle, %j, %n : i32
  return %keep : i1
}
func.func private @keys(%i: i32, %n: i32) -> i32 {
  %first, %end = tile.kept_range in (%i to %n) against (%i to %n) where @near(%n, against, block : i32) when (MASKED)
  return %end : i32
}
tile.kernel @k params(MASKED: flag) (%n: i32, %x: !tile.view<[?], i32>) grid(%i = 1) {
  %end = func.call @keys(%i, %n) : (i32, i32) -> i32
  %t = tile.full %end : tensor<8xi32>
  tile.store %t, %x[%i] : tensor<8xi32>, !tile.view<[?], i32>
}

//--- function.mlir
// Functions have the parameters of the kernel that calls them.
// CHECK-LABEL: func.func private @walk
// CHECK:         each 32 :
func.func private @walk(%list: !tile.view<[?], i32>, %n: i32) {
  tile.for_blocks %b in (%n to %n listed %list[] count %n each SPAN : !tile.view<[?], i32>)
      against (%n to %n) keep %keep : !tile.tile<[8, 16], i1> {}
  return
}
tile.kernel @k params(SPAN: int) (%list: !tile.view<[?], i32>) grid(%i = 1) {
  func.call @walk(%list, %i) : (!tile.view<[?], i32>, i32) -> ()
}

//--- undeclared.mlir
// CHECK: error: reads parameter 'SPAN', which kernel @k does not declare
func.func private @walk(%list: !tile.view<[?], i32>, %n: i32) {
  tile.for_blocks %b in (%n to %n listed %list[] count %n each SPAN : !tile.view<[?], i32>)
      against (%n to %n) keep %keep : !tile.tile<[8, 16], i1> {}
  return
}
tile.kernel @k (%list: !tile.view<[?], i32>) grid(%i = 1) {
  func.call @walk(%list, %i) : (!tile.view<[?], i32>, i32) -> ()
}
