// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: rm -rf %t && split-file %s %t
// RUN: tilewright-opt %t/kernel.mlir --tile-share-loops="target=sm_90a" | FileCheck %t/kernel.mlir --implicit-check-not=tile.combine
// RUN: tilewright-opt %t/kernel.mlir --tile-share-loops="target=sm_90a sums=shares=3" | FileCheck %t/kernel.mlir --check-prefix=GIVEN
// RUN: tilewright-opt %t/fixed.mlir --tile-share-loops="sums=shares=2" | FileCheck %t/fixed.mlir
// RUN: tilewright-opt %t/turned.mlir --tile-share-loops="target=sm_90a" | FileCheck %t/turned.mlir
// No shares: on the CPU, where no row applies, or as given. A kernel becomes a program on all GPUs.
// RUN: tilewright-opt %t/kernel.mlir --tile-share-loops 2>&1 | FileCheck %t/kernel.mlir --check-prefix=CPU --implicit-check-not=_share --implicit-check-not=tile.combine --implicit-check-not=remark
// RUN: tilewright-opt %t/kernel.mlir --tile-share-loops="target=sm_80" | FileCheck %t/kernel.mlir --check-prefix=NONE --implicit-check-not=_share
// RUN: tilewright-opt %t/kernel.mlir --tile-share-loops="target=sm_90a sums=whole,shares=1" | FileCheck %t/kernel.mlir --check-prefix=NONE --implicit-check-not=_share
// RUN: tilewright-opt %t/remarks.mlir --split-input-file --tile-share-loops="target=sm_90a" --verify-diagnostics
// RUN: not tilewright-opt %t/kernel.mlir --tile-share-loops="sums=shares=65" 2>&1 | FileCheck %t/kernel.mlir --check-prefix=MANY
// RUN: not tilewright-opt %t/kernel.mlir --tile-combine-sums="sums=shares=x" 2>&1 | FileCheck %t/kernel.mlir --check-prefix=TEXT

//--- turned.mlir
// A state whose rows are the columns of the result lies so in the array of states, too.
// CHECK-LABEL: tile.program @turned_launches
// CHECK:         tile.workspace [{{.*}}, dim(c, 0), ceildiv(dim(c, 1), 16) * 16] : !tile.view<[?, ?, ?], f32>
// CHECK-LABEL: tile.kernel @turned_share
// CHECK:         tile.store %{{.*}}, %states[%share, %{{.*}}, %{{.*}}] dims [2, 1] : !tile.tile<[64, 32], f32>
// CHECK-LABEL: tile.kernel @turned_merge
// CHECK:         tile.load %states[%{{.*}}, %{{.*}}, %{{.*}}] dims [2, 1] : !tile.view<[?, ?, ?], f32> -> !tile.tile<[64, 32], f32>
// CHECK:         tile.store %{{.*}}, %c[%{{.*}}, %{{.*}}] dims [1, 0]
!view = !tile.view<[?, ?], f16>
!result = !tile.view<[?, ?], f32>
!c = !tile.tile<[64, 32], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.kernel @turned params(STEP: int = 64) (%a: !view, %b: !view, %c: !result)
    grid(%m = ceildiv(dim(c, 0), 32), %n = ceildiv(dim(c, 1), 64)) {
  %c0 = arith.constant 0 : i32
  %c32 = arith.constant 32 : i32
  %c64 = arith.constant 64 : i32
  %step = tile.param STEP : i32
  %i = arith.muli %m, %c32 : i32
  %j = arith.muli %n, %c64 : i32
  %depth = tile.dim %a, 1 : !view
  %zero = tile.constant 0.0 : !c
  %sum = scf.for %k = %c0 to %depth step %step iter_args(%old = %zero) -> (!c) : i32 {
    %a_tile = tile.load %a[%i, %k] : !view -> !tile.tile<[32, STEP], f16>
    %b_tile = tile.load %b[%j, %k] : !view -> !tile.tile<[64, STEP], f16>
    %new = tile.dot %b_tile, %a_tile, %old transpose_b : !tile.tile<[64, STEP], f16>, !tile.tile<[32, STEP], f16> -> !c
    scf.yield %new : !c
  } {tile.combine = @merge}
  tile.store %sum, %c[%i, %j] dims [1, 0] : !c, !result
}

//--- kernel.mlir
// MANY: error: the shares of a loop must be from 1 to 64, but got '65'
// TEXT: error: the shares of a loop must be from 1 to 64, but got 'x'

!view = !tile.view<[?, ?], T>
!c = !tile.tile<[ROWS, COLUMNS], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

// CPU-NOT: tile.program
// CPU: tile.kernel @product
// CPU-NOT: tile.kernel
// NONE: tile.program @product_launches
// NONE: attributes {of_kernel = "product"} {
// NONE-NEXT: tile.launch @product(%a, %b, %row, %c) : !tile.view

// The program has a form for results of up to 64 rows, up to 128, and more. Shares are multiprocessors by blocks, as far as
// there are iterations.
// CHECK-LABEL: tile.program @product_launches
// CHECK-NEXT: params(T: type, COLUMNS: int = block(), ROWS: int = block(), STEP: int = 64)
// CHECK-NEXT: require(dim(c, 0) == dim(a, 0))
// CHECK: attributes {of_kernel = "product"} {
// CHECK: %[[STATES:.*]] = tile.workspace [select(and(bits(T) <= 16, select(dim(c, 0) <= 64,
// CHECK-SAME: max(min(min(floordiv(132, max(ceildiv(dim(c, 0), min(ROWS, 64)) * ceildiv(dim(c, 1), min(COLUMNS, 128)), 1)), floordiv(ceildiv(dim(a, 1), STEP), 8)), 16), 1)
// CHECK-SAME: > 1), {{.*}} 0), dim(c, 0), ceildiv(dim(c, 1), 16) * 16] : !tile.view<[?, ?, ?], f32>
// CHECK: tile.launch @product(%a, %b, %row, %c){{ +}}when (select(bits(T) <= 16, not({{.*}} > 1), true))
// CHECK: tile.launch @product_share(%a, %b, %row, %c, %[[STATES]]) with (ROWS = min(ROWS, 64), COLUMNS = min(COLUMNS, 128)){{ +}}when ({{.*}} > 1), dim(c, 0) <= 64))
// CHECK: tile.launch @product_share(%a, %b, %row, %c, %[[STATES]]) with (ROWS = min(ROWS, 128), COLUMNS = min(COLUMNS, 128)){{ +}}when ({{.*}} > 1), and(not(dim(c, 0) <= 64), dim(c, 0) <= 128)))
// CHECK: tile.launch @product_share(%a, %b, %row, %c, %[[STATES]]){{ +}}when ({{.*}} > 1), and(not(dim(c, 0) <= 64), not(dim(c, 0) <= 128))))
// CHECK: tile.launch @product_merge(%a, %b, %row, %c, %[[STATES]]) with (ROWS = min(ROWS, 8)){{ +}}when (

// GIVEN-LABEL: tile.program @product_launches
// GIVEN: tile.workspace [select(3 > 1, 3, 0), dim(c, 0),
// GIVEN: tile.launch @product_share(
// GIVEN: tile.launch @product_merge(
// GIVEN: strategy = "a share of the iterations of its loop, as given"

// CHECK-LABEL: tile.kernel @product
// CHECK: require(dim(c, 0) == dim(a, 0))
// CHECK: scf.for

// An instance for each share has a range of the iterations.
// CHECK-LABEL: tile.kernel @product_share
// CHECK-NOT: require
// CHECK: (%a: {{.*}}, %c: {{.*}}, %states: !tile.view<[?, ?, ?], f32>)
// CHECK: grid(%m = ceildiv(dim(c, 0), ROWS), %n = ceildiv(dim(c, 1), COLUMNS), %share = dim(states, 0)) attributes {strategy = "a share of the iterations of its loop, by the table: roles, up to 16 bits", tgpu.most_stages = 4 : i64}
// CHECK: %[[STEP:.*]] = tile.param STEP : i32
// CHECK: %[[DEPTH:.*]] = tile.dim %a, 1
// CHECK: %[[SHARES:.*]] = tile.dim %states, 0
// CHECK: %[[ITERATIONS:.*]] = arith.divsi %{{.*}}, %[[STEP]]
// CHECK: %[[EACH:.*]] = arith.divsi %{{.*}}, %[[SHARES]]
// CHECK: %[[BEFORE:.*]] = arith.muli %share, %[[EACH]]
// CHECK: %[[FIRST:.*]] = arith.minsi %[[BEFORE]], %[[ITERATIONS]]
// CHECK: %[[NEXT:.*]] = arith.addi %[[FIRST]], %[[EACH]]
// CHECK: %[[END:.*]] = arith.minsi %[[NEXT]], %[[ITERATIONS]]
// CHECK: arith.muli %[[END]], %[[STEP]]
// CHECK: %[[UPPER:.*]] = arith.minsi %{{.*}}, %[[DEPTH]]
// CHECK: arith.muli %[[FIRST]], %[[STEP]]
// CHECK: %[[STATE:.*]] = scf.for %{{.*}} = %{{.*}} to %[[UPPER]] step %[[STEP]]
// CHECK: tile.store %[[STATE]], %states[%share, %{{.*}}, %{{.*}}]
// CHECK-NOT: tile.store

// States are merged in order, four at a time, and the kernel continues with the result.
// CHECK-LABEL: tile.kernel @product_merge
// CHECK: grid(%m = ceildiv(dim(c, 0), ROWS), %n = ceildiv(dim(c, 1), COLUMNS)) attributes {strategy = "the merge of shares of a loop
// CHECK: %[[ALL:.*]] = tile.dim %states, 0
// CHECK: %[[MERGED:.*]] = scf.for %[[SHARE:.*]] = %{{.*}} to %[[ALL]] step %{{.*}} iter_args(%[[OLD:.*]] = %{{.*}})
// CHECK: %[[S0:.*]] = tile.load %states[%[[SHARE]], %{{.*}}, %{{.*}}]
// CHECK: %[[S1:.*]] = tile.load %states[
// CHECK: tile.load %states[
// CHECK: tile.load %states[
// CHECK: %[[M0:.*]] = func.call @merge(%[[OLD]], %[[S0]])
// CHECK: %[[M1:.*]] = func.call @merge(%[[M0]], %[[S1]])
// CHECK: arith.select %{{.*}}, %[[M1]], %[[M0]]
// CHECK: %[[ROW:.*]] = tile.load %row[
// CHECK: tile.expand %[[ROW]]
// CHECK: arith.addf %[[MERGED]],
// CHECK: tile.store %{{.*}}, %c[
tile.kernel @product
    params(T: type, COLUMNS: int = block(), ROWS: int = block(), STEP: int = 64)
    require(dim(c, 0) == dim(a, 0))
    (%a: !view, %b: !view, %row: !tile.view<[?], f32>, %c: !tile.view<[?, ?], f32>)
    grid(%m = ceildiv(dim(c, 0), ROWS), %n = ceildiv(dim(c, 1), COLUMNS)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.param ROWS : i32
  %columns = tile.param COLUMNS : i32
  %step = tile.param STEP : i32
  %i = arith.muli %m, %rows : i32
  %j = arith.muli %n, %columns : i32
  %depth = tile.dim %a, 1 : !view
  %zero = tile.constant 0.0 : !c
  %sum = scf.for %k = %c0 to %depth step %step iter_args(%old = %zero) -> (!c) : i32 {
    %a_tile = tile.load %a[%i, %k] : !view -> !tile.tile<[ROWS, STEP], T>
    %b_tile = tile.load %b[%k, %j] : !view -> !tile.tile<[STEP, COLUMNS], T>
    %new = tile.dot %a_tile, %b_tile, %old : !tile.tile<[ROWS, STEP], T>, !tile.tile<[STEP, COLUMNS], T> -> !c
    scf.yield %new : !c
  } {tile.combine = @merge}
  %row_tile = tile.load %row[%j] : !tile.view<[?], f32> -> !tile.tile<[COLUMNS], f32>
  %row_each = tile.expand %row_tile dim 0 : !tile.tile<[COLUMNS], f32> -> !c
  %all = arith.addf %sum, %row_each : !c
  tile.store %all, %c[%i, %j] : !c, !tile.view<[?, ?], f32>
}

//--- fixed.mlir
!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[ROWS, 64], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

// Blocks that the author chose remain those of all launches. Their states may be large, so that one is merged at a time.
// CHECK-LABEL: tile.program @fixed_launches
// CHECK: tile.launch @fixed_share(%a, %c, %{{.*}}){{ +}}when (2 > 1)
// CHECK: tile.launch @fixed_merge(%a, %c, %{{.*}}){{ +}}when (2 > 1)
// CHECK-LABEL: tile.kernel @fixed_merge
// CHECK: %[[STEP:.*]] = arith.constant 1 : i32
// CHECK: scf.for %[[SHARE:.*]] = %{{.*}} to %{{.*}} step %[[STEP]] iter_args(%[[OLD:.*]] = %{{.*}})
// CHECK-NEXT: %[[STATE:.*]] = tile.load %states[%[[SHARE]], %{{.*}}, 0]
// CHECK-NEXT: %[[NEW:.*]] = func.call @merge(%[[OLD]], %[[STATE]])
// CHECK-NEXT: scf.yield %[[NEW]]
tile.kernel @fixed params(ROWS: int = 64) (%a: !view, %c: !view) grid(%m = ceildiv(dim(c, 0), ROWS)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.param ROWS : i32
  %i = arith.muli %m, %rows : i32
  %depth = tile.dim %a, 1 : !view
  %step = arith.constant 64 : i32
  %zero = tile.constant 0.0 : !c
  %sum = scf.for %k = %c0 to %depth step %step iter_args(%old = %zero) -> (!c) : i32 {
    %a_tile = tile.load %a[%i, %k] : !view -> !c
    %new = arith.addf %old, %a_tile : !c
    scf.yield %new : !c
  } {tile.combine = @merge}
  tile.store %sum, %c[%i, 0] : !c, !view
}

//--- remarks.mlir
!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.kernel @branch(%x: !view, %c: !view, %n: i32) grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = tile.constant 0.0 : !c
  %is_any = arith.cmpi sgt, %n, %c0 : i32
  %result = scf.if %is_any -> (!c) {
    // expected-remark @+1 {{has no shares: it must be in the body of a kernel, but is in 'scf.if'}}
    %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (!c) : i32 {
      scf.yield %old : !c
    } {tile.combine = @merge}
    scf.yield %sum : !c
  } else {
    scf.yield %zero : !c
  }
  tile.store %result, %c[0, 0] : !c, !view
}

// -----

!view = !tile.view<[?, ?], f32>

func.func private @add(%a: i32, %b: i32) -> i32 {
  %sum = arith.addi %a, %b : i32
  return %sum : i32
}

tile.kernel @scalar(%c: !view, %n: i32) grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // expected-remark @+1 {{has no shares: it must carry a single tile of two dimensions, by an i32, but got (i32) by i32}}
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %c0) -> (i32) : i32 {
    scf.yield %old : i32
  } {tile.combine = @add}
}

// -----

!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.kernel @twice(%c: !view, %d: !view) grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n = tile.dim %c, 1 : !view
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: its kernel must have exactly one store, in its body, and one such loop, but has other writes or loops}}
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    scf.yield %old : !c
  } {tile.combine = @merge}
  tile.store %sum, %c[0, 0] : !c, !view
  tile.store %sum, %d[0, 0] : !c, !view
}

// -----

!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.kernel @part(%c: !view) grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n = tile.dim %c, 1 : !view
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: what is made of it must be stored to an argument that is always there, in its own shape, but got !tile.tile<[8, 8], f32> in a result of}}
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    scf.yield %old : !c
  } {tile.combine = @merge}
  %part = tile.subview %c dim 0 from %c1 size %n : !view
  tile.store %sum, %part[0, 0] : !c, !view
}

// -----

!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.kernel @behind(%c: !view) grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n = tile.dim %c, 1 : !view
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: the place of its result must be computed before it, but got a result of 'arith.addi'}}
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    scf.yield %old : !c
  } {tile.combine = @merge}
  %row = arith.addi %m, %c1 : i32
  tile.store %sum, %c[%row, 0] : !c, !view
}

// -----

!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.kernel @range(%c: !view, %n: i32) grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: its iterations must be from 0 to an expression over the program, but got a bound that is an argument of 'tile.kernel'}}
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    scf.yield %old : !c
  } {tile.combine = @merge}
  tile.store %sum, %c[0, 0] : !c, !view
}

// -----

!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], ACC>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.program @program(%c: !tile.view<[?, ?], f32>) {
  tile.launch @types(%c) with (T = f32) : !tile.view<[?, ?], f32>
}

tile.kernel @types params(T: type, let ACC: type = accumulator(T)) (%c: !tile.view<[?, ?], T>)
    grid(%m = ceildiv(dim(c, 0), 8)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %n = tile.dim %c, 1 : !tile.view<[?, ?], T>
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: the program has no parameter 'ACC' with the value of the kernel's, the type of states}}
  %sum = scf.for %k = %c0 to %n step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    scf.yield %old : !c
  } {tile.combine = @merge}
  %rounded = tile.cast %sum : !c -> !tile.tile<[8, 8], T>
  tile.store %rounded, %c[0, 0] : !tile.tile<[8, 8], T>, !tile.view<[?, ?], T>
}

// -----

!view = !tile.view<[?, ?], f32>
!c = !tile.tile<[8, 8], f32>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.program @program(%c: !view, %n: i32) {
  tile.launch @grid(%c, %n) : !view, i32
}

tile.kernel @grid(%c: !view, %n: i32) grid(%m = n) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %depth = tile.dim %c, 1 : !view
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: the grid, or an extent of the result, is no expression over the program; compute both from its arguments and parameters}}
  %sum = scf.for %k = %c0 to %depth step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    scf.yield %old : !c
  } {tile.combine = @merge}
  tile.store %sum, %c[0, 0] : !c, !view
}

// -----

!c = !tile.tile<[16, 16], f32>
!a = !tile.tile<[16, 16], S>

func.func private @merge(%a: !c, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  return %sum : !c
}

tile.program @program params(T: type) (%a: !tile.view<[?, ?], T>, %c: !tile.view<[?, ?], f32>) {
  tile.launch @operands(%a, %c) : !tile.view<[?, ?], T>, !tile.view<[?, ?], f32>
}

tile.kernel @operands params(S: type) (%a: !tile.view<[?, ?], S>, %c: !tile.view<[?, ?], f32>)
    grid(%m = ceildiv(dim(c, 0), 16)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %depth = tile.dim %a, 1 : !tile.view<[?, ?], S>
  %zero = tile.constant 0.0 : !c
  // expected-remark @+1 {{has no shares: the type of a product must be a parameter of the program, but got !tile.tile<[16, 16], S>}}
  %sum = scf.for %k = %c0 to %depth step %c1 iter_args(%old = %zero) -> (!c) : i32 {
    %x = tile.load %a[0, %k] : !tile.view<[?, ?], S> -> !a
    %new = tile.dot %x, %x, %old : !a, !a -> !c
    scf.yield %new : !c
  } {tile.combine = @merge}
  tile.store %sum, %c[0, 0] : !c, !tile.view<[?, ?], f32>
}
