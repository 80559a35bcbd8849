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
// begins with block (cu[b] + (b + 1) * (size - 1)) / size, and has as many blocks as its rows need, or one more. Every
// sequence begins with a whole block, so the last block of a sequence never overlaps the next sequence. A grid has
// ceildiv(rows, size) + sequences + 1 blocks. A workspace has (rows + (sequences + 1) * (size - 1)) / size: the blocks
// behind them have rows of no sequence.
//
// In this file, b is the number of an element of a dense batch, or of a packed sequence. A kernel that links this file
// declares PACKED; for @longest_block also BLOCK_M and CAUSAL; and for workspaces also PAD, the size of their blocks.
// `tile.subview %q dim 2 from %begin size %rows when (PACKED)` has only the rows of b.

tile.link "types.mlir"

// For instance (%e, %block) of a grid over blocks of `size` rows: b, its index in the first dimension of the arrays,
// the first row of b, the number of its rows, and the number of the block within b. The last block of a packed sequence
// may have no rows. Where b is -1 or the number of sequences, the rows belong to no sequence.
tile.function @block(%e, %block, %size: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32, i32) {
  %b, %a, %begin, %rows, %number = tile.if PACKED -> (i32, i32, i32, i32, i32) {
    %sequence, %first, %count, %own = tile.expr @block_of_sequence(%block, %size, %cu, %total) : i32
    tile.yield %sequence, 0, %first, %count, %own : i32, i32, i32, i32, i32
  } else {
    tile.yield %e, %e, 0, %total, %block : i32, i32, i32, i32, i32
  }
  tile.result %b, %a, %begin, %rows, %number : i32, i32, i32, i32, i32
}

// Like @block for blocks of BLOCK_M rows, but returns the first row of the block within b instead of its number. Under
// a causal mask, the blocks of each b are in reverse order: the last rows attend the most keys, and start first to
// balance the load.
tile.function @longest_block(%e, %block: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32, i32) {
  %b, %a, %begin, %rows, %number = tile.expr @block(%e, %block, BLOCK_M : i32, %cu, %total) : i32
  %from_last = tile.expr ceildiv(%rows, BLOCK_M) - 1 - %number
  %descending = tile.expr select(or(param(not(PACKED)), %from_last >= 0), %from_last, %number)
  tile.result %b, %a, %begin, %rows, select(param(CAUSAL == "none"), %number, %descending) * BLOCK_M
}

// The first row of b, and the number of its rows: 0 if the sequence ends before it begins, and for rows of no sequence.
tile.function @rows_of(%b: i32, %cu: !cu_view, %total: i32) -> (i32, i32) {
  %begin, %rows = tile.if PACKED -> (i32, i32) {
    %first, %count = tile.expr @rows_from(%b, %cu, 0 : i32, %total) : i32
    tile.yield %first, select(%b < 0, 0, %count)
  } else {
    tile.yield 0, %total : i32, i32
  }
  tile.result %begin, %rows
}

// The first row of b in a workspace.
tile.function @workspace_begin(%b, %begin: i32) -> i32 = select(PACKED, @first_block(%b, %begin, PAD : i32) * PAD, 0)

// For a row of a workspace: b, the row within b, the first row of b in the arrays, and the number of its rows.
tile.function @row_of_workspace(%padded_row: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32) {
  %sequence, %row, %begin, %rows = tile.if PACKED -> (i32, i32, i32, i32) {
    %b, %first, %count, %number = tile.expr @block_of_sequence(%padded_row / PAD, PAD : i32, %cu, %total) : i32
    tile.yield %b, %number * PAD + mod(%padded_row, PAD), %first, %count
  } else {
    tile.yield 0, %padded_row, 0, %total : i32, i32, i32, i32
  }
  tile.result %sequence, %row, %begin, %rows
}

//===----------------------------------------------------------------------===//
// Packed sequences only
//===----------------------------------------------------------------------===//

// The number of the first block of a sequence.
tile.function @first_block(%b, %begin, %size: i32) -> i32 {
  // With n = b + 1, it is n + floor((begin - n) / size): of many sequences, n * (size - 1) has more than 32 bits.
  %c1 = arith.constant 1 : i32
  %n = tile.expr %b + 1
  %rest = tile.expr %begin - %n
  // A shift rounds down. %size is known, so that only one of these two remains.
  %bits = tile.expr
      select(%size <= 16, 4, select(%size <= 32, 5, select(%size <= 64, 6, select(%size <= 128, 7, 8)))) : i32
  %power = arith.shli %c1, %bits : i32
  %shifted = arith.shrsi %rest, %bits : i32
  // %rest is greater than -2^31, and less than 2^31 - size, since the rows of a block are counted in 32 bits, too. As
  // many blocks as make it positive are added before an unsigned division, and subtracted after it.
  %added = tile.expr 2147483647 / %size + 1
  %positive = tile.expr %rest + %added * %size
  %quotient = arith.divui %positive, %size : i32
  tile.result select(%power == %size, %shifted, %quotient - %added) + %n
}

// The first row of b and the number of its rows, where the rows behind the last sequence begin where that ends, even if
// it ends before it begins, and end at %behind.
tile.function @rows_from(%b: i32, %cu: !cu_view, %behind, %total: i32) -> (i32, i32) {
  %next = tile.expr %b + 1
  %is_last = tile.expr %next >= dim(%cu, 0)
  %before = tile.expr %b - 1
  %given_first = tile.expr @begin_of(%cu, %b, %total) : i32
  %first = tile.expr select(%is_last, max(%given_first, @begin_of(%cu, %before, %total)), %given_first)
  tile.result %first, max(select(%is_last, %behind, @begin_of(%cu, %next, %total)), %first) - %first : i32, i32
}

// cu[b], clamped to the number of rows of the array; 0 for b = -1, since elements outside of a view read as 0.
tile.function @begin_of(%cu: !cu_view, %b, %total: i32) -> i32 = min(max(%cu[%b], 0), %total)

// Whether a sequence begins at or before a block. %place is one more than its number.
tile.function @begins_by(%place, %block, %size: i32, %cu: !cu_view, %total: i32) -> i1 {
  %b = tile.expr %place - 1 : i32
  %first = tile.expr @first_block(%b, @begin_of(%cu, %b, %total) : i32, %size) : i32
  tile.result %first <= %block
}

// For a block: its sequence, by a search of which each step reads three places at once, the first row and the number of
// rows of that sequence, and the number of the block within it. The last block of a sequence may have no rows. The
// sequences -1 and `sequences` have the rows before the first and after the last.
tile.function @block_of_sequence(%block, %size: i32, %cu: !cu_view, %total: i32) -> (i32, i32, i32, i32) {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  // A step leaves a quarter of the places from %low to %high.
  %places = tile.expr dim(%cu, 0) + 1 : i32
  %more = tile.expr select(%places <= 4096, 6, 16) : i32
  %steps = tile.expr select(%places <= 16, 2, select(%places <= 64, 3, %more))
  %place, %behind = tile.for %step in (0 to %steps) iter_args(%low = 0 : i32, %high = %places : i32) {
    %length = tile.expr %high - %low : i32
    %rounded = tile.expr %length + 3
    %half = arith.shrui %length, %c1 : i32
    %down = arith.shrui %length, %c2 : i32
    %up = arith.shrui %rounded, %c2 : i32
    %p1 = tile.expr %low + %down
    %p2 = tile.expr %low + %half
    %p3 = tile.expr %high - %up
    %by_1 = tile.expr @begins_by(%p1, %block, %size, %cu, %total) : i1
    %by_2 = tile.expr @begins_by(%p2, %block, %size, %cu, %total) : i1
    %by_3 = tile.expr @begins_by(%p3, %block, %size, %cu, %total) : i1
    // Whatever the offsets, %low is less than %high.
    tile.yield select(%by_2, select(%by_3, %p3, %p2), select(%by_1, %p1, %low)),
        select(%by_2, select(%by_3, %high, %p3), select(%by_1, %p2, %p1))
  }
  %b = tile.expr %place - 1 : i32
  %begin, %rows = tile.expr @rows_from(%b, %cu, %total, %total) : i32
  tile.result %b, %begin, %rows, max(%block - @first_block(%b, %begin, %size), 0)
}
