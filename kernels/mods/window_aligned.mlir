// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A window that counts from a diagonal that each batch chooses: keeps
// i + shift(b) - left <= j <= i + shift(b) + right. With shift = Skv - Sq this is the parameter WINDOW
// under CAUSAL = bottom_right, for attention that also looks ahead. Where the shift is 0, use WINDOW.
//
//   window_shift   [B]   i32
//   aligned_left, aligned_right   i32; -1 leaves that side open

tile.capture @window_shift : !tile.view<[?], i32>
tile.capture @aligned_left : i32
tile.capture @aligned_right : i32

func.func private @mask_mod(%b: i32, %h: i32, %i: i32, %j: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %left = tile.at @aligned_left : i32
  %right = tile.at @aligned_right : i32
  %shift = tile.at @window_shift[%b] : i32
  %diagonal = arith.addi %i, %shift : i32
  %ahead = arith.subi %j, %diagonal : i32
  %left_open = arith.cmpi slt, %left, %c0 : i32
  %minus_left = arith.subi %c0, %left : i32
  %near_left = arith.cmpi sge, %ahead, %minus_left : i32
  %left_ok = arith.ori %left_open, %near_left : i1
  %right_open = arith.cmpi slt, %right, %c0 : i32
  %near_right = arith.cmpi sle, %ahead, %right : i32
  %right_ok = arith.ori %right_open, %near_right : i1
  %keep = arith.andi %left_ok, %right_ok : i1
  return %keep : i1
}
