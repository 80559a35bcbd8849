// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Document mask, for several documents in one sequence: keeps the pairs within a document,
// query_document(b, i) == key_document(b, j). For a language model, combine it with CAUSAL.
//
//   query_document   [B, Sq]    i32, the number of the document of each query
//   key_document     [B, Skv]   i32, that of each key; for self-attention the same array
//
// If documents are contiguous, spans.mlir is faster.

tile.capture @query_document : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(query_document, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(PACKED, dim(query_document, 1) == dim(q, 2))))
tile.capture @key_document : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(key_document, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(key_document, 1) == dim(k, 2))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 = (@query_document[%b, %i] : i32) == (@key_document[%b, %j] : i32)
