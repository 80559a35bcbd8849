// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A state that each row changes: h = g * h + x.
!view = !tile.view<[?, 64], f32>
!row = !tile.tile<[64], f32>
tile.kernel @recurrence (%x, %g, %y: !view) grid(%i = 1) {
  %last = tile.for %t in (0 to dim(%x, 0)) step 1 iter_args(%h = 0 : !row) {
    %x_t = tile.load %x[%t, 0] : !view -> !row
    %g_t = tile.load %g[%t, 0] : !view -> !row
    %new = tile.expr %g_t * %h + %x_t
    tile.store %new, %y[%t, 0] : !row, !view
    tile.yield %new
  }
}
