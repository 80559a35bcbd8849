// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Means of the keys of whole blocks in a cache, by which block_scores.mlir chooses the blocks that queries attend.
//
//   means[b, h, n] = the mean of the keys of block n of sequence b and key head h
//
// Arguments
//   k_pages      [P, R, Hkv, D]   T    pages of keys, or P = B, and sequence b is page b
//   block_table  [B, L]           i32  as in attention_decode.mlir; only with PAGE_ROWS
//   seq_lens     [B]              i32  keys of each sequence
//   means        [B, Hkv, M, D]   T    M is at least the number of complete blocks that a sequence has room for
//   new_keys                      i32  how many of the last keys of each sequence are new: the means of the blocks that
//                                      they complete are written, and no others. 0 or more; 2147483647: those of all.
//
// Parameters
//   D, T          Width and type of keys: f16, bf16 or f32; D is at most 256.
//   LIST_BLOCK_N  Keys of a block: 16, 32, 64 (default), 128 or 256.
//   PAGE_ROWS     As in attention_decode.mlir. Default: 0.
//
// Sums have the type f32.

tile.link "lib/cache.mlir"

!k_view  = !tile.view<[?, ?, ?, D], T>
!k_rows  = !tile.view<[?, ?, D], T>
!table   = !tile.view<[?, ?], i32>
!lengths = !tile.view<[?], i32>

!keys = !tile.tile<[PIECE, DP], T>
!ones = !tile.tile<[16, PIECE], T>
!sums = !tile.tile<[16, DP], f32>
!mean = !tile.tile<[DP], f32>

tile.kernel @block_means
    params(D: int, T: type in [f16, bf16, f32], LIST_BLOCK_N: int in [16, 32, 64, 128, 256] = 64,
           PAGE_ROWS: int in [0, 1, 8, 16, 32, 64, 128] = 0, let INSTANCES: int = 4, let DP: int = padded(D),
           let PIECE: int = min(LIST_BLOCK_N, select(D * bits(T) <= 2048, 64, 32)))
    require(D <= 256, mod(dim(k_pages, 1), max(PAGE_ROWS, 1)) == 0, dim(means, 0) == dim(seq_lens, 0),
            dim(means, 1) == dim(k_pages, 2),
            dim(means, 2) >= floordiv(dim(k_pages, 1) * select(PAGE_ROWS > 0, dim(block_table, 1), 1), LIST_BLOCK_N),
            or(PAGE_ROWS > 0, dim(k_pages, 0) == dim(seq_lens, 0)),
            or(PAGE_ROWS == 0, dim(block_table, 0) == dim(seq_lens, 0)),
            within(seq_lens, 0, dim(k_pages, 1) * select(PAGE_ROWS > 0, dim(block_table, 1), 1) + 1),
            within_first(block_table, 0, dim(k_pages, 0), seq_lens, max(dim(k_pages, 1), 1)), new_keys >= 0)
    (%k_pages: !k_view, %block_table: !table when (PAGE_ROWS > 0), %seq_lens: !lengths, %means: !k_view,
     %new_keys: i32)
    grid(%instance = INSTANCES, %hk = dim(k_pages, 2), %b = dim(seq_lens, 0)) {
  %c0 = arith.constant 0 : i32
  %keys = tile.expr @cached_keys(%b, dim(%k_pages, 1), %block_table, %seq_lens) : i32
  %k = tile.paged %k_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !k_view, !table -> !k_rows
  %block = tile.param LIST_BLOCK_N : i32
  %instances = tile.param INSTANCES : i32
  %first = tile.expr (%keys - min(%new_keys, %keys)) / LIST_BLOCK_N : i32
  %end = tile.expr %keys / LIST_BLOCK_N : i32
  %own_first = arith.addi %first, %instance : i32
  %share = tile.expr 1 / cast(%block : i32) : f32
  %ones = tile.constant 1.0 : !ones
  %no_sums = tile.constant 0.0 : !sums
  %piece = tile.param PIECE : i32
  scf.for %n = %own_first to %end step %instances : i32 {
    %begin = tile.expr %n * LIST_BLOCK_N : i32
    // Rows in pages can only be operands of products. All rows of the sums are equal.
    %sums = scf.for %j = %c0 to %block step %piece iter_args(%before_piece = %no_sums) -> (!sums) : i32 {
      %with_piece = tile.expr dot(%ones, load %k[%begin + %j, %hk, 0] dims [0, 2] : !keys, %before_piece) : !sums
      scf.yield %with_piece : !sums
    }
    %mean_tile = tile.expr reduce max(%sums, 0) * full(%share) : !mean -> !tile.tile<[DP], T>
    tile.store %mean_tile, %means[%b, %hk, %n, 0] : !tile.tile<[DP], T>, !k_view
  }
}
