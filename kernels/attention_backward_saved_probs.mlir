// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, backward from saved probabilities: P is an argument that a forward has stored
// (attention_forward_saved_probs.mlir), instead of being recomputed from LSE. P may result from any mask and any
// additive bias.
//
//   dP    = dO V^T
//   delta = rowsum(dO * O), or without O rowsum(P * dP), which is the same for O = P V
//   dV    = P^T dO
//   dS    = P * (dP - delta)
//   dQ    = scale * dS K,   dK = scale * dS^T Q
//
// Arguments: q, k, v, do, dq, dk, dv and scale, as in attention_backward.mlir, and
//
//   p   [B, Hq, Sq, Skv]   T   probabilities, zero where a pair is masked
//   o   [B, Hq, Sq, DV]    T   result of the forward, optional: without it, dP is computed once more, for delta
//
// Parameters: D, DV and T, as in attention_backward.mlir. BLOCK_M and BLOCK_N are the queries and keys of a block of
// the keys kernel, DQ_BLOCK_M and DQ_BLOCK_N those of the queries kernel.
//
// A query or key with only zeros in P gets zero gradients; the program writes all elements of dq, dk and dv. dS is
// rounded to T before its products. There are no atomic additions; runs are bit-identical.
//
// Algorithm: the loops of FlashAttention-2 (Dao, 2023) without the recomputation.

tile.link "lib/attention.mlir"

!p_view = !tile.view<[?, ?, ?, ?], T>
!dq  = !tile.tile<[BLOCK_M, DP], ACC>
!dk  = !tile.tile<[BLOCK_N, DP], ACC>
!dv  = !tile.tile<[BLOCK_N, DVP], ACC>
// Scores and their gradients, as queries x keys and transposed.
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!dst = !tile.tile<[BLOCK_N, BLOCK_M], T>

tile.program @attention_backward_saved_probs
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           BLOCK_M, BLOCK_N, DQ_BLOCK_M, DQ_BLOCK_N: int = block(), let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1), same_dims(v, k, 1, 2),
            same_dims(o, q, 0, 1, 2), same_dims(do, q, 0, 1, 2), same_dims(p, q, 0, 1, 2), dim(p, 3) == dim(k, 2),
            same_dims(dq, q, 0, 1, 2), same_dims(dk, k, 0, 1, 2), same_dims(dv, k, 0, 1, 2), finite(scale))
    (%q, %k: !qk_view, %v: !v_view, %o: optional !v_view, %do: !v_view, %p: !p_view, %dq, %dk: !qk_view, %dv: !v_view,
     %scale: !acc) {
  %delta = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2)] : !row_view
  // One of the two: an absent o has no rows. Where there are no elements at all, either is right.
  tile.launch @attention_backward_saved_probs_delta(delta = %delta) when (dim(o, 3) > 0)
  tile.launch @attention_backward_saved_probs_delta_of_p(delta = %delta)
      with (BLOCK_M = DQ_BLOCK_M, BLOCK_N = DQ_BLOCK_N) when (dim(o, 3) == 0)
  tile.launch @attention_backward_saved_probs_keys(delta = %delta)
  tile.launch @attention_backward_saved_probs_queries(delta = %delta)
      with (BLOCK_M = DQ_BLOCK_M, BLOCK_N = DQ_BLOCK_N)
}

// delta = rowsum(dO * O)
tile.kernel @attention_backward_saved_probs_delta
    params(DV: int, T: type, BLOCK_M: int, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o: optional !v_view, %do: !v_view, %delta: !row_view)
    grid(%bm = ceildiv(dim(o, 2), BLOCK_M), %h = dim(o, 1), %b = dim(o, 0)) {
  %m = tile.expr %bm * BLOCK_M : i32
  %o_tile = tile.load %o[%b, %h, %m, 0] : !v_view -> !o_t
  %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o_t
  tile.store reduce add(cast(%o_tile) * cast(%do_tile) : !o, 1), %delta[%b, %h, %m] : !row
}

// delta = rowsum(P * dP)
tile.kernel @attention_backward_saved_probs_delta_of_p
    params(D, DV: int, T: type, BLOCK_M, BLOCK_N: int, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %p: !p_view, %delta: !row_view)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %hk = tile.expr @key_head(%h, %q, %k) : i32
  %m = tile.expr %bm * BLOCK_M : i32
  %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o_t
  %sum = tile.for %n in (0 to dim(%v, 2)) step BLOCK_N iter_args(%sum_old = 0 : !row) {
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %p_tile = tile.load %p[%b, %h, %m, %n] : !p_view -> !p
    %dp = tile.dot %do_tile, %v_tile transpose_b : !o_t, !v -> !s
    tile.yield %sum_old + reduce add(cast(%p_tile) * %dp, 1)
  }
  tile.store %sum, %delta[%b, %h, %m] : !row
}

// A block of keys with the queries of all heads of its group: dK and dV need no atomic additions.
tile.kernel @attention_backward_saved_probs_keys
    params(D, DV: int, T: type, BLOCK_M, BLOCK_N: int, let DP: int = padded(D), let DVP: int = padded(DV),
           let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %p: !p_view, %delta: !row_view, %dk: !qk_view, %dv: !v_view, %scale: !acc)
    grid(%bn = ceildiv(dim(k, 2), BLOCK_N), %hk = dim(k, 1), %b = dim(k, 0)) {
  %group = tile.expr dim(%q, 1) / dim(%k, 1) : i32
  %first_head = tile.expr %hk * %group
  %n = tile.expr %bn * BLOCK_N : i32
  %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
  %dk_all, %dv_all = tile.for %g in (0 to %group) iter_args(%dk_heads = 0 : !dk, %dv_heads = 0 : !dv) {
    %h = tile.expr %first_head + %g
    %dk_head, %dv_head = tile.for %m in (0 to dim(%q, 2)) step BLOCK_M
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
      %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o_t
      // Load P transposed.
      %pt_tile = tile.load %p[%b, %h, %m, %n] dims [3, 2] : !p_view -> !dst
      %dpt_centered = tile.expr dot(%v_tile, %do_tile transpose_b) - expand(load %delta[%b, %h, %m], 0) : !st
      %dst_rounded = tile.expr cast(%pt_tile : !dst) * %dpt_centered : !st -> !dst
      %dv_new = tile.dot %pt_tile, %do_tile, %dv_old : !dst, !o_t -> !dv
      tile.yield dot(%dst_rounded, %q_tile, %dk_old), %dv_new
    }
    tile.yield %dk_head, %dv_head
  }
  tile.store cast(%dk_all * full(%scale)), %dk[%b, %hk, %n, 0] : !k
  tile.store cast(%dv_all), %dv[%b, %hk, %n, 0] : !v
}

// A block of queries with all keys: dQ needs no atomic additions.
tile.kernel @attention_backward_saved_probs_queries
    params(D, DV: int, T: type, BLOCK_M, BLOCK_N: int, let DP: int = padded(D), let DVP: int = padded(DV),
           let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %p: !p_view, %delta: !row_view, %dq: !qk_view, %scale: !acc)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %hk = tile.expr @key_head(%h, %q, %k) : i32
  %m = tile.expr %bm * BLOCK_M : i32
  %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o_t
  %delta_each = tile.expr expand(load %delta[%b, %h, %m], 1) : !s

  %dq_all = tile.for %n in (0 to dim(%k, 2)) step BLOCK_N iter_args(%dq_old = 0 : !dq) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %p_tile = tile.load %p[%b, %h, %m, %n] : !p_view -> !p
    %dp_centered = tile.expr dot(%do_tile, %v_tile transpose_b) - %delta_each : !s
    tile.yield dot(cast(cast(%p_tile) * %dp_centered) : !p, %k_tile, %dq_old)
  }
  tile.store cast(%dq_all * full(%scale)), %dq[%b, %h, %m, 0] : !q
}
