// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls of programs that have no meaning.

// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --tile-inline-programs

// expected-error @+1 {{must not call itself, directly or through others; leave a tile.call out}}
tile.program @cycle () {
  tile.call @other()
}
tile.program @other () {
  tile.call @cycle()
}

// -----

// A module with tile.link may mention what is linked later.
tile.link "lib/attention.mlir"
tile.program @missing () {
  // expected-error @+1 {{calls @nowhere, which no file defines; link the file that does}}
  tile.call @nowhere()
}

// -----

tile.program @kinds params(A: flag) () {
  // expected-error @+1 {{cannot bind 'A' of program @callee, which is of kind int, but the caller's is of kind flag; rename one}}
  tile.call @callee()
}
tile.program @callee params(A: int) () {}

// -----

tile.program @argument_of_that_name (%A: i32) {
  // expected-error @+1 {{cannot bind 'A' of program @callee, since the caller has an argument of that name; rename one}}
  tile.call @callee()
}
tile.program @callee params(A: int = 1) () {}

// -----

tile.program @other_value params(N: int, let A: int = N) () {
  // expected-error @+1 {{cannot bind 'A' of program @callee, which always is N + 1, to another value of the caller; rename one}}
  tile.call @callee()
}
tile.program @callee params(N: int, let A: int = N + 1) () {}

// -----

tile.program @elements () {
  %x = tile.workspace [4] : !tile.view<[?], i32>
  // expected-error @+1 {{passes a workspace for an argument of program @callee whose elements the constraint ascending(x) reads; pass an argument of the caller}}
  tile.call @callee(x = %x) : !tile.view<[?], i32>
}
tile.program @callee require(ascending(x)) (%x: !tile.view<[?], i32>) {}

// -----

tile.program @nobody_calls (%x: !tile.view<[?], i32>) {
  // expected-error @+1 {{returns views to callers, but no program calls this one; leave it out, or compile a program that calls it}}
  tile.return %x : !tile.view<[?], i32>
}
