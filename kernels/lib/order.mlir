// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which the blocks of keys of a head start where they add to dQ in order. A kernel that links this file
// declares PACKED.

tile.link "batch.mlir"

!cu_view  = !tile.view<[?], i32>
!key_view = !tile.view<[?, ?, ?, D], T>
!one      = !tile.tile<[1], i32>

// With PACKED: the blocks of keys of all sequences, those with the most blocks behind them in their sequence first, and
// among equals those of earlier sequences; blocks without rows last. %order[x] is the number that lib/batch.mlir gives
// the block at place x.
tile.kernel @order_blocks
    params(D: int, T: type, PACKED: flag, BLOCK_N: int)
    (%k: !key_view, %cu_seqlens_k: !cu_view when (PACKED), %order: !cu_view)
    grid(%i = dim(order, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %size = tile.param BLOCK_N : i32
  %total = tile.dim %k, 2 : !key_view
  %b, %begin, %rows, %number = func.call @block_of_sequence(%i, %size, %cu_seqlens_k, %total)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %rest = tile.expr ceildiv(%rows, BLOCK_N) - %number : i32
  %boundaries = tile.dim %cu_seqlens_k, 0 : !cu_view
  %sequences = tile.expr %boundaries - 1 : i32
  // Blocks with more behind them, earlier blocks with as many, and all blocks of the sequences up to this one.
  %longer, %equal, %up_to_own, %all = scf.for %s = %c0 to %sequences step %c1
      iter_args(%longer_0 = %c0, %equal_0 = %c0, %up_to_own_0 = %c0, %all_0 = %c0) -> (i32, i32, i32, i32) : i32 {
    %s_begin, %s_rows = func.call @rows_of(%s, %cu_seqlens_k, %total) : (i32, !cu_view, i32) -> (i32, i32)
    %blocks = tile.expr ceildiv(%s_rows, BLOCK_N) : i32
    %longer_1 = tile.expr %longer_0 + max(%blocks - %rest, 0) : i32
    %precedes = tile.expr and(%s < %b, %blocks >= %rest) : i32
    %one = arith.extui %precedes : i1 to i32
    %equal_1 = arith.addi %equal_0, %one : i32
    %up_to_own_1 = tile.expr %up_to_own_0 + select(%s > %b, 0, %blocks) : i32
    %all_1 = arith.addi %all_0, %blocks : i32
    scf.yield %longer_1, %equal_1, %up_to_own_1, %all_1 : i32, i32, i32, i32
  }
  %place = arith.addi %longer, %equal : i32
  %empty_place = tile.expr %all + (%i - %up_to_own) : i32
  // Rows of no sequence count as none.
  %own_place = tile.expr select(and(and(%b >= 0, %b < %sequences), %rest > 0), %place, %empty_place) : i32
  %id = tile.full %i : !one
  tile.store %id, %order[%own_place] : !one, !cu_view
}
