// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Additive bias: s + bias(b, h, i, j). All indices share a dimension of extent 1.
//
//   bias   [B or 1, Hq or 1, Sq or 1, Skv or 1]   T
//
// With PACKED, B is the number of sequences, and Sq and Skv are the lengths of the longest; with CACHED, Skv is. Beyond
// shorter extents, which are not checked then, the bias is 0.
//
// A bias of -inf masks a pair. A query without an unmasked key gets O = 0 and LSE = -inf.
//
// The gradient d_bias has the same extents, in f32 (f64 for f64). If no two pairs share an element, each pair stores
// its own; else gradients are added atomically, except in a dense backward with SCORE_GRADIENT=true.

tile.link "lib/attention.mlir"
tile.capture @bias : !tile.view<[?, ?, ?, ?], T> require(
    or(SHARD, or(dim(bias, 0) == 1, dim(bias, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0)))),
    or(SHARD, or(dim(bias, 1) == 1, dim(bias, 1) == dim(q, 1))),
    or(SHARD, or(PACKED, or(dim(bias, 2) == 1, dim(bias, 2) == dim(q, 2)))),
    or(SHARD, or(or(PACKED, CACHED), or(dim(bias, 3) == 1, dim(bias, 3) == dim(k, 2)))))

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> attributes {tile.unbounded} {
  %batches = tile.dim @bias, 0
  %heads = tile.dim @bias, 1
  %rows = tile.dim @bias, 2
  %columns = tile.dim @bias, 3
  %b_bias = tile.expr @index_or_zero(%b, %batches) : i32
  %h_bias = tile.expr @index_or_zero(%h, %heads) : i32
  %i_bias = tile.expr @index_or_zero(%i, %rows) : i32
  %bias_t = tile.expr @bias[%b_bias, %h_bias, %i_bias, @index_or_zero(%j, %columns)] : !tile.param<T>
  tile.result %s + cast(%bias_t) fastmath<contract>
}
