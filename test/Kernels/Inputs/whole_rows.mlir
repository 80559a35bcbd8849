// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rows that a kernel without products holds whole: y = x / |x|.
!view = !tile.view<[?, C], T>
!x = !tile.tile<[ROWS, CP], T>
!wide = !tile.tile<[ROWS, CP], ACC>
tile.kernel @normalize
    params(C: int, T: type in [f16, bf16, f32, f64], ROWS: int = block(), let CP: int = padded_for("shares", C, C, T),
           let ACC: type = accumulator(T))
    (%x, %y: !view) grid(%b = ceildiv(dim(x, 0), ROWS)) {
  %r = tile.expr %b * ROWS : i32
  %x_tile = tile.expr cast(load %x[%r, 0] : !x) : !wide
  %length = tile.expr rsqrt(reduce add(%x_tile * %x_tile, 1)) : !tile.tile<[ROWS], ACC>
  tile.store cast(%x_tile * expand(%length, 1)), %y[%r, 0] : !x
}
