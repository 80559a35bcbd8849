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
tile.function @in_whole(%index, %first: i32) -> i32 = select(SHARD, %index + %first, %index) overflow<nsw>

// @attends of query i and key j of the arrays. %b, %h and %shift are those of the whole.
tile.function @attends_in_whole(%first_row, %first_key, %b, %h, %i, %j, %shift, %left, %right: i32) -> i1
    = @attends(%b, %h, @in_whole(%i, %first_row) : i32, @in_whole(%j, %first_key) : i32, %shift, %left, %right)
