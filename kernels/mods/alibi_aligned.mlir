// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ALiBi (see alibi.mlir) with slopes and a diagonal for each element of the batch; distances count from the diagonal:
// s - slope(b, h) * |i + shift(b) - j|. With shift = Skv - Sq, the distance between the last query and the last key is
// 0, as under CAUSAL = bottom_right.
//
//   alibi_slopes   [B, Hq]   f32
//   alibi_shift    [B]       i32

tile.capture @alibi_slopes : !tile.view<[?, ?], f32> require(
    or(SHARD, dim(alibi_slopes, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
    or(SHARD, dim(alibi_slopes, 1) == dim(q, 1)))
tile.capture @alibi_shift : !tile.view<[?], i32> require(
    or(SHARD, dim(alibi_shift, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))))

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> {
  %slope = tile.expr cast(@alibi_slopes[%b, %h] : f32) : !tile.param<ACC>
  %diagonal = tile.expr %i + @alibi_shift[%b]
  %i_acc = tile.cast %diagonal reassoc : i32 -> !tile.param<ACC>
  %j_acc = tile.cast %j reassoc : i32 -> !tile.param<ACC>
  %ahead = arith.subf %j_acc, %i_acc fastmath<reassoc> : !tile.param<ACC>
  %distance = math.absf %ahead : !tile.param<ACC>
  %penalty = tile.expr %slope * %distance fastmath<reassoc, contract>
  tile.result %s - %penalty fastmath<contract>
}
