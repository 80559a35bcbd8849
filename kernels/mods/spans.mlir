// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Spans: query i attends the keys key_begin(b, i) .. key_end(b, i) - 1. This covers any mask whose spans move forward
// from query to query: several documents in one sequence (for a language model, combine it with CAUSAL), prefixes of
// each document, windows of different widths. The kernel skips blocks outside of the spans.
//
//   key_begin, key_end       [B, Sq]    i32. Neither descends from query to query, and the spans of neighbors, without
//                                       the keys that CAUSAL or WINDOW excludes, overlap or touch. Else it is undefined
//                                       which blocks the kernel visits.
//   query_begin, query_end   [B, Skv]   i32. The inverse, under the same conditions: the queries
//                                       query_begin(b, j) .. query_end(b, j) - 1 attend key j. The backward reads them;
//                                       for documents, they are the same arrays.

tile.capture @key_begin {tile.ascending} : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(key_begin, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(PACKED, dim(key_begin, 1) == dim(q, 2))))
tile.capture @key_end {tile.ascending} : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(key_end, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(PACKED, dim(key_end, 1) == dim(q, 2))))
tile.capture @query_begin {tile.ascending} : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(query_begin, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(query_begin, 1) == dim(k, 2))))
tile.capture @query_end {tile.ascending} : !tile.view<[?, ?], i32> require(
    or(SHARD, dim(query_end, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, or(or(PACKED, CACHED), dim(query_end, 1) == dim(k, 2))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 {
  %key_inside = tile.expr and(@key_begin[%b, %i] <= %j, %j < @key_end[%b, %i])
  %query_inside = tile.expr and(@query_begin[%b, %j] <= %i, %i < @query_end[%b, %j])
  %keep = tile.equivalent %key_inside, %query_inside : i1
  tile.result %keep : i1
}
