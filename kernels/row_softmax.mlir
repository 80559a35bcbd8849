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
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

tile.kernel @row_softmax
    params(T: type in [f16, bf16, f32, f64], BLOCK_M: int in [1, 2, 4, 8, 16, 32, 64] = 4,
           BLOCK_N: int in [32, 64, 128, 256, 512, 1024] = 256, let ACC: type = accumulator(T))
    require(same_dims(y, x, 0, 1), finite(scale))
    (%x, %y: !tile.view<[?, ?], T>, %scale: !acc)
    grid(%bm = ceildiv(dim(x, 0), BLOCK_M)) {
  %c0 = arith.constant 0 : i32
  %block_n = tile.param BLOCK_N : i32
  %m = tile.expr %bm * BLOCK_M : i32
  %columns = tile.dim %x, 1 : !tile.view<[?, ?], T>

  %scales = tile.expr full(%scale * log2e) : !s
  %zero = arith.constant 0.0 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %no_max = tile.expr full(@lowest()) : !row
  %no_sum = tile.full %zero : !row
  %beyond = tile.full %minus_inf : !s
  %limit = tile.full %columns : !tile.tile<[BLOCK_M, BLOCK_N], i32>

  %max, %sum = scf.for %n = %c0 to %columns step %block_n
      iter_args(%max_old = %no_max, %sum_old = %no_sum) -> (!row, !row) : i32 {
    %x_tile = tile.load %x[%m, %n] : !tile.view<[?, ?], T> -> !x
    %x_acc = tile.cast %x_tile : !x -> !s
    %scaled = arith.mulf %x_acc, %scales : !s
    // Set columns beyond the row to -inf only after scaling: the scale may be negative or zero.
    %position = tile.iota %n dim 1 : !tile.tile<[BLOCK_M, BLOCK_N], i32>
    %inside = arith.cmpi slt, %position, %limit : !tile.tile<[BLOCK_M, BLOCK_N], i32>
    %base2 = tile.select %inside, %scaled, %beyond : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s

    %max_new = tile.expr max(%max_old, reduce max(%base2, 1)) : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !s
    %below = arith.subf %base2, %max_each : !s
    %p = math.exp2 %below : !s
    %sum_block = tile.reduce add %p dim 1 : !s -> !row
    // Rescale the sum from the old maximum to the new one, by 2^(old - new).
    %sum_new = tile.expr %sum_old * exp2(%max_old - %max_new) + %sum_block : !row
    scf.yield %max_new, %sum_new : !row, !row
  }

  %max_each = tile.expand %max dim 1 : !row -> !s
  %inverse_each = tile.expr expand(map @reciprocal_or_zero(%sum), 1) : !s
  scf.for %n = %c0 to %columns step %block_n : i32 {
    %x_tile = tile.load %x[%m, %n] : !tile.view<[?, ?], T> -> !x
    %x_acc = tile.cast %x_tile : !x -> !s
    %base2 = arith.mulf %x_acc, %scales : !s
    %below = arith.subf %base2, %max_each : !s
    %p = math.exp2 %below : !s
    %y_tile = tile.expr %p * %inverse_each : !s -> !x
    tile.store %y_tile, %y[%m, %n] : !x, !tile.view<[?, ?], T>
  }
}
