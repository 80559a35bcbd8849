// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The blocks of a mask: lists for LISTED of attention_forward.mlir and attention_backward.mlir, of any mask file that
// is linked. A mask that reads arrays cannot rule out a block from positions alone; here each block is looked at once
// for all layers, and for all heads where the mask is the same for them.
//
//   kv_indices      [B, H, Mb, L]  i32   for each of the Mb = ceildiv(queries, BLOCK_M) blocks of queries the numbers of
//                                        the blocks of BLOCK_N keys in which some pair is kept, ascending, and behind
//                                        them -1; L = ceildiv(keys, BLOCK_N)
//   kv_num_blocks   [B, H, Mb]     i32   how many these are
//   queries, keys                  i32   rows of q and of k
//   window_left, window_right      i32   as in attention_forward.mlir, and so CAUSAL and WINDOW
//
// B and H are those of the mask: 1, or the extents of q.

tile.link "lib/attention.mlir"

!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!one = !tile.tile<[1], i32>

func.func private @diagonal_shift(i32, i32) -> i32

tile.kernel @attention_block_mask
    params(CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           BLOCK_M: int = 128, BLOCK_N: int = 128, let ACC: type = f32)
    require(dim(kv_indices, 0) == dim(kv_num_blocks, 0), dim(kv_indices, 1) == dim(kv_num_blocks, 1),
            dim(kv_indices, 2) == dim(kv_num_blocks, 2), dim(kv_indices, 2) == ceildiv(queries, BLOCK_M),
            dim(kv_indices, 3) == ceildiv(keys, BLOCK_N), queries >= 0, keys >= 0,
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%kv_indices: !list_view, %kv_num_blocks: !count_view, %queries: i32, %keys: i32,
     %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%bm = dim(kv_indices, 2), %h = dim(kv_indices, 1), %b = dim(kv_indices, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m = arith.muli %bm, %block_m : i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %count = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%before = %c0 : i32) {
    %number = arith.divsi %n, %block_n : i32
    %entry = tile.full %number : !one
    tile.store %entry, %kv_indices[%b, %h, %bm, %before] : !one, !list_view
    %behind = arith.addi %before, %c1 : i32
    tile.yield %behind : i32
  }

  %counts = tile.full %count : !one
  tile.store %counts, %kv_num_blocks[%b, %h, %bm] : !one, !count_view
}
