// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with sigmoid weights whose score is a sum of three products: content, and two of positions.
// o_i = sum over j of sigmoid(scale * (q_i . k_j + r_i . k_j + q_i . p_j)) v_j.
//
//   q, r [B, M, D], k, p, v [B, N, D]  T       o [B, M, D]  T  result

!rows_view = !tile.view<[?, ?, D], T>
!m_tile = !tile.tile<[BLOCK_M, D], T>
!n_tile = !tile.tile<[BLOCK_N, D], T>
!s = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!p = !tile.tile<[BLOCK_M, BLOCK_N], T>
!o = !tile.tile<[BLOCK_M, D], f32>

tile.kernel @three_scores params(D: int, T: type in [f16, bf16], BLOCK_M: int = block(), BLOCK_N: int = block())
    require(dim(k, 0) == dim(q, 0), same_dims(r, q, 0, 1), same_dims(p, k, 0, 1), same_dims(v, k, 0, 1),
            same_dims(o, q, 0, 1))
    (%q: !rows_view, %r: !rows_view, %k: !rows_view, %p: !rows_view, %v: !rows_view, %o: !rows_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 1), BLOCK_M), %e = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m = arith.muli %bm, %block_m : i32
  %columns = tile.dim %k, 1 : !rows_view
  %log2e = arith.constant -1.4426950408889634 : f32
  %scale2 = arith.mulf %scale, %log2e : f32
  %scales = tile.full %scale2 : !s
  %one = arith.constant 1.0 : f32
  %ones = tile.full %one : !s
  %zero = arith.constant 0.0 : f32
  %no_o = tile.full %zero : !o
  %q_tile = tile.load %q[%e, %m, 0] : !rows_view -> !m_tile
  %r_tile = tile.load %r[%e, %m, 0] : !rows_view -> !m_tile
  %o_all = scf.for %n = %c0 to %columns step %block_n iter_args(%o_old = %no_o) -> (!o) : i32 {
    %k_tile = tile.load %k[%e, %n, 0] : !rows_view -> !n_tile
    %p_tile = tile.load %p[%e, %n, 0] : !rows_view -> !n_tile
    %v_tile = tile.load %v[%e, %n, 0] : !rows_view -> !n_tile
    %content = tile.dot %q_tile, %k_tile transpose_b : !m_tile, !n_tile -> !s
    %query = tile.dot %r_tile, %k_tile, %content transpose_b : !m_tile, !n_tile -> !s
    %key = tile.dot %q_tile, %p_tile transpose_b : !m_tile, !n_tile -> !s
    %score = arith.addf %query, %key : !s
    %scaled = arith.mulf %score, %scales : !s
    %e2 = math.exp2 %scaled : !s
    %more = arith.addf %e2, %ones : !s
    %weight = arith.divf %ones, %more : !s
    %w_tile = tile.cast %weight : !s -> !p
    %o_new = tile.dot %w_tile, %v_tile, %o_old : !p, !n_tile -> !o
    scf.yield %o_new : !o
  }
  %rounded = tile.cast %o_all : !o -> !m_tile
  tile.store %rounded, %o[%e, %m, 0] : !m_tile, !rows_view
}
