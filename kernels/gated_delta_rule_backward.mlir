// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradients of the gated delta rule (gated_delta_rule.mlir).
//
// Names are those of the forward; dX is the gradient of X, and a chunk has rows i and j. With
//
//   E = exp(G), L = exp(G[last] - G), R[i, j] = scale * dO[i] . U[j], and the gradient state' of the state behind the
//   chunk:
//
//   dU     = P^T dO + L K state'          Y = inverse^T dU          dV = beta Y
//   dstate = exp(G[last]) state' + scale * (E Q)^T dO - W^T dU      the state' of the chunk before
//   dA     = -Y[i] . U[j] below the diagonal
//   dQ     = scale * E dO state^T + (D R on and below the diagonal) K
//   X      = -E Y state^T + (D dA) K
//   Z      = L U state'^T + (D R ...)^T Q + (beta D dA)^T K
//   dK     = beta X + Z
//   dbeta  = Y . V + K . X
//   dG     = Q . dQ + K . (beta X - Z)
//   dG[last] also has the sum of K . (L U state'^T), and exp(G[last]) times the product of state and state'
//   dg[i]  = the sum of dG[j] over the rows j >= i of the chunk
//
// A row of K is in the gradient as what reads the state (X) and as what writes it (Z); G has the opposite sign in the
// two, and the sign of X in dQ.
//
// Six launches: the first two of the forward; the gradients of the states, and dU, from the last chunk of a head to the
// first; then dV, Y and the products of pairs of rows, dQ, and the rest, each of all chunks.
//
// Arguments
//   q, k        [B, Hk, S, D]   T
//   v           [B, H, S, DV]   T     H is a multiple of Hk: neighboring heads share q and k
//   g           [B, H, S]       ACC
//   beta        [B, H, S]       ACC
//   do          [B, H, S, DV]   T     gradient of o
//   state_in    [B, H, D, DV]   ACC   optional: absent: zero
//   dstate_out  [B, H, D, DV]   ACC   optional: the gradient of state_out; absent: zero
//   dq, dk      [B, Hk, S, D]   T     results: sums over the heads that share q and k
//   dv          [B, H, S, DV]   T     result
//   dg, dbeta   [B, H, S]       ACC   results
//   dstate_in   [B, H, D, DV]   ACC   result, optional
//   scale       ACC, finite
//
// S may have any value, including 0 (dstate_in is then dstate_out), and need not be a multiple of the chunk. Strides
// are arbitrary.
//
// Parameters
//   D, DV     Widths of a key and of a value, at most 256. DV defaults to D. The padding of D reads as zero.
//   T         Element type of the arrays: f16, bf16, f32 or f64. Sums have the type ACC: f64 for f64, else f32.
//   BLOCK_N   Rows of a chunk: 16, 32 or 64; it need not be that of the forward. Default: 64, or 32 for f32 and for
//             D > 128, and 16 for f64.
//   BLOCK_V   Columns of v and the state in a step. Default: 64, or 32 for f32 and f64.
//
// The inverse, states, U, Y and other operands of products are rounded to T; for T of 16 bits, operands of the products
// that make the inverse are rounded to f16, as in the forward. All other values have the type ACC. Runs are
// bit-identical.

tile.link "lib/decay.mlir"
tile.link "lib/delta_rule.mlir"

!k_view     = !tile.view<[?, ?, ?, D], T>
!v_view     = !tile.view<[?, ?, ?, DV], T>
!row_view   = !tile.view<[?, ?, ?], ACC>
!rows_view  = !tile.view<[?, ?, BLOCK_N], ACC>
!wide_view  = !tile.view<[?, ?, BLOCK_V], ACC>
!m_view     = !tile.view<[?, ?, BLOCK_N, BLOCK_N], T>
!w_view     = !tile.view<[?, ?, BLOCK_N, D], T>
!y_view     = !tile.view<[?, ?, BLOCK_N, DV], T>
!vt_view    = !tile.view<[?, ?, DV, BLOCK_N], T>
!chunk_view = !tile.view<[?, ?, DV, D], T>
!state_view = !tile.view<[?, ?, D, DV], ACC>

!k       = !tile.tile<[BLOCK_N, DP], T>
!k_acc   = !tile.tile<[BLOCK_N, DP], ACC>
!v       = !tile.tile<[BLOCK_N, BLOCK_V], T>
!o       = !tile.tile<[BLOCK_N, BLOCK_V], ACC>
!vt      = !tile.tile<[BLOCK_V, BLOCK_N], T>
!vt_acc  = !tile.tile<[BLOCK_V, BLOCK_N], ACC>
!m       = !tile.tile<[BLOCK_N, BLOCK_N], T>
!s       = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!keep    = !tile.tile<[BLOCK_N, BLOCK_N], i1>
!pos     = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!row     = !tile.tile<[BLOCK_N], ACC>
!wide    = !tile.tile<[BLOCK_V], ACC>
!state   = !tile.tile<[BLOCK_V, DP], ACC>
!state_t = !tile.tile<[BLOCK_V, DP], T>
!pos_row = !tile.tile<[BLOCK_N], i32>
!squares = !tile.tile<[BLOCK_V, BLOCK_V], ACC>
!pos_v   = !tile.tile<[BLOCK_V, BLOCK_V], i32>
!width   = !tile.tile<[BLOCK_V], ACC>
!acc     = !tile.param<ACC>

tile.program @gated_delta_rule_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           BLOCK_N: int in [16, 32, 64] = select(bits(T) == 64, 16, select(and(bits(T) == 16, D <= 128), 64, 32)),
           BLOCK_V: int = select(bits(T) == 16, 64, 32),
           let ACC: type = accumulator(T), let CHUNKS: int = dim(v, 1) * ceildiv(dim(v, 2), BLOCK_N))
    require(D <= 256, DV <= 256, same_dims(k, q, 0, 1, 2), dim(v, 0) == dim(q, 0), dim(v, 2) == dim(q, 2),
            floordiv(dim(v, 1), max(dim(q, 1), 1)) * dim(q, 1) == dim(v, 1), same_dims(do, v, 0, 1, 2),
            same_dims(g, v, 0, 1, 2), same_dims(beta, v, 0, 1, 2), same_dims(dq, q, 0, 1, 2), same_dims(dk, q, 0, 1, 2),
            same_dims(dv, v, 0, 1, 2), same_dims(dg, v, 0, 1, 2), same_dims(dbeta, v, 0, 1, 2),
            same_dims(state_in, v, 0, 1), same_dims(dstate_out, v, 0, 1), same_dims(dstate_in, v, 0, 1), finite(scale))
    (%q: !k_view, %k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view, %do: !v_view,
     %state_in: optional !state_view, %dstate_out: optional !state_view, %dq: !k_view, %dk: !k_view, %dv: !v_view,
     %dg: !row_view, %dbeta: !row_view, %dstate_in: optional !state_view, %scale: !acc) {
  %sums, %lefts, %totals, %scaled, %ws, %us, %states, %inverses, %ps, %qs
      = tile.call @delta_states() with (GRADIENTS = true)
      -> !rows_view, !rows_view, !wide_view, !m_view, !w_view, !vt_view, !chunk_view, !m_view, !m_view, !w_view
  %dstates = tile.workspace [dim(v, 0), CHUNKS, DV, D] : !chunk_view
  %dus = tile.workspace [dim(v, 0), CHUNKS, DV, BLOCK_N] : !vt_view
  %ys = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N, DV] : !y_view
  // D R, D dA, and beta D dA.
  %drs = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N, BLOCK_N] : !m_view
  %das = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N, BLOCK_N] : !m_view
  %bs = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N, BLOCK_N] : !m_view
  // Y . V, and Q . dQ of each head.
  %yvs = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N] : !rows_view
  %qdqs = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N] : !rows_view
  tile.launch @delta_sequence_back(qs = %qs, totals = %totals, lefts = %lefts, ws = %ws, ps = %ps, dstates = %dstates,
                                   dus = %dus)
      : !w_view, !wide_view, !rows_view, !w_view, !m_view, !chunk_view, !vt_view
  tile.launch @delta_pairs_back(sums = %sums, inverses = %inverses, us = %us, dus = %dus, ys = %ys, drs = %drs,
                                das = %das, bs = %bs, yvs = %yvs)
      : !rows_view, !m_view, !vt_view, !vt_view, !y_view, !m_view, !m_view, !m_view, !rows_view
  tile.launch @delta_queries_back(sums = %sums, states = %states, dstates = %dstates, drs = %drs, qdqs = %qdqs)
      : !rows_view, !chunk_view, !chunk_view, !m_view, !rows_view
  tile.launch @delta_keys_back(sums = %sums, lefts = %lefts, us = %us, states = %states, dstates = %dstates, ys = %ys,
                               drs = %drs, das = %das, bs = %bs, yvs = %yvs, qdqs = %qdqs)
      : !rows_view, !rows_view, !vt_view, !chunk_view, !chunk_view, !y_view, !m_view, !m_view, !m_view, !rows_view,
        !rows_view
}

// The gradient of the state behind each chunk, and dU, transposed as in lib/delta_rule.mlir.
tile.kernel @delta_sequence_back
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%k: !k_view, %do: !v_view, %qs: !w_view, %totals: !wide_view, %lefts: !rows_view, %ws: !w_view, %ps: !m_view,
     %dstate_out: optional !state_view, %dstates: !chunk_view, %dus: !vt_view, %dstate_in: optional !state_view)
    grid(%bv = ceildiv(DV, BLOCK_V), %h = dim(do, 1), %b = dim(do, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c = tile.expr %bv * BLOCK_V : i32
  %rows = tile.dim %do, 2 : !v_view
  %chunks = tile.expr ceildiv(%rows, BLOCK_N) : i32
  %heads = tile.dim %do, 1 : !v_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32

  %behind = tile.load %dstate_out[%b, %h, 0, %c] dims [3, 2] : !state_view -> !state
  %before = scf.for %back = %c0 to %chunks step %c1 iter_args(%dstate = %behind) -> (!state) : i32 {
    %at = tile.expr %chunks - 1 - %back : i32
    %n = tile.expr %at * BLOCK_N : i32
    %chunk = tile.expr %h * %chunks + %at : i32
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
    %do_tile = tile.load %do[%b, %h, %n, %c] : !v_view -> !v
    %p_tile = tile.load %ps[%b, %chunk, 0, 0] : !m_view -> !m
    %q_tile = tile.load %qs[%b, %chunk, 0, 0] : !w_view -> !k
    %w_tile = tile.load %ws[%b, %chunk, 0, 0] : !w_view -> !k
    %left_row = tile.load %lefts[%b, %chunk, 0] : !rows_view -> !row
    %total_row = tile.load %totals[%b, %chunk, 0] : !wide_view -> !wide

    %dstate_tile = tile.cast %dstate : !state -> !state_t
    %of_state = tile.dot %dstate_tile, %k_tile transpose_b : !state_t, !k -> !vt_acc
    tile.store %dstate_tile, %dstates[%b, %chunk, %c, 0] : !state_t, !chunk_view
    %left = tile.expr %of_state * expand(%left_row, 0) : !vt_acc
    %du = tile.dot %do_tile, %p_tile, %left transpose_a : !v, !m -> !vt_acc
    %du_tile = tile.cast %du : !vt_acc -> !vt
    %old = tile.expr %dstate * expand(%total_row, 1) : !state
    %of_q = tile.dot %do_tile, %q_tile, %old transpose_a : !v, !k -> !state
    %new = tile.dot %du_tile, %w_tile, %of_q : !vt, !k -> !state
    tile.store %du_tile, %dus[%b, %chunk, %c, 0] : !vt, !vt_view
    scf.yield %new : !state
  }
  tile.store %before, %dstate_in[%b, %h, 0, %c] dims [3, 2] : !state, !state_view
}

// dV and Y of a chunk, and what pairs of its rows add to other gradients.
tile.kernel @delta_pairs_back
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int, let ACC: type = accumulator(T))
    (%v: !v_view, %beta: !row_view, %do: !v_view, %sums: !rows_view, %inverses: !m_view, %us: !vt_view, %dus: !vt_view,
     %dv: !v_view, %ys: !y_view, %drs: !m_view, %das: !m_view, %bs: !m_view, %yvs: !rows_view, %scale: !acc)
    grid(%at = ceildiv(dim(v, 2), BLOCK_N), %h = dim(v, 1), %b = dim(v, 0)) {
  %c0 = arith.constant 0 : i32
  %block_v = tile.param BLOCK_V : i32
  %width = tile.param DV : i32
  %n = tile.expr %at * BLOCK_N : i32
  %rows = tile.dim %v, 2 : !v_view
  %chunk = tile.expr %h * ceildiv(%rows, BLOCK_N) + %at : i32
  %nothing = tile.constant 0.0 : !s
  %no_row = tile.constant 0.0 : !row
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos
  %below = arith.cmpi slt, %j, %i : !pos

  %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
  %sums_row = tile.load %sums[%b, %chunk, 0] : !rows_view -> !row
  %t_tile = tile.load %inverses[%b, %chunk, 0, 0] : !m_view -> !m
  %r, %yu, %yv = scf.for %c = %c0 to %width step %block_v
      iter_args(%r_old = %nothing, %yu_old = %nothing, %yv_old = %no_row) -> (!s, !s, !row) : i32 {
    %v_tile = tile.load %v[%b, %h, %n, %c] : !v_view -> !v
    %do_tile = tile.load %do[%b, %h, %n, %c] : !v_view -> !v
    %u_tile = tile.load %us[%b, %chunk, %c, 0] : !vt_view -> !vt
    %du_tile = tile.load %dus[%b, %chunk, %c, 0] : !vt_view -> !vt
    %r_new = tile.dot %do_tile, %u_tile, %r_old : !v, !vt -> !s
    %y = tile.dot %t_tile, %du_tile transpose_a transpose_b : !m, !vt -> !o
    %y_tile = tile.cast %y : !o -> !v
    tile.store %y_tile, %ys[%b, %chunk, 0, %c] : !v, !y_view
    %yu_new = tile.dot %y_tile, %u_tile, %yu_old : !v, !vt -> !s
    %dv_tile = tile.expr %y * expand(%beta_row, 1) : !o -> !v
    tile.store %dv_tile, %dv[%b, %h, %n, %c] : !v, !v_view
    %in_yv = tile.expr %y * cast(%v_tile : !v) : !o
    %yv_part = tile.reduce add %in_yv dim 1 : !o -> !row
    %yv_new = arith.addf %yv_old, %yv_part : !row
    scf.yield %r_new, %yu_new, %yv_new : !s, !s, !row
  }
  tile.store %yv, %yvs[%b, %chunk, 0] : !row, !rows_view
  %decays = func.call @decays(%sums_row) : (!row) -> !s
  %dr = tile.expr select(%keep, %r * %decays * full(%scale), %nothing) : !s -> !m
  tile.store %dr, %drs[%b, %chunk, 0, 0] : !m, !m_view
  %da = tile.expr select(%below, neg(%yu * %decays), %nothing) : !s
  %da_tile = tile.cast %da : !s -> !m
  tile.store %da_tile, %das[%b, %chunk, 0, 0] : !m, !m_view
  %b_tile = tile.expr %da * expand(%beta_row, 1) : !s -> !m
  tile.store %b_tile, %bs[%b, %chunk, 0, 0] : !m, !m_view
}

// dQ of a chunk, for all heads that share q and k.
tile.kernel @delta_queries_back
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%q: !k_view, %k: !k_view, %do: !v_view, %sums: !rows_view, %states: !chunk_view, %dstates: !chunk_view,
     %drs: !m_view, %dq: !k_view, %qdqs: !rows_view, %scale: !acc)
    grid(%at = ceildiv(dim(q, 2), BLOCK_N), %hk = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_v = tile.param BLOCK_V : i32
  %width = tile.param DV : i32
  %n = tile.expr %at * BLOCK_N : i32
  %rows = tile.dim %do, 2 : !v_view
  %chunks = tile.expr ceildiv(%rows, BLOCK_N) : i32
  %heads = tile.dim %do, 1 : !v_view
  %key_heads = tile.dim %q, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %first = tile.expr %hk * %group : i32
  %end = tile.expr %first + %group : i32
  %none = tile.constant 0.0 : !k_acc
  %no_row = tile.constant 0.0 : !row
  %no_squares = tile.constant 0.0 : !squares
  %last = tile.expr BLOCK_N - 1 : i32
  %i = tile.iota %c0 dim 0 : !pos_row
  %last_each = tile.full %last : !pos_row
  %is_last = arith.cmpi eq, %i, %last_each : !pos_row

  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
  %sum, %row = scf.for %h = %first to %end step %c1 iter_args(%old = %none, %row_old = %no_row)
      -> (!k_acc, !row) : i32 {
    %chunk = tile.expr %h * %chunks + %at : i32
    // The sum of the products of all elements is a trace: so both are only operands, in shared memory.
    %of_state, %squares = scf.for %c = %c0 to %width step %block_v
        iter_args(%part = %none, %squares_old = %no_squares) -> (!k_acc, !squares) : i32 {
      %do_tile = tile.load %do[%b, %h, %n, %c] : !v_view -> !v
      %state = tile.load %states[%b, %chunk, %c, 0] : !chunk_view -> !state_t
      %dstate = tile.load %dstates[%b, %chunk, %c, 0] : !chunk_view -> !state_t
      %new = tile.dot %do_tile, %state, %part : !v, !state_t -> !k_acc
      %squares_new = tile.dot %state, %dstate, %squares_old transpose_b : !state_t, !state_t -> !squares
      scf.yield %new, %squares_new : !k_acc, !squares
    }
    %i_v = tile.iota %c0 dim 0 : !pos_v
    %j_v = tile.iota %c0 dim 1 : !pos_v
    %is_same = arith.cmpi eq, %i_v, %j_v : !pos_v
    %trace = tile.expr select(%is_same, %squares, 0) : !squares
    %trace_row = tile.reduce add %trace dim 0 : !squares -> !width
    %trace_all = tile.expand %trace_row dim 0 : !width -> !o
    %state_product = tile.reduce add %trace_all dim 1 : !o -> !row
    %whole = tile.at %sums[%b, %chunk, %last] : !rows_view
    %sums_row = tile.load %sums[%b, %chunk, 0] : !rows_view -> !row
    %decay_row = tile.expr exp(%sums_row) * full(%scale) : !row
    %decayed = tile.expr %old + %of_state * expand(%decay_row, 1) : !k_acc
    %dr_tile = tile.load %drs[%b, %chunk, 0, 0] : !m_view -> !m
    %total = tile.dot %dr_tile, %k_tile, %decayed : !m, !k -> !k_acc
    %qdq = tile.expr %total * cast(%q_tile : !k) : !k_acc
    %row_new = tile.reduce add %qdq dim 1 : !k_acc -> !row
    %at_end = tile.expr select(%is_last, %state_product * exp(full(%whole)), %no_row) : !row
    %qdq_row = tile.expr %row_new - %row_old + %at_end : !row
    tile.store %qdq_row, %qdqs[%b, %chunk, 0] : !row, !rows_view
    scf.yield %total, %row_new : !k_acc, !row
  }
  %dq_tile = tile.cast %sum : !k_acc -> !k
  tile.store %dq_tile, %dq[%b, %hk, %n, 0] : !k, !k_view
}

// dK, dbeta and dg of a chunk, for all heads that share q and k.
tile.kernel @delta_keys_back
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%q: !k_view, %k: !k_view, %beta: !row_view, %sums: !rows_view, %lefts: !rows_view, %us: !vt_view,
     %states: !chunk_view, %dstates: !chunk_view, %ys: !y_view, %drs: !m_view, %das: !m_view, %bs: !m_view,
     %yvs: !rows_view, %qdqs: !rows_view, %dk: !k_view, %dg: !row_view, %dbeta: !row_view)
    grid(%at = ceildiv(dim(q, 2), BLOCK_N), %hk = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_v = tile.param BLOCK_V : i32
  %width = tile.param DV : i32
  %n = tile.expr %at * BLOCK_N : i32
  %rows = tile.dim %beta, 2 : !row_view
  %chunks = tile.expr ceildiv(%rows, BLOCK_N) : i32
  %heads = tile.dim %beta, 1 : !row_view
  %key_heads = tile.dim %q, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %first = tile.expr %hk * %group : i32
  %end = tile.expr %first + %group : i32
  %nothing = tile.constant 0.0 : !s
  %none = tile.constant 0.0 : !k_acc
  %no_row = tile.constant 0.0 : !row
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos

  %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %sum, %row = scf.for %h = %first to %end step %c1 iter_args(%old = %none, %row_old = %no_row)
      -> (!k_acc, !row) : i32 {
    %chunk = tile.expr %h * %chunks + %at : i32
    %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
    %sums_row = tile.load %sums[%b, %chunk, 0] : !rows_view -> !row

    // As rows of W and of A, without beta.
    %y_state = scf.for %c = %c0 to %width step %block_v iter_args(%part = %none) -> (!k_acc) : i32 {
      %y_tile = tile.load %ys[%b, %chunk, 0, %c] : !y_view -> !v
      %state = tile.load %states[%b, %chunk, %c, 0] : !chunk_view -> !state_t
      %new = tile.dot %y_tile, %state, %part : !v, !state_t -> !k_acc
      scf.yield %new : !k_acc
    }
    %decay_row = tile.expr neg(exp(%sums_row)) : !row
    %y_decayed = tile.expr %y_state * expand(%decay_row, 1) : !k_acc
    %da_tile = tile.load %das[%b, %chunk, 0, 0] : !m_view -> !m
    %as_reader = tile.dot %da_tile, %k_tile, %y_decayed : !m, !k -> !k_acc
    %in_reader = tile.expr %as_reader * cast(%k_tile : !k) : !k_acc
    %reader_row = tile.reduce add %in_reader dim 1 : !k_acc -> !row
    %yv_row = tile.load %yvs[%b, %chunk, 0] : !rows_view -> !row
    %dbeta_row = arith.addf %yv_row, %reader_row : !row
    tile.store %dbeta_row, %dbeta[%b, %h, %n] : !row, !row_view
    %with_reader = tile.expr %old + %as_reader * expand(%beta_row, 1) : !k_acc

    // As what rows add to the state, and as columns of P and of A.
    %u_state = scf.for %c = %c0 to %width step %block_v iter_args(%part = %none) -> (!k_acc) : i32 {
      %u_tile = tile.load %us[%b, %chunk, %c, 0] : !vt_view -> !vt
      %dstate = tile.load %dstates[%b, %chunk, %c, 0] : !chunk_view -> !state_t
      %new = tile.dot %u_tile, %dstate, %part transpose_a : !vt, !state_t -> !k_acc
      scf.yield %new : !k_acc
    }
    %left_row = tile.load %lefts[%b, %chunk, 0] : !rows_view -> !row
    %u_left = tile.expr %u_state * expand(%left_row, 1) : !k_acc
    %in_left = tile.expr %u_left * cast(%k_tile : !k) : !k_acc
    %left_sum = tile.reduce add %in_left dim 1 : !k_acc -> !row
    %dr_tile = tile.load %drs[%b, %chunk, 0, 0] : !m_view -> !m
    %before = arith.addf %with_reader, %u_left : !k_acc
    %of_q = tile.dot %dr_tile, %q_tile, %before transpose_a : !m, !k -> !k_acc
    %b_tile = tile.load %bs[%b, %chunk, 0, 0] : !m_view -> !m
    %total = tile.dot %b_tile, %k_tile, %of_q transpose_a : !m, !k -> !k_acc
    %in_total = tile.expr %total * cast(%k_tile : !k) : !k_acc
    %row_new = tile.reduce add %in_total dim 1 : !k_acc -> !row

    %qdq_row = tile.load %qdqs[%b, %chunk, 0] : !rows_view -> !row
    %dsums = tile.expr %qdq_row + 2 * %reader_row * %beta_row - (%row_new - %row_old) : !row
    %later = tile.expr select(%keep, expand(%dsums, 1), %nothing) : !s
    %from_row = tile.reduce add %later dim 0 : !s -> !row
    // The last sum of the chunk has all rows before it.
    %left_all = tile.expand %left_sum dim 0 : !row -> !s
    %of_last = tile.reduce add %left_all dim 1 : !s -> !row
    %dg_row = arith.addf %from_row, %of_last : !row
    tile.store %dg_row, %dg[%b, %h, %n] : !row, !row_view
    scf.yield %total, %row_new : !k_acc, !row
  }
  %dk_tile = tile.cast %sum : !k_acc -> !k
  tile.store %dk_tile, %dk[%b, %hk, %n, 0] : !k, !k_view
}
