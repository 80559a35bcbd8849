// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derived parameters of programs that depend on arguments: each launch computes them.

// RUN: tilewright-opt %s --split-input-file --tile-specialize="entry=p params=SIZE=4,WITH_TURNS=true" | FileCheck %s
// RUN: tilewright-opt %s --split-input-file --tile-specialize="entry=p params=SIZE=4,WITH_TURNS=false" | FileCheck %s --check-prefix=OFF

// A condition is stated once. Parts that are known when the program is bound are computed then.
// CHECK-LABEL: tile.program @p
// CHECK-NEXT: require(dim(x, 0) + rows <= 1000)
// CHECK: tile.workspace [select(dim(x, 0) + rows <= 64, dim(x, 0), 0)]
// CHECK: tile.launch @k(%{{.*}}) when (dim(x, 0) + rows <= 64)
// CHECK: tile.launch @k_0(%{{.*}}) when (not(dim(x, 0) + rows <= 64))
// CHECK-NOT: TOTAL
// OFF-LABEL: tile.program @p
// OFF-NOT: tile.workspace
// OFF: tile.launch @k(%x) :
// OFF-NOT: tile.launch
!v = !tile.view<[?], f32>
tile.program @p
    params(SIZE: int, WITH_TURNS: flag, let TOTAL: int = dim(x, 0) + rows, let LIMIT: int = 16 * SIZE,
           let TAKES_TURNS: flag = and(WITH_TURNS, TOTAL <= LIMIT))
    require(TOTAL <= 1000) (%x: !v, %rows: i32) {
  %turns = tile.workspace [select(TAKES_TURNS, dim(x, 0), 0)] : !v
  tile.launch @k(%turns) when (TAKES_TURNS) : !v
  tile.launch @k(%x) with (OTHER = true) when (not(TAKES_TURNS)) : !v
}
tile.kernel @k params(SIZE: int, OTHER: flag = false) (%x: !v) grid(%i = ceildiv(dim(x, 0), SIZE)) {
  %other = tile.param OTHER : i1
  scf.if %other {
    %t = tile.load %x[%i] : !v -> !tile.tile<[1], f32>
    tile.store %t, %x[%i] : !tile.tile<[1], f32>, !v
  }
}
