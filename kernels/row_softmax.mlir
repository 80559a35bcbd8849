// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmax of each row: y(r, c) = exp(scale * x(r, c)) / sum over c of exp(scale * x(r, c)).
//
// Arguments
//   x, y    [R, C]   T   input and result
//   scale   ACC, finite
//
// R and C may have any value. A row in which all scaled elements are -inf gives zeros, like a query without keys in
// attention. A NaN affects only its own row. Runs are bit-identical.
//
// Parameters
//   T         Element type of the arrays: f16, bf16, f32 or f64.
//   ACC       Type of the computation, derived: f64 for f64, else f32.
//   BLOCK_M   Rows of a program instance: 1, 2, 4, 8, 16, 32 or 64. Default: 4.
//   BLOCK_N   Columns of an iteration: 32, 64, 128, 256, 512 or 1024. Default: 256.
//
// The kernel reads each row twice: a first loop computes the maximum and the sum together (Milakov and Gimelshein,
// Online normalizer calculation for softmax, 2018), a second one the result.

tile.link "lib/softmax.mlir"

!x   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

tile.kernel @row_softmax
    params(T: type in [f16, bf16, f32, f64], BLOCK_M: int in [1, 2, 4, 8, 16, 32, 64] = 4,
           BLOCK_N: int in [32, 64, 128, 256, 512, 1024] = 256, let ACC: type = accumulator(T))
    require(same_dims(y, x, 0, 1), finite(scale))
    (%x, %y: !tile.view<[?, ?], T>, %scale: !acc)
    grid(%bm = ceildiv(dim(x, 0), BLOCK_M)) {
  %m = tile.expr %bm * BLOCK_M : i32
  %columns = tile.dim %x, 1 : !tile.view<[?, ?], T>
  %scales = tile.expr full(%scale * log2e) : !s
  %limit = tile.full %columns : !pos

  %max, %sum = tile.for %n in (0 to %columns) step BLOCK_N
      iter_args(%max_old = full(@lowest()) : !row, %sum_old = 0 : !row) {
    %scaled = tile.expr cast(load %x[%m, %n] : !x) * %scales
    // Set columns beyond the row to -inf only after scaling: the scale may be negative or zero.
    %inside = tile.expr iota(%n, 1) < %limit : !pos
    %base2 = tile.expr select(%inside, %scaled, minus_inf)
    %max_new = tile.expr max(%max_old, reduce max(%base2, 1))
    %p = tile.expr exp2(%base2 - expand(%max_new, 1))
    // Rescale the sum from the old maximum to the new one, by 2^(old - new).
    %sum_block = tile.reduce add %p dim 1 : !s
    tile.yield %max_new, %sum_old * exp2(%max_old - %max_new) + %sum_block
  }

  %max_each = tile.expand %max dim 1 : !row -> !s
  %inverse_each = tile.expr expand(map @reciprocal_or_zero(%sum), 1) : !s
  tile.for %n in (0 to %columns) step BLOCK_N {
    %p = tile.expr exp2(cast(load %x[%m, %n] : !x) * %scales - %max_each)
    tile.store cast(%p * %inverse_each), %y[%m, %n] : !x
  }
}
