// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Used lengths, for padded batches: only the first rows of each batch element or packed sequence count. Keeps the pairs
// with i < seqused_q(b) and j < seqused_k(b); the kernel does not visit blocks beyond them.
//
//   seqused_q, seqused_k   [B]   i32
//
// CAUSAL = bottom_right still counts from all rows; for another diagonal, use window_aligned.mlir. Unused rows of q and
// k do not affect a forward. Unused rows of v, and in a backward those of all arrays, must be finite, since 0 * NaN is
// NaN.

tile.capture @seqused_q : !tile.view<[?], i32> require(
    or(SHARD, dim(seqused_q, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))))
tile.capture @seqused_k : !tile.view<[?], i32> require(
    or(SHARD, dim(seqused_k, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 = and(%i < @seqused_q[%b], %j < @seqused_k[%b])
