// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Soft capping of scores, as in Gemma 2: cap * tanh(s / cap), which lies between -cap and cap.
//
//   softcap   f32, positive, at most 10^18: so cap * log2(e), by which the forward scales the maximum of a row, is
//             finite in all launches
//
// On a GPU, tanh may have a relative error of 2^-11 if T is bf16 (afn selects the hardware instruction), and of 2^-22
// if T is f16 (arcp): not more than the rounding of a score to T.

tile.capture @softcap : f32 require(softcap > 0, softcap <= 1000000000000000000)

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> {
  %cap = tile.expr cast(@softcap : f32) : !tile.param<ACC>
  %inverse = tile.expr 1 / %cap
  %fraction = tile.expr %s * %inverse fastmath<reassoc>
  %coarse = math.tanh %fraction fastmath<afn> : !tile.param<ACC>
  %near = math.tanh %fraction fastmath<arcp> : !tile.param<ACC>
  %finer = tile.expr select(param(T == f16), %near, tanh(%fraction)) : !tile.param<ACC>
  tile.result select(param(T == bf16), %coarse, %finer) * %cap fastmath<reassoc> : !tile.param<ACC>
}
