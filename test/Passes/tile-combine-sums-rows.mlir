// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The launch for the result of a sum has few rows at once, if the kernel's parameter of its rows may have that value.
//
// RUN: tilewright-opt %s --tile-combine-sums="target=sm_80 sums=apart" --split-input-file | FileCheck %s

!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[BLOCK, 64], f16>
!sum = !tile.tile<[BLOCK, 64], f32>
// CHECK-LABEL: tile.program @sums
// CHECK: tile.launch @add_of_sum_y(%{{.*}}, %y) with (BLOCK = 32) when
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) with (BLOCK = 64) : !view, !view
}
tile.kernel @add params(BLOCK: int) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[BLOCK, 64], f16>
!sum = !tile.tile<[BLOCK, 64], f32>
// CHECK-LABEL: tile.program @sums
// CHECK: tile.launch @add_of_sum_y(%{{.*}}, %y) with (BLOCK = 64) when
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) with (BLOCK = 64) : !view, !view
}
tile.kernel @add params(BLOCK: int in [64, 128]) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[BLOCK, 64], f16>
!sum = !tile.tile<[BLOCK, 64], f32>
// CHECK-LABEL: tile.program @sums
// CHECK: tile.launch @add_of_sum_y(%{{.*}}, %y) with (HALF = 32) when
tile.program @sums params() (%x: !view, %y: !view) {
  tile.launch @add(%x, %y) with (HALF = 32) : !view, !view
}
tile.kernel @add params(HALF: int, let BLOCK: int = 2 * HALF) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}

// -----

// A result in a workspace, whose extents the arrays of the form have as well.
!view = !tile.view<[?, ?, ?, 64], f16>
!x = !tile.tile<[BLOCK, 64], f16>
!sum = !tile.tile<[BLOCK, 64], f32>
// CHECK-LABEL: tile.program @sums
// CHECK: %[[Y:.*]] = tile.workspace [dim(z, 0), dim(z, 1), dim(z, 2) + 7, 64] : !tile.view<[?, ?, ?, 64], f16>
// CHECK: %[[SUM:.*]] = tile.workspace [select(and(true, floordiv(dim(x, 1), max(dim(z, 1), 1)) > 1), dim(z, 0), 0), dim(z, 1), dim(z, 2) + 7, 64] fill 0.000000e+00 : !tile.view<[?, ?, ?, 64], f32>
// CHECK: tile.launch @add_apart(%x, %[[Y]], %[[SUM]])
// CHECK: tile.launch @add_of_sum_y(%[[SUM]], %[[Y]])
// CHECK: tile.launch @copy(%[[Y]], %z)
tile.program @sums params(BLOCK: int) (%x: !view, %z: !view) {
  %y = tile.workspace [dim(z, 0), dim(z, 1), dim(z, 2) + 7, 64] : !view
  tile.launch @add(%x, %y) : !view, !view
  tile.launch @copy(%y, %z) : !view, !view
}
tile.kernel @copy params(BLOCK: int) (%y: !view, %z: !view) grid(%i = dim(z, 1), %b = dim(z, 0)) {
  %tile = tile.load %y[%b, %i, 0, 0] : !view -> !x
  tile.store %tile, %z[%b, %i, 0, 0] : !x, !view
}
tile.kernel @add params(BLOCK: int) (%x: !view, %y: !view) grid(%i = dim(y, 1), %b = dim(y, 0)) {
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  %sum = tile.accumulate %h of %i each %terms iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, 0, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %rounded = tile.cast %sum : !sum -> !x
  tile.store %rounded, %y[%b, %i, 0, 0] : !x, !view
}
