// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A batched outer product with a mask: S[i, j] = tanh(scale * a_i . b_j) for j <= i, else 0.
//
//   a [B, M, D], b [B, N, D]  T       s [B, M, N]  T  result

!rows_view = !tile.view<[?, ?, D], T>
!s_view = !tile.view<[?, ?, ?], T>
!a = !tile.tile<[BLOCK_M, D], T>
!b = !tile.tile<[BLOCK_N, D], T>
!s = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!out = !tile.tile<[BLOCK_M, BLOCK_N], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>

tile.kernel @masked_outer params(D: int, T: type in [f16, bf16], BLOCK_M: int = block(), BLOCK_N: int = block())
    require(dim(b, 0) == dim(a, 0), dim(s, 0) == dim(a, 0), dim(s, 1) == dim(a, 1), dim(s, 2) == dim(b, 1))
    (%a: !rows_view, %b: !rows_view, %s: !s_view, %scale: f32)
    grid(%bm = ceildiv(dim(a, 1), BLOCK_M), %e = dim(a, 0)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m = arith.muli %bm, %block_m : i32
  %columns = tile.dim %b, 1 : !rows_view
  %zero = arith.constant 0.0 : f32
  %zeros = tile.full %zero : !s
  %scales = tile.full %scale : !s
  %i = tile.iota %m dim 0 : !pos
  %a_tile = tile.load %a[%e, %m, 0] : !rows_view -> !a
  scf.for %n = %c0 to %columns step %block_n : i32 {
    %b_tile = tile.load %b[%e, %n, 0] : !rows_view -> !b
    %dot = tile.dot %a_tile, %b_tile transpose_b : !a, !b -> !s
    %scaled = arith.mulf %dot, %scales : !s
    %bent = math.tanh %scaled fastmath<afn> : !s
    %j = tile.iota %n dim 1 : !pos
    %keep = arith.cmpi sle, %j, %i : !pos
    %kept = tile.select %keep, %bent, %zeros : !keep, !s
    %rounded = tile.cast %kept : !s -> !out
    tile.store %rounded, %s[%e, %m, %n] : !out, !s_view
  }
}
