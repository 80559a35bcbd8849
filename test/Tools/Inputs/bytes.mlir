// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A product of 8-bit operands in a loop, with its sum as accumulator, and added to it.
!view = !tile.view<[?, 256], f8E4M3FN>
!sum = !tile.view<[?, ?], f32>
!tile = !tile.tile<[64, 64], f8E4M3FN>
!acc = !tile.tile<[64, 64], f32>
tile.kernel @summed (%a, %b: !view, %y: !sum) grid(%i = 1) {
  %s = tile.for %k in (0 to dim(%a, 1)) step 64 iter_args(%old = 0 : !acc) {
    %at = tile.load %a[0, %k] : !view -> !tile
    %bt = tile.load %b[0, %k] : !view -> !tile
    tile.yield dot(%at, %bt, %old transpose_b)
  }
  tile.store %s, %y[0, 0] : !acc, !sum
}
tile.kernel @added (%a, %b: !view, %y: !sum) grid(%i = 1) {
  %s = tile.for %k in (0 to dim(%a, 1)) step 64 iter_args(%old = 0 : !acc) {
    %at = tile.load %a[0, %k] : !view -> !tile
    %bt = tile.load %b[0, %k] : !view -> !tile
    tile.yield %old + (dot(%at, %bt transpose_b) : !acc)
  }
  tile.store %s, %y[0, 0] : !acc, !sum
}
