// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels whose sums cannot be in order: their loops, positions and tiles.
//
// RUN: rm -rf %t && split-file %s %t
// RUN: not tilewright-opt %t/descending.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=DESCENDING
// RUN: not tilewright-opt %t/position.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=POSITION
// RUN: not tilewright-opt %t/branch.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=BRANCH
// RUN: not tilewright-opt %t/list.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=LIST-ERROR
// RUN: not tilewright-opt %t/place.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=PLACE-ERROR
// RUN: not tilewright-opt %t/rank.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=RANK-ERROR
// DESCENDING: error: 'tile.contribute' op adds in order only inside a tile.for_blocks that is ascending; remove 'in order', or write such a loop
// POSITION: error: 'tile.contribute' op adds in order only from a position that is the result of 'tile.any_order ... of' times the number of positions (arith.muli), since instances start in the order of their turns
// BRANCH: error: 'tile.contribute' op adds in order only in branches that a parameter takes; use 'when'
// LIST-ERROR: error: 'tile.any_order' op needs a list that is an argument of the kernel
// PLACE-ERROR: error: 'tile.any_order' op must be in the body of the kernel; move it out
// RANK-ERROR: error: 'tile.contribute' op adds in order only tiles with two dimensions

//--- descending.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = tile.param WITH : i1
  %place = tile.any_order %i listed %list : !list when (PACKED)
  %number = tile.any_order %place of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows) descending
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- position.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = tile.param WITH : i1
  %place = tile.any_order %i listed %list : !list when (PACKED)
  %number = arith.minsi %place, %blocks : i32
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- branch.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = arith.cmpi slt, %c0, %rows : i32
  %place = tile.any_order %i listed %list : !list when (PACKED)
  %number = tile.any_order %place of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- list.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = tile.param WITH : i1
  %c9 = arith.constant 9 : i32
  %part = tile.subview %list dim 0 from %c0 size %c9 : !list
  %place = tile.any_order %i listed %part : !list when (PACKED)
  %number = tile.any_order %place of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- place.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = tile.param WITH : i1
  %place = scf.if %with -> (i32) {
    %listed = tile.any_order %i listed %list : !list when (PACKED)
    scf.yield %listed : i32
  } else {
    scf.yield %i : i32
  }
  %number = tile.any_order %place of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- rank.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = tile.param WITH : i1
  %place = tile.any_order %i listed %list : !list when (PACKED)
  %number = tile.any_order %place of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      %row = tile.constant 1 : !tile.tile<[BLOCK_M], f32>
      tile.contribute %row, %sums[%h, 0, %m] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !tile.tile<[BLOCK_M], f32>, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

