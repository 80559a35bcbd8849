// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums in memory (tile.contribute): in any order, and in order.
//
// RUN: rm -rf %t && split-file %s %t
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a" | FileCheck %s --implicit-check-not=tile.contribute --implicit-check-not=tile.complete --implicit-check-not=tile.any_order --implicit-check-not=adds_in_order
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a sums=whole,ordered" | FileCheck %s --check-prefix=FORCED
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="sums=ordered" | FileCheck %s --check-prefix=FORCED
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a sums=unordered" | FileCheck %s --check-prefix=ANY --implicit-check-not=turns --implicit-check-not="in order" --implicit-check-not=tile.spread
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_80" | FileCheck %s --check-prefix=ANY --implicit-check-not=turns --implicit-check-not="in order" --implicit-check-not=tile.spread
// RUN: tilewright-opt %t/kernel.mlir --tile-combine-sums="target=sm_90a" | tilewright-opt --verify-roundtrip -o /dev/null

//--- kernel.mlir
!view = !tile.view<[?, ?, D], T>
!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!x = !tile.tile<[BLOCK_N, D], T>
!t = !tile.tile<[BLOCK_M, D], f32>
!y = !tile.tile<[BLOCK_M, D], T>

// What parameters decide precedes what each launch decides; the sum in any order begins at zero, and has no elements in
// the other form.
// CHECK-LABEL: tile.program @main
// CHECK: let OTHER: flag = and(DETERMINISTIC, not(ADDS_IN_ORDER)),
// CHECK-SAME: let ADDS_IN_ORDER: flag = and(and(and(true, not(and(DETERMINISTIC, not(true)))), not(LISTED)), D <= 128),
// CHECK-SAME: let TAKES_TURNS: flag = and(and(ADDS_IN_ORDER, dim(x, 0) > 0), or(DETERMINISTIC, and({{.*}} 128 == 128), select(D <= 64, ROWS == 128,
// CHECK-SAME: let LISTS_INSTANCES: flag = and(and(and(and(and(PACKED, CAUSAL), not(false)), dim(x, 1) >= 1024 * 7), 7 <= 256), TAKES_TURNS)
// CHECK: %[[ZEROED:.*]] = tile.workspace [select(TAKES_TURNS, 0, dim(y, 0)), dim(y, 1), D] fill 0.000000e+00
// CHECK: %[[SUMS:.*]] = tile.workspace [select(TAKES_TURNS, dim(y, 0), 0), dim(y, 1), D] :
// CHECK: %[[TURNS:.*]] = tile.workspace [select(TAKES_TURNS, dim(y, 0), 0), dim(y, 1)] fill 0 : !tile.view<[?, ?], i32>
// CHECK: %[[LIST:.*]] = tile.workspace [select(LISTS_INSTANCES, ceildiv(dim(x, 1), 128), 0)]
// CHECK: tile.launch @sort(%[[LIST]]) when (LISTS_INSTANCES)
// CHECK: tile.launch @add(%x, %[[ZEROED]], %[[LIST]], %[[TURNS]], %y) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (and(dim(x, 0) > 0, not(TAKES_TURNS)))
// With 80 rows of a block, 64.
// CHECK: tile.launch @add(%x, %[[SUMS]], %[[LIST]], %[[TURNS]], %y) with (IN_ORDER = true, BLOCK_M = select(and(ROWS == 80, not(PACKED)), 64, ROWS), WITH = not(OTHER)) when (TAKES_TURNS)
// CHECK: tile.launch @convert(%[[ZEROED]], %y) with (BLOCK_M = ROWS) when (or(not(TAKES_TURNS), ceildiv(dim(x, 1), 128) * dim(x, 0) == 0))
// FORCED-LABEL: tile.program @main
// FORCED: let ADDS_IN_ORDER: flag = and(and(true, not(and(DETERMINISTIC, not(true)))), not(LISTED)), let TAKES_TURNS: flag = and(and(ADDS_IN_ORDER, dim(x, 0) > 0), true)
// ANY-LABEL: tile.program @main
// ANY: let OTHER: flag = and(DETERMINISTIC, not(false))
// ANY: tile.workspace [dim(y, 0), dim(y, 1), D] fill 0.000000e+00
// ANY: %[[LIST:.*]] = tile.workspace [select(false, ceildiv(dim(x, 1), 128), 0)]
// ANY: tile.launch @sort(%[[LIST]]) when (false)
tile.program @main
    params(D: int, T: type, CAUSAL: flag = false, PACKED: flag = false, LISTED: flag = false,
           DETERMINISTIC: flag = false, let OTHER: flag = and(DETERMINISTIC, not(adds_in_order())), ROWS: int = 64)
    (%x: !view, %y: !view) {
  %sums = tile.workspace [dim(y, 0), dim(y, 1), D] : !sums
  %list = tile.workspace [ceildiv(dim(x, 1), 128)] : !list
  tile.launch @sort(%list) : !list
  tile.launch @add(%x, %sums, %list) with (BLOCK_M = ROWS, WITH = not(OTHER)) when (dim(x, 0) > 0) : !view, !sums, !list
  tile.launch @convert(%sums, %y) with (BLOCK_M = ROWS) : !sums, !view
}

tile.kernel @sort(%list: !list) grid(%i = dim(list, 0)) {
  %one = tile.full %i : !tile.tile<[1], i32>
  tile.store %one, %list[%i] : !tile.tile<[1], i32>, !list
}

// Instances start with the last block of positions, or the last heads with the first, from a list.
// CHECK-LABEL: tile.kernel @add
// CHECK: (%x: {{.*}}, %sums: {{.*}}, %list: !tile.view<[?], i32> when (IN_ORDER), %turns: !tile.view<[?, ?], i32> when (IN_ORDER), %y: !tile.view<[?, ?, D], T> when (IN_ORDER))
// CHECK: %[[ORDERED:.*]] = tile.param IN_ORDER : i1
// CHECK: %[[MAY:.*]] = tile.param and(IN_ORDER, CAUSAL) : i1
// CHECK: %[[LATE:.*]] = scf.if %[[MAY]] -> (i1) {
// CHECK: tile.dim %list, 0
// CHECK: arith.constant 264 : i32
// CHECK: arith.constant 528 : i32
// CHECK: %[[USES:.*]] = arith.andi %[[LATE]], %{{.*}} : i1
// CHECK: %[[PLACE:.*]] = scf.if %[[USES]] -> (i32) {
// CHECK: tile.at %list[%i]
// CHECK: %[[FROM_LAST:.*]] = arith.subi %{{.*}}, %[[PLACE]] : i32
// CHECK: %[[EARLY:.*]] = arith.select %{{.*}}, %[[FROM_LAST]], %[[PLACE]] : i32
// CHECK: %[[NUMBER:.*]] = arith.select %[[LATE]], %[[PLACE]], %[[EARLY]] : i32
// CHECK: tile.for_blocks {{.*}} descending if %[[LATE]]
// CHECK: scf.if %[[ORDERED]] {
// CHECK: %[[BEHIND:.*]] = arith.divsi
// CHECK: %[[FIRST:.*]] = arith.divsi
// CHECK: %[[BEFORE:.*]] = arith.subi %[[NUMBER]], %[[FIRST]] : i32
// CHECK: %[[TURN:.*]] = arith.select %[[LATE]], %[[BEFORE]], %[[BEHIND]] : i32
// CHECK: tile.atomic_add %{{.*}}, %sums[%h, %{{.*}}, 0] in order of %[[TURN]] by %turns[%h, %{{.*}}]
// CHECK: } else {
// CHECK: tile.atomic_add %{{.*}}, %sums[%h, %{{[a-z0-9_]*}}, 0] : !tile.tile<[BLOCK_M, D], f32>, !tile.view<[?, ?, D], f32>

// What @convert does, for each of its instances, as soon as the sum is complete.
// CHECK: scf.if %[[ORDERED]] {
// CHECK: %[[ROWS:.*]] = arith.ceildivsi
// CHECK: %[[ALL:.*]] = arith.muli %[[ROWS]], %{{.*}} : i32
// CHECK: tile.spread %[[I:.*]] to %[[ALL]] {
// CHECK: %[[BLOCK:.*]] = arith.remsi %[[I]], %[[ROWS]] : i32
// CHECK: %[[HEAD:.*]] = arith.divsi %[[I]], %[[ROWS]] : i32
// CHECK: %[[ADDED:.*]] = arith.select %[[SOME:.*]], %{{.*}}, %{{.*}} : i32
// CHECK: tile.await %[[ADDED]] of %turns[%[[HEAD]],
// CHECK: %[[SIZE:.*]] = arith.select %[[SOME]], %{{.*}}, %{{.*}} : i32
// CHECK: %[[OWN:.*]] = tile.subview %sums dim 1 from %{{.*}} size %[[SIZE]]
// CHECK: tile.load %[[OWN]][%[[HEAD]],
// CHECK: tile.store %{{.*}}, %y[%[[HEAD]],
// ANY-LABEL: tile.kernel @add
// ANY: tile.for_blocks {{.*}} against
// ANY: tile.atomic_add
tile.kernel @add
    params(D: int, T: type, CAUSAL: flag, PACKED: flag, LISTED: flag, DETERMINISTIC: flag, BLOCK_M: int,
           BLOCK_N: int = 128, WITH: flag, IN_ORDER: flag = false)
    (%x: !view, %sums: !sums, %list: !list when (IN_ORDER)) grid(%i = ceildiv(dim(x, 1), BLOCK_N), %h = dim(x, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %x, 1 : !view
  %block = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %rows, %block : i32
  %with = tile.param WITH : i1
  %place = tile.any_order %i listed %list : !list when (PACKED)
  %number = tile.any_order %place of %blocks
  %n = arith.muli %number, %block : i32
  %x_tile = tile.load %x[%h, %n, 0] : !view -> !x
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows)
      keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1> {
    %zero = tile.constant 1 : !t
    scf.if %with {
      tile.contribute %zero, %sums[%h, %m, 0] from %n of %c0 to %rows each BLOCK_N
          in order if IN_ORDER when (not(LISTED)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
          packed when (PACKED) rows (dim(x, 1)) sequences (7) : !t, !sums
    }
  }
}

// CHECK-LABEL: tile.kernel @convert
// CHECK: tile.load %sums[
tile.kernel @convert params(D: int, T: type, BLOCK_M: int) (%sums: !sums, %y: !view)
    grid(%i = ceildiv(dim(y, 1), BLOCK_M), %h = dim(y, 0)) {
  %c0 = arith.constant 0 : i32
  %size = tile.param BLOCK_M : i32
  %rows = tile.dim %y, 1 : !view
  %m = arith.muli %i, %size : i32
  %sum = tile.complete %sums[%h, %m, 0] of %c0 to %rows : !sums -> !t
  %out = tile.cast %sum : !t -> !y
  tile.store %out, %y[%h, %m, 0] : !y, !view
}
