// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A mask for attention_forward with a capture of integers: head h attends the keys j >= skip[h].

tile.capture @skip : !tile.view<[?], i32>

func.func private @mask_mod(%b: i32, %h: i32, %i: i32, %j: i32) -> i1 {
  %first = tile.at @skip[%h] : i32
  %keep = arith.cmpi sge, %j, %first : i32
  return %keep : i1
}
