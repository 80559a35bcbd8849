// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Root mean square normalization of each row (Zhang and Sennrich, 2019), with the addition of a residual before it and
// the conversion to 8-bit floats for a product behind it.
//
//   sum  = x + residual, rounded to T
//   rstd = 1 / sqrt(mean(sum^2) + eps)
//   y    = sum * rstd * weight, and if TY has 8 bits, divided by the scale of the row, which `scales` returns
//
// Arguments
//   x            [R, N]   T
//   residual     [R, N]   T     optional; absent: zero
//   weight       [N]      T     optional; absent: one
//   sum          [R, N]   T     result, optional: the residual of the next layer
//   y            [R, N]   TY    result
//   scales       [R]      f32   result, if TY has 8 bits: the largest magnitude of the row divided by that of TY, and
//                               at least 2^-126
//   rstd         [R]      ACC   result, optional
//   eps          f32
//
// R may have any value. A NaN affects only its own row. Runs are bit-identical. Values of 8 bits saturate, so that the
// largest of a row has the largest magnitude of the type. `sum` must be neither x nor residual.
//
// Parameters
//   N         Length of a row, at most 16384. A tile holds whole rows, in the width NP, derived: N, padded so that the
//             threads have equal shares.
//   T         Element type of the arrays: f16, bf16, f32 or f64.
//   TY        Element type of y: T (default), another of these, e4m3 or e5m2. With 8 bits, T is not f64.
//   ACC       Type of the computation, derived: f64 for f64, else f32.
//   BLOCK_M   Rows of a program instance: 1, 2, 4, 8 or 16. Default: fewer for long rows, since a thread block holds at
//             most 16384 elements.

!x    = !tile.tile<[BLOCK_M, NP], T>
!y    = !tile.tile<[BLOCK_M, NP], TY>
!s    = !tile.tile<[BLOCK_M, NP], ACC>
!row  = !tile.tile<[BLOCK_M], ACC>
!row_f32 = !tile.tile<[BLOCK_M], f32>
!acc  = !tile.param<ACC>
!gain = !tile.tile<[NP], T>

!x_view = !tile.view<[?, N], T>
!y_view = !tile.view<[?, N], TY>

tile.kernel @rms_norm
    params(N: int, T: type in [f16, bf16, f32, f64], TY: type in [f16, bf16, f32, f64, e4m3, e5m2] = T,
           BLOCK_M: int in [1, 2, 4, 8, 16] = select(N <= 1024, 4, select(N <= 2048, 2, 1)),
           let QUANTIZED: flag = bits(TY) == 8, let LIMIT: int = select(TY == e4m3, 448, 57344),
           let NP: int = padded_for("shares", N, N, T), let ACC: type = accumulator(T))
    require(N <= 16384, or(not(QUANTIZED), bits(T) <= 32),
            dim(residual, 0) == dim(x, 0), dim(sum, 0) == dim(x, 0), dim(y, 0) == dim(x, 0),
            dim(scales, 0) == dim(x, 0), dim(rstd, 0) == dim(x, 0))
    (%x: !x_view, %residual: optional !x_view, %weight: optional !tile.view<[N], T>, %sum: optional !x_view,
     %y: !y_view, %scales: !tile.view<[?], f32> when (QUANTIZED), %rstd: optional !tile.view<[?], ACC>, %eps: f32)
    grid(%bm = ceildiv(dim(x, 0), BLOCK_M)) {
  %m = tile.expr %bm * BLOCK_M : i32
  %n = tile.param N : i32
  %quantized = tile.param QUANTIZED : i1

  // An absent residual reads as zero, and so does the padding, which adds nothing to the sum of squares.
  %x_tile = tile.load %x[%m, 0] : !x_view -> !x
  %residual_tile = tile.load %residual[%m, 0] : !x_view -> !x
  %rounded = tile.expr cast(cast(%x_tile) + cast(%residual_tile) : !s) : !x
  tile.store %rounded, %sum[%m, 0] : !x, !x_view
  %sum_acc = tile.cast %rounded : !x -> !s

  %lengths = tile.expr full(cast(%n)) : !row
  %rstd_row = tile.expr rsqrt(reduce add(%sum_acc * %sum_acc, 1) / %lengths + full(cast(%eps))) : !row
  tile.store %rstd_row, %rstd[%m] : !row, !tile.view<[?], ACC>
  %normal = tile.expr %sum_acc * expand(%rstd_row, 1) : !s

  %one = arith.constant 1.0 : !tile.param<T>
  %weight_tile = tile.load %weight[0] pad %one : !tile.param<T> in : !tile.view<[N], T> -> !gain
  %weighted = tile.expr %normal * expand(cast(%weight_tile), 0) : !s

  %result = scf.if %quantized -> (!s) {
    %quotient = tile.expr reduce max(abs(%weighted), 1) / full(cast(LIMIT : i32)) : !row
    // 2^-126, whose inverse is finite. A row of zeros has it.
    %least = tile.constant 1.17549435e-38 : !row
    %scale = arith.maximumf %quotient, %least : !row
    %scale_f32 = tile.cast %scale : !row -> !row_f32
    tile.store %scale_f32, %scales[%m] : !row_f32, !tile.view<[?], f32>
    %scaled = tile.expr %weighted * expand(1 / %scale, 1) : !s
    scf.yield %scaled : !s
  } else {
    scf.yield %weighted : !s
  }
  %y_tile = scf.if %quantized -> (!y) {
    %saturated = tile.cast %result saturate : !s -> !y
    scf.yield %saturated : !y
  } else {
    %cast = tile.cast %result : !s -> !y
    scf.yield %cast : !y
  }
  tile.store %y_tile, %y[%m, 0] : !y, !y_view
}
