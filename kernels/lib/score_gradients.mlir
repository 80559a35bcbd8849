// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of scores, of the functions of lib/pairs.mlir, with a kernel of its own, which needs no additions to
// memory and stores only d_score. A program that calls it with SCORE_GRADIENT has neither PACKED nor LISTED.

tile.link "attention.mlir"
tile.link "pair_types.mlir"

!score_view = !tile.view<[?, ?, ?, ?], ACC>

// Of the program's file, and of lib/pairs.mlir.
func.func private @pair_weights(
    !pair, !pair, !pair, !pair_keep, i32, i32, i32, !pair_pos, !pair_pos, !acc) -> (!weight, !held)
func.func private @pair_gradients(
    !held, !pair, !pair, !pair, !pair, !pair, !pair_keep, i32, i32, i32, !pair_pos, !pair_pos, !acc) -> !pair

// d_score: dS, summed over all pairs that share an entry.
tile.program @score_gradients
    params(D, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW, DETERMINISTIC, SCORE_GRADIENT, FACTORS: flag, SCORE_BLOCK_M, SCORE_BLOCK_N: int = block(),
           let ACC: type = accumulator(T))
    require(or(dim(d_score, 0) == 1, dim(d_score, 0) == dim(q, 0)), dim(d_score, 3) == dim(k, 2),
            or(dim(d_score, 1) == 1, dim(d_score, 1) == dim(q, 1)),
            or(dim(d_score, 2) == 1, dim(d_score, 2) == dim(q, 2)))
    (%q, %k: !qk_view, %v, %do: !v_view, %rows: !row_view, %factors: !factor_view, %other_rows: !row_view,
     %d_score: !score_view when (SCORE_GRADIENT), %scale: !acc, %window_left, %window_right: i32) {
  tile.launch @scores_of_pairs() with (OWN = SCORE_BLOCK_N, OTHER = SCORE_BLOCK_M) when (SCORE_GRADIENT)
}

// A program instance writes one block of d_score, and iterates over the batch elements, heads and queries that share
// it. It owns keys, like @pairs_of_keys.
tile.kernel @scores_of_pairs
    params(D, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW, DETERMINISTIC, SCORE_GRADIENT, FACTORS: flag, OWN, OTHER: int, let HELD: type = accumulator(T),
           let EARLY: flag = false, let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %rows: !row_view, %factors: !factor_view when (FACTORS),
     %other_rows: !row_view, %d_score: !score_view when (SCORE_GRADIENT), %scale: !acc,
     %window_left, %window_right: i32)
    grid(%bm = ceildiv(dim(d_score, 2), OTHER), %bn = ceildiv(dim(d_score, 3), OWN),
         %first_h = dim(d_score, 1), %first_b = dim(d_score, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %batches = tile.dim %q, 0 : !qk_view
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %m_begin = tile.expr %bm * OTHER : i32
  %n = tile.expr %bn * OWN : i32

  // The range of batch elements, heads and queries of this block of d_score: all of them where an extent is 1.
  %one_batch = tile.expr dim(%d_score, 0) == 1 : i32
  %one_head = tile.expr dim(%d_score, 1) == 1 : i32
  %one_row = tile.expr dim(%d_score, 2) == 1 : i32
  %next_b = tile.expr %first_b + 1 : i32
  %next_h = tile.expr %first_h + 1 : i32
  %own_m_end = tile.expr min(%m_begin + OTHER, %queries) : i32
  %b_end = arith.select %one_batch, %batches, %next_b : i32
  %h_end = arith.select %one_head, %q_heads, %next_h : i32
  %m_end = arith.select %one_row, %queries, %own_m_end : i32
  %shift = tile.expr @diagonal_shift(%queries, %keys) : i32
  %no_sum = tile.constant 0 : !pair
  %j = tile.iota %n dim 0 : !pair_pos

  %sum = scf.for %b = %first_b to %b_end step %c1 iter_args(%of_batches = %no_sum) -> (!pair) : i32 {
    %of_batch = scf.for %h = %first_h to %h_end step %c1 iter_args(%of_heads = %of_batches) -> (!pair) : i32 {
      %hk = tile.expr @key_head(%h, %q, %k) : i32
      %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !own_k
      %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !own_v
      %of_head = tile.for_blocks %m in (%m_begin to %m_end) against (%n to %keys)
          where @attends(%b, %h, block, against, %shift, %window_left, %window_right)
          keep %keep : !pair_keep
          iter_args(%old = %of_heads : !pair) {
        %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !other_k
        %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !other_v
        %row = tile.load %rows[%b, %h, %m] : !row_view -> !other_row
        %factor_row = tile.load %factors[%b, %h, %m] : !factor_view -> !other_factor
        %other_row = tile.load %other_rows[%b, %h, %m] : !row_view -> !other_row
        %s = tile.dot %k_tile, %q_tile transpose_b : !own_k, !other_k -> !pair
        %i = tile.iota %m dim 1 : !pair_pos
        %row_each = tile.expand %row dim 0 : !other_row -> !pair
        %factor_each = tile.expr expand(cast(%factor_row : !other_factor), 0) : !pair
        %w, %held = tile.expr @pair_weights(%s, %row_each, %factor_each, %keep, %b, %h, %c0, %i, %j, %scale)
            : !weight, !held
        %dw = tile.dot %v_tile, %do_tile transpose_b : !own_v, !other_v -> !pair
        %other_each = tile.expand %other_row dim 0 : !other_row -> !pair
        %ds = tile.expr @pair_gradients(%held, %dw, %other_each, %s, %row_each, %factor_each, %keep, %b, %h, %c0, %i,
            %j, %scale) : !pair
        %new = arith.addf %old, %ds : !pair
        tile.yield %new : !pair
      }
      scf.yield %of_head : !pair
    }
    scf.yield %of_batch : !pair
  }

  scf.if %one_row {
    %of_rows = tile.reduce add %sum dim 1 : !pair -> !tile.tile<[OWN], ACC>
    tile.store %of_rows, %d_score[%first_b, %first_h, 0, %n] : !tile.tile<[OWN], ACC>, !score_view
  } else {
    tile.store %sum, %d_score[%first_b, %first_h, %m_begin, %n] dims [3, 2] : !pair, !score_view
  }
}
