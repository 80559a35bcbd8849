// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tree mask as bits, for a tree of drafted tokens over a cache (Miao et al., SpecInfer, 2024): bits decide which of the
// last keys a query attends, those of the drafted tokens; all earlier keys are attended.
//
//   tree_bits    [B, R, W]   i32, bit c mod 32 of tree_bits[b, i, c / 32]: query i attends key tree_begin[b] + c. The
//                            token of query i itself is one of them. W is at least a 32nd of the tokens, rounded up
//   tree_begin   [B]         i32, the first key of a drafted token: for R queries, seq_lens[b] - R
//
// Keys behind the last word are not attended. With CAUSAL = "bottom_right", a token must come before those that follow
// it in the tree. Windows and modifiers by distance count places of tokens, not their positions in the tree.

tile.capture @tree_bits : !tile.view<[?, ?, ?], i32> require(
    or(SHARD, dim(tree_bits, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(PACKED, dim(tree_bits, 1) == dim(q, 2))))
tile.capture @tree_begin : !tile.view<[?], i32> require(
    or(SHARD, dim(tree_begin, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 {
  %c5 = arith.constant 5 : i32
  %begin = tile.at @tree_begin[%b] : i32
  %is_earlier = arith.cmpi slt, %j, %begin : i32
  %column = tile.expr max(%j - %begin, 0) : i32
  %number = arith.shrui %column, %c5 : i32
  %word = tile.at @tree_bits[%b, %i, %number] : i32
  %place = tile.expr bitand(%column, 31) : i32
  %shifted = arith.shrui %word, %place : i32
  tile.result or(%is_earlier, ne(bitand(%shifted, 1), 0)) : i1
}
