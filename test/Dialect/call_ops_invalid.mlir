// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid calls of programs.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

tile.program @callee_is_kernel () {
  // expected-error @+1 {{must call a program of this module, but got @k; define it, or link the file that does}}
  tile.call @k()
}
tile.kernel @k () grid(%i = 1) {}

// -----

tile.program @unknown_argument (%x: i32) {
  // expected-error @+1 {{passes 'z', which is not an argument of program @callee}}
  tile.call @callee(z = %x) : i32
}
tile.program @callee (%y: i32) {}

// -----

tile.program @without_value (%x: i32) {
  // expected-error @+1 {{argument 'y' of program @callee has no value; pass it as 'y = %value', or declare an argument of that name}}
  tile.call @callee()
}
tile.program @callee (%y: i32) {}

// -----

tile.program @twice (%x: i32) {
  // expected-error @+1 {{must pass 'y' once, but got it twice; leave one out}}
  tile.call @callee(y = %x, y = %x) : i32, i32
}
tile.program @callee (%y: i32) {}

// -----

tile.program @rank (%y: !tile.view<[?], f32>) {
  // expected-error @+1 {{argument 'y' of program @callee is '!tile.view<[?, ?], f32>', but got '!tile.view<[?], f32>'}}
  tile.call @callee()
}
tile.program @callee (%y: !tile.view<[?, ?], f32>) {}

// -----

tile.program @absent (%y: optional !tile.view<[?], f32>) {
  // expected-error @+1 {{argument 'y' of program @callee may not be absent, but an optional argument is passed; declare it optional in the program, or with the same condition}}
  tile.call @callee()
}
tile.program @callee (%y: !tile.view<[?], f32>) {}

// -----

tile.program @no_parameter () {
  // expected-error @+1 {{binds 'B' of program @callee, which is not a parameter of it}}
  tile.call @callee() with (B = 1)
}
tile.program @callee params(A: int) () {}

// -----

tile.program @derived () {
  // expected-error @+1 {{binds 'A' of program @callee, but a derived parameter (let) cannot be bound; bind those that it is computed from}}
  tile.call @callee() with (A = 1)
}
tile.program @callee params(let A: int = 2) () {}

// -----

tile.program @in_a_type (%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{binds 'T' of program @callee, which a type of its arguments or workspaces reads; declare a parameter of that name instead}}
  tile.call @callee() with (T = f32)
}
tile.program @callee params(T: type) (%x: !tile.view<[?], T>) {}

// -----

tile.program @kind_of_value () {
  // expected-error @+1 {{the value of 'A' must be of kind int, but got kind flag}}
  tile.call @callee() with (A = true)
}
tile.program @callee params(A: int) () {}

// -----

tile.program @results () {
  // expected-error @+1 {{must have the results that program @callee returns, '!tile.view<[?], f32>', but got}}
  tile.call @callee()
}
tile.program @callee () {
  %x = tile.workspace [1] : !tile.view<[?], f32>
  tile.return %x : !tile.view<[?], f32>
}

// -----

tile.program @not_last (%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{must be the last operation of a program; move it to the end}}
  tile.return %x : !tile.view<[?], f32>
  %y = tile.workspace [1] : !tile.view<[?], f32>
}

// -----

// Only the generic form can be malformed.
tile.program @malformed () {
  // expected-error @+1 {{has malformed arguments or a malformed 'with' clause; use its custom assembly format}}
  "tile.call"() {program = @callee, arg_names = ["x"], with_names = [], with_values = []} : () -> ()
}
tile.program @callee () {}
