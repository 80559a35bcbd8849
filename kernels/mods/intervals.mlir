// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Column intervals (FlashMask, Wang et al., 2024): each key is hidden from one interval of queries. Two numbers for
// each key describe causal, document, shared-question and many other masks. Keeps i < hidden_from(b, j) or
// i >= hidden_to(b, j).
//
//   hidden_from, hidden_to   [B, Skv]   i32; an empty interval hides no query

tile.capture @hidden_from : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(hidden_from, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(hidden_from, 1) == dim(k, 2))))
tile.capture @hidden_to : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(hidden_to, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(hidden_to, 1) == dim(k, 2))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 = or(%i < @hidden_from[%b, %j], %i >= @hidden_to[%b, %j])
