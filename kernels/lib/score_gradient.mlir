// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradient of the scores themselves, summed over what shares an entry: that of an additive bias. A
// program that links this declares D, DV, T, CAUSAL, WINDOW and the blocks, or binds them in the launch.

tile.link "attention.mlir"
tile.link "backward.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!score_view = !tile.view<[?, ?, ?, ?], ACC>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!dst = !tile.tile<[BLOCK_N, BLOCK_M], T>
!post = !tile.tile<[BLOCK_N, BLOCK_M], i32>
!keept = !tile.tile<[BLOCK_N, BLOCK_M], i1>

func.func private @key_head(i32, i32, i32) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @probabilities_of_keys(!st, !row, !keept, i32, i32, i32, i32, f32)
    -> (!st, !st, !st, !dst, !dst)

// A block of d_score, which no other instance writes: over the batches, heads and queries that share it,
// one after the other. Transposed, as what dK and dV are made of.
tile.kernel @attention_backward_scores
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, SCORE_GRADIENT: flag, BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %d_score: !score_view when (SCORE_GRADIENT),
     %scale: f32, %window_left: i32, %window_right: i32)
    grid(%bm = ceildiv(dim(d_score, 2), BLOCK_M), %bn = ceildiv(dim(d_score, 3), BLOCK_N),
         %first_h = dim(d_score, 1), %first_b = dim(d_score, 0)) {
  %c1 = arith.constant 1 : i32
  %batches = tile.dim %q, 0 : !qk_view
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m_begin = arith.muli %bm, %block_m : i32
  %n = arith.muli %bn, %block_n : i32

  // One batch, head and block of queries shares this block, or all where an extent is 1.
  %d_batches = tile.dim %d_score, 0 : !score_view
  %d_heads = tile.dim %d_score, 1 : !score_view
  %d_rows = tile.dim %d_score, 2 : !score_view
  %one_batch = arith.cmpi eq, %d_batches, %c1 : i32
  %one_head = arith.cmpi eq, %d_heads, %c1 : i32
  %one_row = arith.cmpi eq, %d_rows, %c1 : i32
  %next_b = arith.addi %first_b, %c1 : i32
  %next_h = arith.addi %first_h, %c1 : i32
  %next_m = arith.addi %m_begin, %block_m : i32
  %own_m_end = arith.minsi %next_m, %queries : i32
  %b_end = arith.select %one_batch, %batches, %next_b : i32
  %h_end = arith.select %one_head, %q_heads, %next_h : i32
  %m_end = arith.select %one_row, %queries, %own_m_end : i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %zero = arith.constant 0.0 : !acc
  %no_sum = tile.full %zero : !st
  %cols = tile.iota %n dim 0 : !post

  %sum = scf.for %b = %first_b to %b_end step %c1 iter_args(%of_batches = %no_sum) -> (!st) : i32 {
    %of_batch = scf.for %h = %first_h to %h_end step %c1
        iter_args(%of_heads = %of_batches) -> (!st) : i32 {
      %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32
      %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
      %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
      %of_head = tile.for_blocks %m in (%m_begin to %m_end) against (%n to %keys)
          where @attends(%b, %h, block, against, %shift, %window_left, %window_right
                         : i32, i32, i32, i32, i32)
          keep %keep : !keept
          iter_args(%old = %of_heads : !st) {
        %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
        %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o
        %lse_row = tile.load %lse_base2[%b, %h, %m] : !row_view -> !row
        %delta_row = tile.load %delta[%b, %h, %m] : !row_view -> !row
        %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
        %natural, %pt, %weight, %pt_rounded, %gt_rounded = func.call @probabilities_of_keys(
            %st, %lse_row, %keep, %b, %h, %m, %n, %scale)
            : (!st, !row, !keept, i32, i32, i32, i32, f32) -> (!st, !st, !st, !dst, !dst)
        %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
        %dpt_weighted = arith.mulf %dpt, %weight : !st
        %delta_each = tile.expand %delta_row dim 0 : !row -> !st
        %dpt_centred = arith.subf %dpt_weighted, %delta_each : !st
        %dt = arith.mulf %pt, %dpt_centred : !st
        %rows = tile.iota %m dim 1 : !post
        %ds = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %dt : !st
            : (!st, i32, i32, !post, !post) -> !st
        %new = arith.addf %old, %ds : !st
        tile.yield %new : !st
      }
      scf.yield %of_head : !st
    }
    scf.yield %of_batch : !st
  }

  scf.if %one_row {
    %of_rows = tile.reduce add %sum dim 1 : !st -> !tile.tile<[BLOCK_N], ACC>
    tile.store %of_rows, %d_score[%first_b, %first_h, 0, %n]
        : !tile.tile<[BLOCK_N], ACC>, !score_view
  } else {
    tile.store %sum, %d_score[%first_b, %first_h, %m_begin, %n] dims [3, 2] : !st, !score_view
  }
}
