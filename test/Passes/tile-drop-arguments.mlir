// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: split-file %s %t
// RUN: tilewright-opt %t/arguments.mlir --tile-specialize="params=INDEXED=false" --canonicalize --tile-drop-arguments | FileCheck %t/arguments.mlir
// RUN: tilewright-opt %t/arguments.mlir --tile-specialize="params=INDEXED=true" --canonicalize --tile-drop-arguments | FileCheck %t/arguments.mlir --check-prefix=PLACES
// RUN: tilewright-opt %t/arguments.mlir --verify-roundtrip -o /dev/null
// RUN: tilewright-opt %t/workspaces.mlir --tile-specialize="params=INDEXED=false" --canonicalize --tile-drop-arguments | FileCheck %t/workspaces.mlir
// RUN: tilewright-opt %t/workspaces.mlir --tile-specialize="params=INDEXED=true" --canonicalize --tile-drop-arguments | FileCheck %t/workspaces.mlir --check-prefix=PLACES
// RUN: tilewright-opt %t/errors.mlir --split-input-file --tile-drop-arguments --verify-diagnostics

//--- arguments.mlir
// The constraint on its extents is removed with it; its default is removed, that of another argument remains.
// CHECK-LABEL: tile.kernel @k
// CHECK-NEXT:    require(dim(y, 0) == dim(x, 0))
// CHECK-NEXT:    (%x: !tile.view<[?], f32>, %y: !tile.view<[?], f32>, %factor: f32 = 2.000000e+00)
// CHECK-NEXT:    grid(%i = dim(x, 0))
// CHECK:         tile.at %x[%i]
// CHECK-LABEL: tile.program @p
// CHECK-NEXT:    (%x: !tile.view<[?], f32>, %y: optional !tile.view<[?], f32>, %factor: f32)
// CHECK:         tile.launch @k(%x, %{{.*}}, %factor) : !tile.view<[?], f32>, !tile.view<[?], f32>, f32
//
// If the condition holds, it becomes a normal argument without a condition.
// PLACES-LABEL: tile.kernel @k
// PLACES-NEXT:    require(dim(y, 0) == dim(x, 0), ascending(places), within(places, 0, dim(x, 0)))
// PLACES-NEXT:    (%x: !tile.view<[?], f32>, %places: !tile.view<[?], i32>, %first: i32 = 3, %y: !tile.view<[?], f32>, %factor: f32 = 2.000000e+00)
// PLACES-NEXT:    grid(%i = dim(places, 0))
// PLACES-LABEL: tile.program @p
// PLACES-NEXT:    (%x: !tile.view<[?], f32>, %places: !tile.view<[?], i32>, %first: i32, %y: optional !tile.view<[?], f32>, %factor: f32)
tile.kernel @k params(INDEXED: flag)
    require(dim(y, 0) == dim(x, 0), ascending(places), within(places, 0, dim(x, 0)))
    (%x: !tile.view<[?], f32>, %places: !tile.view<[?], i32> when (INDEXED), %first: i32 = 3 when (INDEXED),
     %y: !tile.view<[?], f32>, %factor: f32 = 2.0)
    grid(%i = select(INDEXED, dim(places, 0), dim(x, 0))) {
  %indexed = tile.param INDEXED : i1
  %at = scf.if %indexed -> (i32) {
    %given = tile.at %places[%i] : !tile.view<[?], i32>
    %shifted = arith.addi %given, %first : i32
    scf.yield %shifted : i32
  } else {
    scf.yield %i : i32
  }
  %v = tile.at %x[%at] : !tile.view<[?], f32>
  %scaled = arith.mulf %v, %factor : f32
  %t = tile.full %scaled : !tile.tile<[1], f32>
  tile.store %t, %y[%i] : !tile.tile<[1], f32>, !tile.view<[?], f32>
}
tile.program @p params(INDEXED: flag)
    (%x: !tile.view<[?], f32>, %places: !tile.view<[?], i32> when (INDEXED), %first: i32 when (INDEXED),
     %y: optional !tile.view<[?], f32>, %factor: f32) {
  %w = tile.workspace [dim(x, 0)] : !tile.view<[?], f32>
  tile.launch @k(%x, %places, %first, %w, %factor)
      : !tile.view<[?], f32>, !tile.view<[?], i32>, i32, !tile.view<[?], f32>, f32
}

//--- workspaces.mlir
// A workspace without launches is removed, with the arguments that only its extents use.
// CHECK-LABEL: tile.program @p
// CHECK-NOT:     tile.workspace
// CHECK:         tile.launch @k(%x) :
// PLACES-LABEL: tile.program @p
// PLACES:         %[[COPY:.*]] = tile.workspace [dim(places, 0)] :
// PLACES:         tile.launch @k(%x, %[[COPY]]) :
tile.kernel @k params(INDEXED: flag) (%x: !tile.view<[?], f32>, %copy: !tile.view<[?], i32> when (INDEXED))
    grid(%i = dim(x, 0)) {
}
tile.program @p params(INDEXED: flag) (%x: !tile.view<[?], f32>, %places: !tile.view<[?], i32> when (INDEXED)) {
  %copy = tile.workspace [dim(places, 0)] : !tile.view<[?], i32>
  tile.launch @k(%x, %copy) : !tile.view<[?], f32>, !tile.view<[?], i32>
}

//--- errors.mlir
tile.kernel @read (%x: !tile.view<[?], i32> when (false), %y: !tile.view<[?], i32>) grid(%i = 1) {
  // expected-error @+1 {{reads argument 'x' where the condition of the argument does not hold; read it under the same condition}}
  %v = tile.at %x[%i] : !tile.view<[?], i32>
  %t = tile.full %v : tensor<1xi32>
  tile.store %t, %y[%i] : tensor<1xi32>, !tile.view<[?], i32>
}

// -----
// expected-error @+1 {{in an expression reads argument 'x' where the condition of the argument does not hold; read it under the same condition}}
tile.kernel @grid (%x: !tile.view<[?], i32> when (false)) grid(%i = dim(x, 0)) {
}

// -----
// expected-error @+1 {{argument 'x' has a condition with parameters that are not bound; run tile-specialize first}}
tile.kernel @open params(P: flag) (%x: !tile.view<[?], i32> when (P)) grid(%i = 1) {
}
