// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The inverse of a triangular matrix with ones on its diagonal, that is, the solution of a small system of equations,
// by products.
//
// A kernel that links this file declares BLOCK_N, a power of two of at least 16, and LEVELS, its logarithm to the base
// 2; ACC, the type of the matrix; and COARSE: whether products round their operands to f16, which is for an ACC of f32.
// That has as many digits as tf32, but only values up to 65504; where the matrix is that of a delta rule whose state
// does not grow, with keys of length 1, no operand exceeds 2.
//
// @unit_lower_inverse(x) is the inverse of 1 + L, where L is x below the diagonal; the rest of x may have any values.
// The solution of (1 + L) y = b is its product with b. An upper triangular system is that of the transposed matrix; one
// whose diagonal is not one is divided by it first, row by row. There are 2 (LEVELS - 1) products of whole matrices.
//
// Blocks of 2^level rows on the diagonal are inverted already. Two neighbors P and Q and the block M below P and left
// of Q have the inverse
//
//   [ P  0 ]^-1   [   P^-1        0   ]
//   [ M  Q ]    = [ -Q^-1 M P^-1  Q^-1 ]
//
// which is two products of whole matrices for all pairs of a level. Sums of powers of the matrix would take as many,
// but their terms may be so large that nothing is left of the result: where all rows of k are alike, the inverse has
// entries of 1 and -1, and the powers have binomial coefficients.

!square     = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!square_f32 = !tile.tile<[BLOCK_N, BLOCK_N], f32>
!square_f16 = !tile.tile<[BLOCK_N, BLOCK_N], f16>
!square_i32 = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!square_i1  = !tile.tile<[BLOCK_N, BLOCK_N], i1>

// The product of two such matrices.
tile.function @square_product(%x, %y: !square) -> !square {
  %coarse = tile.param COARSE : i1
  %product = scf.if %coarse -> (!square) {
    %x_f16 = tile.cast %x : !square -> !square_f16
    %y_f16 = tile.cast %y : !square -> !square_f16
    %of_f16 = tile.dot %x_f16, %y_f16 : !square_f16, !square_f16 -> !square_f32
    %cast = tile.cast %of_f16 : !square_f32 -> !square
    scf.yield %cast : !square
  } else {
    %exact = tile.dot %x, %y : !square, !square -> !square
    scf.yield %exact : !square
  }
  tile.result %product : !square
}

// The blocks of %x that lie between neighbors of a level: the block of the row follows that of the column, which is
// even.
tile.function @between_blocks(%x: !square, %level: i32) -> !square {
  %c0 = arith.constant 0 : i32
  %zero = tile.constant 0.0 : !square
  %none = tile.constant 0 : !square_i32
  %one = tile.constant 1 : !square_i32
  %levels = tile.full %level : !square_i32
  %i = tile.iota %c0 dim 0 : !square_i32
  %j = tile.iota %c0 dim 1 : !square_i32
  %row_block = arith.shrsi %i, %levels : !square_i32
  %column_block = arith.shrsi %j, %levels : !square_i32
  %next = arith.addi %column_block, %one : !square_i32
  %follows = arith.cmpi eq, %row_block, %next : !square_i32
  %parity = arith.andi %column_block, %one : !square_i32
  %is_even = arith.cmpi eq, %parity, %none : !square_i32
  %is_between = arith.andi %follows, %is_even : !square_i1
  %between = tile.select %is_between, %x, %zero : !square_i1, !square
  tile.result %between : !square
}

// The inverse of the matrix with ones on its diagonal and %x below it; elsewhere %x is not read.
tile.function @unit_lower_inverse(%x: !square) -> !square {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %levels = tile.param LEVELS : i32
  %zero = tile.constant 0.0 : !square
  %one = tile.constant 1.0 : !square
  %i = tile.iota %c0 dim 0 : !square_i32
  %j = tile.iota %c0 dim 1 : !square_i32
  %on_diagonal = arith.cmpi eq, %i, %j : !square_i32
  %unit = tile.select %on_diagonal, %one, %zero : !square_i1, !square
  // At level 0 both inverses are one.
  %of_pairs = tile.expr %unit - @between_blocks(%x, %c0) : !square
  %inverse = scf.for %level = %c1 to %levels step %c1 iter_args(%inverse_old = %of_pairs) -> (!square) : i32 {
    %right = tile.expr @square_product(@between_blocks(%x, %level) : !square, %inverse_old) : !square
    %inverse_new = tile.expr %inverse_old - @square_product(%inverse_old, %right) : !square
    scf.yield %inverse_new : !square
  }
  tile.result %inverse : !square
}
