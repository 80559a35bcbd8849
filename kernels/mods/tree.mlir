// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tree mask, for example to verify several drafted continuations (Miao et al., SpecInfer, 2024): a query attends its
// ancestors and itself. A depth-first traversal numbers each node when it enters it and when it leaves it. A key is an
// ancestor of a query if the traversal enters the query between entering and leaving the key.
//
//   tree_entered   [B, Sq]    i32, the number of each query when it is entered
//   tree_enters    [B, Skv]   i32, that of each key; for self-attention the same array
//   tree_leaves    [B, Skv]   i32, for each key: one more than the last number that was entered below it
//
// Keeps tree_enters(b, j) <= tree_entered(b, i) < tree_leaves(b, j). For a key that all queries attend, such as one of
// a prompt, set tree_enters to the least number and tree_leaves to the greatest.

tile.capture @tree_entered : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(tree_entered, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(PACKED, dim(tree_entered, 1) == dim(q, 2))))
tile.capture @tree_enters : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(tree_enters, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(tree_enters, 1) == dim(k, 2))))
tile.capture @tree_leaves : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(tree_leaves, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(tree_leaves, 1) == dim(k, 2))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 {
  %query = tile.at @tree_entered[%b, %i] : i32
  tile.result and(%query >= @tree_enters[%b, %j], %query < @tree_leaves[%b, %j])
}
