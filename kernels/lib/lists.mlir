// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel that transposes lists of blocks; attention_forward.mlir describes their format.

!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>
!one        = !tile.tile<[1], i32>

// Writes for each block of keys the blocks of queries that list it, in ascending order, and their number.
tile.kernel @turn_lists params(LISTED: flag)
    (%given: !list_view when (LISTED), %counts: !count_view when (LISTED), %turned: !list_view, %lengths: !count_view)
    grid(%n = dim(turned, 2), %h = dim(turned, 1), %b = dim(turned, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %blocks = tile.dim %counts, 2 : !count_view
  %most = tile.dim %given, 3 : !list_view
  %length = scf.for %m = %c0 to %blocks step %c1 iter_args(%place = %c0) -> (i32) : i32 {
    %valid = tile.at %counts[%b, %h, %m] : !count_view
    %count = arith.minsi %valid, %most : i32
    %found = scf.for %x = %c0 to %count step %c1 iter_args(%before = %c0) -> (i32) : i32 {
      %listed = tile.at %given[%b, %h, %m, %x] : !list_view
      %is_own = arith.cmpi eq, %listed, %n : i32
      %so_far = arith.select %is_own, %c1, %before : i32
      scf.yield %so_far : i32
    }
    %is_found = arith.cmpi eq, %found, %c1 : i32
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
