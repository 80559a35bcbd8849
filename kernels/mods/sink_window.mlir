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

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 = and(or(%j < @sink_size, %j >= %i - @sink_window), %j <= %i)
