// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradients of the gated delta rule (gated_delta_rule.mlir).
//
// Names are those of the forward; dX is the gradient of X, and a chunk has rows i and j. With
//
//   E = exp(G), L = exp(G[last] - G), D[i, j] = exp(G[i] - G[j]), R[i, j] = scale * dO[i] . U[j],
//   A = beta[i] D[i, j] K[i] . K[j] below the diagonal, P = D[i, j] Q[i] . K[j] on and below it,
//   W = V - E K state, U = (1 + A)^-1 (beta W), and the gradient state' of the state behind the chunk:
//
//   dU     = scale * P^T dO + L K state'          Y = (1 + A)^-T dU          dV = beta Y
//   dstate = exp(G[last]) state' + scale * Q^T (E dO) - K^T (E dV)           the state' of the chunk before
//   dA     = -Y[i] . U[j] below the diagonal
//   dQ     = scale * (E dO) state^T + (D R on and below the diagonal) K
//   dK     = (D R ...)^T Q + (L U) state'^T - (E dV) state^T + (B + B^T) K   B = beta[i] D dA
//   dbeta  = Y . W + the sum over j of D dA K[i] . K[j]
//   dG     = E (scale * dO . (Q state) - dV . (K state)) - L U . (K state')
//            + the sums over j, less those over i, of P R and of A dA
//   dG[last] also has the sum of L U . (K state'), and exp(G[last]) times the product of state and state'
//   dg[i]  = the sum of dG[j] over the rows j >= i of the chunk
//
// Four launches: the inverses of all chunks; the states before each chunk, and U, from the first chunk to the last; the
// gradients of the states, and dV and Y, from the last chunk to the first; then all other gradients of each chunk.
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
//   BLOCK_N   Rows of a chunk: 16, 32 or 64; it need not be that of the forward. Default: 32, or 16 for f64.
//   BLOCK_V   Columns of v and the state in a step; the last launch, which has more operands, takes at most 32.
//             Default: 64, or 32 for f32 and f64.
//
// The inverse, states, U, Y and other operands of products are rounded to T; for T of 16 bits, operands of the products
// that make the inverse are rounded to tf32. All other values have the type ACC. Runs are bit-identical.

tile.link "lib/decay.mlir"
tile.link "lib/triangular.mlir"

!k_view     = !tile.view<[?, ?, ?, D], T>
!v_view     = !tile.view<[?, ?, ?, DV], T>
!row_view   = !tile.view<[?, ?, ?], ACC>
!m_view     = !tile.view<[?, ?, ?, BLOCK_N], T>
!state_view = !tile.view<[?, ?, D, DV], ACC>
!chunk_view = !tile.view<[?, ?, D, DV], T>

!k       = !tile.tile<[BLOCK_N, DP], T>
!k_acc   = !tile.tile<[BLOCK_N, DP], ACC>
!v       = !tile.tile<[BLOCK_N, BLOCK_V], T>
!o       = !tile.tile<[BLOCK_N, BLOCK_V], ACC>
!m       = !tile.tile<[BLOCK_N, BLOCK_N], T>
!s       = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!pos     = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!keep    = !tile.tile<[BLOCK_N, BLOCK_N], i1>
!row     = !tile.tile<[BLOCK_N], ACC>
!state   = !tile.tile<[DP, BLOCK_V], ACC>
!state_t = !tile.tile<[DP, BLOCK_V], T>
!width   = !tile.tile<[DP], ACC>
!acc     = !tile.param<ACC>

tile.program @gated_delta_rule_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           BLOCK_N: int in [16, 32, 64] = select(bits(T) == 64, 16, 32),
           BLOCK_V: int = select(bits(T) == 16, 64, 32),
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, same_dims(k, q, 0, 1, 2), dim(v, 0) == dim(q, 0), dim(v, 2) == dim(q, 2),
            floordiv(dim(v, 1), max(dim(q, 1), 1)) * dim(q, 1) == dim(v, 1), same_dims(do, v, 0, 1, 2),
            same_dims(g, v, 0, 1, 2), same_dims(beta, v, 0, 1, 2), same_dims(dq, q, 0, 1, 2), same_dims(dk, q, 0, 1, 2),
            same_dims(dv, v, 0, 1, 2), same_dims(dg, v, 0, 1, 2), same_dims(dbeta, v, 0, 1, 2),
            same_dims(state_in, v, 0, 1), same_dims(dstate_out, v, 0, 1), same_dims(dstate_in, v, 0, 1), finite(scale))
    (%q: !k_view, %k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view, %do: !v_view,
     %state_in: optional !state_view, %dstate_out: optional !state_view, %dq: !k_view, %dk: !k_view, %dv: !v_view,
     %dg: !row_view, %dbeta: !row_view, %dstate_in: optional !state_view, %scale: !acc) {
  %inverses = tile.workspace [dim(v, 0), dim(v, 1), dim(v, 2), BLOCK_N] : !m_view
  // The states of all chunks of a head, one after the other.
  %states = tile.workspace [dim(v, 0), dim(v, 1) * ceildiv(dim(v, 2), BLOCK_N), D, DV] : !chunk_view
  %dstates = tile.workspace [dim(v, 0), dim(v, 1) * ceildiv(dim(v, 2), BLOCK_N), D, DV] : !chunk_view
  %us = tile.workspace [dim(v, 0), dim(v, 1), dim(v, 2), DV] : !v_view
  %ys = tile.workspace [dim(v, 0), dim(v, 1), dim(v, 2), DV] : !v_view
  tile.launch @gated_delta_rule_inverses(%k, %g, %beta, %inverses) : !k_view, !row_view, !row_view, !m_view
  tile.launch @gated_delta_rule_states(%k, %v, %g, %beta, %inverses, %state_in, %states, %us)
      : !k_view, !v_view, !row_view, !row_view, !m_view, !state_view, !chunk_view, !v_view
  tile.launch @gated_delta_rule_dstates(%q, %k, %g, %beta, %do, %inverses, %dstate_out, %dstates, %ys, %dv, %dstate_in,
                                        %scale)
      : !k_view, !k_view, !row_view, !row_view, !v_view, !m_view, !state_view, !chunk_view, !v_view, !v_view,
        !state_view, !acc
  tile.launch @gated_delta_rule_gradients(%q, %k, %v, %g, %beta, %do, %states, %dstates, %us, %ys, %dq, %dk, %dg,
                                          %dbeta, %scale) with (BLOCK_V = min(BLOCK_V, 32))
      : !k_view, !k_view, !v_view, !row_view, !row_view, !v_view, !chunk_view, !chunk_view, !v_view, !v_view, !k_view,
        !k_view, !row_view, !row_view, !acc
}

// (1 + A)^-1. Rows that there are not have g, beta and k of zero, so G is constant there.
tile.kernel @gated_delta_rule_inverses
    params(D: int, T: type, BLOCK_N: int, let DP: int = padded_for("state", D, D, T),
           let LEVELS: int = select(BLOCK_N == 64, 6, select(BLOCK_N == 32, 5, 4)), let COARSE: flag = bits(T) < 32,
           let ACC: type = accumulator(T))
    (%k: !k_view, %g: !row_view, %beta: !row_view, %inverses: !m_view)
    grid(%bn = ceildiv(dim(g, 2), BLOCK_N), %h = dim(g, 1), %b = dim(g, 0)) {
  %n = tile.expr %bn * BLOCK_N : i32
  %heads = tile.dim %g, 1 : !row_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32

  %g_row = tile.load %g[%b, %h, %n] : !row_view -> !row
  %sums_row = tile.scan add %g_row dim 0 : !row
  %decays = func.call @decays(%sums_row) : (!row) -> !s
  %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %products = tile.dot %k_tile, %k_tile transpose_b : !k, !k -> !s
  %a = tile.expr %products * %decays * expand(%beta_row, 1) : !s
  %inverse = func.call @unit_lower_inverse(%a) : (!s) -> !s
  %rounded = tile.cast %inverse : !s -> !m
  tile.store %rounded, %inverses[%b, %h, %n, 0] : !m, !m_view
}

// The state before each chunk, and U.
tile.kernel @gated_delta_rule_states
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view, %inverses: !m_view, %state_in: optional !state_view,
     %states: !chunk_view, %us: !v_view)
    grid(%bv = ceildiv(DV, BLOCK_V), %h = dim(v, 1), %b = dim(v, 0)) {
  %c0 = arith.constant 0 : i32
  %block_n = tile.param BLOCK_N : i32
  %c = tile.expr %bv * BLOCK_V : i32
  %rows = tile.dim %v, 2 : !v_view
  %chunks = tile.expr ceildiv(%rows, BLOCK_N) : i32
  %heads = tile.dim %v, 1 : !v_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32

  %first = tile.load %state_in[%b, %h, 0, %c] : !state_view -> !state
  %last = scf.for %n = %c0 to %rows step %block_n iter_args(%state = %first) -> (!state) : i32 {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
    %v_tile = tile.load %v[%b, %h, %n, %c] : !v_view -> !v
    %m_tile = tile.load %inverses[%b, %h, %n, 0] : !m_view -> !m
    %g_row = tile.load %g[%b, %h, %n] : !row_view -> !row
    %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
    %sums_row = tile.scan add %g_row dim 0 : !row
    %all = tile.expand %g_row dim 0 : !row -> !s
    %total_row = tile.reduce add %all dim 1 : !s -> !row

    %state_tile = tile.cast %state : !state -> !state_t
    %chunk = tile.expr %h * %chunks + %n / BLOCK_N : i32
    tile.store %state_tile, %states[%b, %chunk, 0, %c] : !state_t, !chunk_view
    %known = tile.dot %k_tile, %state_tile : !k, !state_t -> !o
    %decay_row = math.exp %sums_row : !row
    %w = tile.expr (cast(%v_tile : !v) - %known * expand(%decay_row, 1)) * expand(%beta_row, 1) : !o -> !v
    %u = tile.dot %m_tile, %w : !m, !v -> !o
    %u_tile = tile.cast %u : !o -> !v
    tile.store %u_tile, %us[%b, %h, %n, %c] : !v, !v_view

    %left_row = tile.expr exp(%total_row - %sums_row) : !row
    %u_left = tile.expr %u * expand(%left_row, 1) : !o -> !v
    %whole = tile.expand %g_row dim 1 : !row -> !o
    %total = tile.reduce add %whole dim 0 : !o -> !tile.tile<[BLOCK_V], ACC>
    %decay_each = math.exp %total : !tile.tile<[BLOCK_V], ACC>
    %state_old = tile.expr %state * expand(%decay_each, 0) : !state
    %state_new = tile.dot %k_tile, %u_left, %state_old transpose_a : !k, !v -> !state
    scf.yield %state_new : !state
  }
}

// The gradient of the state behind each chunk, Y and dV.
tile.kernel @gated_delta_rule_dstates
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%q: !k_view, %k: !k_view, %g: !row_view, %beta: !row_view, %do: !v_view, %inverses: !m_view,
     %dstate_out: optional !state_view, %dstates: !chunk_view, %ys: !v_view, %dv: !v_view,
     %dstate_in: optional !state_view, %scale: !acc)
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
  %nothing = tile.constant 0.0 : !s
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos

  %behind = tile.load %dstate_out[%b, %h, 0, %c] : !state_view -> !state
  %before = scf.for %back = %c0 to %chunks step %c1 iter_args(%dstate = %behind) -> (!state) : i32 {
    %at = tile.expr %chunks - 1 - %back : i32
    %n = tile.expr %at * BLOCK_N : i32
    %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
    %do_tile = tile.load %do[%b, %h, %n, %c] : !v_view -> !v
    %m_tile = tile.load %inverses[%b, %h, %n, 0] : !m_view -> !m
    %g_row = tile.load %g[%b, %h, %n] : !row_view -> !row
    %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
    %sums_row = tile.scan add %g_row dim 0 : !row
    %all = tile.expand %g_row dim 0 : !row -> !s
    %total_row = tile.reduce add %all dim 1 : !s -> !row

    %dstate_tile = tile.cast %dstate : !state -> !state_t
    %chunk = tile.expr %h * %chunks + %at : i32
    tile.store %dstate_tile, %dstates[%b, %chunk, 0, %c] : !state_t, !chunk_view

    %scores = tile.dot %q_tile, %k_tile transpose_b : !k, !k -> !s
    %decays = func.call @decays(%sums_row) : (!row) -> !s
    %p = tile.expr select(%keep, %scores * %decays, %nothing) : !s -> !m
    %do_scaled = tile.expr cast(%do_tile : !v) * full(%scale) : !o
    %do_part = tile.cast %do_scaled : !o -> !v
    %of_state = tile.dot %k_tile, %dstate_tile : !k, !state_t -> !o
    %left_row = tile.expr exp(%total_row - %sums_row) : !row
    %left = tile.expr %of_state * expand(%left_row, 1) : !o
    %du = tile.dot %p, %do_part, %left transpose_a : !m, !v -> !o
    %du_tile = tile.cast %du : !o -> !v
    %y = tile.dot %m_tile, %du_tile transpose_a : !m, !v -> !o
    %y_tile = tile.cast %y : !o -> !v
    tile.store %y_tile, %ys[%b, %h, %n, %c] : !v, !v_view
    %dv_acc = tile.expr %y * expand(%beta_row, 1) : !o
    %dv_tile = tile.cast %dv_acc : !o -> !v
    tile.store %dv_tile, %dv[%b, %h, %n, %c] : !v, !v_view

    %decay_row = math.exp %sums_row : !row
    %do_decayed = tile.expr %do_scaled * expand(%decay_row, 1) : !o -> !v
    %dv_decayed = tile.expr neg(%dv_acc * expand(%decay_row, 1)) : !o -> !v
    %whole = tile.expand %g_row dim 1 : !row -> !o
    %total = tile.reduce add %whole dim 0 : !o -> !tile.tile<[BLOCK_V], ACC>
    %decay_each = math.exp %total : !tile.tile<[BLOCK_V], ACC>
    %old = tile.expr %dstate * expand(%decay_each, 0) : !state
    %of_q = tile.dot %q_tile, %do_decayed, %old transpose_a : !k, !v -> !state
    %new = tile.dot %k_tile, %dv_decayed, %of_q transpose_a : !k, !v -> !state
    scf.yield %new : !state
  }
  tile.store %before, %dstate_in[%b, %h, 0, %c] : !state, !state_view
}

// dQ, dK, dbeta and dg of a chunk, for all heads that share q and k.
tile.kernel @gated_delta_rule_gradients
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%q: !k_view, %k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view, %do: !v_view, %states: !chunk_view,
     %dstates: !chunk_view, %us: !v_view, %ys: !v_view, %dq: !k_view, %dk: !k_view, %dg: !row_view,
     %dbeta: !row_view, %scale: !acc)
    grid(%at = ceildiv(dim(q, 2), BLOCK_N), %hk = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_v = tile.param BLOCK_V : i32
  %width = tile.param DV : i32
  %n = tile.expr %at * BLOCK_N : i32
  %rows = tile.dim %v, 2 : !v_view
  %chunks = tile.expr ceildiv(%rows, BLOCK_N) : i32
  %heads = tile.dim %v, 1 : !v_view
  %key_heads = tile.dim %q, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %first = tile.expr %hk * %group : i32
  %end = tile.expr %first + %group : i32
  %nothing = tile.constant 0.0 : !s
  %no_row = tile.constant 0.0 : !row
  %no_width = tile.constant 0.0 : !width
  %none = tile.constant 0.0 : !k_acc
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos
  %below = arith.cmpi slt, %j, %i : !pos

  %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %scores = tile.dot %q_tile, %k_tile transpose_b : !k, !k -> !s
  %products = tile.dot %k_tile, %k_tile transpose_b : !k, !k -> !s

  %dq_sum, %dk_sum = scf.for %h = %first to %end step %c1
      iter_args(%dq_old = %none, %dk_old = %none) -> (!k_acc, !k_acc) : i32 {
    %g_row = tile.load %g[%b, %h, %n] : !row_view -> !row
    %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
    %sums_row = tile.scan add %g_row dim 0 : !row
    %all = tile.expand %g_row dim 0 : !row -> !s
    %total_row = tile.reduce add %all dim 1 : !s -> !row
    %decay_row = math.exp %sums_row : !row
    %left_row = tile.expr exp(%total_row - %sums_row) : !row
    %chunk = tile.expr %h * %chunks + %at : i32

    // What sums over the columns of v, in blocks of them.
    %dq_part, %dk_part, %r, %yu, %of_decay, %of_left, %of_beta, %of_state = scf.for %c = %c0 to %width step %block_v
        iter_args(%dq_o = %dq_old, %dk_o = %dk_old, %r_o = %nothing, %yu_o = %nothing, %decay_o = %no_row,
                  %left_o = %no_row, %beta_o = %no_row, %state_o = %no_width)
        -> (!k_acc, !k_acc, !s, !s, !row, !row, !row, !width) : i32 {
      %state = tile.load %states[%b, %chunk, 0, %c] : !chunk_view -> !state_t
      %dstate = tile.load %dstates[%b, %chunk, 0, %c] : !chunk_view -> !state_t
      %v_tile = tile.load %v[%b, %h, %n, %c] : !v_view -> !v
      %do_tile = tile.load %do[%b, %h, %n, %c] : !v_view -> !v
      %u = tile.load %us[%b, %h, %n, %c] : !v_view -> !v
      %y = tile.load %ys[%b, %h, %n, %c] : !v_view -> !v
      %do_scaled = tile.expr cast(%do_tile : !v) * full(%scale) : !o
      %do_part = tile.cast %do_scaled : !o -> !v
      %r_n = tile.dot %do_part, %u, %r_o transpose_b : !v, !v -> !s
      %yu_n = tile.dot %y, %u, %yu_o transpose_b : !v, !v -> !s

      %do_decayed = tile.expr %do_scaled * expand(%decay_row, 1) : !o
      %do_decayed_tile = tile.cast %do_decayed : !o -> !v
      %dq_n = tile.dot %do_decayed_tile, %state, %dq_o transpose_b : !v, !state_t -> !k_acc
      %y_acc = tile.cast %y : !v -> !o
      %dv_decayed = tile.expr %y_acc * expand(%beta_row, 1) * expand(%decay_row, 1) : !o
      %dv_minus = tile.expr neg(%dv_decayed) : !o -> !v
      %dk_state = tile.dot %dv_minus, %state, %dk_o transpose_b : !v, !state_t -> !k_acc
      %u_left = tile.expr cast(%u : !v) * expand(%left_row, 1) : !o
      %u_left_tile = tile.cast %u_left : !o -> !v
      %dk_n = tile.dot %u_left_tile, %dstate, %dk_state transpose_b : !v, !state_t -> !k_acc

      %q_state = tile.dot %q_tile, %state : !k, !state_t -> !o
      %k_state = tile.dot %k_tile, %state : !k, !state_t -> !o
      %k_dstate = tile.dot %k_tile, %dstate : !k, !state_t -> !o
      %in_decay = tile.expr %do_decayed * %q_state - %dv_decayed * %k_state : !o
      %decay_sum = tile.reduce add %in_decay dim 1 : !o -> !row
      %decay_n = arith.addf %decay_o, %decay_sum : !row
      %in_left = arith.mulf %u_left, %k_dstate : !o
      %left_sum = tile.reduce add %in_left dim 1 : !o -> !row
      %left_n = arith.addf %left_o, %left_sum : !row
      %in_beta = tile.expr %y_acc * (cast(%v_tile : !v) - %k_state * expand(%decay_row, 1)) : !o
      %beta_sum = tile.reduce add %in_beta dim 1 : !o -> !row
      %beta_n = arith.addf %beta_o, %beta_sum : !row
      %in_state = tile.expr cast(%state : !state_t) * cast(%dstate : !state_t) : !state
      %state_sum = tile.reduce add %in_state dim 1 : !state -> !width
      %state_n = arith.addf %state_o, %state_sum : !width
      scf.yield %dq_n, %dk_n, %r_n, %yu_n, %decay_n, %left_n, %beta_n, %state_n
          : !k_acc, !k_acc, !s, !s, !row, !row, !row, !width
    }

    %decays = func.call @decays(%sums_row) : (!row) -> !s
    %dr = tile.expr select(%keep, %r * %decays, %nothing) : !s
    %dr_tile = tile.cast %dr : !s -> !m
    %da = tile.expr select(%below, neg(%yu * %decays), %nothing) : !s
    %b_acc = tile.expr %da * expand(%beta_row, 1) : !s
    %b_tile = tile.cast %b_acc : !s -> !m
    %dq_new = tile.dot %dr_tile, %k_tile, %dq_part : !m, !k -> !k_acc
    %dk_of_q = tile.dot %dr_tile, %q_tile, %dk_part transpose_a : !m, !k -> !k_acc
    %dk_of_rows = tile.dot %b_tile, %k_tile, %dk_of_q : !m, !k -> !k_acc
    %dk_new = tile.dot %b_tile, %k_tile, %dk_of_rows transpose_a : !m, !k -> !k_acc

    %in_a = arith.mulf %da, %products : !s
    %beta_of_a = tile.reduce add %in_a dim 1 : !s -> !row
    %dbeta_row = arith.addf %of_beta, %beta_of_a : !row
    tile.store %dbeta_row, %dbeta[%b, %h, %n] : !row, !row_view

    // D of row i and column j: G[i] less G[j].
    %in_d = tile.expr %dr * %scores + %b_acc * %products : !s
    %d_rows = tile.reduce add %in_d dim 1 : !s -> !row
    %d_columns = tile.reduce add %in_d dim 0 : !s -> !row
    %dsums = tile.expr %of_decay - %of_left + %d_rows - %d_columns : !row
    %later = tile.expr select(%keep, expand(%dsums, 1), %nothing) : !s
    %from_row = tile.reduce add %later dim 0 : !s -> !row
    // The last sum of the chunk has all rows before it.
    %left_all = tile.expand %of_left dim 0 : !row -> !s
    %of_last = tile.reduce add %left_all dim 1 : !s -> !row
    %state_all = tile.expand %of_state dim 0 : !width -> !k_acc
    %state_product = tile.reduce add %state_all dim 1 : !k_acc -> !row
    %dg_row = tile.expr %from_row + %of_last + exp(%total_row) * %state_product : !row
    tile.store %dg_row, %dg[%b, %h, %n] : !row, !row_view
    scf.yield %dq_new, %dk_new : !k_acc, !k_acc
  }
  %dq_tile = tile.cast %dq_sum : !k_acc -> !k
  tile.store %dq_tile, %dq[%b, %hk, %n, 0] : !k, !k_view
  %dk_tile = tile.cast %dk_sum : !k_acc -> !k
  tile.store %dk_tile, %dk[%b, %hk, %n, 0] : !k, !k_view
}
