// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the form in order of a sum in memory relies on. Each line changes the kernels below, where \x25 is the sign of a value.
//
// DEFINE: %{change} =
// DEFINE: %{rejected} = sed -e '%{change}' %s | not tilewright-opt --tile-combine-sums="target=sm_90a sums=ordered"
// DEFINE: %{in-order} = sed -e '%{change}' %s | tilewright-opt --tile-combine-sums="target=sm_90a sums=ordered"
//
// RUN: tilewright-opt %s --tile-combine-sums="target=sm_90a sums=ordered" 2>&1 | FileCheck %s --check-prefix=PLAIN --implicit-check-not=remark
// RUN: tilewright-opt %s --tile-combine-sums="target=sm_90a sums=ordered" | tilewright-opt --verify-roundtrip -o /dev/null
// The number may be the second factor, and the size a number.
// REDEFINE: %{change} = s/arith.muli .number, .block /arith.muli \x25block, \x25number /
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=PLAIN
// REDEFINE: %{change} = s/.block = tile.param BLOCK_N/\x25block = arith.constant 128/; s/each BLOCK_N/each 128/
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=PLAIN
// PLAIN-LABEL: tile.program @main
// PLAIN: let TAKES_TURNS: flag = and(ADDS_IN_ORDER, true)
// PLAIN: tile.launch @convert({{.*}} when (or(not(TAKES_TURNS), ceildiv(dim(x, 1), 128) * dim(x, 0) == 0))
// PLAIN-LABEL: tile.kernel @add
// PLAIN: (%x: !tile.view<[?, ?, 64], f32>, %sums: !tile.view<[?, ?, 64], f32>, %turns: !tile.view<[?, ?], i32> when (IN_ORDER), %more: !tile.view<[?, ?, 64], f32> when (IN_ORDER), %y: !tile.view<[?, ?, 64], f32> when (IN_ORDER))
// PLAIN: in order of

// If the launch that adds is left out, the other one still stores its results.
// REDEFINE: %{change} = s/@add(.x, .sums)/@add(\x25x, \x25sums) when (dim(x, 1) > 16)/
// RUN: %{in-order} | FileCheck %s --check-prefix=GIVEN
// GIVEN: let TAKES_TURNS: flag = and(and(ADDS_IN_ORDER, dim(x, 1) > 16), true)
// GIVEN: tile.launch @add({{.*}} when (and(dim(x, 1) > 16, not(TAKES_TURNS)))
// GIVEN: tile.launch @add({{.*}} when (TAKES_TURNS)
// GIVEN: tile.launch @convert({{.*}} when (or(not(TAKES_TURNS),

// An array of the other launch that follows the launch that adds moves before it.
// REDEFINE: %{change} = s/@convert(.sums, .more, .y)/@convert(\x25sums, \x25later, \x25y)/
// RUN: %{in-order} | FileCheck %s --check-prefix=LATER
// LATER: %[[LATER:.*]] = tile.workspace [7, dim(y, 1), 64] : !tile.view<[?, ?, 64], f32>
// LATER: tile.launch @add({{.*}}, %[[LATER]], %y)

// A launch between the two writes what the other one reads, or reads what it writes; or the launch that adds does.
// REDEFINE: %{change} = s/@fill(.x)/@fill(\x25more)/
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=EARLY --implicit-check-not="in order of"
// REDEFINE: %{change} = s/@fill(.x)/@fill(\x25y)/
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=EARLY --implicit-check-not="in order of"
// REDEFINE: %{change} = s/@convert(.sums, .more, .y)/@convert(\x25sums, \x25more, \x25x)/
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=EARLY --implicit-check-not="in order of"
// EARLY: remark: has no form in order: the arrays of the launch that reads the sums must not be written by it, or by others from the launch that adds on, but got argument {{[0-9]+}}, which @{{[a-z_]+}} takes

// The launch that adds follows the other one.
// REDEFINE: %{change} = s/@add(.x, .sums)/@add(\x25x, \x25sums) with (WITH = false)/; s/  tile.launch @last.*/  tile.launch @add(\x25x, \x25sums) : !view, !view/
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=FOLLOWS --implicit-check-not="in order of"
// FOLLOWS: remark: has no form in order: the launch that reads the sums must follow the one that adds, but is before it

// A sum of the instance that it does something else with.
// REDEFINE: %{change} = s/.own = arith.addf .all, .all/\x25own = arith.addf \x25all, \x25x_tile/
// RUN: %{in-order} 2>&1 | FileCheck %s --check-prefix=STORED --implicit-check-not="in order of"
// STORED: remark: has no form in order: sum 0 must be stored without values of the instance, but is combined with some

// An argument of the other kernel may be absent.
// REDEFINE: %{change} = s/.more: !view/\x25more: optional !view/
// RUN: %{in-order} | FileCheck %s --check-prefix=OPTIONAL
// OPTIONAL: %turns: !tile.view<[?, ?], i32> when (IN_ORDER), %more: optional !tile.view<[?, ?, 64], f32>, %y:

// An argument of both that exists under another condition is passed once more.
// REDEFINE: %{change} = s/.x: !view, .sums: !view)/\x25x: !view, \x25sums: !view, \x25more: !view when (not(WITH)))/; s/@add(.x, .sums) : !view/@add(\x25x, \x25sums, \x25more) : !view, !view/
// RUN: %{in-order} | FileCheck %s --check-prefix=CONDITION
// CONDITION: %more: !tile.view<[?, ?, 64], f32> when (not(WITH)), %turns: {{.*}}, %more_: !tile.view<[?, ?, 64], f32> when (IN_ORDER)

// REDEFINE: %{change} = s/arith.muli .number, .block /arith.muli \x25number, \x25c64 /
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=SIZE
// SIZE: error: 'tile.contribute' op adds in order only from a position that is the result of 'tile.any_order ... of' times the number of positions (arith.muli), since instances start in the order of their turns

// REDEFINE: %{change} = s/grid(.i = ceildiv(dim(x, 1), BLOCK_N), .h = dim(x, 0))/grid(\x25h = dim(x, 0), \x25i = ceildiv(dim(x, 1), BLOCK_N))/; s/tile.accumulate .a of .h/tile.accumulate \x25a of \x25i/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=NUMBER
// REDEFINE: %{change} = s/any_order .i of/any_order \x25chosen of/; s/.else = arith.constant 0/\x25else = arith.addi \x25h, \x25c64/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=NUMBER
// NUMBER: error: 'tile.any_order' op needs a number that comes from the first one of the grid, where tiles are added in order, since instances start in the order of that; put it first

// A branch whose other result depends on the head.
// REDEFINE: %{change} = s/any_order .i of/any_order \x25chosen of/
// RUN: %{in-order} | FileCheck %s --check-prefix=PLAIN

// REDEFINE: %{change} = s/tile.contribute/scf.for \x25twice = \x25c0 to \x25c64 step \x25c64 : i32 { tile.contribute/; s/in order if IN_ORDER : !t, !view/in order if IN_ORDER : !t, !view }/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=LOOP
// LOOP: error: 'tile.contribute' op adds in order only once for each block, but is inside another loop; remove 'in order', or use tile.accumulate around tile.for_blocks
// LOOP: note: the loop

// REDEFINE: %{change} = s/tile.contribute .term, .sums..a, .m, 0./tile.contribute \x25term, \x25sums[\x25a, \x25m, 64]/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=COLUMNS
// REDEFINE: %{change} = s/tile.contribute .term, .sums..a, .m, 0./tile.contribute \x25term, \x25sums[\x25a, \x25m, 0] dims [0, 2]/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=COLUMNS
// COLUMNS: error: 'tile.contribute' op adds in order only whole rows of the last two dimensions, from column 0, since all columns share a counter

// Parameters of the other kernel: in a type, in the grid, with another value.
// REDEFINE: %{change} = s/convert params(/convert params(let WIDTH: int = 64, /; s/^!y = .*/!y = !tile.tile<[BLOCK_M, WIDTH], f32>/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=PARAMS
// REDEFINE: %{change} = s/convert params(/convert params(let PART: int = 64, /; s/grid(.i = ceildiv(dim(y, 1), BLOCK_M)/grid(\x25i = ceildiv(dim(y, 1), PART)/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=PARAMS
// PARAMS: error: 'tile.complete' op is in a kernel that reads parameters which @add does not have; declare them there as well
// REDEFINE: %{change} = s/@convert(.sums, .more, .y)/@convert(\x25sums, \x25more, \x25y) with (SHIFT = 5)/
// RUN: %{rejected} 2>&1 | FileCheck %s --check-prefix=VALUE
// VALUE: error: 'tile.complete' op is in a kernel with another value of 'SHIFT' than @add has, which does the same in order; give it the same value, or another name

!view = !tile.view<[?, ?, 64], f32>
!x = !tile.tile<[BLOCK_N, 64], f32>
!t = !tile.tile<[BLOCK_M, 64], f32>
!y = !tile.tile<[BLOCK_M, 64], f32>

tile.program @main params(BLOCK_M: int = 64, SHIFT: int = 3) (%x: !view, %more: !view, %y: !view, %z: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), 64] : !view
  tile.launch @add(%x, %sums) : !view, !view
  %later = tile.workspace [7, dim(y, 1), 64] : !view
  tile.launch @fill(%x) : !view
  tile.launch @convert(%sums, %more, %y) : !view, !view, !view
  tile.launch @last(%z) : !view
}

tile.kernel @fill params() (%a: !view) grid(%i = dim(a, 0)) {
  %whole = tile.subview %a dim 0 from %i size %i : !view
  %zero = tile.constant 0 : tensor<16x64xf32>
  tile.store %zero, %whole[%i, 0, 0] : tensor<16x64xf32>, !view
}

tile.kernel @last params() (%a: !view) grid(%i = dim(a, 0)) {
}

tile.kernel @add
    params(BLOCK_M: int, BLOCK_N: int = 128, SHIFT: int, WITH: flag = true, IN_ORDER: flag = false)
    (%x: !view, %sums: !view) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %c64 = arith.constant 64 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %with = tile.param WITH : i1
  %blocks = arith.ceildivsi %rows, %block : i32
  %chosen, %other = scf.if %with -> (i32, i32) {
    scf.yield %i, %h : i32, i32
  } else {
    %else = arith.constant 0 : i32
    scf.yield %else, %h : i32, i32
  }
  %number = tile.any_order %i of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  %none = tile.constant 0 : !x
  %all = tile.accumulate %a of %h each %c64 apart when (false) iter_args(%old = %none : !x) {
    tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
        keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
      %term = tile.constant 1 : !t
      scf.if %with {
        tile.contribute %term, %sums[%a, %m, 0] from %n of %c0 to %rows each BLOCK_N
            in order if IN_ORDER : !t, !view
      }
    }
    %new = arith.addf %old, %x_tile : !x
    tile.yield %new : !x
  }
  %own = arith.addf %all, %all : !x
  tile.store %own, %x[%h, %n, 0] : !x, !view
}

tile.kernel @convert params(BLOCK_M: int, SHIFT: int) (%sums: !view, %more: !view, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %shift = tile.param SHIFT : i32
  %rows = tile.dim %y, 1 : !view
  %end = arith.subi %rows, %shift : i32
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %end : !view -> !y
  %more_tile = tile.load %more[%h, %m, 0] : !view -> !y
  %result = arith.addf %sum, %more_tile : !y
  tile.store %result, %y[%h, %m, 0] : !y, !view
}
