// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s --split-input-file --verify-diagnostics

!sums = !tile.view<[?, D], f32>
tile.kernel @k params(D: int, M: int) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !tile.tile<[M, D], bf16>
  // expected-error @+1 {{view and tile must have the same elements, but got 'f32' and 'bf16'; convert the tile with tile.cast}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 : !tile.tile<[M, D], bf16>, !sums
}

// -----

!flags = !tile.view<[?, D], i1>
tile.kernel @k params(D: int, M: int) (%sums: !flags) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !tile.tile<[M, D], i1>
  // expected-error @+1 {{requires elements of f32, f64, f16, bf16 or i32, but got 'i1'; convert the tile with tile.cast}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 : !tile.tile<[M, D], i1>, !flags
}

// -----

!sums = !tile.view<[?, D], f32>
!t = !tile.tile<[M, D], f32>
tile.kernel @k params(D: int, M: int) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !t
  // expected-note @+1 {{the first}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 : !t, !sums
  // expected-error @+1 {{must be the only one of its kernel; write a kernel for each sum}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 : !t, !sums
}

// -----

!sums = !tile.view<[?, D], f32>
!t = !tile.tile<[M, D], f32>
tile.kernel @k params(D: int, M: int, WIDE: flag = true) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !t
  // expected-error @+1 {{needs a flag of the kernel after 'in order if', 'NAME: flag = false', but got 'WIDE'}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 in order if WIDE : !t, !sums
}

// -----

!sums = !tile.view<[?, D], f32>
!t = !tile.tile<[M, D], f32>
tile.kernel @k params(D: int, M: int, IN: flag = false) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !t
  // expected-error @+1 {{'staggered when' must be of kind flag, but got kind int}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 in order if IN staggered when (D) : !t, !sums
}

// -----

!sums = !tile.view<[?, D], f32>
!t = !tile.tile<[M, D], f32>
tile.kernel @k params(D: int, M: int, IN: flag = false) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !t
  // expected-error @+1 {{expected 'when (FLAG)' after 'banded', but got ':'}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 in order if IN banded : !t, !sums
}

// -----

!sums = !tile.view<[?, D], f32>
!t = !tile.tile<[M, D], f32>
tile.kernel @k params(D: int, M: int, IN: flag = false) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !t
  // expected-error @+1 {{'rows' may take dim of views among the arguments only, but got 'other'}}
  tile.contribute %zero, %sums[0, 0] from %c0 of %c0 to %c0 each 1 in order if IN packed when (IN) rows (dim(other, 0)) sequences (1) : !t, !sums
}

// -----

!sums = !tile.view<[?, D], f32>
!t = !tile.tile<[M, D], f32>
tile.kernel @k params(D: int, M: int) (%sums: !sums) grid(%i = 1) {
  %c0 = arith.constant 0 : i32
  %yes = arith.constant true
  scf.if %yes {
    // expected-error @+1 {{must be in the body of a kernel, but is inside 'scf.if'; move it out}}
    %sum = tile.complete %sums[0, 0] of %c0 to %c0 : !sums -> !t
  }
}

// -----

tile.kernel @k params(D: int) (%list: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{needs either 'of' and how many numbers there are, or 'listed' and a list of numbers, but got neither}}
  %number = tile.any_order %i
}

// -----

tile.kernel @k params(D: int) (%list: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{needs either 'of' and how many numbers there are, or 'listed' and a list of numbers, but got both}}
  %number = tile.any_order %i of %i listed %list : !tile.view<[?], i32>
}

// -----

tile.kernel @k params(D: int, F: flag) (%list: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{takes 'when' only after 'listed', but got it without a list; use 'of' in a branch}}
  %number = tile.any_order %i of %i when (F)
}

// -----

tile.kernel @k params(D: int) (%list: !tile.view<[?, ?], i32>) grid(%i = 1) {
  // expected-error @+1 {{needs a list that is a view of i32 with one dimension, but got '!tile.view<[?, ?], i32>'}}
  %number = tile.any_order %i listed %list : !tile.view<[?, ?], i32>
}

// -----

tile.kernel @k params(D: int) (%list: !tile.view<[?], i32>) grid(%i = 1, %j = 2) {
  // expected-error @+1 {{with 'listed' needs the first number of the kernel's grid, but got another value}}
  %number = tile.any_order %j listed %list : !tile.view<[?], i32>
}
