// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists of blocks, and a kernel that transposes them:
//
//   kv_indices      [B or 1, Hq or 1, Mb, L]   i32. For each of the Mb blocks of LIST_BLOCK_M queries: the numbers of
//         the blocks of LIST_BLOCK_N keys that these queries attend, each at most once. Numbers outside of the keys are
//         ignored. With CACHED, the second extent may also be Hkv, for lists that the heads of a group share.
//   kv_num_blocks   [B or 1, Hq or 1, Mb]      i32, how many of the L entries count.
//
// With PACKED, the first extent is the number of sequences or 1, blocks count from the begin of a sequence, and Mb is
// arbitrary. Blocks of a kernel divide those of lists.

!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>
!one        = !tile.tile<[1], i32>

// Writes for each block of keys the blocks of queries that list it, in ascending order, and their number.
tile.kernel @turn_lists params(LISTED: flag)
    (%kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED), %turned: !list_view,
     %lengths: !count_view)
    grid(%n = dim(turned, 2), %h = dim(turned, 1), %b = dim(turned, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %blocks = tile.dim %kv_num_blocks, 2 : !count_view
  %most = tile.dim %kv_indices, 3 : !list_view
  %length = scf.for %m = %c0 to %blocks step %c1 iter_args(%place = %c0) -> (i32) : i32 {
    %valid = tile.at %kv_num_blocks[%b, %h, %m] : !count_view
    %count = arith.minsi %valid, %most : i32
    %found = scf.for %x = %c0 to %count step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %listed = tile.at %kv_indices[%b, %h, %m, %x] : !list_view
      %so_far = tile.expr select(%listed == %n, 1, %before) : i32
      scf.yield %so_far : i32
    }
    %is_found = tile.expr %found == 1 : i32
    scf.if %is_found {
      %number = tile.full %m : !one
      tile.store %number, %turned[%b, %h, %n, %place] : !one, !list_view
    }
    %next = arith.addi %place, %found : i32
    scf.yield %next : i32
  }
  %length_tile = tile.full %length : !one
  tile.store %length_tile, %lengths[%b, %h, %n] : !one, !count_view
}
