// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: rm -rf %t && split-file %s %t
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a" | FileCheck %s --implicit-check-not=tile.accumulate
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a sums=apart" | FileCheck %s --check-prefix=APART
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a sums=whole" | FileCheck %s --check-prefix=WHOLE --implicit-check-not=_apart
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums 2>&1 | FileCheck %s --check-prefix=WHOLE --implicit-check-not=_apart --implicit-check-not=remark
// RUN: not tilewright-opt %t/kernel.mlir --tile-combine-sums="sums=some" 2>&1 | FileCheck %s --check-prefix=STRATEGY
// STRATEGY: error: strategies of sums must be auto, whole, apart, ordered, unordered or shares=N, but got 'some'

//--- kernel.mlir
!view = !tile.view<[?, ?, ?, D], T>
!x = !tile.tile<[BLOCK, DP], T>
!sum = !tile.tile<[BLOCK, DP], ACC>

// The program: arrays that begin at zero, the copy, a kernel for the result, and opposite conditions.
// CHECK-LABEL: tile.program @sums
// CHECK: %[[SUM:.*]] = tile.workspace [select(and(and(not(FIXED), and(bits(T) <= 16, D * bits(T) <= 2048)), and(dim(x, 0) > 0, and(floordiv(dim(x, 1), max(dim(y, 1), 1)) > 1, select(EVEN,
// CHECK-SAME: dim(y, 0), 0), dim(y, 1), dim(y, 2), D] fill 0.000000e+00 : !tile.view<[?, ?, ?, D], ACC>
// CHECK: tile.launch @add(%x, %y, %scale) with (BLOCK = ROWS)
// CHECK-SAME: when (select(and(not(FIXED), and(bits(T) <= 16, D * bits(T) <= 2048)), and(dim(x, 0) > 0, not(and(floordiv(dim(x, 1), max(dim(y, 1), 1)) > 1, select(EVEN,
// Rounds of instances of whole sums and of terms; where instances are not even, their number.
// CHECK-SAME: 100 * (floordiv(dim(x, 1), max(dim(y, 1), 1)) * ceildiv(ceildiv(dim(y, 2), ROWS) * dim(y, 1) * dim(y, 0), 132)) > 110 * ceildiv(ceildiv(dim(y, 2), ROWS) * dim(y, 1) * dim(y, 0) * floordiv(dim(x, 1), max(dim(y, 1), 1)), 132),
// CHECK-SAME: ceildiv(dim(y, 2), ROWS) * dim(y, 1) * dim(y, 0) < max(462, 66 * floordiv(dim(x, 1), max(dim(y, 1), 1))))))), dim(x, 0) > 0))
// CHECK: tile.launch @add_apart(%x, %y, %scale, %[[SUM]]) with (BLOCK = ROWS) when (and(and(not(FIXED), {{.*}}), and(dim(x, 0) > 0,
// CHECK: tile.launch @add_of_sum_y(%[[SUM]], %scale, %y) with (BLOCK = 32) when (and(STORED, and(and(not(FIXED), {{.*}}), and(dim(x, 0) > 0,
// APART-LABEL: tile.program @sums
// APART: tile.launch @add(%x, %y, %scale) with (BLOCK = ROWS) when (select(not(FIXED), and(dim(x, 0) > 0, not(floordiv(dim(x, 1), max(dim(y, 1), 1)) > 1)), dim(x, 0) > 0))
// APART: tile.launch @add_apart({{.*}}) with (BLOCK = ROWS) when (and(not(FIXED), and(dim(x, 0) > 0, floordiv(dim(x, 1), max(dim(y, 1), 1)) > 1)))
// WHOLE-LABEL: tile.program @sums
// WHOLE-NEXT: params
// WHOLE-NEXT: require
// WHOLE-NEXT: {
// WHOLE-NEXT: tile.launch @add(%x, %y, %scale) with (BLOCK = ROWS) when (dim(x, 0) > 0)
tile.program @sums
    params(D: int, T: type, FIXED: flag = false, EVEN: flag = false, STORED: flag = true, ROWS: int = 64,
           let ACC: type = accumulator(T))
    require(floordiv(dim(x, 1), max(dim(y, 1), 1)) * dim(y, 1) == dim(x, 1))
    (%x: !view, %y: !view, %scale: f32) {
  tile.launch @add(%x, %y, %scale) with (BLOCK = ROWS) when (dim(x, 0) > 0) : !view, !view, f32
}

// The loop. The first number stands beside the number of terms.
// CHECK-LABEL: tile.kernel @add
// CHECK: grid(%m_block = ceildiv(dim(y, 2), BLOCK), %i = dim(y, 1), %b = dim(y, 0))
// CHECK: %[[TERMS:.*]] = arith.divsi
// CHECK-NEXT: %[[FIRST:.*]] = arith.muli %i, %[[TERMS]] : i32
// CHECK: %[[RESULT:.*]] = scf.for %[[G:.*]] = %{{.*}} to %[[TERMS]] step %{{.*}} iter_args(%[[OLD:.*]] = %[[ZERO:.*]]) -> (!tile.tile<[BLOCK, DP], ACC>)  : i32 {
// CHECK-NEXT: %[[H:.*]] = arith.addi %[[FIRST]], %[[G]] : i32
// CHECK-NEXT: tile.load %x[%b, %[[H]],
// CHECK: arith.addf %[[OLD]],
// CHECK: scf.yield
// CHECK: arith.mulf %[[RESULT]],
// CHECK: tile.store %{{.*}}, %{{.*}}[%b, %i,

// An instance for each term: the program states the product of extents. It adds instead of storing.
// CHECK-LABEL: tile.kernel @add_apart
// CHECK: (%x: {{.*}}, %y: {{.*}}, %scale: f32, %sum_y: !tile.view<[?, ?, ?, D], ACC>)
// CHECK: grid(%m_block = ceildiv(dim(y, 2), BLOCK), %i = dim(x, 1), %b = dim(y, 0))
// CHECK: %[[TERMS:.*]] = arith.divsi
// CHECK-NEXT: %[[OWN:.*]] = arith.divsi %i, %[[TERMS]] : i32
// CHECK-NOT: scf.for
// CHECK: tile.load %x[%b, %i,
// CHECK: %[[TERM:.*]] = arith.addf
// CHECK: %[[PART:.*]] = tile.subview %sum_y dim 2
// CHECK: tile.atomic_add %[[TERM]], %[[PART]][%b, %[[OWN]], %{{.*}}, 0] : !tile.tile<[BLOCK, DP], ACC>, !tile.view<[?, ?, ?, D], ACC>
// CHECK-NOT: tile.store

// What the kernel does with the sum, for blocks of rows.
// CHECK-LABEL: tile.kernel @add_of_sum_y
// CHECK: (%sum_y: !tile.view<[?, ?, ?, D], ACC>, %scale: f32, %y: !tile.view<[?, ?, ?, D], T>)
// CHECK: grid(%block_of_rows = ceildiv(dim(y, 2), BLOCK), %index1 = dim(y, 1), %index0 = dim(y, 0))
// CHECK: %[[ROWS:.*]] = tile.param BLOCK : i32
// CHECK: %[[ROW:.*]] = arith.muli %block_of_rows, %[[ROWS]] : i32
// CHECK: %[[ALL:.*]] = tile.load %sum_y[%index0, %index1, %[[ROW]], 0]
// CHECK: %[[FACTORS:.*]] = tile.full
// CHECK: %[[SCALED:.*]] = arith.mulf %[[ALL]], %[[FACTORS]]
// CHECK: %[[ROUNDED:.*]] = tile.cast %[[SCALED]]
// CHECK: tile.store %[[ROUNDED]], %y[%index0, %index1, %[[ROW]], 0]
tile.kernel @add
    params(D: int, T: type, FIXED: flag, EVEN: flag, STORED: flag, BLOCK: int, let DP: int = ceildiv(D, 8) * 8,
           let ACC: type = accumulator(T))
    (%x: !view, %y: !view, %scale: f32)
    grid(%m_block = ceildiv(dim(y, 2), BLOCK), %i = dim(y, 1), %b = dim(y, 0)) {
  %size = tile.param BLOCK : i32
  %m = arith.muli %m_block, %size : i32
  %in = tile.dim %x, 1 : !view
  %out = tile.dim %y, 1 : !view
  %rows = tile.dim %y, 2 : !view
  %terms = arith.divsi %in, %out : i32
  %zero = tile.constant 0 : !sum
  %sum = tile.accumulate %h of %i each %terms even when (EVEN) apart when (not(FIXED))
      iter_args(%old = %zero : !sum) {
    %x_tile = tile.load %x[%b, %h, %m, 0] : !view -> !x
    %x_acc = tile.cast %x_tile : !x -> !sum
    %new = arith.addf %old, %x_acc : !sum
    tile.yield %new : !sum
  }
  %c0 = arith.constant 0 : i32
  %part = tile.subview %y dim 2 from %c0 size %rows : !view
  %stored = tile.param STORED : i1
  scf.if %stored {
    %scale_acc = tile.cast %scale : f32 -> !tile.param<ACC>
    %factors = tile.full %scale_acc : !sum
    %scaled = arith.mulf %sum, %factors : !sum
    %rounded = tile.cast %scaled : !sum -> !x
    tile.store %rounded, %part[%b, %i, %m, 0] : !x, !view
  }
}
