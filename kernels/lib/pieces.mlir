// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Results that do not depend on how many program instances share the keys of a sequence. The length of the sequence
// alone divides its keys into pieces, at most SPLITS. Each piece is attended by itself, and the results of pieces are
// added one after the other, from the first to the last. An instance attends one piece or several consecutive ones. If
// it has all of a sequence, it adds their results itself (@with_piece), otherwise a second launch does so (@with_pieces
// of parts.mlir), by the same operations in the same order. So the number of pieces of an instance may depend on the
// batch.
//
// A kernel that links this file declares SPLITS, the most pieces of a sequence, and FOLDS, without which an instance
// has one piece; BLOCK_M and DVP.

tile.link "types.mlir"

// How many blocks a piece has, at least 1. The end of a piece takes a few hundred instructions, which two blocks hide
// behind the memory. Up to 8 blocks, more instances for a single sequence are worth more.
tile.function @blocks_of_piece(%blocks: i32) -> i32 {
  %splits = tile.param max(SPLITS, 1) : i32
  %up_to_splits = tile.expr %blocks + (max(SPLITS, 1) + -1) : i32
  %even = arith.divui %up_to_splits, %splits : i32
  tile.result max(%even, select(%blocks > 8, 2, 1))
}

// The number of pieces of an instance that should have `each` blocks, how many blocks these are, and how many blocks a
// piece has.
tile.function @whole_pieces(%each, %blocks: i32) -> (i32, i32, i32) {
  %pieces, %own, %of_piece = tile.if FOLDS -> (i32, i32, i32) {
    %piece = tile.expr @blocks_of_piece(%blocks) : i32
    // The first tile waits for all of this, and an instance of a single sequence has one piece.
    %are_several = tile.expr %each > %piece : i32
    %number = tile.if %are_several -> (i32) {
      %up_to_piece = tile.expr %each + %piece + -1 : i32
      %several = arith.divui %up_to_piece, %piece : i32
      tile.yield %several
    } else {
      tile.yield 1 : i32
    }
    tile.yield %number, %number * %piece, %piece : i32, i32, i32
  } else {
    tile.yield 1, %each, %each : i32, i32, i32
  }
  tile.result %pieces, %own, %of_piece : i32, i32, i32
}

// The first piece of an instance, and how many it has, if it should have `pieces`: those that exist. A sequence without
// keys has one piece as well.
tile.function @pieces_of_instance(%instance, %pieces, %of_piece, %blocks: i32) -> (i32, i32) {
  %first = arith.muli %instance, %pieces : i32
  %own = tile.if FOLDS -> (i32) {
    %before = arith.muli %first, %of_piece : i32
    %exists = tile.expr or(%before < %blocks, %instance == 0) : i32
    %are_several = tile.expr %pieces > 1 : i32
    %number = tile.if %are_several -> (i32) {
      %up_to_piece = tile.expr max(%blocks - %before, 1) + %of_piece + -1 : i32
      %left = arith.divui %up_to_piece, %of_piece : i32
      tile.yield min(%left, %pieces)
    } else {
      tile.yield 1 : i32
    }
    tile.yield select(%exists, %number, 0)
  } else {
    tile.yield 1 : i32
  }
  tile.result %first, %own : i32, i32
}

// The natural maximum, the sum and the sum of results of rows, with those of a piece.
tile.function @with_piece(%lse: !row, %o: !o, %max_old, %sum_old: !row, %o_old: !o) -> (!row, !row, !o) {
  // Natural: a sink may be too large for base 2.
  %max_new = tile.expr max(%max_old, %lse) : !row
  %weight = tile.expr exp2((%lse - %max_new) * log2e) : !row
  %rescale = tile.expr exp2((%max_old - %max_new) * log2e) : !row
  %o_kept = tile.expr %o_old * expand(%rescale, 1) : !o
  %o_own = tile.expr %o * expand(%weight, 1) : !o
  %sum_kept = tile.expr %sum_old * %rescale : !row
  tile.result %max_new, %sum_kept + %weight, %o_kept + %o_own
}
