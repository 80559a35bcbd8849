// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A modifier with learned numbers of every kind. All pairs read the same one, or all pairs of
// a head, of a query, of a key, of a distance.
//
//   s' = temperature s + gain(h) tanh(s) + row(i) + key(b, j) + slope(h, min(|i - j|, R)) s / 4
//
//   temperature  f32          gain  [Hq]  f32        row  [Sq]  f32       key  [B, Skv]  f32
//   slope  [Hq, R + 1]  f32   reach  i32, R

tile.capture @temperature : f32
tile.capture @gain : !tile.view<[?], f32>
tile.capture @row : !tile.view<[?], f32>
tile.capture @key : !tile.view<[?, ?], f32>
tile.capture @slope : !tile.view<[?, ?], f32>
tile.capture @reach : i32

func.func private @distance(%i: i32, %j: i32) -> i32 {
  %ahead = arith.subi %j, %i : i32
  %behind = arith.subi %i, %j : i32
  %far = arith.maxsi %ahead, %behind : i32
  %reach = tile.at @reach : i32
  %near = arith.minsi %far, %reach : i32
  return %near : i32
}

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32)
    -> !tile.param<ACC> {
  %temperature_f32 = tile.at @temperature : f32
  %temperature = tile.cast %temperature_f32 : f32 -> !tile.param<ACC>
  %scaled = arith.mulf %s, %temperature : !tile.param<ACC>

  %gain_f32 = tile.at @gain[%h] : f32
  %gain = tile.cast %gain_f32 : f32 -> !tile.param<ACC>
  %tanh = math.tanh %s : !tile.param<ACC>
  %bent = math.fma %gain, %tanh, %scaled : !tile.param<ACC>

  %row_f32 = tile.at @row[%i] : f32
  %row = tile.cast %row_f32 : f32 -> !tile.param<ACC>
  %with_row = arith.addf %bent, %row : !tile.param<ACC>

  %key_f32 = tile.at @key[%b, %j] : f32
  %key = tile.cast %key_f32 : f32 -> !tile.param<ACC>
  %with_key = arith.addf %with_row, %key : !tile.param<ACC>

  %distance = func.call @distance(%i, %j) : (i32, i32) -> i32
  %slope_f32 = tile.at @slope[%h, %distance] : f32
  %slope = tile.cast %slope_f32 : f32 -> !tile.param<ACC>
  %quarter = arith.constant 0.25 : !tile.param<ACC>
  %part = arith.mulf %s, %quarter : !tile.param<ACC>
  %result = math.fma %slope, %part, %with_key : !tile.param<ACC>
  return %result : !tile.param<ACC>
}
