// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// RUN: tilewright-opt %s | tilewright-opt | FileCheck %s
// RUN: tilewright-opt %s --mlir-print-op-generic | tilewright-opt | FileCheck %s

!sums = !tile.view<[?, ?, D], f32>
!list = !tile.view<[?], i32>
!t = !tile.tile<[BLOCK_M, D], f32>
!tt = !tile.tile<[D, BLOCK_M], f32>
!keep = !tile.tile<[BLOCK_N, BLOCK_M], i1>

// CHECK-LABEL: tile.kernel @in_order
tile.kernel @in_order
    params(D: int, BLOCK_M: int, BLOCK_N: int, CAUSAL: flag, WINDOW: flag, PACKED: flag, DETERMINISTIC: flag,
           IN_ORDER: flag = false)
    (%sums: !sums, %list: !list) grid(%i = ceildiv(dim(sums, 1), BLOCK_N), %h = dim(sums, 0)) {
  %c0 = arith.constant 0 : i32
  %rows = tile.dim %sums, 1 : !sums
  // CHECK: %[[PLACE:.*]] = tile.any_order %i listed %list : !tile.view<[?], i32> when (PACKED)
  %place = tile.any_order %i listed %list : !list when (PACKED)
  // CHECK: tile.any_order %[[PLACE]] of %{{.*}}
  // CHECK-NOT: when
  %number = tile.any_order %place of %rows
  %block = tile.param BLOCK_N : i32
  %n = arith.muli %number, %block : i32
  tile.for_blocks %m in (%c0 to %rows) against (%n to %rows) keep %keep : !keep {
    %zero = tile.constant 0 : !tt
    // CHECK: tile.contribute %{{.*}}, %sums[%h, %{{.*}}, 0] dims [2, 1] from %{{.*}} of %{{.*}} to %{{.*}} each BLOCK_N * 2 in order if IN_ORDER when (not(CAUSAL)) deterministic when (DETERMINISTIC) staggered when (CAUSAL) banded when (WINDOW) packed when (PACKED) rows (dim(sums, 1)) sequences (dim(list, 0) - 1) : !tile.tile<[D, BLOCK_M], f32>, !tile.view<[?, ?, D], f32>
    tile.contribute %zero, %sums[%h, %m, 0] dims [2, 1] from %n of %c0 to %rows each BLOCK_N * 2
        in order if IN_ORDER when (not(CAUSAL)) deterministic when (DETERMINISTIC) staggered when (CAUSAL)
        banded when (WINDOW) packed when (PACKED) rows (dim(sums, 1)) sequences (dim(list, 0) - 1) : !tt, !sums
  }
}

// CHECK-LABEL: tile.kernel @in_any_order
tile.kernel @in_any_order params(D: int, BLOCK_M: int) (%sums: !sums) grid(%h = dim(sums, 0)) {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0 : !t
  // CHECK: tile.contribute %{{.*}}, %sums[%h, 0, 0] from %{{.*}} of %{{.*}} to %{{.*}} each 1 : !tile.tile<[BLOCK_M, D], f32>, !tile.view<[?, ?, D], f32>
  tile.contribute %zero, %sums[%h, 0, 0] from %c0 of %c0 to %c0 each 1 : !t, !sums
}

// CHECK-LABEL: tile.kernel @read
tile.kernel @read params(D: int, BLOCK_M: int) (%sums: !sums) grid(%h = dim(sums, 0)) {
  %c0 = arith.constant 0 : i32
  // CHECK: tile.complete %sums[%h, 0, 0] of %[[C0:.*]] to %[[C0]] : !tile.view<[?, ?, D], f32> -> !tile.tile<[BLOCK_M, D], f32>
  %sum = tile.complete %sums[%h, 0, 0] of %c0 to %c0 : !sums -> !t
}
