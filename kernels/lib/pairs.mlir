// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernels of a backward whose weights W are a function of scores S = Q K^T, where O = W V:
//
//   dV = W^T dO      dS = the gradient of the scores, of dW = dO V^T      dK = scale * dS^T Q      dQ = scale * dS K
//
// The file that links them defines what is special about its weights, by functions for a block of keys and a block of
// queries. Tiles are transposed, keys x queries, so that W^T and dS^T have the layout in which the products for dV and
// dK read them:
//
//   @pair_weights    of S^T without scale: W^T, 0 where the pair is masked, and what @pair_gradients takes of it, both
//                    rounded to T. Until dW is available, only values of type T are live.
//   @pair_gradients  of this and dW^T: the gradient of scale * S^T
//
// %row and %other_row are what %rows and %other_rows hold for the queries, such as LSE and delta, or zeros without
// ROWS. %h is the query head, %x the number of the map.
//
// With MAPS greater than 1, several maps of weights share the values of a head: heads MAPS * h + x of q and k, and of
// dq and dk, are those of map x of head h of v and do. %dv has a part for each map, as k has; dV is their sum.
//
// A program that launches them declares D, DV, T, ACC, CAUSAL, WINDOW, DETERMINISTIC, MAPS, ROWS, BLOCK_M and BLOCK_N.

tile.link "attention.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!sum_view = !tile.view<[?, ?, ?, D], ACC>
!row_view = !tile.view<[?, ?, ?], ACC>
!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!dq  = !tile.tile<[BLOCK_M, DP], ACC>
!dk  = !tile.tile<[BLOCK_N, DP], ACC>
!dv  = !tile.tile<[BLOCK_N, DVP], ACC>
// K, padded to whole warpgroups of columns, and dQ^T, which has these columns as rows.
!kw  = !tile.tile<[BLOCK_N, DW], T>
!dqt = !tile.tile<[DW, BLOCK_M], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!wt  = !tile.tile<[BLOCK_N, BLOCK_M], T>
!keep = !tile.tile<[BLOCK_N, BLOCK_M], i1>
!acc = !tile.param<ACC>

func.func private @diagonal_shift(i32, i32) -> i32
func.func private @pair_weights(!st, !row, !keep, i32, i32, !acc) -> (!wt, !wt)
func.func private @pair_gradients(!wt, !st, !row) -> !st

// A block of keys with the queries of all heads of its group: dK, dV, and its terms of dQ.
tile.kernel @pairs_of_keys
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag,
           DETERMINISTIC: flag, MAPS: int, ROWS: flag, BLOCK_M: int, BLOCK_N: int, IN_ORDER: flag = false,
           let MAY_ORDER: flag = not(replaced("mask_mod")),
           let DP: int = padded_for("gradient_rows", D, DV, T), let DVP: int = padded_for("gradients", DV, D, T),
           let DW: int = padded_for("ordered_rows", D, DV, T), let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %rows: !row_view when (ROWS),
     %other_rows: !row_view when (ROWS), %sums: !sum_view, %dk: !qk_view, %dv: !v_view, %scale: !acc,
     %window_left: i32, %window_right: i32)
    grid(%bn = ceildiv(dim(k, 2), BLOCK_N), %map = dim(k, 1), %b = dim(k, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %shared_by = arith.divsi %q_heads, %k_heads : i32
  %maps = tile.param MAPS : i32
  %hk = arith.divsi %map, %maps : i32
  %x = arith.remsi %map, %maps : i32
  %others = arith.subi %map, %hk : i32
  %before = arith.muli %others, %shared_by : i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %keys, %block_n : i32
  %number = tile.any_order %bn of %blocks
  %n = arith.muli %number, %block_n : i32
  %with_rows = tile.param ROWS : i1
  %is_one = tile.param MAPS == 1 : i1
  %no_row = tile.constant 0 : !row
  %no_dk = tile.constant 0 : !dk
  %no_dv = tile.constant 0 : !dv
  %k_tile = tile.load %k[%b, %map, %n, 0] : !qk_view -> !k
  %k_wide = tile.load %k[%b, %map, %n, 0] : !qk_view -> !kw
  %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
  %dk_all, %dv_all = tile.accumulate %term of %map each %shared_by even when (CAUSAL == "none")
      apart when (not(or(IN_ORDER, DETERMINISTIC))) iter_args(%dk_heads = %no_dk : !dk, %dv_heads = %no_dv : !dv) {
    %h = arith.subi %term, %before : i32
    %first_map = arith.muli %h, %maps : i32
    %its_map = arith.addi %first_map, %x : i32
    %q_map = arith.select %is_one, %term, %its_map : i32
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
        where @attends(%b, %h, block, against, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
        keep %keep : !keep iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q[%b, %q_map, %m, 0] : !qk_view -> !q
      %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o
      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %row = scf.if %with_rows -> (!row) {
        %own = tile.load %rows[%b, %q_map, %m] : !row_view -> !row
        scf.yield %own : !row
      } else {
        scf.yield %no_row : !row
      }
      %wt, %kept = func.call @pair_weights(%st, %row, %keep, %h, %x, %scale)
          : (!st, !row, !keep, i32, i32, !acc) -> (!wt, !wt)
      %dwt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %other_row = scf.if %with_rows -> (!row) {
        %own_other = tile.load %other_rows[%b, %q_map, %m] : !row_view -> !row
        scf.yield %own_other : !row
      } else {
        scf.yield %no_row : !row
      }
      %dst = func.call @pair_gradients(%kept, %dwt, %other_row) : (!wt, !st, !row) -> !st
      %dst_rounded = tile.cast %dst : !st -> !wt
      %dv_new = tile.dot %wt, %do_tile, %dv_old : !wt, !o -> !dv
      %dk_new = tile.dot %dst_rounded, %q_tile, %dk_old : !wt, !q -> !dk
      // dQ is transposed as well, so that adjacent threads add to adjacent elements.
      %dq_term = tile.dot %k_wide, %dst_rounded transpose_a : !kw, !wt -> !dqt
      %m_next = arith.addi %m, %block_m overflow<nsw> : i32
      %m_end = arith.minsi %m_next, %queries : i32
      %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %m_end)
          where @attends(%b, %h, against, block, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
      tile.contribute %dq_term, %sums[%b, %q_map, %m, 0] dims [3, 2] from %n of %first to %end each BLOCK_N
          in order if IN_ORDER when (MAY_ORDER) deterministic when (DETERMINISTIC)
          staggered when (not(CAUSAL == "none")) banded when (WINDOW) : !dqt, !sum_view
      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    tile.yield %dk_head, %dv_head : !dk, !dv
  }
  %scales = tile.full %scale : !dk
  %dk_scaled = arith.mulf %dk_all, %scales : !dk
  %dk_rounded = tile.cast %dk_scaled : !dk -> !k
  tile.store %dk_rounded, %dk[%b, %map, %n, 0] : !k, !qk_view
  %dv_rounded = tile.cast %dv_all : !dv -> !v
  tile.store %dv_rounded, %dv[%b, %map, %n, 0] : !v, !v_view
}

// dQ of its complete sum.
tile.kernel @pairs_of_queries
    params(D: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag, MAPS: int, BLOCK_M: int,
           let DP: int = padded(D), let ACC: type = accumulator(T))
    (%sums: !sum_view, %k: !qk_view, %dq: !qk_view, %scale: !acc, %window_left: i32, %window_right: i32)
    grid(%bm = ceildiv(dim(dq, 2), BLOCK_M), %map = dim(dq, 1), %b = dim(dq, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %dq, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %maps = tile.param MAPS : i32
  %h = arith.divsi %map, %maps : i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %m_next = arith.addi %m, %block_m : i32
  %m_end = arith.minsi %m_next, %queries : i32
  %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %m_end)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
  %sum = tile.complete %sums[%b, %map, %m, 0] of %first to %end : !sum_view -> !dq
  %scales = tile.full %scale : !dq
  %scaled = arith.mulf %sum, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !q
  tile.store %rounded, %dq[%b, %map, %m, 0] : !q, !qk_view
}
