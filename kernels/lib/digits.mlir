// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of numbers of 4 bits, eight in a word of i32, with a scale and a zero for each row:
//
//   b[r, c] = scale[r] (digit(r, c) - zero[r]), rounded to T
//
// where digit d of word [r, c], bits 4 d to 4 d + 3, is element [r, c] of the tile of that digit: no element changes
// its place. How the tiles of the eight digits form a matrix, the kernel decides by what it multiplies each with.
// Without zeros, pass 8, such as by `pad` of a load from an optional view.
//
// A kernel that links this file declares BLOCK_N and PART, the rows and columns of a tile of words, and T, the type of
// the scales and of the result: f16 or bf16. The arithmetic is in f32: an fma, and one rounding to T.

!digit_words = !tile.tile<[BLOCK_N, PART], i32>
!digit_f32   = !tile.tile<[BLOCK_N, PART], f32>
!digit_tile  = !tile.tile<[BLOCK_N, PART], T>
!digit_row   = !tile.tile<[BLOCK_N], T>
!digit_sums  = !tile.tile<[BLOCK_N], f32>

// The tile of digit %d, from 0 to 7.
tile.function @tile_of_digit(%words: !digit_words, %d: i32, %scale, %zero: !digit_row) -> !digit_tile {
  %c0 = arith.constant 0 : i32
  %one = arith.constant 1.0 : f32
  %shifts = tile.expr full(%d * 4) : !digit_words
  %moved = arith.shrui %words, %shifts : !digit_words
  %tile = func.call @tile_of_digit_in_place(%moved, %c0, %one, %scale, %zero)
      : (!digit_words, i32, f32, !digit_row, !digit_row) -> !digit_tile
  tile.result %tile : !digit_tile
}

// The same in a loop over the digits %d from 0 to 3 of a word, with %factor = 16^-%d. A digit is converted where it is,
// instead of shifted. The upper four become the lower ones by one shift of the words for all: in its place, the highest
// digit would be the sign.
tile.function @tile_of_digit_in_place(%words: !digit_words, %d: i32, %factor: f32, %scale, %zero: !digit_row)
    -> !digit_tile {
  %c4 = arith.constant 4 : i32
  %c15 = arith.constant 15 : i32
  %scale_f32 = tile.cast %scale : !digit_row -> !digit_sums
  %offset = tile.expr neg(cast(%zero) * %scale_f32) : !digit_sums
  %factored = tile.expr %scale_f32 * full(%factor) : !digit_sums
  %shift = arith.muli %d, %c4 : i32
  %mask = arith.shli %c15, %shift : i32
  %masks = tile.full %mask : !digit_words
  %digits = arith.andi %words, %masks : !digit_words
  %digits_f32 = tile.cast %digits : !digit_words -> !digit_f32
  %factor_each = tile.expand %factored dim 1 : !digit_sums -> !digit_f32
  %offset_each = tile.expand %offset dim 1 : !digit_sums -> !digit_f32
  %tile_f32 = math.fma %digits_f32, %factor_each, %offset_each : !digit_f32
  %tile = tile.cast %tile_f32 : !digit_f32 -> !digit_tile
  tile.result %tile : !digit_tile
}
