// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention without a softmax over keys that are computed from latent vectors: k_j = W c_j, with W in place,
// o_i = sum over j of tanh(scale * q_i . k_j) c_j.
//
//   q [B, M, D], c [B, N, L]  T,  w [D, L]  T       o [B, M, L]  T  result

!q_view = !tile.view<[?, ?, D], T>
!c_view = !tile.view<[?, ?, L], T>
!w_view = !tile.view<[D, L], T>
!q = !tile.tile<[BLOCK_M, D], T>
!c = !tile.tile<[BLOCK_N, L], T>
!w = !tile.tile<[D, L], T>
!k = !tile.tile<[BLOCK_N, D], f32>
!k_tile = !tile.tile<[BLOCK_N, D], T>
!s = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!p = !tile.tile<[BLOCK_M, BLOCK_N], T>
!o = !tile.tile<[BLOCK_M, L], f32>
!o_tile = !tile.tile<[BLOCK_M, L], T>

tile.kernel @latent_keys params(D: int, L: int = 64, T: type in [f16, bf16],
                                BLOCK_M: int = block(), BLOCK_N: int = block())
    require(dim(c, 0) == dim(q, 0), dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1))
    (%q: !q_view, %c: !c_view, %w: !w_view, %o: !c_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 1), BLOCK_M), %e = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m = arith.muli %bm, %block_m : i32
  %columns = tile.dim %c, 1 : !c_view
  %scales = tile.full %scale : !s
  %zero = arith.constant 0.0 : f32
  %no_o = tile.full %zero : !o
  %q_tile = tile.load %q[%e, %m, 0] : !q_view -> !q
  %w_tile = tile.load %w[0, 0] : !w_view -> !w
  %o_all = scf.for %n = %c0 to %columns step %block_n iter_args(%o_old = %no_o) -> (!o) : i32 {
    %c_tile = tile.load %c[%e, %n, 0] : !c_view -> !c
    %k = tile.dot %c_tile, %w_tile transpose_b : !c, !w -> !k
    %k_tile = tile.cast %k : !k -> !k_tile
    %dot = tile.dot %q_tile, %k_tile transpose_b : !q, !k_tile -> !s
    %scaled = arith.mulf %dot, %scales : !s
    %bent = math.tanh %scaled fastmath<afn> : !s
    %p_tile = tile.cast %bent : !s -> !p
    %o_new = tile.dot %p_tile, %c_tile, %o_old : !p, !c -> !o
    scf.yield %o_new : !o
  }
  %rounded = tile.cast %o_all : !o -> !o_tile
  tile.store %rounded, %o[%e, %m, 0] : !o_tile, !c_view
}
