// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid block loops, tile.kept_range and tile.spread operations.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// The mask tile.
func.func @keep_rank(%n: i32) {
  // expected-error @+1 {{keep must be a tile of i1 of rank 2, but got '!tile.tile<[N], i1>'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : !tile.tile<[N], i1> {}
}

// -----

func.func @keep_elements(%n: i32) {
  // expected-error @+1 {{keep must be a tile of i1 of rank 2, but got 'tensor<4x4xi32>'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi32> {}
}

// -----

func.func @keep_scalar(%n: i32) {
  // expected-error @+1 {{keep must be a tile of i1 of rank 2, but got 'i1'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : i1 {}
}

// -----

// The mask function.
func.func @unknown_mask(%n: i32) {
  // expected-error @+1 {{must mask by a function of this module, but got @f; define it, or link the file that does}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(against, block)
      keep %keep : tensor<4x4xi1> {}
  return
}

// -----

func.func private @f(i32, i32) -> i32
func.func @mask_result(%n: i32) {
  // expected-error @+1 {{needs mask function @f of type '(i32, i32) -> i1', but it is '(i32, i32) -> i32'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(against, block)
      keep %keep : tensor<4x4xi1> {}
  return
}

// -----

func.func private @f(i32, i32) -> i1
func.func @mask_operands(%n: i32, %x: f32) {
  // expected-error @+1 {{needs mask function @f of type '(i32, f32, i32) -> i1', but it is '(i32, i32) -> i1'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(against, %x, block : f32)
      keep %keep : tensor<4x4xi1> {}
  return
}

// -----

func.func @without_block(%n: i32) {
  // expected-error @+1 {{the mask function must be given both positions, 'against' and 'block', but got only 'against'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(against)
      keep %keep : tensor<4x4xi1> {}
}

// -----

func.func @without_against(%n: i32) {
  // expected-error @+1 {{the mask function must be given both positions, 'against' and 'block', but got only 'block'}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(%n, block : i32)
      keep %keep : tensor<4x4xi1> {}
}

// -----

func.func @position_twice(%n: i32) {
  // expected-error @+1 {{'against' and 'block' may each be given once, but got 'block' twice}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(against, block, block)
      keep %keep : tensor<4x4xi1> {}
}

// -----

func.func private @f(i32, i32) -> i1
func.func private @r(i32, i32) -> i1
func.func @ranges(%n: i32) {
  // expected-error @+1 {{needs ranges in the form that tile-analyze-masks generates, but got @r; omit them: the pass adds them}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) where @f(against, block) ranges @r
      keep %keep : tensor<4x4xi1> {}
  return
}

// -----

// Carried values.
func.func @yields_nothing(%n: i32) {
  // expected-error @+1 {{initial, yielded and result values must have the same types, but got ('i32'), () and ('i32')}}
  %0 = tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi1>
      iter_args(%x = %n : i32) {}
}

// -----

func.func @yields_other_type(%n: i32, %y: i64) {
  // expected-error @+1 {{0-th region iter_arg and 0-th yielded value have different type: 'i32' != 'i64'}}
  %0 = tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi1>
      iter_args(%x = %n : i32) {
    tile.yield %y : i64
  }
}

// -----

func.func @yields_more(%n: i32) {
  // expected-error @+1 {{different number of region iter_args and yielded values: 0 != 1}}
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi1> {
    tile.yield %n : i32
  }
}

// -----

func.func @yield_elsewhere() {
  // expected-error @+1 {{'tile.yield' op expects parent op to be one of 'tile.accumulate, tile.if, tile.expr, tile.for_blocks, tile.for, tile.result, tile.spread, tile.store_form, tile.yield'}}
  tile.yield
}

// -----

func.func @yield_in_branch(%n: i32, %c: i1) {
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi1> {
    scf.if %c {
      // expected-error @+1 {{'tile.yield' op expects parent op to be one of 'tile.accumulate, tile.if, tile.expr, tile.for_blocks, tile.for, tile.result, tile.spread, tile.store_form, tile.yield'}}
      tile.yield
    }
  }
}

// -----

// Lists.
func.func @list_rank(%n: i32, %list: !tile.view<[?], i32>) {
  // expected-error @+1 {{list must be a view of rank 2 (one more than its indices) of i32, but got '!tile.view<[?], i32>'}}
  tile.for_blocks %b in (%n to %n listed %list[%n] count %n : !tile.view<[?], i32>)
      against (%n to %n) keep %keep : tensor<4x4xi1> {}
}

// -----

func.func @list_elements(%n: i32, %list: !tile.view<[?], i64>) {
  // expected-error @+1 {{list must be a view of rank 1 (one more than its indices) of i32, but got '!tile.view<[?], i64>'}}
  tile.for_blocks %b in (%n to %n listed %list[] count %n : !tile.view<[?], i64>)
      against (%n to %n) keep %keep : tensor<4x4xi1> {}
}

// -----

func.func @list_span(%n: i32, %list: !tile.view<[?], i32>) {
  // expected-error @+1 {{each entry of its list must cover a multiple of the 16 positions of a block, but got 'each 24'; choose a block that divides it}}
  tile.for_blocks %b in (%n to %n listed %list[] count %n each 24 : !tile.view<[?], i32>)
      against (%n to %n) keep %keep : tensor<4x16xi1> {}
}

// -----

func.func @list_span_of_none(%n: i32, %list: !tile.view<[?], i32>) {
  // expected-error @+1 {{each entry of its list must cover a multiple of the 16 positions of a block, but got 'each 0'}}
  tile.for_blocks %b in (%n to %n listed %list[] count %n each 0 : !tile.view<[?], i32>)
      against (%n to %n) keep %keep : tensor<4x16xi1> {}
}

// -----

tile.kernel @list_span_kind params(P: flag) (%list: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{'each' of its list must be of kind int, but got kind flag}}
  tile.for_blocks %b in (%i to %i listed %list[] count %i each P : !tile.view<[?], i32>)
      against (%i to %i) keep %keep : tensor<4x16xi1> {}
}

// -----

tile.kernel @list_condition_name params(P: flag) (%list: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{the condition of its list names 'Q'}}
  tile.for_blocks %b in (%i to %i listed %list[] count %i when (Q) : !tile.view<[?], i32>)
      against (%i to %i) keep %keep : tensor<4x16xi1> {}
}

// -----

func.func private @causal(i32, i32) -> i1
tile.kernel @mask_condition_name params(P: flag) () grid(%i = 1) {
  // expected-error @+1 {{the condition of its mask names 'Q'}}
  tile.for_blocks %b in (%i to %i) against (%i to %i) where @causal(against, block) when (Q)
      keep %keep : tensor<4x16xi1> {}
}

// -----

func.func private @causal(i32, i32) -> i1
tile.kernel @mask_condition_kind params(P: int) () grid(%i = 1) {
  // expected-error @+1 {{the condition of its mask must be of kind flag, but got kind int}}
  tile.for_blocks %b in (%i to %i) against (%i to %i) where @causal(against, block) when (P)
      keep %keep : tensor<4x16xi1> {}
}

// -----

// tile.kept_range.
func.func @kept_unknown_mask(%n: i32) {
  // expected-error @+1 {{must mask by a function of this module, but got @f; define it, or link the file that does}}
  %0, %1 = tile.kept_range in (%n to %n) against (%n to %n) where @f(against, block)
  return
}

// -----

func.func private @f(i32, i32) -> i32
func.func @kept_mask_result(%n: i32) {
  // expected-error @+1 {{needs mask function @f of type '(i32, i32) -> i1', but it is '(i32, i32) -> i32'}}
  %0, %1 = tile.kept_range in (%n to %n) against (%n to %n) where @f(against, block)
  return
}

// -----

func.func private @f(i32, i32) -> i1
func.func @kept_mask_operands(%n: i32, %x: f32) {
  // expected-error @+1 {{needs mask function @f of type '(i32, f32, i32) -> i1', but it is '(i32, i32) -> i1'}}
  %0, %1 = tile.kept_range in (%n to %n) against (%n to %n) where @f(against, %x, block : f32)
  return
}

// -----

func.func @kept_without_block(%n: i32) {
  // expected-error @+1 {{the mask function must be given both positions, 'against' and 'block', but got only 'against'}}
  %0, %1 = tile.kept_range in (%n to %n) against (%n to %n) where @f(against)
}

// -----

func.func @kept_position_twice(%n: i32) {
  // expected-error @+1 {{'against' and 'block' may each be given once, but got 'against' twice}}
  %0, %1 = tile.kept_range in (%n to %n) against (%n to %n) where @f(against, block, against)
}

// -----

// It becomes a call, so it has no place for ranges.
func.func @kept_ranges(%n: i32) {
  // expected-error @+1 {{custom op 'ranges' is unknown}}
  %0, %1 = tile.kept_range in (%n to %n) against (%n to %n) where @f(against, block) ranges @r
}

// -----

func.func private @causal(i32, i32) -> i1
tile.kernel @kept_condition_name params(P: flag) () grid(%i = 1) {
  // expected-error @+1 {{the condition of its mask names 'Q'}}
  %0, %1 = tile.kept_range in (%i to %i) against (%i to %i) where @causal(against, block) when (Q)
}

// -----

func.func private @causal(i32, i32) -> i1
tile.kernel @kept_condition_kind params(P: int) () grid(%i = 1) {
  // expected-error @+1 {{the condition of its mask must be of kind flag, but got kind int}}
  %0, %1 = tile.kept_range in (%i to %i) against (%i to %i) where @causal(against, block) when (P)
}

// -----

// tile.spread.
func.func @spread_in_loop(%n: i32) {
  scf.for %i = %n to %n step %n : i32 {
    // expected-error @+1 {{may be nested in scf.if only, but got 'scf.for' around it; move it out of that}}
    tile.spread %m to %n {}
  }
  return
}

// -----

func.func @spread_in_loop_in_branch(%n: i32, %c: i1) {
  tile.for_blocks %b in (%n to %n) against (%n to %n) keep %keep : tensor<4x4xi1> {
    scf.if %c {
      // expected-error @+1 {{may be nested in scf.if only, but got 'tile.for_blocks' around it; move it out of that}}
      tile.spread %m to %n {}
    }
  }
  return
}

// -----

func.func @spread_in_spread(%n: i32) {
  tile.spread %m to %n {
    // expected-error @+1 {{may be nested in scf.if only, but got 'tile.spread' around it; move it out of that}}
    tile.spread %l to %n {}
  }
  return
}

// -----

func.func @spread_yields(%n: i32) {
  // expected-error @+1 {{'tile.spread' op must not yield values, but got 'i32'}}
  tile.spread %m to %n {
    tile.yield %m : i32
  }
  return
}

// -----

func.func @spread_number(%n: i32) {
  // expected-error @+1 {{'tile.spread' op needs a body that takes a number (i32), but got ('i64')}}
  "tile.spread"(%n) ({
  ^bb0(%m: i64):
    "tile.yield"() : () -> ()
  }) : (i32) -> ()
  return
}

// -----

func.func @spread_without_number(%n: i32) {
  // expected-error @+1 {{'tile.spread' op needs a body that takes a number (i32), but got ()}}
  "tile.spread"(%n) ({
    "tile.yield"() : () -> ()
  }) : (i32) -> ()
  return
}

// -----

func.func @spread_count(%n: i64) { // expected-note {{prior use here}}
  // expected-error @+1 {{use of value '%n' expects different type than prior uses: 'i32' vs 'i64'}}
  tile.spread %m to %n {}
  return
}

// -----

// tile.accumulate.
func.func @accumulate_in_function(%x: i32) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{'tile.accumulate' op must be in the body of a kernel, since an instance may run it for a single number, but is inside 'func.func'; move it out}}
  %a = tile.accumulate %h of %x each %x iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
  return
}

// -----

tile.kernel @accumulate_in_branch params(P: flag) () grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  %flag = tile.param P : i1
  scf.if %flag {
    // expected-error @+1 {{must be in the body of a kernel, since an instance may run it for a single number, but is inside 'scf.if'; move it out}}
    %a = tile.accumulate %h of %i each %i iter_args(%old = %zero : tensor<4x4xf32>) {
      tile.yield %old : tensor<4x4xf32>
    }
  }
}

// -----

tile.kernel @accumulate_of_argument params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{needs a number of the kernel's grid after 'of', but got another value}}
  %a = tile.accumulate %h of %n each %i iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_of_computed params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  %next = arith.addi %i, %n : i32
  // expected-error @+1 {{needs a number of the kernel's grid after 'of', but got another value}}
  %a = tile.accumulate %h of %next each %n iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_twice params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-note @+1 {{the first}}
  %a = tile.accumulate %h of %i each %n iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
  // expected-error @+1 {{must be the only one of its kernel; add to all sums in the first}}
  %b = tile.accumulate %h of %i each %n iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_nothing params() (%n: i32) grid(%i = 1) {
  // expected-error @+1 {{needs a sum; use scf.for for a loop without sums}}
  tile.accumulate %h of %i each %n {}
}

// -----

tile.kernel @accumulate_scalar params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : f32
  // expected-error @+1 {{adds to tiles of floats, but got sum 0 of type 'f32'}}
  %a = tile.accumulate %h of %i each %n iter_args(%old = %zero : f32) {
    tile.yield %old : f32
  }
}

// -----

tile.kernel @accumulate_integers params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  %none = tile.constant 0 : tensor<4x4xi32>
  // expected-error @+1 {{adds to tiles of floats, but got sum 1 of type 'tensor<4x4xi32>'}}
  %a, %b = tile.accumulate %h of %i each %n iter_args(%old = %zero : tensor<4x4xf32>, %count = %none : tensor<4x4xi32>) {
    tile.yield %old, %count : tensor<4x4xf32>, tensor<4x4xi32>
  }
}

// -----

tile.kernel @accumulate_from_one params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0.0 : tensor<4x4xf32>
  %one = tile.constant 1.0 : tensor<4x4xf32>
  // expected-error @+1 {{has sums that begin at 0, but sum 1 does not; give it 'tile.constant 0', and add what it begins with to its result}}
  %a, %b = tile.accumulate %h of %i each %n iter_args(%old = %zero : tensor<4x4xf32>, %count = %one : tensor<4x4xf32>) {
    tile.yield %old, %count : tensor<4x4xf32>, tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_from_load params() (%x: !tile.view<[4, 4], f32>, %n: i32) grid(%i = 1) {
  %tile = tile.load %x[0, 0] : !tile.view<[4, 4], f32> -> tensor<4x4xf32>
  // expected-error @+1 {{has sums that begin at 0, but sum 0 does not}}
  %a = tile.accumulate %h of %i each %n iter_args(%old = %tile : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_other_number params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{must yield and return tiles of the types of its sums, ('tensor<4x4xf32>'), but got ()}}
  %a = tile.accumulate %h of %i each %n iter_args(%old = %zero : tensor<4x4xf32>) {
  }
}

// -----

tile.kernel @accumulate_other_type params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  %half = tile.constant 0 : tensor<4x4xf16>
  // expected-error @+1 {{must yield and return tiles of the types of its sums, ('tensor<4x4xf32>'), but got ('tensor<4x4xf16>')}}
  %a = tile.accumulate %h of %i each %n iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %half : tensor<4x4xf16>
  }
}

// -----

tile.kernel @accumulate_even_kind params(P: int) (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{'even when' must be of kind flag, but got kind int}}
  %a = tile.accumulate %h of %i each %n even when (P) iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_apart_of_argument params() (%x: !tile.view<[?], f32>, %n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{'apart when' may read parameters only, but got dim(x, 0)}}
  %a = tile.accumulate %h of %i each %n apart when (dim(x, 0) > 4) iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_without_when params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{expected 'when (FLAG)' after 'apart', but got 'iter_args'}}
  %a = tile.accumulate %h of %i each %n apart iter_args(%old = %zero : tensor<4x4xf32>) {
    tile.yield %old : tensor<4x4xf32>
  }
}

// -----

tile.kernel @accumulate_malformed params() (%n: i32) grid(%i = 1) {
  %zero = tile.constant 0 : tensor<4x4xf32>
  // expected-error @+1 {{needs a body that takes a number (i32) and its sums, but got ('tensor<4x4xf32>')}}
  %a = "tile.accumulate"(%i, %n, %zero) ({
  ^bb0(%old: tensor<4x4xf32>):
    tile.yield %old : tensor<4x4xf32>
  }) : (i32, i32, tensor<4x4xf32>) -> tensor<4x4xf32>
}

// -----

func.func @formula_as_init(%q: i32, %n: i32) {
  // expected-error @+1 {{what a result begins with must be a value, but got 'full'; for a formula, write a statement '%x = tile.expr ...' before it and give %x}}
  %max = tile.for_blocks %k in (%q to %n) against (%q to %n) keep %keep : tensor<16x8xi1> iter_args(%m = full(-1.0) : tensor<16xf32>) {
  }
}

// -----

func.func @operator_in_init(%q: i32, %n: i32, %zero: tensor<16xf32>) {
  // expected-error @+1 {{what a result begins with must be a value, but got '+'; for a formula, write a statement '%x = tile.expr ...' before it and give %x}}
  %max = tile.for_blocks %k in (%q to %n) against (%q to %n) keep %keep : tensor<16x8xi1> iter_args(%m = %zero + 1 : tensor<16xf32>) {
  }
}
