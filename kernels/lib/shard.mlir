// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shards: arrays that hold a part of longer sequences, or some of the heads. With SHARD, masks and modifiers get the
// positions, heads and batch elements of the whole, so that they are the same as without the parts:
//
//   first_row, first_key     the position of the first row of q, and of k
//   first_head, first_batch  the number of the first head of q, and of the first batch element
//   diagonal                 the key on the diagonal of the first query of the whole, in place of @diagonal_shift: 0,
//                            or under bottom_right the number of all keys minus that of all queries
//
// Without SHARD, positions are those in the arrays, and the arguments have no part in the code: a parameter excludes
// them, because zeros that are only known at run time would cost each mask an addition.
//
// A kernel that links this file declares SHARD, and the parameters of attention.mlir.

tile.link "attention.mlir"

// The position in the whole of the index-th row of an array, where that of the first row is `first`.
func.func private @in_whole(%index: i32, %first: i32) -> i32 {
  tile.result select(SHARD, %index + %first, %index) overflow<nsw> : i32
}

// @attends of query i and key j of the arrays. %b, %h and %shift are those of the whole.
func.func private @attends_in_whole(%first_row: i32, %first_key: i32, %b: i32, %h: i32, %i: i32, %j: i32, %shift: i32,
                                    %left: i32, %right: i32) -> i1 {
  %row = tile.expr @in_whole(%i, %first_row) : i32
  tile.result @attends(%b, %h, %row, @in_whole(%j, %first_key) : i32, %shift, %left, %right) : i1
}
