// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Discardable attributes of the dialect on other operations, of other kinds, or without what they need.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// Functions that another file may replace.
// expected-error @+1 {{'tile.replaceable' must be on 'func.func', but got "tile.capture"; correct or remove the attribute}}
tile.capture @x {tile.replaceable} : f32

// -----

// expected-error @+1 {{'tile.replaceable' must have no value, or "compose", "and" or "multiply", but got true; correct or remove it}}
func.func private @f() attributes {tile.replaceable = true}

// -----

// expected-error @+1 {{'tile.replacable' must be 'tile.replaceable' or 'tile.base' or 'tile.unbounded' or 'tile.unroll' or 'tile.combine' or 'tile.ascending' or 'tile.replaced' or 'tile.stated', but got "tile.replacable"; correct or remove the attribute}}
func.func private @f() attributes {tile.replacable}

// -----

// expected-error @+1 {{'tile.ascending' must be on 'tile.capture', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tile.ascending}

// -----

// expected-error @+1 {{'tile.unbounded' must be of kind 'builtin.unit', but got true; correct or remove the attribute}}
func.func private @f() attributes {tile.unbounded = true}

// -----

func.func private @unrolled(%c: i1) {
  // expected-error @+1 {{'tile.unroll' must be on 'scf.for' or 'tile.for', but got "scf.if"; correct or remove the attribute}}
  scf.if %c {
  } {tile.unroll}
  return
}

// -----

func.func private @unrolled_by(%n: i32) {
  // expected-error @+1 {{'tile.unroll' must be of kind 'builtin.unit', but got 4 : i64; correct or remove the attribute}}
  scf.for %i = %n to %n step %n : i32 {
  } {tile.unroll = 4}
  return
}

// -----

func.func private @combined_by(%n: i32) {
  // expected-error @+1 {{'tile.combine' must be of kind 'builtin.symbol_ref', but got unit; correct or remove the attribute}}
  scf.for %i = %n to %n step %n : i32 {
  } {tile.combine}
  return
}

// -----

func.func private @combined(%c: i1) {
  // expected-error @+1 {{'tile.combine' must be on 'scf.for' or 'tile.for', but got "scf.if"; correct or remove the attribute}}
  scf.if %c {
  } {tile.combine = @combined}
  return
}

// -----

func.func private @combined_nothing(%n: i32) {
  // expected-error @+1 {{a loop with 'tile.combine' must carry values, but got none; leave out the attribute}}
  scf.for %i = %n to %n step %n : i32 {
  } {tile.combine = @combined_nothing}
  return
}

// -----

func.func private @combined_by_none(%n: i32) -> i32 {
  // expected-error @+1 {{merges states by @none, which is no function of the module; define it, or link its file}}
  %sum = scf.for %i = %n to %n step %n iter_args(%old = %n) -> (i32) : i32 {
    scf.yield %old : i32
  } {tile.combine = @none}
  return %sum : i32
}

// -----

// expected-note @+1 {{the function}}
func.func private @merge(i32) -> i32

func.func private @combined_by_other(%n: i32) -> i32 {
  // expected-error @+1 {{merges states by @merge, which must take two states and return one, that is '(i32, i32) -> i32', but got '(i32) -> i32'; change the types of the function}}
  %sum = scf.for %i = %n to %n step %n iter_args(%old = %n) -> (i32) : i32 {
    scf.yield %old : i32
  } {tile.combine = @merge}
  return %sum : i32
}

// -----

// expected-error @+1 {{'tile.replaceable' must have no value, or "compose", "and" or "multiply", but got "or"; correct or remove it}}
func.func private @f(i32) -> i1 attributes {tile.replaceable = "or"}

// -----

// expected-error @+1 {{a function that is replaceable by "compose" must have one result of the type of its first operand, but got '(i32) -> f32'; leave out the value or change the type}}
func.func private @f(i32) -> f32 attributes {tile.replaceable = "compose"}

// -----

// expected-error @+1 {{a function that is replaceable by "and" must have one result of i1, but got '(i32) -> i32'; leave out the value or change the type}}
func.func private @f(i32) -> i32 attributes {tile.replaceable = "and"}

// -----

// expected-error @+1 {{a function that is replaceable by "multiply" must have one result of a float type, but got '(i32) -> i1'; leave out the value or change the type}}
func.func private @f(i32) -> i1 attributes {tile.replaceable = "multiply"}

// -----

// expected-error @+1 {{'tile.base' must be on a function without a body, but got one on @f; leave the body out}}
func.func private @f() attributes {tile.base = @g} {
  return
}

// -----

// expected-error @+1 {{'tile.base' must be of kind 'builtin.symbol_ref', but got "g"; correct or remove the attribute}}
func.func private @f() attributes {tile.base = "g"}

// -----

// expected-error @+1 {{'tile.base' must be on 'func.func', but got "tile.capture"; correct or remove the attribute}}
tile.capture @x {tile.base = @g} : f32

// -----

// expected-error @+1 {{'tile.unbounded' must be on 'func.func', but got "tile.capture"; correct or remove the attribute}}
tile.capture @x {tile.unbounded} : f32

// -----

// expected-error @+1 {{'tile.ascending' must be of kind 'builtin.unit', but got 1 : i64; correct or remove the attribute}}
tile.capture @x {tile.ascending = 1} : !tile.view<[?], i32>

// -----

// expected-error @+1 {{'tile.stated' must be on 'builtin.module', but got "func.func"; correct or remove the attribute}}
func.func private @f() attributes {tile.stated = []}

// -----

// expected-error @+1 {{'tile.stated' must be of kind 'builtin.array', but got unit; correct or remove the attribute}}
module attributes {tile.stated} {}

// -----

// expected-error @+1 {{'tile.replaced' must be of kind 'array of strings', but got [1]; correct or remove the attribute}}
module attributes {tile.replaced = [1]} {}

// -----

// expected-error @+1 {{'tile.row_edge' must be of kind 'array<i64: ...>', but got unit; correct or remove the attribute}}
func.func private @f() -> (i32 {tile.row_edge})

// -----

// expected-error @+1 {{'tile.ends_at_upper' must be of kind 'builtin.unit', but got 1 : i64; correct or remove the attribute}}
func.func private @f() -> (i32 {tile.ends_at_upper = 1})

// -----

// expected-error @+1 {{'tile.row_end' must be 'tile.row_edge' or 'tile.ends_at_upper', but got "tile.row_end"; correct or remove the attribute}}
func.func private @f() -> (i32 {tile.row_end})
