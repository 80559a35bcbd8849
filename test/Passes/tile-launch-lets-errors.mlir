// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where parameters that depend on arguments are not allowed.

// RUN: tilewright-opt %s --split-input-file --verify-diagnostics --tile-specialize="entry=p"

!v = !tile.view<[?], f32>
// expected-error @+1 {{the default of parameter 'N' may read parameters only, but got dim(x, 0)}}
tile.program @p params(N: int = dim(x, 0)) (%x: !v) {
}

// -----

!v = !tile.view<[?], f32>
// expected-error @+1 {{the default of parameter 'M' may read parameters only, but got 'N', which depends on arguments; such parameters are for conditions of launches, extents of workspaces, and constraints}}
tile.program @p params(M: int = N + 1, let N: int = dim(x, 0)) (%x: !v) {
}

// -----

!v = !tile.view<[?], f32>
// expected-error @+1 {{the default of parameter 'N' may read parameters only, but got dim(x, 0)}}
tile.kernel @p params(let N: int = dim(x, 0)) (%x: !v) grid(%i = 1) {
}

// -----

!v = !tile.view<[?], f32>
// expected-error @+1 {{the default of parameter 'N' names 'rows', which is neither a parameter nor an argument of @p; declare it there, or correct the name}}
tile.program @p params(let N: int = rows) (%x: !v) {
}

// -----

!v = !tile.view<[?], f32>
// expected-error @+1 {{the default of parameter 'N' must be of kind int, but got kind flag}}
tile.program @p params(let N: int = dim(x, 0) > 1) (%x: !v) {
}

// -----

!v = !tile.view<[?], f32>
// expected-error @+1 {{the condition of argument 'y' may read parameters only, but got 'N', which depends on arguments}}
tile.program @p params(let N: flag = dim(x, 0) > 1) (%x: !v, %y: !v when (N)) {
}

// -----

// expected-error @+1 {{uses type '!tile.view<[N], f32>', but 'N' depends on arguments; types may name other parameters only}}
tile.program @p params(let N: int = dim(x, 0)) (%x: !tile.view<[?], f32>, %y: !tile.view<[N], f32>) {
}

// -----

!v = !tile.view<[?], f32>
tile.program @p params(let N: int = sm_count()) (%x: !v) {
  // expected-error @+1 {{may read parameters only, but got 'N', which depends on arguments}}
  tile.launch @k(%x) with (SIZE = N) : !v
}
tile.kernel @k params(SIZE: int) (%x: !v) grid(%i = SIZE) {
}

// -----

!v = !tile.view<[?], f32>
tile.program @p params(let SIZE: int = dim(x, 0)) (%x: !v) {
  // expected-error @+1 {{parameter 'SIZE' of kernel @k must be known when the program is bound, but the program's parameter of that name depends on arguments; give another value in the clause `with`}}
  tile.launch @k(%x) : !v
}
tile.kernel @k params(SIZE: int = 4) (%x: !v) grid(%i = SIZE) {
}
