// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Merges results of attention over disjoint parts of the keys: the result over all of them.
//
//   LSE = log(sum over n of exp(LSE_n)),   O = sum over n of exp(LSE_n - LSE) O_n
//
// in natural logarithms, or all to the base 2.
//
// Arguments
//   o_parts       [M, N, H, D]         T     results of N parts, for M rows of each of H heads
//   lse_parts     [M, N, H]            ACC   their LSE
//   o_other       [M, H, D]            T     one more part, in an array of its own; only with OTHER
//   lse_other     [M, H]               ACC   its LSE; only with OTHER
//   o             [M, H, D]            TO    result
//   lse           [M, H]               ACC   result, optional
//
// Parameters
//   D             Width of a value, at most 1024.
//   T             Type of the parts: f16, bf16, f32 or f64.
//   TO            Type of the result, any of these. Default: T.
//   OTHER         Whether there is one more part: so the results of two calls, in two arrays, are merged without a copy
//                 of them, with N = 1. Default: false.
//   BASE2         Whether lse_parts, lse_other and lse are logarithms to the base 2. Default: false.
//   BLOCK_H       Heads of a program instance. Default: those that fill 2 KB.
//
// The number of parts is an extent, and may be 0. A part whose LSE is -inf has attended no key and weighs nothing: its
// O may be NaN. Where all parts are so, O = 0 and LSE = -inf. LSE of NaN or inf gives NaN. A sink belongs to one part.
//
// The computation is in f32 (f64 if T is f64), in the order of parts, the one of its own last, and results are rounded
// once. Runs are bit-identical. The order of dimensions in memory is arbitrary, as strides are: parts may be outside of
// rows, and heads outside of both. Results must not overlap parts.
//
// Algorithm: the merge of Flash-Decoding (Dao, Haziza, Massa and Sizov, 2023).

tile.link "lib/softmax.mlir"

!o_parts   = !tile.view<[?, ?, ?, D], T>
!lse_parts = !tile.view<[?, ?, ?], ACC>
!o_other   = !tile.view<[?, ?, D], T>
!o_view    = !tile.view<[?, ?, D], TO>
!row_view  = !tile.view<[?, ?], ACC>

!o_part = !tile.tile<[BLOCK_H, DP], T>
!o      = !tile.tile<[BLOCK_H, DP], ACC>
!o_t    = !tile.tile<[BLOCK_H, DP], TO>
!row    = !tile.tile<[BLOCK_H], ACC>
!no_row = !tile.tile<[BLOCK_H], i1>
!no_o   = !tile.tile<[BLOCK_H, DP], i1>
!acc    = !tile.param<ACC>

// The state after one more part: the maximum of LSE so far, the sum of exp(LSE - max) and that of exp(LSE - max) O.
tile.function @with_part(%lse: !row, %o_part: !o_part, %max_old, %sum_old: !row, %acc_old: !o) -> (!row, !row, !o) {
  %log2e = tile.expr select(BASE2, 1, log2e) : !row
  %max = arith.maximumf %max_old, %lse : !row
  // Differences first: with a sink, a natural LSE may be too large for base 2.
  %weight = tile.expr exp2((%lse - %max) * %log2e) : !row
  %rescale = tile.expr exp2((%max_old - %max) * %log2e) : !row
  %is_none = tile.expr %lse == minus_inf : !row
  %is_none_each = tile.expand %is_none dim 1 : !no_row -> !no_o
  %known = tile.expr select(%is_none_each, 0, cast(%o_part : !o_part)) : !o
  %weight_each = tile.expand %weight dim 1 : !row -> !o
  %rescale_each = tile.expand %rescale dim 1 : !row -> !o
  %weighted = arith.mulf %known, %weight_each : !o
  %acc = tile.expr %acc_old * %rescale_each + %weighted : !o
  tile.result %max, %sum_old * %rescale + %weight, %acc : !row, !row, !o
}

// LSE and O of part n, or -inf and zeros where there is none.
tile.function @part(%lse_parts: !lse_parts, %o_parts: !o_parts, %m, %n, %h: i32) -> (!row, !o_part) {
  %parts = tile.dim %lse_parts, 1 : !lse_parts
  %minus_inf = tile.constant minus_inf : !row
  %given = tile.load %lse_parts[%m, %n, %h] dims [2] : !lse_parts -> !row
  %o_part = tile.load %o_parts[%m, %n, %h, 0] dims [2, 3] : !o_parts -> !o_part
  tile.result select(%n < %parts, %given, %minus_inf), %o_part : !row, !o_part
}

tile.kernel @attention_merge
    params(D: int, T: type in [f16, bf16, f32, f64], TO: type in [f16, bf16, f32, f64] = T,
           OTHER, BASE2: flag = false, let DP: int = padded(D),
           BLOCK_H: int in [1, 2, 4, 8, 16, 32] =
               select(DP * bits(T) >= 16384, 1, select(DP * bits(T) >= 8192, 2, select(DP * bits(T) >= 4096, 4,
               select(DP * bits(T) >= 2048, 8, 16)))),
           let ACC: type = accumulator(T))
    require(D >= 1, D <= 1024, same_dims(lse_parts, o_parts, 0, 1, 2), dim(o, 0) == dim(o_parts, 0),
            dim(o, 1) == dim(o_parts, 2), same_dims(lse, o, 0, 1), same_dims(o_other, o, 0, 1),
            same_dims(lse_other, o, 0, 1))
    (%o_parts: !o_parts, %lse_parts: !lse_parts, %o_other: !o_other when (OTHER), %lse_other: !row_view when (OTHER),
     %o: !o_view, %lse: optional !row_view)
    grid(%bh = ceildiv(dim(o, 1), BLOCK_H), %m = dim(o, 0)) {
  %c0 = arith.constant 0 : i32
  %c4 = arith.constant 4 : i32
  %h = tile.expr %bh * BLOCK_H : i32
  %parts = tile.dim %lse_parts, 1 : !lse_parts
  %no_max = tile.expr full(@lowest()) : !row
  %no_sum = tile.constant 0 : !row
  %no_o = tile.constant 0 : !o
  // The loads of four parts are in flight at once. What is not there is not read.
  %max, %sum, %acc = scf.for %n = %c0 to %parts step %c4
      iter_args(%max_old = %no_max, %sum_old = %no_sum, %acc_old = %no_o) -> (!row, !row, !o) : i32 {
    %n1 = tile.expr %n + 1 : i32
    %n2 = tile.expr %n + 2 : i32
    %n3 = tile.expr %n + 3 : i32
    %lse_0, %o_0 = tile.expr @part(%lse_parts, %o_parts, %m, %n, %h) : !row, !o_part
    %lse_1, %o_1 = tile.expr @part(%lse_parts, %o_parts, %m, %n1, %h) : !row, !o_part
    %lse_2, %o_2 = tile.expr @part(%lse_parts, %o_parts, %m, %n2, %h) : !row, !o_part
    %lse_3, %o_3 = tile.expr @part(%lse_parts, %o_parts, %m, %n3, %h) : !row, !o_part
    %max_0, %sum_0, %acc_0 = tile.expr @with_part(%lse_0, %o_0, %max_old, %sum_old, %acc_old) : !row, !row, !o
    %max_1, %sum_1, %acc_1 = tile.expr @with_part(%lse_1, %o_1, %max_0, %sum_0, %acc_0) : !row, !row, !o
    %max_2, %sum_2, %acc_2 = tile.expr @with_part(%lse_2, %o_2, %max_1, %sum_1, %acc_1) : !row, !row, !o
    %max_3, %sum_3, %acc_3 = tile.expr @with_part(%lse_3, %o_3, %max_2, %sum_2, %acc_2) : !row, !row, !o
    scf.yield %max_3, %sum_3, %acc_3 : !row, !row, !o
  }
  %has_other = tile.param OTHER : i1
  %max_all, %sum_all, %acc_all = scf.if %has_other -> (!row, !row, !o) {
    %lse_more = tile.load %lse_other[%m, %h] dims [1] : !row_view -> !row
    %o_more = tile.load %o_other[%m, %h, 0] dims [1, 2] : !o_other -> !o_part
    %max_more, %sum_more, %acc_more = tile.expr @with_part(%lse_more, %o_more, %max, %sum, %acc) : !row, !row, !o
    scf.yield %max_more, %sum_more, %acc_more : !row, !row, !o
  } else {
    scf.yield %max, %sum, %acc : !row, !row, !o
  }
  %o_tile = tile.expr %acc_all * expand(map @reciprocal_or_zero(%sum_all), 1) : !o -> !o_t
  tile.store %o_tile, %o[%m, %h, 0] dims [1, 2] : !o_t, !o_view
  %natural_sum = math.log %sum_all : !row
  %lse_row = tile.expr %max_all + select(BASE2, log2(%sum_all), %natural_sum) : !row
  tile.store %lse_row, %lse[%m, %h] dims [1] : !row, !row_view
}
