// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid memory accesses.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// One element.
func.func @at_rank(%x: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 2, but got 1 index}}
  %0 = tile.at %x[0] : !tile.view<[?, ?], f32>
}

// -----

func.func @at_beyond_i32(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{indices are i32, but got 4294967296}}
  %0 = tile.at %x[4294967296] : !tile.view<[?], f32>
}

// -----

func.func @at_of_scalar(%x: f32) {
  // expected-error @+1 {{requires a view or a capture, but got 'f32'}}
  %0 = tile.at %x[] : f32
}

// -----

func.func @at_result(%x: !tile.view<[], f32>) {
  // expected-error @+1 {{reads an element of '!tile.view<[], f32>', but its result is 'f16'}}
  %0 = "tile.at"(%x) <{operandSegmentSizes = array<i32: 1, 0>, static_indices = array<i64>}> : (!tile.view<[], f32>) -> f16
}

// -----

tile.capture @c : f32
func.func @at_both(%x: !tile.view<[], f32>) {
  // expected-error @+1 {{requires either a view or a capture, but got both or neither}}
  %0 = "tile.at"(%x) <{capture = @c, operandSegmentSizes = array<i32: 1, 0>, static_indices = array<i64>}> : (!tile.view<[], f32>) -> f32
}

// -----

func.func @at_neither() {
  // expected-error @+1 {{requires either a view or a capture, but got both or neither}}
  %0 = "tile.at"() <{operandSegmentSizes = array<i32: 0, 0>, static_indices = array<i64>}> : () -> f32
}

// -----

func.func @at_unknown() {
  // expected-error @+1 {{must read a tile.capture of this module, but got @c; declare it by tile.capture @c}}
  %0 = tile.at @c : f32
  return
}

// -----

func.func private @c()
func.func @at_function() {
  // expected-error @+1 {{must read a tile.capture of this module, but got @c; declare it by tile.capture @c}}
  %0 = tile.at @c : f32
  return
}

// -----

tile.capture @c : !tile.view<[?], f32>
func.func @at_rank_of_capture() {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 1, but got 0 indices}}
  %0 = tile.at @c : f32
  return
}

// -----

tile.capture @c : f32
func.func @at_indices_of_scalar() {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 0, but got 1 index}}
  %0 = tile.at @c[0] : f32
  return
}

// -----

tile.capture @c : !tile.view<[?], f32>
func.func @at_elements_of_capture() {
  // expected-error @+1 {{reads an element of @c, which is '!tile.view<[?], f32>', but its result is 'i32'}}
  %0 = tile.at @c[0] : i32
  return
}

// -----

func.func @malformed_indices(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{has malformed indices; use its custom assembly format}}
  %0 = tile.at %x[-9223372036854775808] : !tile.view<[?], f32>
}

// -----

// Views.
func.func @subview_rank(%x: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{must name one of the 1 dimensions of its view, counted from 0, but got 1}}
  %0 = tile.subview %x dim 1 from %i size %i : !tile.view<[?], f32>
}

// -----

func.func @subview_of_fixed(%x: !tile.view<[?, D], f32>, %i: i32) {
  // expected-error @+1 {{restricts dimension 1, which must be '?' since its extent changes, but got '!tile.view<[?, D], f32>'}}
  %0 = tile.subview %x dim 1 from %i size %i : !tile.view<[?, D], f32>
}

// -----

func.func @subview_type(%x: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{failed to verify that all of {source, result} have same type}}
  %0 = "tile.subview"(%x, %i, %i) <{dim = 0 : i64}> : (!tile.view<[?], f32>, i32, i32) -> !tile.view<[?], f16>
}

// -----

func.func @subview_condition(%x: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{the condition of a part must be of kind flag, but got kind int}}
  %0 = tile.subview %x dim 0 from %i size %i when (1) : !tile.view<[?], f32>
}

// -----

func.func @repeat_rank(%x: !tile.view<[?], f32>, %i: i32, %c: i1) {
  // expected-error @+1 {{must name one of the 1 dimensions of its view, counted from 0, but got 1}}
  %0 = tile.repeat %x dim 1 at %i when %c : !tile.view<[?], f32>
}

// -----

func.func @repeat_of_fixed(%x: !tile.view<[?, D], f32>, %i: i32, %c: i1) {
  // expected-error @+1 {{repeats an element along dimension 1, which must be '?' since its extent changes, but got '!tile.view<[?, D], f32>'}}
  %0 = tile.repeat %x dim 1 at %i when %c : !tile.view<[?, D], f32>
}

// -----

func.func @captured_nothing() {
  // expected-error @+1 {{requires @nothing to be a tile.capture of the result's type, '!tile.view<[?], f32>', but got no capture of this module}}
  %0 = tile.captured @nothing : !tile.view<[?], f32>
  return
}

// -----

tile.capture @scalar : f32
func.func @captured_scalar() {
  // expected-error @+1 {{requires @scalar to be a tile.capture of the result's type, '!tile.view<[?], f32>', but got a capture of 'f32'}}
  %0 = tile.captured @scalar : !tile.view<[?], f32>
  return
}

// -----

tile.capture @halves : !tile.view<[?], f16>
func.func @captured_type() {
  // expected-error @+1 {{but got a capture of '!tile.view<[?], f16>'}}
  %0 = tile.captured @halves : !tile.view<[?], f32>
  return
}

// -----

func.func @dim_rank(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{must name one of the 1 dimensions of its view, counted from 0, but got -1}}
  %0 = tile.dim %x, -1 : !tile.view<[?], f32>
}

// -----

// Loads.
func.func @load_indices(%x: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 2, but got 3 indices}}
  %0 = tile.load %x[0, 0, 0] : !tile.view<[?, ?], f32> -> !tile.tile<[4], f32>
}

// -----

func.func @load_beyond_i32(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{indices are i32, but got 2147483648}}
  %0 = tile.load %x[2147483648] : !tile.view<[?], f32> -> !tile.tile<[4], f32>
}

// -----

func.func @load_rank(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{needs a tile of at most rank 1, that of its view, but got rank 2}}
  %0 = tile.load %x[0] : !tile.view<[?], f32> -> !tile.tile<[4, 4], f32>
}

// -----

func.func @load_number_of_dims(%x: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{'dims' must list one dimension of the view for each of the tile's 1, but got 2}}
  %0 = tile.load %x[0, 0] dims [0, 1] : !tile.view<[?, ?], f32> -> !tile.tile<[4], f32>
}

// -----

func.func @load_dims_out_of_range(%x: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{must name one of the 2 dimensions of its view, counted from 0, but got 2}}
  %0 = tile.load %x[0, 0] dims [2] : !tile.view<[?, ?], f32> -> !tile.tile<[4], f32>
}

// -----

func.func @load_repeated_dims(%x: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{'dims' must list each dimension once, but got 1 twice}}
  %0 = tile.load %x[0, 0] dims [1, 1] : !tile.view<[?, ?], f32> -> !tile.tile<[4, 4], f32>
}

// -----

func.func @load_elements(%x: !tile.view<[?], T>) {
  // expected-error @+1 {{view and tile must have the same elements, but got '!tile.param<T>' and 'f32'; convert the tile with tile.cast}}
  %0 = tile.load %x[0] : !tile.view<[?], T> -> !tile.tile<[4], f32>
}

// -----

func.func @load_pad(%x: !tile.view<[?], f16>, %pad: f32) {
  // expected-error @+1 {{pad must be of the type of the elements, 'f16', but got 'f32'}}
  %0 = tile.load %x[0] pad %pad : f32 in : !tile.view<[?], f16> -> !tile.tile<[4], f16>
}

// -----

func.func @load_of_tile(%x: !tile.tile<[4], f32>) {
  // expected-error @+1 {{operand #0 must be a view, but got '!tile.tile<[4], f32>'}}
  %0 = tile.load %x[0] : !tile.tile<[4], f32> -> !tile.tile<[4], f32>
}

// -----

// Stores.
func.func @store_indices(%t: tensor<4xf32>, %x: !tile.view<[?], f32>) {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 1, but got 0 indices}}
  tile.store %t, %x[] : tensor<4xf32>, !tile.view<[?], f32>
}

// -----

func.func @store_rank(%t: tensor<4x4xf32>, %x: !tile.view<[?], f32>) {
  // expected-error @+1 {{needs a tile of at most rank 1, that of its view, but got rank 2}}
  tile.store %t, %x[0] : tensor<4x4xf32>, !tile.view<[?], f32>
}

// -----

func.func @store_dims(%t: tensor<4x4xf32>, %x: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{'dims' must list each dimension once, but got 0 twice}}
  tile.store %t, %x[0, 0] dims [0, 0] : tensor<4x4xf32>, !tile.view<[?, ?], f32>
}

// -----

func.func @store_elements(%t: tensor<4xf32>, %x: !tile.view<[?], f16>) {
  // expected-error @+1 {{view and tile must have the same elements, but got 'f16' and 'f32'; convert the tile with tile.cast}}
  tile.store %t, %x[0] : tensor<4xf32>, !tile.view<[?], f16>
}

// -----

// Atomic additions.
func.func @atomic_indices(%t: tensor<4xf32>, %x: !tile.view<[?], f32>) {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 1, but got 2 indices}}
  tile.atomic_add %t, %x[0, 0] : tensor<4xf32>, !tile.view<[?], f32>
}

// -----

func.func @atomic_elements(%t: tensor<4xi64>, %x: !tile.view<[?], i64>) {
  // expected-error @+1 {{requires elements of f32, f64, f16, bf16 or i32, but got 'i64'}}
  tile.atomic_add %t, %x[0] : tensor<4xi64>, !tile.view<[?], i64>
}

// -----

func.func @turns_of_floats(%t: tensor<4xf32>, %x: !tile.view<[?], f32>, %n: i32) {
  // expected-error @+1 {{requires a view of i32 for its turns, but got '!tile.view<[?], f32>'}}
  tile.atomic_add %t, %x[0] in order of %n by %x[0] : tensor<4xf32>, !tile.view<[?], f32>, !tile.view<[?], f32>
}

// -----

func.func @index_of_turns(%t: tensor<4xf32>, %x: !tile.view<[?], f32>, %turns: !tile.view<[?, ?], i32>, %n: i32) {
  // expected-error @+1 {{needs one index for each dimension of its view: rank 2, but got 1 index}}
  tile.atomic_add %t, %x[0] in order of %n by %turns[%n] : tensor<4xf32>, !tile.view<[?], f32>, !tile.view<[?, ?], i32>
}

// -----

func.func @number_alone(%t: tensor<4xf32>, %x: !tile.view<[?], f32>, %n: i32) {
  // expected-error @+1 {{requires a view of i32 for its turns, but got none}}
  "tile.atomic_add"(%t, %x, %n) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 0, 0>, static_indices = array<i64: 0>}> : (tensor<4xf32>, !tile.view<[?], f32>, i32) -> ()
}

// -----

func.func @await_outside(%turns: !tile.view<[?], i32>, %n: i32) {
  // expected-error @+1 {{'tile.await' op is allowed only inside tile.spread, since instances that wait for each other may deadlock}}
  tile.await %n of %turns[%n] : !tile.view<[?], i32>
}

// -----

func.func @await_floats(%turns: !tile.view<[?], f32>, %n: i32) {
  tile.spread %m to %n {
    // expected-error @+1 {{'tile.await' op requires a view of i32 for its turns, but got '!tile.view<[?], f32>'}}
    tile.await %n of %turns[%m] : !tile.view<[?], f32>
  }
}

// -----

func.func @await_index(%turns: !tile.view<[?, ?], i32>, %n: i32) {
  tile.spread %m to %n {
    // expected-error @+1 {{'tile.await' op needs one index for each dimension of its view: rank 2, but got 1 index}}
    tile.await %n of %turns[%m] : !tile.view<[?, ?], i32>
  }
}

// -----

func.func @added_after_spread(%x: !tile.view<[?], f32>, %turns: !tile.view<[?], i32>, %t: tensor<4xf32>, %n: i32) {
  tile.spread %m to %n {
    // expected-note @+1 {{awaited here}}
    tile.await %n of %turns[%m] : !tile.view<[?], i32>
  }
  // expected-error @+1 {{'tile.atomic_add' op must precede the tile.spread that waits for it, but is after; move it before the tile.spread}}
  tile.atomic_add %t, %x[0] in order of %n by %turns[%n] : tensor<4xf32>, !tile.view<[?], f32>, !tile.view<[?], i32>
}

// -----

func.func @added_inside_spread(%x: !tile.view<[?], f32>, %turns: !tile.view<[?], i32>, %t: tensor<4xf32>, %n: i32) {
  tile.spread %m to %n {
    // expected-note @+1 {{awaited here}}
    tile.await %n of %turns[%m] : !tile.view<[?], i32>
    // expected-error @+1 {{'tile.atomic_add' op must precede the tile.spread that waits for it, but is inside; move it before the tile.spread}}
    tile.atomic_add %t, %x[0] in order of %m by %turns[%n] : tensor<4xf32>, !tile.view<[?], f32>, !tile.view<[?], i32>
  }
}

// -----

// If tile.spread is in a branch, the order is determined by the branch and the loop around the addition.
func.func @added_in_a_later_branch(%x: !tile.view<[?], f32>, %turns: !tile.view<[?], i32>, %t: tensor<4xf32>, %n: i32, %c: i1) {
  scf.if %c {
    tile.spread %m to %n {
      // expected-note @+1 {{awaited here}}
      tile.await %n of %turns[%m] : !tile.view<[?], i32>
    }
  }
  scf.for %i = %n to %n step %n : i32 {
    // expected-error @+1 {{'tile.atomic_add' op must precede the tile.spread that waits for it, but is after}}
    tile.atomic_add %t, %x[0] in order of %i by %turns[%n] : tensor<4xf32>, !tile.view<[?], f32>, !tile.view<[?], i32>
  }
}

// -----

// Gathers.
func.func @gather_elements(%x: !tile.view<[?], f16>, %at: tensor<4xi32>) {
  // expected-error @+1 {{view and tile must have the same elements, but got 'f16' and 'f32'; convert the tile with tile.cast}}
  %0 = tile.gather %x[0] along 0 at %at : !tile.view<[?], f16>, tensor<4xi32> -> tensor<4xf32>
}

// -----

func.func @gather_rank_of_indices(%x: !tile.view<[?], f32>, %at: tensor<4x1xi32>) {
  // expected-error @+1 {{indices must be a tile of [4] i32, but got 'tensor<4x1xi32>'}}
  %0 = tile.gather %x[0] along 0 at %at : !tile.view<[?], f32>, tensor<4x1xi32> -> tensor<4xf32>
}

// -----

func.func @gather_type_of_indices(%x: !tile.view<[?], f32>, %at: tensor<4xi64>) {
  // expected-error @+1 {{indices must be a tile of [4] i32, but got 'tensor<4xi64>'}}
  %0 = tile.gather %x[0] along 0 at %at : !tile.view<[?], f32>, tensor<4xi64> -> tensor<4xf32>
}

// -----

func.func @gather_number_of_indices(%x: !tile.view<[?, ?], f32>, %at: !tile.tile<[M], i32>) {
  // expected-error @+1 {{indices must be a tile of [N] i32, but got '!tile.tile<[M], i32>'}}
  %0 = tile.gather %x[0, 0] along 0 at %at : !tile.view<[?, ?], f32>, !tile.tile<[M], i32> -> !tile.tile<[N, M], f32>
}

// -----

// The tile runs along the last dimension.
func.func @gather_along(%x: !tile.view<[?, ?], f32>, %at: tensor<4xi32>) {
  // expected-error @+1 {{must index along a dimension of the tile, one of [1], but got 0}}
  %0 = tile.gather %x[0, 0] along 0 at %at : !tile.view<[?, ?], f32>, tensor<4xi32> -> tensor<4xf32>
}

// -----

// Scattered additions.
func.func @scatter_rank(%t: tensor<4x4xf32>, %x: !tile.view<[?], f32>, %at: tensor<4xi32>) {
  // expected-error @+1 {{needs a tile of at most rank 1, that of its view, but got rank 2}}
  tile.scatter_add %t, %x[0] along 0 at %at : tensor<4x4xf32>, !tile.view<[?], f32>, tensor<4xi32>
}

// -----

func.func @scatter_elements(%t: tensor<4xf8E5M2>, %x: !tile.view<[?], f8E5M2>, %at: tensor<4xi32>) {
  // expected-error @+1 {{requires elements of f32, f64, f16, bf16 or i32, but got 'f8E5M2'}}
  tile.scatter_add %t, %x[0] along 0 at %at : tensor<4xf8E5M2>, !tile.view<[?], f8E5M2>, tensor<4xi32>
}

// -----

func.func @scatter_along(%t: tensor<4xf32>, %x: !tile.view<[?, ?], f32>, %at: tensor<4xi32>) {
  // expected-error @+1 {{must index along a dimension of the tile, one of [1], but got 7}}
  tile.scatter_add %t, %x[0, 0] along 7 at %at : tensor<4xf32>, !tile.view<[?, ?], f32>, tensor<4xi32>
}

// -----

func.func @scatter_indices(%t: tensor<4xf32>, %x: !tile.view<[?], f32>, %at: tensor<8xi32>) {
  // expected-error @+1 {{indices must be a tile of [4] i32, but got 'tensor<8xi32>'}}
  tile.scatter_add %t, %x[0] along 0 at %at : tensor<4xf32>, !tile.view<[?], f32>, tensor<8xi32>
}

// -----

func.func @dim_of_nothing() {
  // expected-error @+1 {{requires either a view or a capture, but got both or neither}}
  %0 = "tile.dim"() <{dim = 0 : i64}> : () -> i32
}

// -----

func.func @dim_of_no_capture() {
  // expected-error @+1 {{requires @x to be a tile.capture of a view, but got no capture of this module}}
  %0 = tile.dim @x, 0
  return
}

// -----

tile.capture @x : f32
func.func @dim_of_a_scalar() {
  // expected-error @+1 {{requires @x to be a tile.capture of a view, but got a capture of a scalar}}
  %0 = tile.dim @x, 0
  return
}

// -----

tile.capture @x : !tile.view<[?], f32>
func.func @dim_beyond_the_capture() {
  // expected-error @+1 {{must name one of the 1 dimensions of its capture, counted from 0, but got 1}}
  %0 = tile.dim @x, 1
  return
}

// -----

func.func @paged_rank(%x: !tile.view<[?], f32>, %b: i32) {
  // expected-error @+1 {{result must be a view like the pool, with '?' in place of its first two dimensions, but got '!tile.view<[?], f32>' and '!tile.view<[?], f32>'}}
  %0 = tile.paged %x page %b size %b : !tile.view<[?], f32> -> !tile.view<[?], f32>
}

// -----

func.func @paged_other_width(%x: !tile.view<[?, ?, 64], f32>, %b: i32) {
  // expected-error @+1 {{result must be a view like the pool, with '?' in place of its first two dimensions, but got}}
  %0 = tile.paged %x page %b size %b : !tile.view<[?, ?, 64], f32> -> !tile.view<[?, 32], f32>
}

// -----

func.func @paged_known_rows(%x: !tile.view<[?, ?, 64], f32>, %b: i32) {
  // expected-error @+1 {{result must be a view like the pool, with '?' in place of its first two dimensions, but got}}
  %0 = tile.paged %x page %b size %b : !tile.view<[?, ?, 64], f32> -> !tile.view<[16, 64], f32>
}

// -----

func.func @paged_other_elements(%x: !tile.view<[?, ?, 64], f32>, %b: i32) {
  // expected-error @+1 {{result must be a view like the pool, with '?' in place of its first two dimensions, but got}}
  %0 = tile.paged %x page %b size %b : !tile.view<[?, ?, 64], f32> -> !tile.view<[?, 64], bf16>
}

// -----

func.func @paged_table_rank(%x: !tile.view<[?, ?, 64], f32>, %t: !tile.view<[?], i32>, %b: i32) {
  // expected-error @+1 {{table must be a view of rank 2 (one more than its indices) of i32, but got '!tile.view<[?], i32>'}}
  %0 = tile.paged %x page %b by %t[%b] each 16 size %b : !tile.view<[?, ?, 64], f32>, !tile.view<[?], i32> -> !tile.view<[?, 64], f32>
}

// -----

func.func @paged_table_elements(%x: !tile.view<[?, ?, 64], f32>, %t: !tile.view<[?, ?], i64>, %b: i32) {
  // expected-error @+1 {{table must be a view of rank 2 (one more than its indices) of i32, but got '!tile.view<[?, ?], i64>'}}
  %0 = tile.paged %x page %b by %t[%b] each 16 size %b : !tile.view<[?, ?, 64], f32>, !tile.view<[?, ?], i64> -> !tile.view<[?, 64], f32>
}

// -----

func.func @paged_each(%x: !tile.view<[?, ?, 64], f32>, %t: !tile.view<[?, ?], i32>, %b: i32) {
  // expected-error @+1 {{needs an 'each' of at least 1 row, but got 0}}
  %0 = tile.paged %x page %b by %t[%b] each 0 size %b : !tile.view<[?, ?, 64], f32>, !tile.view<[?, ?], i32> -> !tile.view<[?, 64], f32>
}

// -----

func.func @paged_without_each(%x: !tile.view<[?, ?, 64], f32>, %t: !tile.view<[?, ?], i32>, %b: i32) {
  // expected-error @+1 {{has a table without 'each'; state how many rows are together, at least 1}}
  %0 = "tile.paged"(%x, %b, %t, %b, %b) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 1>}> : (!tile.view<[?, ?, 64], f32>, i32, !tile.view<[?, ?], i32>, i32, i32) -> !tile.view<[?, 64], f32>
}

// -----

func.func @paged_without_table(%x: !tile.view<[?, ?, 64], f32>, %b: i32) {
  // expected-error @+1 {{must have a table for its indices, 'each' or 'when', but got none}}
  %0 = "tile.paged"(%x, %b, %b, %b) <{operandSegmentSizes = array<i32: 1, 1, 0, 1, 1>}> : (!tile.view<[?, ?, 64], f32>, i32, i32, i32) -> !tile.view<[?, 64], f32>
}

// -----

func.func @paged_condition(%x: !tile.view<[?, ?, 64], f32>, %t: !tile.view<[?, ?], i32>, %b: i32) {
  // expected-error @+1 {{the condition of its table must be of kind flag, but got kind int}}
  %0 = tile.paged %x page %b by %t[%b] each 16 when (16) size %b : !tile.view<[?, ?, 64], f32>, !tile.view<[?, ?], i32> -> !tile.view<[?, 64], f32>
}

// -----

func.func @paged_use(%x: !tile.view<[?, ?, 64], f32>, %b: i32) {
  // expected-error @+1 {{result may be used by 'tile.load' along dimension 0 and by 'tile.dim' only, but got 'tile.at'}}
  %0 = tile.paged %x page %b size %b : !tile.view<[?, ?, 64], f32> -> !tile.view<[?, 64], f32>
  // expected-note @+1 {{this use}}
  %1 = tile.at %0[%b, 3] : !tile.view<[?, 64], f32>
}

// -----

func.func @paged_one_row(%x: !tile.view<[?, ?, 64], f32>, %b: i32) {
  // expected-error @+1 {{result may be used by 'tile.load' along dimension 0 and by 'tile.dim' only, but got 'tile.load'}}
  %0 = tile.paged %x page %b size %b : !tile.view<[?, ?, 64], f32> -> !tile.view<[?, 64], f32>
  // expected-note @+1 {{this use}}
  %1 = tile.load %0[%b, 0] : !tile.view<[?, 64], f32> -> !tile.tile<[64], f32>
}

// -----

func.func @formula_as_index(%x: !tile.view<[?, ?], f32>, %i: i32) {
  // expected-error @+1 {{an index must be a value or an integer, but got '*'; for a formula, write a statement '%x = tile.expr ...' before it and give %x}}
  %0 = tile.load %x[0, %i * 2] : !tile.view<[?, ?], f32> -> tensor<4xf32>
}

// -----

func.func @call_as_index(%x: !tile.view<[?], f32>, %i: i32) {
  // expected-error @+1 {{an index must be a value or an integer, but got 'min'; for a formula, write a statement '%x = tile.expr ...' before it and give %x}}
  %0 = tile.load %x[min(%i, 2)] : !tile.view<[?], f32> -> tensor<4xf32>
}
