// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ALiBi (Press, Smith and Lewis, Train short, test long, 2022): a penalty that grows linearly with the distance between
// query and key: s - slope(h) * |i - j|.
//
//   slopes   [Hq]   f32
//
// Distances have the type ACC; in f32 they are exact below 2^24. Under CAUSAL = top_left, no kept pair has its key
// ahead of its query, and the distance needs no absolute value.
//
// Distances count from the first rows of q and of k. If these have different positions (decoding with a cache, or
// CAUSAL = bottom_right with Sq != Skv), use alibi_aligned.mlir.

tile.capture @slopes : !tile.view<[?], f32> require(or(SHARD, dim(slopes, 0) == dim(q, 1)))

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> {
  %slope = tile.expr cast(@slopes[%h] : f32) : !tile.param<ACC>
  %i_acc = tile.cast %i reassoc : i32 -> !tile.param<ACC>
  %j_acc = tile.cast %j reassoc : i32 -> !tile.param<ACC>
  %behind = arith.subf %i_acc, %j_acc fastmath<reassoc> : !tile.param<ACC>
  %distance = tile.expr select(param(CAUSAL == "top_left"), %behind, abs(%behind)) : !tile.param<ACC>
  tile.result %s - %slope * %distance fastmath<reassoc, contract>
}
