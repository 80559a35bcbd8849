// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mask in memory: keeps the pairs for which mask(b, h, i, j) is true. All indices share a dimension of extent 1.
//
//   mask   [B or 1, Hq or 1, Sq or 1, Skv or 1]   i1, one byte each
//
// With PACKED, B is the number of sequences, and Sq and Skv are the lengths of the longest; with CACHED, Skv is. Beyond
// shorter extents, which are not checked then, the mask is false.

tile.link "lib/attention.mlir"
tile.capture @mask : !tile.view<[?, ?, ?, ?], i1> require(
    or(SHARD, or(dim(mask, 0) == 1, dim(mask, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0)))),
    or(SHARD, or(dim(mask, 1) == 1, dim(mask, 1) == dim(q, 1))),
    or(SHARD, or(PACKED, or(dim(mask, 2) == 1, dim(mask, 2) == dim(q, 2)))),
    or(SHARD, or(or(PACKED, CACHED), or(dim(mask, 3) == 1, dim(mask, 3) == dim(k, 2)))))

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 {
  %batches = tile.dim @mask, 0
  %heads = tile.dim @mask, 1
  %rows = tile.dim @mask, 2
  %columns = tile.dim @mask, 3
  %b_mask = tile.expr @index_or_zero(%b, %batches) : i32
  %h_mask = tile.expr @index_or_zero(%h, %heads) : i32
  tile.result @mask[%b_mask, %h_mask, @index_or_zero(%i, %rows), @index_or_zero(%j, %columns)] : i1
}
