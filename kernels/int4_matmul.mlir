// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix product with weights of 4 bits: C = A B, where B is converted as it is multiplied.
//
//   B[k, n] = scales[g, n] (digit(k, n) - zeros[g, n])   for group g = k / SCALE_ROWS; without zeros, digit(k, n) - 8
//
// Arguments
//   a         [M, K]                      T
//   packed    [64 ceil(K / 512), N]       i32   eight digits in a word
//   scales    [ceil(K / SCALE_ROWS), N]   T
//   zeros     [ceil(K / SCALE_ROWS), N]   T     optional; absent: 8
//   c         [M, N]                      T     result
//
// 64 rows of words hold 512 rows of B: digit j of word w, bits 4 j to 4 j + 3, is that of row 64 j + w, so that one
// digit of all these words is a block of rows of B. In NumPy, for `digits` [K, N] of i32, K being padded to a multiple
// of 512:
//
//   parts  = digits.reshape(K // 512, 8, 64, N)
//   packed = sum(parts[:, j] << 4 * j for j in range(8)).reshape(K // 8, N)
//
// M, N and K may have any value. Strides are arbitrary. Runs are bit-identical.
//
// Parameters
//   T            Element type of the other arrays: f16 or bf16.
//   SCALE_ROWS   Rows of B that share a scale, a multiple of 64. Default: 128.
//   BLOCK_M, BLOCK_N   Rows and columns of c in a program instance. Default: 64, and 128 columns where the target has
//                roles.
//
// The product of the scale with the difference of digit and zero is rounded to T. Sums are in f32, and the result is
// rounded once. If there are few blocks of c, several program instances have a part of K each, and their sums are added
// in order.
//
// The kernel computes the transposed result, so that B is the left operand: threads hold it in registers, where they
// make it of the digits, as lib/digits.mlir says.

tile.link "lib/digits.mlir"

!view    = !tile.view<[?, ?], T>
!words   = !tile.view<[?, ?], i32>
!a       = !tile.tile<[BLOCK_M, PART], T>
!b       = !tile.tile<[BLOCK_N, PART], T>
!packed  = !tile.tile<[BLOCK_N, PART], i32>
!c       = !tile.tile<[BLOCK_N, BLOCK_M], f32>
!row     = !tile.tile<[BLOCK_N], T>

// The products of two parts of K, as one.
tile.function @add_parts(%a, %b: !c) -> !c {
  %sum = arith.addf %a, %b : !c
  tile.result %sum : !c
}

tile.kernel @int4_matmul
    params(T: type in [f16, bf16], SCALE_ROWS: int = 128, BLOCK_M: int = 64,
           BLOCK_N: int = select(has_roles(), 128, 64), let PART: int = 64)
    require(SCALE_ROWS >= 64, floordiv(SCALE_ROWS, 64) * 64 == SCALE_ROWS,
            dim(packed, 0) == ceildiv(dim(a, 1), 512) * 64, dim(scales, 0) == ceildiv(dim(a, 1), SCALE_ROWS),
            dim(c, 0) == dim(a, 0), dim(packed, 1) == dim(c, 1), dim(scales, 1) == dim(c, 1),
            same_dims(zeros, scales, 0, 1))
    (%a: !view, %packed: !words, %scales: !view, %zeros: optional !view, %c: !view)
    grid(%bn = ceildiv(dim(c, 1), BLOCK_N), %bm = ceildiv(dim(c, 0), BLOCK_M)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c4 = arith.constant 4 : i32
  %c8 = arith.constant 8 : i32
  %part = tile.param PART : i32
  %m = tile.expr %bm * BLOCK_M : i32
  %n = tile.expr %bn * BLOCK_N : i32
  %words = tile.dim %packed, 0 : !words
  %one = arith.constant 1.0 : f32
  %sixteenth = arith.constant 0.0625 : f32
  %eight = arith.constant 8.0 : !tile.param<T>

  %no_sum = tile.constant 0.0 : !c
  %sum = scf.for %w = %c0 to %words step %part iter_args(%sum_words = %no_sum) -> (!c) : i32 {
    %words_tile = tile.load %packed[%w, %n] dims [1, 0] : !words -> !packed
    %first = arith.muli %w, %c8 : i32
    // Rows of a behind K are zero, so that the digits there do not matter.
    %sum_new = scf.for %half = %c0 to %c2 step %c1 iter_args(%sum_words_half = %sum_words) -> (!c) : i32 {
      %shifts = tile.expr full(%half * 16) : !packed
      %moved = arith.shrui %words_tile, %shifts : !packed
      %sum_half, %last = scf.for %j = %c0 to %c4 step %c1 iter_args(%sum_old = %sum_words_half, %factor = %one)
          -> (!c, f32) : i32 {
        %k = tile.expr %first + (%half * 4 + %j) * PART : i32
        %g = tile.expr %k / SCALE_ROWS : i32
        %scale_row = tile.load %scales[%g, %n] : !view -> !row
        %zero_row = tile.load %zeros[%g, %n] pad %eight : !tile.param<T> in : !view -> !row
        %b_tile = func.call @tile_of_digit_in_place(%moved, %j, %factor, %scale_row, %zero_row)
            : (!packed, i32, f32, !row, !row) -> !b
        %a_tile = tile.load %a[%m, %k] : !view -> !a
        %product = tile.dot %b_tile, %a_tile, %sum_old transpose_b : !b, !a -> !c
        %factor_next = arith.mulf %factor, %sixteenth : f32
        scf.yield %product, %factor_next : !c, f32
      }
      scf.yield %sum_half : !c
    }
    scf.yield %sum_new : !c
  } {tile.combine = @add_parts}
  %rounded = tile.cast %sum : !c -> !tile.tile<[BLOCK_N, BLOCK_M], T>
  tile.store %rounded, %c[%m, %n] dims [1, 0] : !tile.tile<[BLOCK_N, BLOCK_M], T>, !view
}
