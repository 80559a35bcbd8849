// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --tile-combine-sums="target=sm_80" --verify-diagnostics --split-input-file -o /dev/null

// The form exists: there is nothing to say.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // as it should be
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// Where the kernel does not allow it, neither.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // a sum that is not stored
  %sum = tile.accumulate %h of %i each %terms apart when (false) iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
}

// -----

// A sum that is not stored.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must be stored, but has no store}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
}

// -----

// A sum that is stored twice.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must have elementwise uses and one store, but got 'tile.store'}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
  %other = tile.cast %sum : !sum -> !x
  tile.store %other, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A sum of rows: other blocks would have other sums.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must have elementwise uses and one store, but got 'tile.reduce'}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rows = tile.reduce add %sum dim 0 : !sum -> !tile.tile<[64], f32>
  %each = tile.expand %rows dim 0 : !tile.tile<[64], f32> -> !sum
  %rounded = tile.cast %each : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A value of the instance.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must be stored without values of the instance, but is combined with some}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %own = tile.load %x[%b, %i, 0, 0] : !view -> !x
  %own_acc = tile.cast %own : !x -> !sum
  %both = arith.addf %sum, %own_acc : !sum
  %rounded = tile.cast %both : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// Positions depend on the block.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must be stored without values of the instance, but is combined with some}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %c0 = arith.constant 0 : i32
  %positions = tile.iota %c0 dim 0 : !tile.tile<[16, 64], i32>
  %floats = tile.cast %positions : !tile.tile<[16, 64], i32> -> !sum
  %both = arith.addf %sum, %floats : !sum
  %rounded = tile.cast %both : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A part of a row.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must be stored to whole rows of an array that is always there, but got parts of rows of !tile.view<[?, ?, ?, 64], f16>}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 16] : !x, !view
}

// -----

// A result that callers may omit.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: optional !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: optional !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must be stored to whole rows of an array that is always there, but got an argument of 'tile.kernel', which may be absent or another array}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A condition that each instance computes.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: sum 0 must be stored under conditions that are parameters, but got a result of 'arith.cmpi'}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %c0 = arith.constant 0 : i32
  %is_first = arith.cmpi eq, %b, %c0 : i32
  scf.if %is_first {
    %rounded = tile.cast %sum : !sum -> !x
    tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
  }
}

// -----

// A number of terms that the program does not know.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view, %n: !tile.view<[?], i32>) {
  tile.launch @add(%x, %y, %n) : !view, !view, !tile.view<[?], i32>
}
tile.kernel @add params() (%x: !view, %y: !view, %n: !tile.view<[?], i32>) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %read = tile.at %n[%b] : !tile.view<[?], i32>
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: the number of terms must be an expression over the program, but got a result of 'tile.at'}}
  %sum = tile.accumulate %h of %i each %read iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// For a result in a workspace, the form exists as well.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %z: !view) {
  %y = tile.workspace [dim(z, 0), dim(z, 1), 16, 64] : !view
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A type of sums that the program has no name for.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], ACC>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params(let ACC: type = accumulator(f16)) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: the program has no parameter 'ACC' with the value of the kernel's, the type of sums}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !tile.tile<[16, 64], ACC> -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A type of sums that is another one in the program.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], ACC>
tile.program @sums params(let ACC: type = accumulator(f64)) (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params(let ACC: type = accumulator(f16)) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: the program has no parameter 'ACC' with the value of the kernel's, the type of sums}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !tile.tile<[16, 64], ACC> -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A number that is used before the number of terms is known.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %next = arith.addi %i, %b : i32
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: the number after 'of' must be used where the number of terms is known, but got 'arith.addi' before it}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A body that scales the sum.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-error @+1 {{may only add to its sums, by tile.dot or arith.addf, but does something else with sum 0; compute it after the loop, or write a loop (scf.for)}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    // expected-note @+1 {{used here}}
    %twice = arith.mulf %old, %old : !sum
    tile.yield %twice : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A body that adds, but reads the sum, too.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-error @+1 {{may only add to its sums, by tile.dot or arith.addf, but does something else with sum 0}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    // expected-note @+1 {{used here}}
    %read = arith.mulf %old, %x_acc : !sum
    %new = arith.addf %old, %read : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A body that forgets the sum in one branch.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params(P: flag) (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params(P: flag) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-error @+1 {{may only add to its sums, by tile.dot or arith.addf, but does something else with sum 0}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %flag = tile.param P : i1
    %new = scf.if %flag -> (!sum) {
      scf.yield %old : !sum
    } else {
      // expected-note @+1 {{used here}}
      scf.yield %zero : !sum
    }
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A loop that adds in each iteration, a branch and a selection, are additions.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[64, 64], f16>
!sum = !tile.tile<[64, 64], f32>
tile.program @sums params(P: flag) (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params(P: flag) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // as it should be
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %flag = tile.param P : i1
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %all = scf.for %k = %b to %in step %out iter_args(%part = %old) -> (!sum) : i32 {
      %more = tile.dot %x_tile, %x_tile, %part transpose_a : !x, !x -> !sum
      scf.yield %more : !sum
    }
    %new = scf.if %flag -> (!sum) {
      scf.yield %all : !sum
    } else {
      %x_acc = tile.cast %x_tile : !x -> !sum
      %added = arith.addf %x_acc, %all : !sum
      %chosen = arith.select %flag, %added, %all : !sum
      scf.yield %chosen : !sum
    }
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// The grid has a scalar of the kernel.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view, %n: i32) {
  tile.launch @add(%x, %y, %n) : !view, !view, i32
}
tile.kernel @add params() (%x: !view, %y: !view, %n: i32) grid(%i = n, %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: the grid, rows of results and 'even when' must be expressions over the program, but got none for the grid}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// The number is used in a branch before the number of terms is known.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[16, 64], f16>
!sum = !tile.tile<[16, 64], f32>
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) : !view, !view
}
tile.kernel @add params() (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %is_first = arith.cmpi eq, %b, %c0 : i32
  %start = scf.if %is_first -> (i32) {
    %next = arith.addi %i, %i : i32
    scf.yield %next : i32
  } else {
    scf.yield %c0 : i32
  }
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  // expected-remark @+1 {{has no form that adds terms apart: the number after 'of' must be used where the number of terms is known, but got 'arith.addi' before it}}
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, %start, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}
