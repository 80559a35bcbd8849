// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Several program instances share the keys of a sequence: each writes O and LSE of its part of them, and a second
// launch merges the parts (Flash-Decoding: Dao, Haziza, Massa and Sizov, 2023).
//
// A kernel that links this file declares PART_UNIT, PART_KEYS and PAIR_SHARE for @blocks_of_part: keys of a block, and
// keys that a part should have; and for the merge T, ACC, DV, DVP, MERGE: how many parts are merged at a time, and
// FOLDS: whether they are added one after the other, for which MERGE is 8.

tile.link "types.mlir"

// Results of parts, by sequence, head, query and part.
!o_parts   = !tile.view<[?, ?, ?, ?, DV], ACC>
!lse_parts = !tile.view<[?, ?, ?, ?], ACC>
// Results of parts, of one query, and the columns of its result. Each column has the weights of all parts, so that no
// number crosses columns.
!merged  = !tile.tile<[MERGE, DVP], ACC>
!merged_row = !tile.tile<[MERGE], ACC>
!merged_i32 = !tile.tile<[MERGE, DVP], i32>
!columns = !tile.tile<[DVP], ACC>

// How many of the blocks of keys of a sequence, iterations or entries of a list, a part has, at least 1: a sequence has
// at most `most` parts, and there are `pairs` pairs of a sequence and of rows that attend its keys together. An
// iteration takes no longer while there is one instance for PAIR_SHARE multiprocessors.
tile.function @blocks_of_part(%blocks, %most, %pairs: i32) -> i32 {
  // Where the memory is the limit, half of the multiprocessors suffice for it, PAIR_SHARE is 2: with more instances,
  // each takes longer for a block. A merge takes as long as four blocks. Where parts do not pay, only long sequences
  // are divided. More pairs than multiprocessors change nothing but the size of the numbers.
  %up_to_parts = tile.expr %blocks + (%most + -1) : i32
  %even = arith.divui %up_to_parts, %most : i32
  %alone = tile.expr min(%pairs, param(multiprocessors())) * PAIR_SHARE : i32
  %alone_time = tile.expr max(%alone, param(multiprocessors())) * %blocks : i32
  %shared_time = tile.expr max(%alone * %most, param(multiprocessors())) * %even + param(multiprocessors()) * 4 : i32
  tile.result max(max(%even, select(%shared_time < %alone_time, 1, param(ceildiv(PART_KEYS, PART_UNIT)))), 1) : i32
}

// The state after parts `first` .. first + MERGE - 1 of those that exist, added together.
tile.function @merge_parts(%first, %blocks, %each: i32, %lse_part: !merged_row, %o_part: !merged, %max_old, %sum_old,
                           %acc_old: !columns) -> (!columns, !columns, !columns) {
  %exists = tile.expr iota(%first, 0) * full(%each) < full(%blocks) : !merged_i32
  %x = tile.expr select(%exists, expand(%lse_part, 1), minus_inf) : !merged
  %max_new = tile.expr max(%max_old, reduce max(%x, 0)) : !columns
  // Natural until here: a sink may be too large for base 2.
  %weight = tile.expr exp2((%x - expand(%max_new, 0)) * log2e) : !merged
  %rescale = tile.expr exp2((%max_old - %max_new) * log2e) : !columns
  // What no part has written may be NaN.
  %weighted = tile.expr select(%exists, %o_part, %weight) * %weight : !merged
  %sum_part = tile.reduce add %weight dim 0 : !merged
  %acc_part = tile.reduce add %weighted dim 0 : !merged
  %sum_kept = tile.expr %sum_old * %rescale
  %acc_kept = tile.expr %acc_old * %rescale
  tile.result %max_new, %sum_kept + %sum_part, %acc_kept + %acc_part
}

// The state with part %first + %i, row %i of the tiles: the columns of @with_piece of pieces.mlir, bit by bit. What no
// part has written may be NaN.
tile.function @with_piece_of(%i, %first, %blocks, %each: i32, %lse_part: !merged_row, %o_part: !merged, %max_old,
                             %sum_old, %acc_old: !columns) -> (!columns, !columns, !columns) {
  %c0 = arith.constant 0 : i32
  %is_own = tile.expr iota(%c0, 0) == full(%i) : !merged_i32
  %lse_own = tile.expr select(%is_own, expand(%lse_part, 1), minus_inf) : !merged
  %lse = tile.reduce max %lse_own dim 0 : !merged
  // -0 + x is x, also for a zero.
  %o_own = tile.expr select(%is_own, %o_part, -0.0) : !merged
  %o = tile.reduce add %o_own dim 0 : !merged
  %max_new = tile.expr max(%max_old, %lse) : !columns
  %weight = tile.expr exp2((%lse - %max_new) * log2e) : !columns
  %rescale = tile.expr exp2((%max_old - %max_new) * log2e) : !columns
  %acc_kept = tile.expr %acc_old * %rescale : !columns
  %acc_own = tile.expr %o * %weight : !columns
  %sum_kept = tile.expr %sum_old * %rescale : !columns
  %exists = tile.expr (%first + %i) * %each < %blocks : i32
  tile.result select(%exists, %max_new, %max_old), select(%exists, %sum_kept + %weight, %sum_old),
      select(%exists, %acc_kept + %acc_own, %acc_old) : !columns, !columns, !columns
}

// The state after parts `first` .. first + 7 of those that exist, added one after the other.
tile.function @with_pieces(%first, %blocks, %each: i32, %lse_part: !merged_row, %o_part: !merged, %max_old,
                           %sum_old, %acc_old: !columns) -> (!columns, !columns, !columns) {
  %max_0, %sum_0, %acc_0 = tile.expr @with_piece_of(0 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_old, %sum_old, %acc_old) : !columns, !columns, !columns
  %max_1, %sum_1, %acc_1 = tile.expr @with_piece_of(1 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_0, %sum_0, %acc_0) : !columns, !columns, !columns
  %max_2, %sum_2, %acc_2 = tile.expr @with_piece_of(2 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_1, %sum_1, %acc_1) : !columns, !columns, !columns
  %max_3, %sum_3, %acc_3 = tile.expr @with_piece_of(3 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_2, %sum_2, %acc_2) : !columns, !columns, !columns
  %max_4, %sum_4, %acc_4 = tile.expr @with_piece_of(4 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_3, %sum_3, %acc_3) : !columns, !columns, !columns
  %max_5, %sum_5, %acc_5 = tile.expr @with_piece_of(5 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_4, %sum_4, %acc_4) : !columns, !columns, !columns
  %max_6, %sum_6, %acc_6 = tile.expr @with_piece_of(6 : i32, %first, %blocks, %each, %lse_part, %o_part,
      %max_5, %sum_5, %acc_5) : !columns, !columns, !columns
  tile.result @with_piece_of(7 : i32, %first, %blocks, %each, %lse_part, %o_part, %max_6, %sum_6, %acc_6)
      : !columns, !columns, !columns
}

// The state after parts `first` .. first + MERGE - 1 of those that exist.
tile.function @with_parts(%first, %blocks, %each: i32, %lse_part: !merged_row, %o_part: !merged, %max_old, %sum_old,
                          %acc_old: !columns) -> (!columns, !columns, !columns) {
  %max, %sum, %acc = tile.if FOLDS -> (!columns, !columns, !columns) {
    tile.yield @with_pieces(%first, %blocks, %each, %lse_part, %o_part, %max_old, %sum_old, %acc_old)
        : !columns, !columns, !columns
  } else {
    tile.yield @merge_parts(%first, %blocks, %each, %lse_part, %o_part, %max_old, %sum_old, %acc_old)
        : !columns, !columns, !columns
  }
  tile.result %max, %sum, %acc
}

// The first parts of a row, if parts are few.
tile.function @first_parts(%o_parts: !o_parts, %lse_parts: !lse_parts, %b, %h, %i, %most,
                           %pairs: i32) -> (i1, !merged, !merged_row) {
  %c0 = arith.constant 0 : i32
  // If parts are few, so that sequences are expected to have several, the first are on their way before their number is
  // known. The order lets the length be loaded behind them: what follows from it would delay them.
  %are_few = tile.expr %most * %pairs <= param(multiprocessors()) : i32
  %early = tile.expr select(%are_few, %most, 0) : i32
  %o_early = tile.subview %o_parts dim 3 from %c0 size %early : !o_parts
  %lse_early = tile.subview %lse_parts dim 3 from %c0 size %early : !lse_parts
  tile.result %are_few, load %o_early[%b, %h, %i, 0, 0], load %lse_early[%b, %h, %i, 0] : i1, !merged, !merged_row
}

// The natural maximum, the sum and the sum of results of all parts of a row.
tile.function @merge_all_parts(%are_few: i1, %o_first: !merged, %lse_first: !merged_row, %o_parts: !o_parts,
                               %lse_parts: !lse_parts, %b, %h, %i, %blocks,
                               %each: i32) -> (!columns, !columns, !columns) {
  %no_max = tile.expr full(@lowest()) : !columns
  %no_sum = tile.constant 0 : !columns
  %blocks_early = tile.expr select(%are_few, %blocks, 0) : i32
  %max_0, %sum_0, %acc_0 = tile.expr @with_parts(0 : i32, %blocks_early, %each, %lse_first, %o_first, %no_max, %no_sum,
      %no_sum) : !columns, !columns, !columns
  // A sequence without parts has its result, and none are left if the first are all.
  %next = tile.expr select(%are_few, MERGE, 0) : i32
  %has_more = tile.expr %blocks > select(%are_few, MERGE * %each, %each) : i32
  %parts = tile.if %has_more -> (i32) {
    %number = arith.ceildivui %blocks, %each : i32
    tile.yield %number
  } else {
    tile.yield 0 : i32
  }
  %max, %sum, %acc = tile.for %first in (%next to %parts) step MERGE
      iter_args(%max_old = %max_0 : !columns, %sum_old = %sum_0 : !columns, %acc_old = %acc_0 : !columns) {
    %lse_part = tile.load %lse_parts[%b, %h, %i, %first] : !lse_parts -> !merged_row
    %o_part = tile.load %o_parts[%b, %h, %i, %first, 0] : !o_parts -> !merged
    tile.yield @with_parts(%first, %blocks, %each, %lse_part, %o_part, %max_old, %sum_old, %acc_old)
        : !columns, !columns, !columns
  }
  tile.result %max, %sum, %acc
}
