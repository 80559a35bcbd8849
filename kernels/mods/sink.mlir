// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention sinks as learned logits, as in gpt-oss: the logit of a head joins the sum of every row, like the score of a
// further key whose value is 0.
//
//   sinks   [Hq]   f32; -inf: this head has no sink
//
// LSE includes the sink: to merge results over parts of the keys, give the sink to exactly one part. A query that
// attends no key gets O = 0 and LSE = the sink.

tile.capture @sinks : !tile.view<[?], f32> require(or(SHARD, dim(sinks, 0) == dim(q, 1)))

tile.function @sink(%h: i32) -> !tile.param<ACC> = cast(@sinks[%h] : f32)
