// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Invalid names in types and clauses of kernels: what is reported first, and where.
// RUN: tilewright-opt %s -split-input-file -verify-diagnostics

// A mistyped name is reported instead of the mismatch that it causes.
tile.kernel @mistyped_dimension params(BLOCK: int) (%x: !tile.view<[?], f32>) grid(%i = 1) {
  %t = tile.load %x[%i] : !tile.view<[?], f32> -> !tile.tile<[BLOCK], f32>
  // expected-error @+1 {{uses type '!tile.tile<[BLOK], f16>', but 'BLOK' is not a parameter of @mistyped_dimension; did you mean 'BLOCK'?}}
  %h = tile.cast %t : !tile.tile<[BLOCK], f32> -> !tile.tile<[BLOK], f16>
}

// -----

tile.kernel @mistyped_element params(BLOCK: int) (%x: !tile.view<[?], f16>) grid(%i = 1) {
  // expected-error @+1 {{uses type '!tile.tile<[BLOCK], fp16>', but 'fp16' is not a parameter of @mistyped_element; did you mean 'f16'?}}
  %t = tile.load %x[%i] : !tile.view<[?], f16> -> !tile.tile<[BLOCK], fp16>
}

// -----

// Clauses are reported at their places.
tile.kernel @constraint_on_its_line params(B: int)
    require(B > 0,
            // expected-error @+1 {{a constraint takes dim(x, 1), but 'x' has rank 1; dimensions are counted from 0}}
            dim(x, 1) == B)
    (%x: !tile.view<[?], f32>)
    grid(%i = 1) {
}

// -----

tile.kernel @same_dims_on_its_line
    require(
        // expected-error @+1 {{a constraint takes dim(x, 2), but 'x' has rank 1; dimensions are counted from 0}}
        same_dims(x, y, 0, 2),
        dim(x, 0) > 0)
    (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>)
    grid(%i = 1) {
}

// -----

tile.kernel @grid_on_its_line (%x: !tile.view<[?], f32>)
    grid(%i = 1,
         // expected-error @+1 {{a grid extent may take dim of views among the arguments only, but got 'xx'}}
         %j = dim(xx, 0)) {
}
