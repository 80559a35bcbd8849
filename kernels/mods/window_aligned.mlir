// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A window around a diagonal that each element of the batch chooses: keeps
// i + shift(b) - left <= j <= i + shift(b) + right. With shift = Skv - Sq, the window is that of the parameter WINDOW
// under CAUSAL = bottom_right, but without CAUSAL it can also keep keys ahead of the diagonal. If the shift is 0, use
// WINDOW.
//
//   window_shift                  [B]   i32
//   aligned_left, aligned_right   i32, >= -1; -1: that side is open

tile.link "lib/attention.mlir"
tile.capture @window_shift : !tile.view<[?], i32> require(
    or(SHARD, dim(window_shift, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))))
tile.capture @aligned_left : i32 require(aligned_left >= -1)
tile.capture @aligned_right : i32 require(aligned_right >= -1)

tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1
    = @inside_window(%j - (%i + @window_shift[%b]), @aligned_left : i32, @aligned_right : i32)
