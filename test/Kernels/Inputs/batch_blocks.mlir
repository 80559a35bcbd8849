// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// @first_block and @block_of_sequence for given numbers, beside a copy of kernels/lib.

tile.link "lib/batch.mlir"

!cu_view = !tile.view<[?], i32>
!found_view = !tile.view<[?, 4], i32>

func.func private @first_block(i32, i32, i32) -> i32
func.func private @block_of_sequence(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)

// first[i]: the first block of sequence b[i] if that begins at row begin[i].
tile.kernel @first params(SIZE: int, PACKED: flag = true)
    (%b: !cu_view, %begin: !cu_view, %first: !cu_view) grid(%i = dim(b, 0)) {
  %number = tile.expr @first_block(%b[%i], %begin[%i], SIZE : i32) : i32
  %one = tile.full %number : !tile.tile<[1], i32>
  tile.store %one, %first[%i] : !tile.tile<[1], i32>, !cu_view
}

// found[i]: the sequence of block[i], its first row, its rows, and the number of the block within it.
tile.kernel @found params(SIZE: int, PACKED: flag = true)
    (%block: !cu_view, %cu: !cu_view, %found: !found_view, %total: i32) grid(%i = dim(block, 0)) {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %c3 = arith.constant 3 : i32
  %sequence, %begin, %rows, %number = tile.expr @block_of_sequence(%block[%i], SIZE : i32, %cu, %total) : i32
  %f0 = tile.full %sequence : !tile.tile<[1, 1], i32>
  tile.store %f0, %found[%i, 0] : !tile.tile<[1, 1], i32>, !found_view
  %f1 = tile.full %begin : !tile.tile<[1, 1], i32>
  tile.store %f1, %found[%i, %c1] : !tile.tile<[1, 1], i32>, !found_view
  %f2 = tile.full %rows : !tile.tile<[1, 1], i32>
  tile.store %f2, %found[%i, %c2] : !tile.tile<[1, 1], i32>, !found_view
  %f3 = tile.full %number : !tile.tile<[1, 1], i32>
  tile.store %f3, %found[%i, %c3] : !tile.tile<[1, 1], i32>, !found_view
}
