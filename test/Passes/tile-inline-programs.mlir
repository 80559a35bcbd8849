// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that call programs.

// RUN: tilewright-opt %s --tile-inline-programs | FileCheck %s --implicit-check-not=tile.call --implicit-check-not=tile.return --implicit-check-not="tile.program @rows" --implicit-check-not="tile.program @clear"

!x = !tile.view<[?], T>
!row = !tile.view<[?], f32>

// Parameters, constraints, workspaces and launches of what is called, over the caller's names. A parameter that the
// call binds reaches the kernel by the clause of its launch; one that the caller lacks is added with its default, over
// the caller's names; constraints appear once, and none for an argument that is absent.
// CHECK:      tile.program @p
// CHECK-NEXT:   params(N: int, T: type, let W: int = dim(y, 0), KIND: int = 7, PAD: int = ceildiv(64, 2), let LENGTH: int = dim(y, 0) + rows, BLOCK: int = block())
// CHECK-NEXT:   require(N > 0, dim(y, 0) <= 64, dim(y, 0) > N)
// CHECK-NEXT:   (%y: !tile.view<[?], T>, %z: !tile.view<[?], f32> when (N > 1), %rows: i32)
// CHECK:        %[[FIRST:.*]] = tile.workspace [4 * W] : !tile.view<[?], f32>
// CHECK-NEXT:   %[[NONE:.*]] = tile.workspace [0] : !tile.view<[?], f32>
// CHECK-NEXT:   %[[ROWS:.*]] = tile.workspace [ceildiv(LENGTH, 64) * PAD] fill {{0.*}} : !tile.view<[?], f32>
// CHECK-NEXT:   tile.launch @zeros(%[[ROWS]], %[[NONE]]) with (BLOCK = 64 + PAD, SIZE = 64) when (KIND > 0) :
// CHECK-NEXT:   tile.launch @zeros(%[[FIRST]], %z) with (SIZE = 8) when (4 * W > 0) :
// CHECK-NEXT:   tile.launch @zeros(%[[ROWS]], %z) with (SIZE = 1, BLOCK = 1) :
// CHECK-NEXT: }
// CHECK-NEXT: tile.kernel @zeros
tile.program @p params(N: int, T: type, let W: int = dim(y, 0), KIND: int = 7) require(N > 0, dim(y, 0) <= 64)
    (%y: !x, %z: !row when (N > 1), %rows: i32) {
  %first = tile.workspace [4 * W] : !row
  %own = tile.call @rows(x = %y) with (SIZE = 64) : !x -> !row
  tile.call @clear(sums = %first) : !row
  tile.launch @zeros(%own, %z) with (SIZE = 1, BLOCK = 1) : !row, !row
}

tile.program @rows
    params(T: type, SIZE: int, KIND: int = 3, PAD: int = ceildiv(SIZE, 2), let LENGTH: int = dim(x, 0) + rows)
    require(dim(x, 0) <= SIZE, dim(extra, 0) == dim(x, 0))
    (%x: !x, %extra: optional !row, %rows: i32) {
  %all = tile.workspace [ceildiv(LENGTH, SIZE) * PAD] fill 0.0 : !row
  tile.launch @zeros(%all, %extra) with (BLOCK = SIZE + PAD) when (KIND > 0) : !row, !row
  tile.return %all : !row
}

tile.program @clear params(N: int, T: type, BLOCK: int = block()) require(dim(y, 0) > N)
    (%y: !x, %sums: !row, %z: !row when (N > 1)) {
  tile.call @clear_with(x = %sums) with (SIZE = 8) : !row
}

tile.program @clear_with params(SIZE: int) (%x: !row, %z: optional !row) {
  tile.launch @zeros(%x, %z) when (dim(x, 0) > 0) : !row, !row
}

tile.kernel @zeros params(BLOCK: int = 32, SIZE: int) (%x: !row, %extra: optional !row) grid(%i = 1) {
}
