// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Prefix language model (Raffel et al., T5, 2020): every query attends the prefix of its sequence; the rest is causal.
// Keeps j < prefix_length(b) or j <= i.
//
//   prefix_length   [B]   i32
//
// Do not set CAUSAL: it would remove the keys of the prefix that are ahead of a query.

tile.capture @prefix_length : !tile.view<[?], i32> require(
    or(SHARD, dim(prefix_length, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 = or(%j < (@prefix_length[%b] : i32), %j <= %i)
