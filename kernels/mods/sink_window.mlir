// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention sinks with a sliding window (Xiao et al., Efficient streaming language models with attention sinks, 2024):
// a query attends itself, the `sink_window` keys before it, and the first `sink_size` keys, but no key ahead of it.
//
//   sink_size, sink_window   i32, >= 0
//
// Keeps j <= i and (j < sink_size or j >= i - sink_window). CAUSAL and WINDOW can restrict this further.

tile.capture @sink_size : i32 require(sink_size >= 0)
tile.capture @sink_window : i32 require(sink_window >= 0)

func.func private @mask_mod(%b: i32, %h: i32, %i: i32, %j: i32) -> i1 {
  %size = tile.at @sink_size : i32
  %first = tile.expr %i - @sink_window : i32
  tile.result and(or(%j < %size, %j >= %first), %j <= %i) : i1
}
