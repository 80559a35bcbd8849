// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What may be left out: kinds and types that neighbors share, types of a mask's operands, and, until tile-link, the
// arguments of a launch that are the program's.
// RUN: tilewright-opt %s --verify-roundtrip | FileCheck %s
// RUN: tilewright-opt %s --tile-link | FileCheck %s --check-prefix=LINKED

!x = !tile.view<[?, ?], f32>
!keep = !tile.tile<[ROWS, COLUMNS], i1>

func.func private @attends(%i: i32, %j: i32, %n: i32) -> i1 {
  %keep = arith.cmpi slt, %i, %n : i32
  return %keep : i1
}

// CHECK-LABEL: tile.program @p
// CHECK-NEXT:  params(ROWS: int, COLUMNS: int, PACKED: flag = false, LISTED: flag = false)
// CHECK-NEXT:  (%x: !tile.view<[?, ?], f32>, %n: i32 = 2, %m: i32 = 2)
// CHECK:       tile.launch @k(out = %[[W:.*]]) when (LISTED) : !tile.view<[?, ?], f32>
// CHECK-NEXT:  tile.launch @k(out = %[[W]], n = %m) with (PACKED = true) : !tile.view<[?, ?], f32>, i32
// CHECK-NEXT:  tile.launch @one()
// LINKED-LABEL: tile.program @p
// LINKED:       tile.launch @k(%x, %[[W:.*]], %n) when (LISTED) : !tile.view<[?, ?], f32>, !tile.view<[?, ?], f32>, i32
// LINKED-NEXT:  tile.launch @k(%x, %[[W]], %m) with (PACKED = true) : !tile.view<[?, ?], f32>, !tile.view<[?, ?], f32>, i32
// LINKED-NEXT:  tile.launch @one(%x) : !tile.view<[?, ?], f32>
tile.program @p params(ROWS, COLUMNS: int, PACKED, LISTED: flag = false) (%x: !x, %n, %m: i32 = 2) {
  %w = tile.workspace [dim(x, 0), dim(x, 1)] : !x
  tile.launch @k(out = %w) when (LISTED) : !x
  tile.launch @k(out = %w, n = %m) with (PACKED = true) : !x, i32
  tile.launch @one()
}

// CHECK-LABEL: tile.kernel @k
// CHECK-NEXT:  params(ROWS: int, COLUMNS: int, PACKED: flag, let A: int = ROWS + COLUMNS, let B: int = ROWS + COLUMNS)
// CHECK-NEXT:  (%x: !tile.view<[?, ?], f32>, %out: !tile.view<[?, ?], f32>, %n: i32)
// CHECK:       tile.subview %x dim 0 from %i size %n when (PACKED) : !tile.view<[?, ?], f32>
// CHECK:       where @attends(against, block, %n : i32)
// LINKED-LABEL: tile.kernel @k
// LINKED:       %[[PACKED:.*]] = tile.param PACKED : i1
// LINKED-NEXT:  %[[PART:.*]] = tile.subview %x dim 0 from %i size %n : !tile.view<[?, ?], f32>
// LINKED-NEXT:  %[[CHOSEN:.*]] = arith.select %[[PACKED]], %[[PART]], %x : !tile.view<[?, ?], f32>
// LINKED-NEXT:  tile.dim %[[CHOSEN]], 0
tile.kernel @k params(ROWS, COLUMNS: int, PACKED: flag, let A, B: int = ROWS + COLUMNS) (%x, %out: !x, %n: i32)
    grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %part = tile.subview %x dim 0 from %i size %n when (PACKED) : !x
  %rows = tile.dim %part, 0 : !x
  tile.for_blocks %j in (%c0 to %rows) against (%c0 to %n) where @attends(against, block, %n) keep %keep : !keep {
    tile.yield
  }
}

// CHECK-LABEL: tile.kernel @one
// CHECK-NEXT:  (%x: !tile.view<[?, ?], f32>)
tile.kernel @one (%x: !x) grid(%i = 1) {}
