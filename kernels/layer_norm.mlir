// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Layer normalization of each row (Ba, Kiros and Hinton, 2016).
//
//   mean = sum(x) / N
//   rstd = 1 / sqrt(sum((x - mean)^2) / N + eps)
//   y    = (x - mean) * rstd * weight + bias
//
// Arguments
//   x, y         [R, N]   T     input and result
//   weight       [N]      T     optional; absent: one
//   bias         [N]      T     optional; absent: zero
//   mean, rstd   [R]      ACC   results, each optional
//   eps          f32
//
// R may have any value. A NaN affects only its own row. Runs are bit-identical.
//
// Parameters
//   N         Length of a row, at most 16384. A tile holds whole rows: the kernel computes the variance from the
//             difference to the mean, which avoids cancellation, without loading the row again. The tile has the width
//             NP, derived: N, padded so that the threads have equal shares.
//   T         Element type of the arrays: f16, bf16, f32 or f64.
//   ACC       Type of the computation, derived: f64 for f64, else f32.
//   BLOCK_M   Rows of a program instance: 1, 2, 4, 8 or 16. Default: fewer for long rows, since a thread block holds at
//             most 16384 elements.

!x    = !tile.tile<[BLOCK_M, NP], T>
!s    = !tile.tile<[BLOCK_M, NP], ACC>
!row  = !tile.tile<[BLOCK_M], ACC>
!acc  = !tile.param<ACC>
!gain = !tile.tile<[NP], T>

tile.kernel @layer_norm
    params(N: int, T: type in [f16, bf16, f32, f64],
           BLOCK_M: int in [1, 2, 4, 8, 16] = select(N <= 1024, 4, select(N <= 2048, 2, 1)),
           let NP: int = padded_for("shares", N, N, T), let ACC: type = accumulator(T))
    require(N <= 16384, dim(y, 0) == dim(x, 0), dim(mean, 0) == dim(x, 0), dim(rstd, 0) == dim(x, 0))
    (%x: !tile.view<[?, N], T>, %weight, %bias: optional !tile.view<[N], T>, %y: !tile.view<[?, N], T>,
     %mean, %rstd: optional !tile.view<[?], ACC>, %eps: f32)
    grid(%bm = ceildiv(dim(x, 0), BLOCK_M)) {
  %m = tile.expr %bm * BLOCK_M : i32
  %lengths = tile.expr full(cast(N : i32)) : !row
  %x_acc = tile.expr cast(load %x[%m, 0] : !x) : !s
  %mean_row = tile.expr reduce add(%x_acc, 1) / %lengths : !row
  %mean_each = tile.expand %mean_row dim 1 : !row -> !s

  // The padding of x is zero, not the mean. Exclude it from the variance.
  %inside = tile.expr iota(0, 1) < full(N) : !tile.tile<[BLOCK_M, NP], i32>
  %centered = tile.expr select(%inside, %x_acc - %mean_each, 0)

  %rstd_row = tile.expr rsqrt(reduce add(%centered * %centered, 1) / %lengths + full(cast(%eps))) : !row
  %normal = tile.expr %centered * expand(%rstd_row, 1) : !s

  // An absent weight reads as its pad, one; an absent bias reads as zero.
  %one = arith.constant 1.0 : !tile.param<T>
  %weight_tile = tile.load %weight[0] pad %one : !tile.param<T> in : !tile.view<[N], T> -> !gain
  %bias_tile = tile.load %bias[0] : !tile.view<[N], T> -> !gain
  %weight_acc = tile.cast %weight_tile : !gain -> !tile.tile<[NP], ACC>
  %bias_acc = tile.cast %bias_tile : !gain -> !tile.tile<[NP], ACC>
  %weight_each = tile.expand %weight_acc dim 0 : !tile.tile<[NP], ACC> -> !s
  %bias_each = tile.expand %bias_acc dim 0 : !tile.tile<[NP], ACC> -> !s
  tile.store cast(%normal * %weight_each + %bias_each), %y[%m, 0] : !x
  tile.store %mean_row, %mean[%m] : !row
  tile.store %rstd_row, %rstd[%m] : !row
}
