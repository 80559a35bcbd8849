// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Gradients of a contrastive loss in one pass: with p_ij = exp(scale * a_i . b_j - row_i),
// da_i = sum over j of p_ij b_j (owned by a block of rows), db_j = sum over i of p_ij a_i (added atomically).
//
//   a [B, M, D], b [B, N, D]  T,  row [B, M]  f32     da [B, M, D]  T  result,  db [B, N, D]  f32  zeros, then result

!rows_view = !tile.view<[?, ?, D], T>
!acc_view = !tile.view<[?, ?, D], f32>
!row_view = !tile.view<[?, ?], f32>
!a = !tile.tile<[BLOCK_M, D], T>
!b = !tile.tile<[BLOCK_N, D], T>
!da = !tile.tile<[BLOCK_M, D], f32>
!db = !tile.tile<[BLOCK_N, D], f32>
!s = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!p = !tile.tile<[BLOCK_M, BLOCK_N], T>
!row = !tile.tile<[BLOCK_M], f32>

tile.kernel @contrastive_gradients params(D: int, T: type in [f16, bf16],
                                          BLOCK_M: int = block(), BLOCK_N: int = block())
    require(dim(b, 0) == dim(a, 0), same_dims(da, a, 0, 1), same_dims(db, b, 0, 1), same_dims(row, a, 0, 1))
    (%a: !rows_view, %b: !rows_view, %row: !row_view, %da: !rows_view, %db: !acc_view, %scale: f32)
    grid(%bm = ceildiv(dim(a, 1), BLOCK_M), %e = dim(a, 0)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m = arith.muli %bm, %block_m : i32
  %columns = tile.dim %b, 1 : !rows_view
  %log2e = arith.constant 1.4426950408889634 : f32
  %scale2 = arith.mulf %scale, %log2e : f32
  %scales = tile.full %scale2 : !s
  %zero = arith.constant 0.0 : f32
  %no_da = tile.full %zero : !da
  %a_tile = tile.load %a[%e, %m, 0] : !rows_view -> !a
  %row_natural = tile.load %row[%e, %m] : !row_view -> !row
  %log2es = tile.full %log2e : !row
  %row_base2 = arith.mulf %row_natural, %log2es : !row
  %row_each = tile.expand %row_base2 dim 1 : !row -> !s
  %da_all = scf.for %n = %c0 to %columns step %block_n iter_args(%da_old = %no_da) -> (!da) : i32 {
    %b_tile = tile.load %b[%e, %n, 0] : !rows_view -> !b
    %dot = tile.dot %a_tile, %b_tile transpose_b : !a, !b -> !s
    %scaled = arith.mulf %dot, %scales : !s
    %below = arith.subf %scaled, %row_each : !s
    %p = math.exp2 %below : !s
    %p_tile = tile.cast %p : !s -> !p
    %da_new = tile.dot %p_tile, %b_tile, %da_old : !p, !b -> !da
    %db_part = tile.dot %p_tile, %a_tile transpose_a : !p, !a -> !db
    tile.atomic_add %db_part, %db[%e, %n, 0] : !db, !acc_view
    scf.yield %da_new : !da
  }
  %rounded = tile.cast %da_all : !da -> !a
  tile.store %rounded, %da[%e, %m, 0] : !a, !rows_view
}
