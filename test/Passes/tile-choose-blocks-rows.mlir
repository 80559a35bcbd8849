// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel without loops that loads rows has a structure, but nothing for the cost model: it once read the loop.
//
// RUN: tilewright-opt %s --tile-choose-blocks="entry=copy target=sm_90a by-model" | FileCheck %s
// CHECK: tile.kernel @copy
// CHECK-NEXT: params(R: int = {{[0-9]+}})

!view = !tile.view<[?, 64], bf16>
!rows = !tile.tile<[R, 64], bf16>
tile.kernel @copy params(R: int = block()) (%x: !view, %y: !view) grid(%i = ceildiv(dim(x, 0), R)) {
  %r = tile.param R : i32
  %m = arith.muli %i, %r : i32
  %t = tile.load %x[%m, 0] : !view -> !rows
  tile.store %t, %y[%m, 0] : !rows, !view
}
