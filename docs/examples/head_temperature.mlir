// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores divided by a temperature of each head, then a bonus for the query's own position.
tile.capture @temperature : !tile.view<[?], f32>
tile.capture @bonus : f32

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> {
  %t_f32 = tile.at @temperature[%h] : f32
  %t = tile.cast %t_f32 : f32 -> !tile.param<ACC>
  %cooled = arith.divf %s, %t : !tile.param<ACC>

  %bonus_f32 = tile.at @bonus : f32
  %bonus = tile.cast %bonus_f32 : f32 -> !tile.param<ACC>
  %raised = arith.addf %cooled, %bonus : !tile.param<ACC>
  %is_self = arith.cmpi eq, %i, %j : i32
  %result = arith.select %is_self, %raised, %cooled : !tile.param<ACC>
  tile.result %result : !tile.param<ACC>
}
