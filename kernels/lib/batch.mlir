// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rows of a batch. A dense batch has the shape [B, heads, rows, width], with the same number of rows in each
// element. A packed batch (PACKED) has the shape [1, heads, T, width] and holds sequences of different lengths one
// after the other: sequence b has the rows cu[b] .. cu[b + 1] - 1. It may be empty.
//
// The offsets cu [sequences + 1] i32 (cu_seqlens_q, cu_seqlens_k) ascend, and lie between 0 and T; the first need not
// be 0, nor the last T. The host checks them; a device checks them on request. Without the check, a kernel clamps each
// offset to the range 0 to T and treats a sequence that ends before it begins as empty. If the offsets do not ascend,
// it is undefined which rows are written.
//
// Rows before the first sequence and after the last belong to none. They count as two further sequences, the numbers -1
// and `sequences`, whose queries attend no key and whose keys no query attends: so their results are written, too.
//
// Blocks of `size` rows number the instances of a grid, and the parts of a workspace. In a packed batch, sequence b
// begins with block b + 1 + cu[b] / size, and has as many blocks as its rows need, or one more. Every sequence begins
// with a whole block, so the last block of a sequence never overlaps the next sequence. A grid has
// rows / size + sequences + 1 blocks, rounded up. A workspace has that number, rounded down: the blocks behind them
// have rows of no sequence.
//
// In this file, b is the number of an element of a dense batch, or of a packed sequence. A kernel that links this file
// declares PACKED; for @longest_block also BLOCK_M and CAUSAL; and for workspaces also PAD, the size of their blocks.
// `tile.subview %q dim 2 from %begin size %rows when (PACKED)` has only the rows of b.

tile.link "types.mlir"

// For instance (%e, %block) of a grid over blocks of `size` rows: b, its index in the first dimension of the arrays,
// the first row of b, the number of its rows, and the number of the block within b. The last block of a packed sequence
// may have no rows. Where b is -1 or the number of sequences, the rows belong to no sequence.
func.func private @block(%e: i32, %block: i32, %size: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32, i32) {
  %c0 = arith.constant 0 : i32
  %packed = tile.param PACKED : i1
  %b, %a, %begin, %rows, %number = scf.if %packed -> (i32, i32, i32, i32, i32) {
    %sequence, %first, %count, %own = tile.expr @block_of_sequence(%block, %size, %cu, %total) : i32, i32, i32, i32
    scf.yield %sequence, %c0, %first, %count, %own : i32, i32, i32, i32, i32
  } else {
    scf.yield %e, %e, %c0, %total, %block : i32, i32, i32, i32, i32
  }
  return %b, %a, %begin, %rows, %number : i32, i32, i32, i32, i32
}

// Like @block for blocks of BLOCK_M rows, but returns the first row of the block within b instead of its number. Under
// a causal mask, the blocks of each b are in reverse order: the last rows attend the most keys, and start first to
// balance the load.
func.func private @longest_block(%e: i32, %block: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32, i32) {
  %size = tile.param BLOCK_M : i32
  %b, %a, %begin, %rows, %number = tile.expr @block(%e, %block, %size, %cu, %total) : i32, i32, i32, i32, i32
  %from_last = tile.expr ceildiv(%rows, BLOCK_M) - 1 - %number : i32
  %descending = tile.expr select(or(param(not(PACKED)), %from_last >= 0), %from_last, %number) : i32
  %row = tile.expr select(param(CAUSAL == "none"), %number, %descending) * BLOCK_M : i32
  return %b, %a, %begin, %rows, %row : i32, i32, i32, i32, i32
}

// The first row of b, and the number of its rows: 0 if the sequence ends before it begins, and for rows of no sequence.
func.func private @rows_of(%b: i32, %cu: !cu_view, %total: i32) -> (i32, i32) {
  %c0 = arith.constant 0 : i32
  %packed = tile.param PACKED : i1
  %begin, %rows = scf.if %packed -> (i32, i32) {
    %first, %count = tile.expr @rows_from(%b, %cu, %c0, %total) : i32, i32
    %own = tile.expr select(%b < 0, 0, %count) : i32
    scf.yield %first, %own : i32, i32
  } else {
    scf.yield %c0, %total : i32, i32
  }
  return %begin, %rows : i32, i32
}

// The first row of b in a workspace.
func.func private @workspace_begin(%b: i32, %begin: i32) -> i32 {
  tile.result select(PACKED, @first_block(%b, %begin, PAD : i32) * PAD, 0) : i32
}

// For a row of a workspace: b, the row within b, the first row of b in the arrays, and the number of its rows.
func.func private @row_of_workspace(%padded_row: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32) {
  %c0 = arith.constant 0 : i32
  %packed = tile.param PACKED : i1
  %sequence, %row, %begin, %rows = scf.if %packed -> (i32, i32, i32, i32) {
    %block = tile.expr %padded_row / PAD : i32
    %b, %first, %count, %number = tile.expr @block_of_sequence(%block, PAD : i32, %cu, %total) : i32, i32, i32, i32
    %own = tile.expr %number * PAD + mod(%padded_row, PAD) : i32
    scf.yield %b, %own, %first, %count : i32, i32, i32, i32
  } else {
    scf.yield %c0, %padded_row, %c0, %total : i32, i32, i32, i32
  }
  return %sequence, %row, %begin, %rows : i32, i32, i32, i32
}

//===----------------------------------------------------------------------===//
// Packed sequences only
//===----------------------------------------------------------------------===//

// The number of the first block of a sequence.
func.func private @first_block(%b: i32, %begin: i32, %size: i32) -> i32 {
  tile.result %begin / %size + (%b + 1) : i32
}

// The first row of b and the number of its rows, where the rows behind the last sequence begin where that ends, even if
// it ends before it begins, and end at %behind.
func.func private @rows_from(%b: i32, %cu: !cu_view, %behind: i32, %total: i32) -> (i32, i32) {
  %next = tile.expr %b + 1 : i32
  %boundaries = tile.dim %cu, 0 : !cu_view
  %is_last = arith.cmpi sge, %next, %boundaries : i32
  %before = tile.expr %b - 1 : i32
  %given_first = tile.expr @begin_of(%cu, %b, %total) : i32
  %first = tile.expr select(%is_last, max(%given_first, @begin_of(%cu, %before, %total)), %given_first) : i32
  tile.result %first, max(select(%is_last, %behind, @begin_of(%cu, %next, %total)), %first) - %first : i32, i32
}

// cu[b], clamped to the number of rows of the array; 0 for b = -1, since elements outside of a view read as 0.
func.func private @begin_of(%cu: !cu_view, %b: i32, %total: i32) -> i32 {
  tile.result min(max(%cu[%b], 0), %total) : i32
}

// For a block: its sequence, by bisection, the first row and the number of rows of that sequence, and the number of the
// block within it. The last block of a sequence may have no rows. The sequences -1 and `sequences` have the rows before
// the first and after the last.
func.func private @block_of_sequence(%block: i32, %size: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  // %low and %high are the places of sequences, one more than their numbers.
  %places = tile.expr dim(%cu, 0) + 1 : i32
  %steps = tile.expr select(%places <= 32, 5, select(%places <= 65536, 16, 31)) : i32
  %place, %behind = scf.for %step = %c0 to %steps step %c1
      iter_args(%low = %c0, %high = %places) -> (i32, i32) : i32 {
    %sum = arith.addi %low, %high : i32
    %middle = arith.shrui %sum, %c1 : i32
    %number = tile.expr %middle - 1 : i32
    %first = tile.expr @first_block(%number, @begin_of(%cu, %number, %total) : i32, %size) : i32
    %is_before = arith.cmpi sle, %first, %block : i32
    %new_low = arith.select %is_before, %middle, %low : i32
    %new_high = arith.select %is_before, %high, %middle : i32
    scf.yield %new_low, %new_high : i32, i32
  }
  %b = tile.expr %place - 1 : i32
  %begin, %rows = tile.expr @rows_from(%b, %cu, %total, %total) : i32, i32
  %number = tile.expr max(%block - @first_block(%b, %begin, %size), 0) : i32
  return %b, %begin, %rows, %number : i32, i32, i32, i32
}
