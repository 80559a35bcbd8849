// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two tiles of the same pages with different numbers of rows.

!q = !tile.view<[?, 64], bf16>
!o = !tile.view<[?, 64], f32>
!pool = !tile.view<[?, ?, ?, 64], bf16>
!rows = !tile.view<[?, ?, 64], bf16>
!s1 = !tile.tile<[64, 128], f32>
!s2 = !tile.tile<[64, 64], f32>
tile.kernel @k (%q: !q, %pool: !pool, %table: !tile.view<[?, ?], i32>, %o: !o, %size: i32) grid(%i = ceildiv(dim(q, 0), 64)) {
  %m = tile.expr %i * 64 : i32
  %c0 = arith.constant 0 : i32
  %k = tile.paged %pool page %c0 by %table[%c0] each 16 size %size : !pool, !tile.view<[?, ?], i32> -> !rows
  %x = tile.load %q[%m, 0] : !q -> !tile.tile<[64, 64], bf16>
  %sum, %sum2 = tile.for %n in (0 to %size) step 128 iter_args(%a = 0 : !s1, %a2 = 0 : !s2) {
    %w2 = tile.load %k[%n, 0, 0] dims [0, 2] : !rows -> !tile.tile<[64, 64], bf16>
    %w = tile.load %k[%n, 0, 0] dims [0, 2] : !rows -> !tile.tile<[128, 64], bf16>
    %b2 = tile.dot %x, %w2, %a2 transpose_b : !tile.tile<[64, 64], bf16>, !tile.tile<[64, 64], bf16> -> !s2
    %b = tile.dot %x, %w, %a transpose_b : !tile.tile<[64, 64], bf16>, !tile.tile<[128, 64], bf16> -> !s1
    tile.yield %b, %b2 : !s1, !s2
  }
  %r = tile.expr expand(reduce max(%sum, 1), 1) : !s2
  tile.store %sum2 + %r, %o[%m, 0] : !s2
}
