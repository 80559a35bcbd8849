// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Heads with an even number see only keys up to the query; the others see all.
tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 {
  %c1 = arith.constant 1 : i32
  %parity = arith.andi %h, %c1 : i32
  %is_odd = arith.cmpi eq, %parity, %c1 : i32
  %not_ahead = arith.cmpi sle, %j, %i : i32
  %keep = arith.ori %is_odd, %not_ahead : i1
  tile.result %keep : i1
}
