// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of scores, of the functions of lib/pairs.mlir, with a kernel of its own, which needs no additions to
// memory and stores only d_score. A program that calls it with SCORE_GRADIENT has neither PACKED nor LISTED.

tile.link "attention.mlir", "pair_types.mlir"

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
    (%q, %k: !qk_view, %v, %do: !v_view, %rows, %other_rows: !row_view, %extras: !row_view, %found: !found_view,
     %d_score: !score_view when (SCORE_GRADIENT), %scale: !acc, %window_left, %window_right: i32) {
  tile.launch @scores_of_pairs() with (OWN = SCORE_BLOCK_N, OTHER = SCORE_BLOCK_M) when (SCORE_GRADIENT)
}

// A program instance writes one block of d_score, and iterates over the batch elements, heads and queries that share
// it. It owns keys, like @pairs_of_keys.
tile.kernel @scores_of_pairs
    params(D, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW, DETERMINISTIC, SCORE_GRADIENT, FACTORS: flag, OWN, OTHER: int, let HELD: type = accumulator(T),
           let EARLY: flag = false, let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %rows, %other_rows: !row_view, %extras: !row_view when (FACTORS),
     %found: !found_view when (FACTORS), %d_score: !score_view when (SCORE_GRADIENT), %scale: !acc,
     %window_left, %window_right: i32)
    grid(%bm = ceildiv(dim(d_score, 2), OTHER), %bn = ceildiv(dim(d_score, 3), OWN),
         %first_h = dim(d_score, 1), %first_b = dim(d_score, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %m_begin = tile.expr %bm * OTHER : i32
  %n = tile.expr %bn * OWN : i32

  // The range of batch elements, heads and queries of this block of d_score: all of them where an extent is 1.
  %one_row = tile.expr dim(%d_score, 2) == 1 : i32
  %b_end = tile.expr select(dim(%d_score, 0) == 1, dim(%q, 0), %first_b + 1)
  %h_end = tile.expr select(dim(%d_score, 1) == 1, dim(%q, 1), %first_h + 1)
  %m_end = tile.expr select(%one_row, %queries, min(%m_begin + OTHER, %queries))
  %shift = tile.expr @diagonal_shift(%queries, %keys) : i32
  %j = tile.iota %n dim 0 : !pair_pos
  %has_none = tile.expr %found[0] < 1

  %sum = tile.for %b in (%first_b to %b_end) iter_args(%of_batches = 0 : !pair) {
    %of_batch = tile.for %h in (%first_h to %h_end) iter_args(%of_heads = %of_batches : !pair) {
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
        %extra = tile.load %extras[%b, %h, %m] : !row_view -> !other_row
        %other_row = tile.load %other_rows[%b, %h, %m] : !row_view -> !other_row
        %s = tile.dot %k_tile, %q_tile transpose_b : !own_k, !other_k -> !pair
        %i = tile.iota %m dim 1 : !pair_pos
        %row_each = tile.expand %row dim 0 : !other_row -> !pair
        %extra_each = tile.if %has_none -> (!pair) {
          tile.yield 0 : !pair
        } else {
          tile.yield expand(%extra, 0) : !pair
        }
        %w, %held = tile.expr @pair_weights(%s, %row_each, %extra_each, %keep, %b, %h, %c0, %i, %j, %scale)
            : !weight, !held
        %dw = tile.dot %v_tile, %do_tile transpose_b : !own_v, !other_v -> !pair
        %other_each = tile.expand %other_row dim 0 : !other_row -> !pair
        %ds = tile.expr @pair_gradients(%held, %dw, %other_each, %s, %row_each, %extra_each, %keep, %b, %h, %c0, %i,
            %j, %scale) : !pair
        tile.yield %old + %ds
      }
      tile.yield %of_head
    }
    tile.yield %of_batch
  }
  tile.if %one_row {
    tile.store reduce add(%sum, 1), %d_score[%first_b, %first_h, 0, %n] : !own_row
  } else {
    tile.store %sum, %d_score[%first_b, %first_h, %m_begin, %n] dims [3, 2] : !pair
  }
}
