// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention sinks as learned logits, as in gpt-oss: each head has a logit that joins the sum of every
// row, like that of a further key whose value is 0.
//
//   sinks   [Hq]   f32; minus infinity: this head has none
//
// LSE includes the sink, so if results over parts of the keys are merged, exactly one part must have it.
// A query that attends no key has O = 0 and LSE = the sink.

tile.capture @sinks : !tile.view<[?], f32>

func.func private @sink(%h: i32) -> !tile.param<ACC> {
  %sink_f32 = tile.at @sinks[%h] : f32
  %sink = tile.cast %sink_f32 : f32 -> !tile.param<ACC>
  return %sink : !tile.param<ACC>
}
