// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs whose sums cannot be in order, or only under a condition: their launches, and the kernels that read sums.
//
// RUN: rm -rf %t && split-file %s %t
// RUN: not tilewright-opt %t/rows.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=COMPLETE
// RUN: not tilewright-opt %t/params.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=PARAMS
// RUN: not tilewright-opt %t/function.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=FUNCTION
// RUN: not tilewright-opt %t/grid.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=GRID-ERROR
// RUN: not tilewright-opt %t/clause.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=CLAUSE-ERROR
// RUN: tilewright-opt %t/argument.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=NO-FORM --implicit-check-not=turns --implicit-check-not="in order of"
// RUN: tilewright-opt %t/reader.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=NO-FORM --implicit-check-not=turns --implicit-check-not="in order of"
// RUN: tilewright-opt %t/wanted.mlir --tile-combine-sums="target=sm_90a" | FileCheck %s --check-prefix=WANTED
// RUN: not tilewright-opt %t/twice.mlir --tile-combine-sums="target=sm_90a" 2>&1 | FileCheck %s --check-prefix=TWICE
// COMPLETE: error: 'tile.complete' op must load as many rows as tile.contribute adds, by the same parameter, to do so as soon as they are complete
// PARAMS: error: 'tile.complete' op is in a kernel that reads parameters which @add does not have; declare them there as well
// FUNCTION: error: 'tile.kernel' op reads adds_in_order(), which is allowed only in programs; use the flag after 'in order if' of tile.contribute
// GRID-ERROR: error: 'tile.contribute' op adds in order only with a grid that an instance can compute, but the grid of @convert reads the device, or a function other than + - * and ceildiv, floordiv, mod, min, max and select
// CLAUSE-ERROR: error: 'tile.contribute' op must have clauses and widths of sums that are expressions over the program that launches @add, but got none for the rows
// NO-FORM: remark: has no form in order: its sums are no workspace that all launches of the kernel add to, and then one launch reads by tile.complete
// NO-FORM: tile.atomic_add
// The form in order does what the other kernel does, so it needs the condition of its launch.
// WANTED: let TAKES_TURNS: flag = and(and(and(ADDS_IN_ORDER, dim(x, 0) > 0), dim(y, 0) > 1), or(DETERMINISTIC,
// TWICE: error: 'tile.contribute' op is reached by two launches; give all but one a parameter by which they leave it out
// TWICE: note: the second

//--- rows.mlir
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
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), 32), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !tile.tile<[32, D], f32>
  %out = tile.cast %sum : !tile.tile<[32, D], f32> -> !tile.tile<[32, D], T>
  tile.store %out, %y[%h, %m, 0] : !tile.tile<[32, D], T>, !view
}

//--- params.mlir
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
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int, MORE: int = 1) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M * MORE : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- function.mlir
tile.kernel @k params(let ORDERED: flag = adds_in_order()) () grid(%i = 1) {
}

//--- grid.mlir
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
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0) + sm_count()) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}

//--- clause.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view, %count: i32) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list, %count) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list, i32
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}


tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER), %count: i32) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
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
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (count) sequences (7) : !t, !sums
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

//--- argument.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view, %sums: !sums) {
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

//--- reader.mlir
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
  tile.launch @convert(%sums, %x) with (BLOCK_M = ROWS) : !sums, !view
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

//--- wanted.mlir
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
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) when (dim(y, 0) > 1) : !sums, !view
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
//--- twice.mlir
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

