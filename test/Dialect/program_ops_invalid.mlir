// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid programs, workspaces and launches.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// A program only launches.
tile.program @computes (%n: i32) {
  // expected-error @+1 {{a program may contain only tile.workspace, tile.launch, tile.fill and tile.call, but got arith.addi; compute in a kernel}}
  %0 = arith.addi %n, %n : i32
}

// -----

// The errors of a kernel's signature hold for programs.
// expected-error @+1 {{argument 'A' has the name of another parameter; names must differ}}
tile.program @same_names params(A: int) (%A: i32) {}

// -----

// expected-error @+1 {{a constraint names 'B', which is neither a parameter nor an argument of @unknown_in_constraint; declare it there, or correct the name}}
tile.program @unknown_in_constraint params(A: int) require(A < B) () {}

// -----

// expected-error @+1 {{'tile.program' op needs a name, but got an empty one}}
tile.program @"" () {}

// -----

tile.kernel @inside () grid(%i = 1) {
  // expected-error @+1 {{'tile.program' op expects parent op 'builtin.module'}}
  tile.program @p () {}
}

// -----

// Workspaces.
tile.program @rank (%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{needs one extent for each dimension of its view: rank 2, but got 1 extents}}
  %0 = tile.workspace [dim(x, 0)] : !tile.view<[?, ?], f32>
}

// -----

tile.program @unknown_in_extent (%n: i32) {
  // expected-error @+1 {{an extent names 'm', which is neither a parameter nor an argument of @unknown_in_extent; declare it there, or correct the name}}
  %0 = tile.workspace [m] : !tile.view<[?], f32>
}

// -----

tile.program @kind_of_extent (%n: i32) {
  // expected-error @+1 {{an extent must be of kind int, but got kind flag}}
  %0 = tile.workspace [n < 4] : !tile.view<[?], f32>
}

// -----

tile.program @unknown_type (%n: i32) {
  // expected-error @+1 {{uses type '!tile.view<[D], f32>', but 'D' is not a parameter of @unknown_type; declare it there, or correct the name}}
  %0 = tile.workspace [n] : !tile.view<[D], f32>
}

// -----

tile.program @tile_as_workspace (%n: i32) {
  // expected-error @+1 {{result #0 must be a view, but got '!tile.tile<[4], f32>'}}
  %0 = tile.workspace [4] : !tile.tile<[4], f32>
}

// -----

tile.kernel @workspace_in_kernel () grid(%i = 1) {
  // expected-error @+1 {{'tile.workspace' op expects parent op 'tile.program'}}
  %0 = tile.workspace [4] : !tile.view<[4], f32>
}

// -----

// Launches.
tile.program @unknown_kernel () {
  // expected-error @+1 {{must launch a kernel of this module, but got @k; define it, or link the file that does}}
  tile.launch @k()
}

// -----

func.func private @k()
tile.program @function_as_kernel () {
  // expected-error @+1 {{must launch a kernel of this module, but got @k; define it, or link the file that does}}
  tile.launch @k()
}

// -----

tile.kernel @k (%x: i32) grid(%i = 1) {
  // expected-error @+1 {{'tile.launch' op expects parent op 'tile.program'}}
  tile.launch @k(%x) : i32
}

// -----

tile.kernel @k (%x: i32) grid(%i = 1) {}
tile.program @number_of_arguments (%y: i32) {
  // expected-error @+1 {{must pass 1 arguments to kernel @k, but got 2; it has x}}
  tile.launch @k(%y, %y) : i32, i32
}

// -----

tile.kernel @k (%x: i32) grid(%i = 1) {}
tile.program @no_argument_of_the_name (%y: i32) {
  // expected-error @+1 {{argument 'x' of kernel @k has no value; pass it as 'x = %value', or declare an argument of that name}}
  tile.launch @k()
}

// -----

tile.kernel @k (%x: i32) grid(%i = 1) {}
tile.program @unknown_name (%x: i32) {
  // expected-error @+1 {{passes 'y', which is not an argument of kernel @k}}
  tile.launch @k(y = %x) : i32
}

// -----

tile.kernel @k (%x: i32) grid(%i = 1) {}
tile.program @same_name_twice (%x: i32) {
  // expected-error @+1 {{must pass 'x' once, but got it twice; leave one out}}
  tile.launch @k(x = %x, x = %x) : i32, i32
}

// -----

tile.kernel @k (%x: i32) grid(%i = 1) {}
tile.program @type_of_the_name (%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{argument 'x' of kernel @k is 'i32', but got '!tile.view<[?], f32>'}}
  tile.launch @k()
}

// -----

tile.kernel @k (%x: !tile.view<[?], f32>) grid(%i = 1) {}
tile.program @rank_of_argument (%y: !tile.view<[?, ?], f32>) {
  // expected-error @+1 {{argument 'x' of kernel @k is '!tile.view<[?], f32>', but got '!tile.view<[?, ?], f32>'}}
  tile.launch @k(%y) : !tile.view<[?, ?], f32>
}

// -----

tile.kernel @k (%x: !tile.view<[], f32>) grid(%i = 1) {}
tile.program @scalar_for_view (%y: f32) {
  // expected-error @+1 {{argument 'x' of kernel @k is '!tile.view<[], f32>', but got 'f32'}}
  tile.launch @k(%y) : f32
}

// -----

tile.kernel @k (%x: !tile.view<[?], f32>) grid(%i = 1) {}
tile.program @elements_of_argument (%y: !tile.view<[?], f16>) {
  // expected-error @+1 {{argument 'x' of kernel @k is '!tile.view<[?], f32>', but got '!tile.view<[?], f16>'}}
  tile.launch @k(%y) : !tile.view<[?], f16>
}

// -----

tile.kernel @k (%x: !tile.view<[?], f32>) grid(%i = 1) {}
tile.program @absent_argument (%y: optional !tile.view<[?], f32>) {
  // expected-error @+1 {{argument 'x' of kernel @k may not be absent, but an optional argument is passed; declare it optional in the kernel}}
  tile.launch @k(%y) : !tile.view<[?], f32>
}

// -----

tile.kernel @k params(A: int) () grid(%i = 1) {}
tile.program @unknown_in_with () {
  // expected-error @+1 {{binds 'B', which is not a parameter of kernel @k; it has A}}
  tile.launch @k() with (B = 1)
}

// -----

tile.kernel @k params(let A: int = 2) () grid(%i = 1) {}
tile.program @derived_in_with () {
  // expected-error @+1 {{binds 'A' of kernel @k, but a derived parameter (let) cannot be bound; bind those that it is computed from}}
  tile.launch @k() with (A = 1)
}

// -----

tile.kernel @k params(A: int) () grid(%i = 1) {}
tile.program @value_of_unknown params(C: int) () {
  // expected-error @+1 {{the value of 'A' names 'B', which is not a parameter of @value_of_unknown}}
  tile.launch @k() with (A = B)
}

// -----

tile.kernel @k params(A: int) () grid(%i = 1) {}
tile.program @argument_as_value (%n: i32) {
  // expected-error @+1 {{the value of 'A' may read parameters only, but got the argument 'n'}}
  tile.launch @k() with (A = n)
}

// -----

tile.kernel @k params(T: type) () grid(%i = 1) {}
tile.program @kind_of_value () {
  // expected-error @+1 {{the value of 'T' must be of kind type, but got kind int}}
  tile.launch @k() with (T = 16)
}

// -----

tile.kernel @k () grid(%i = 1) {}
tile.program @kind_of_condition (%n: i32) {
  // expected-error @+1 {{the condition of a launch must be of kind flag, but got kind int}}
  tile.launch @k() when (n)
}

// -----

tile.kernel @k () grid(%i = 1) {}
tile.program @unknown_in_condition () {
  // expected-error @+1 {{the condition of a launch names 'n', which is neither a parameter nor an argument of @unknown_in_condition; declare it there, or correct the name}}
  tile.launch @k() when (n == 0)
}

// -----

tile.kernel @k params(P: flag) (%x: !tile.view<[?], f32>) grid(%i = 1) {}
tile.program @conditional params(P: flag) (%x: !tile.view<[?], f32> when (P)) {
  // expected-error @+1 {{argument 'x' of kernel @k may not be absent, but an optional argument is passed; declare it optional in the kernel, or with the same condition}}
  tile.launch @k(%x) : !tile.view<[?], f32>
}

// -----

tile.program @p (%x: !tile.view<[], f32>) {
  // expected-error @+1 {{'tile.fill' op must have a view with dimensions, but got '!tile.view<[], f32>'; store its element in a kernel}}
  tile.fill %x, 0
}

// -----

tile.program @p (%x: !tile.view<[?], i32>) {
  // expected-error @+1 {{'tile.fill' op of 'i32' must have an integer, but got 5.000000e-01 : f64}}
  tile.fill %x, 0.5
}

// -----

tile.program @p (%x: !tile.view<[?], i32>) {
  // expected-error @+1 {{'tile.workspace' op of 'i32' must be filled with an integer, but got 7.000000e+00 : f64; write 7}}
  %0 = tile.workspace [dim(x, 0)] fill 7.0 : !tile.view<[?], i32>
}

// -----

tile.program @p (%x: !tile.view<[?], i8>) {
  // expected-error @+1 {{'tile.workspace' op must be filled with an integer that fits in 'i8', but got 300}}
  %0 = tile.workspace [dim(x, 0)] fill 300 : !tile.view<[?], i8>
}

// -----

tile.program @p (%x: !tile.view<[?], i32>) {
  // expected-error @+1 {{'tile.workspace' op of 'i32' must be filled with an integer, but got 0x7FF0000000000000 : f64}}
  %0 = tile.workspace [dim(x, 0)] fill inf : !tile.view<[?], i32>
}

// -----

tile.program @p (%x: !tile.view<[?], f32>) {
  // expected-error @+1 {{'tile.workspace' op of 'f32' must be filled with a float, but got -2 : i64; write -2.0}}
  %0 = "tile.workspace"() <{extents = [#tile.expr<dim(x, 0)>], fill = -2 : i64}> : () -> !tile.view<[?], f32>
}

// -----

tile.program @p (%x: !tile.view<[?], i32>) {
  // expected-error @+1 {{names 'MORE', which is neither}}
  tile.fill %x, 0 when (MORE)
}
