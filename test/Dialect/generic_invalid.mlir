// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes, operands and regions that only the generic form can express. All of them are rejected, without a crash,
// also when the invalid operation is printed.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics
// RUN: not tilewright-opt %s -split-input-file 2>&1 | FileCheck %s
// CHECK: error: 'tile.kernel' op requires attribute 'arg_names'
// CHECK: note: see current operation:
// CHECK: error: 'tile.for_blocks' op has malformed positions
// CHECK: note: see current operation:

// expected-error @+1 {{requires attribute 'arg_names'}}
"tile.kernel"() ({}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tile.kernel"() <{sym_name = "k", params = [1], constraints = [], arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%i: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tile.kernel"() <{sym_name = "k", params = [], constraints = [], arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [1]}> ({^bb0(%i: i32):}) : () -> ()

// -----

// Names must be identifiers.
// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tile.kernel"() <{sym_name = "k", params = [], constraints = [], arg_names = ["a b"], arg_optional = array<i1: false>, grid_names = [], grid = []}> ({^bb0(%x: i32):}) : () -> ()

// -----

// expected-error @+1 {{has malformed attributes; use its custom assembly format}}
"tile.kernel"() <{sym_name = "k", params = [], constraints = [], arg_names = ["x"], arg_optional = array<i1>, grid_names = [], grid = []}> ({^bb0(%x: i32):}) : () -> ()

// -----

// expected-error @+1 {{needs a body with 1 block arguments, but got 0}}
"tile.kernel"() <{sym_name = "k", params = [], constraints = [], arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0:}) : () -> ()

// -----

// expected-error @+1 {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
"tile.kernel"() <{sym_name = "k", params = [], constraints = [], arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({}) : () -> ()

// -----

// expected-error @+1 {{grid ids must be i32, but got 'index'}}
"tile.kernel"() <{sym_name = "k", params = [], constraints = [], arg_names = [], arg_optional = array<i1>, grid_names = ["i"], grid = [#tile.expr<1>]}> ({^bb0(%i: index):}) : () -> ()

// -----

// expected-error @+1 {{requires attribute 'arg_names'}}
"tile.program"() ({}) : () -> ()

// -----

// expected-error @+1 {{needs a body with 0 block arguments, but got 1}}
"tile.program"() <{sym_name = "p", params = [], constraints = [], arg_names = [], arg_optional = array<i1>}> ({^bb0(%x: i32):}) : () -> ()

// -----

tile.program @p () {
  // expected-error @+1 {{extents must be expressions, but got 1 : i64}}
  %0 = "tile.workspace"() <{extents = [1]}> : () -> !tile.view<[?], f32>
}

// -----

tile.program @p () {
  // expected-error @+1 {{has a malformed 'with' clause; use its custom assembly format}}
  "tile.launch"() <{kernel = @k, with_names = ["A"], with_values = []}> : () -> ()
}

// -----

// expected-error @+1 {{requires attribute 'expr'}}
%0 = "tile.param"() : () -> i32

// -----

func.func @at_segments() {
  // expected-error @+1 {{operand count (0) does not match with the total size (5)}}
  %0 = "tile.at"() <{operandSegmentSizes = array<i32: 5, 0>, static_indices = array<i64>}> : () -> f32
}

// -----

func.func @load_without_attributes(%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{requires attribute 'static_indices'}}
  %0 = "tile.load"(%x) <{operandSegmentSizes = array<i32: 1, 0, 0>}> : (!tile.view<[?], f32>) -> tensor<4xf32>
}

// -----

func.func @too_few_dynamic_indices(%x: !tile.view<[?], f32>, %t: tensor<4xf32>) {
  // expected-error @+1 {{has malformed indices; use its custom assembly format}}
  "tile.store"(%t, %x) <{static_indices = array<i64: -9223372036854775808>}> : (tensor<4xf32>, !tile.view<[?], f32>) -> ()
}

// -----

func.func @loop_without_block(%n: i32) {
  // expected-error @+1 {{region #0 ('body') failed to verify constraint: region with 1 blocks}}
  "tile.for_blocks"(%n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({}) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @loop_with_empty_block(%n: i32) {
  // expected-error @+1 {{expects a non-empty block}}
  "tile.for_blocks"(%n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({^bb0:}) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @loop_without_arguments(%n: i32) {
  // expected-error @+1 {{needs a body that takes the block (i32), the mask tile and one value for each initial value, but got ()}}
  "tile.for_blocks"(%n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @loop_over_index(%n: i32) {
  // expected-error @+1 {{needs a body that takes the block (i32), the mask tile and one value for each initial value, but got ('index', 'tensor<4x4xi1>')}}
  "tile.for_blocks"(%n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%b: index, %keep: tensor<4x4xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @loop_without_terminator(%n: i32) {
  "tile.for_blocks"(%n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%b: i32, %keep: tensor<4x4xi1>):
    // expected-error @+1 {{block with no terminator}}
    %0 = "arith.addi"(%b, %b) : (i32, i32) -> i32
  }) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @count_without_list(%n: i32) {
  // expected-error @+1 {{needs a list with its indices and its count, or none of them, but got a part of these}}
  "tile.for_blocks"(%n, %n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 1, 0, 0, 0>}> ({
  ^bb0(%b: i32, %keep: tensor<4x4xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32, i32) -> ()
}

// -----

func.func @indices_without_list(%n: i32) {
  // expected-error @+1 {{needs a list with its indices and its count, or none of them, but got a part of these}}
  "tile.for_blocks"(%n, %n, %n, %n, %n) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 1, 0, 0, 0, 0>}> ({
  ^bb0(%b: i32, %keep: tensor<4x4xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32, i32) -> ()
}

// -----

func.func @ascending_with_condition(%n: i32, %down: i1) {
  // expected-error @+1 {{has a condition of its order, but is ascending; use its custom assembly format}}
  "tile.for_blocks"(%n, %n, %n, %n, %down) <{operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 1, 0, 0>}> ({
  ^bb0(%block: i32, %keep: tensor<4x8xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32, i1) -> ()
  return
}

// -----

func.func @ranges_without_mask(%n: i32) {
  // expected-error @+1 {{must have a mask function for its 'where' clause, but got none}}
  "tile.for_blocks"(%n, %n, %n, %n) <{ranges = @r, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%b: i32, %keep: tensor<4x4xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @malformed_positions(%n: i32) {
  // expected-error @+1 {{has malformed positions in its mask function; use its custom assembly format}}
  "tile.for_blocks"(%n, %n, %n, %n) <{mask = @f, against_position = 9223372036854775807 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%b: i32, %keep: tensor<4x4xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @equal_positions(%n: i32) {
  // expected-error @+1 {{has malformed positions in its mask function; use its custom assembly format}}
  "tile.for_blocks"(%n, %n, %n, %n) <{mask = @f, against_position = 1 : i64, operandSegmentSizes = array<i32: 1, 1, 1, 1, 0, 0, 0, 0, 0, 0>}> ({
  ^bb0(%b: i32, %keep: tensor<4x4xi1>):
    "tile.yield"() : () -> ()
  }) : (i32, i32, i32, i32) -> ()
}

// -----

func.func @kept_operands_without_mask(%n: i32) {
  // expected-error @+1 {{must have a mask function for its 'where' clause, but got none}}
  %0:2 = "tile.kept_range"(%n, %n, %n, %n, %n) : (i32, i32, i32, i32, i32) -> (i32, i32)
}

// -----

func.func @kept_condition_without_mask(%n: i32) {
  // expected-error @+1 {{must have a mask function for its 'where' clause, but got none}}
  %0:2 = "tile.kept_range"(%n, %n, %n, %n) <{mask_condition = #tile.expr<1>}> : (i32, i32, i32, i32) -> (i32, i32)
}

// -----

func.func @kept_equal_positions(%n: i32) {
  // expected-error @+1 {{has malformed positions in its mask function; use its custom assembly format}}
  %0:2 = "tile.kept_range"(%n, %n, %n, %n) <{mask = @f, against_position = 1 : i64}> : (i32, i32, i32, i32) -> (i32, i32)
}

// -----

func.func @kept_position_behind_operands(%n: i32) {
  // expected-error @+1 {{has malformed positions in its mask function; use its custom assembly format}}
  %0:2 = "tile.kept_range"(%n, %n, %n, %n) <{mask = @f, block_position = 2 : i64}> : (i32, i32, i32, i32) -> (i32, i32)
}

// -----

// The parser reads a float literal for the default of a float argument.
// expected-error @+1 {{the default of argument 'x' must be a float, but got true}}
"tile.kernel"() <{
  arg_defaults = {x = true}, arg_names = ["x"], arg_optional = array<i1: false>, constraints = [],
  grid = [#tile.expr<1>], grid_names = ["i"], params = [], sym_name = "k"
}> ({
^bb0(%x: f32, %i: i32):
}) : () -> ()
