// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The states of the gated delta rule, for gated_delta_rule.mlir, which has the formulas, and
// gated_delta_rule_backward.mlir.
//
// A program that calls @delta_states declares D, DV, T, ACC, BLOCK_N and BLOCK_V, with BLOCK_N of 16, 32 or 64. It gets
// workspaces, where the chunks of a head lie one after the other:
//
//   sums      the sums of g from the beginning of the chunk
//   lefts     exp(G[last] - G), the decay from each row to the last
//   totals    exp(G[last]), the decay of the whole chunk, BLOCK_V times: a row comes with the copies of tiles, ahead of
//             the iteration that needs it, and a number does not
//   scaled    inverse, its column j times beta[j]
//   ws        -W
//   us        U^T
//   states    the transposed state before each chunk
//
// and with GRADIENTS
//
//   inverses  inverse
//   ps        P
//   qs        scale * exp(G) Q
//
// Results of a product are operands of the next one: transposed, the state and U are those on the left, which threads
// hold in registers.

tile.link "decay.mlir"
tile.link "triangular.mlir"

!k_view     = !tile.view<[?, ?, ?, D], T>
!v_view     = !tile.view<[?, ?, ?, DV], T>
!row_view   = !tile.view<[?, ?, ?], ACC>
!rows_view  = !tile.view<[?, ?, BLOCK_N], ACC>
!wide_view  = !tile.view<[?, ?, BLOCK_V], ACC>
!m_view     = !tile.view<[?, ?, BLOCK_N, BLOCK_N], T>
!w_view     = !tile.view<[?, ?, BLOCK_N, D], T>
!vt_view    = !tile.view<[?, ?, DV, BLOCK_N], T>
!chunk_view = !tile.view<[?, ?, DV, D], T>
!state_view = !tile.view<[?, ?, D, DV], ACC>

!k       = !tile.tile<[BLOCK_N, DP], T>
!k_acc   = !tile.tile<[BLOCK_N, DP], ACC>
!v       = !tile.tile<[BLOCK_N, BLOCK_V], T>
!vt      = !tile.tile<[BLOCK_V, BLOCK_N], T>
!vt_acc  = !tile.tile<[BLOCK_V, BLOCK_N], ACC>
!m       = !tile.tile<[BLOCK_N, BLOCK_N], T>
!s       = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!keep    = !tile.tile<[BLOCK_N, BLOCK_N], i1>
!pos     = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!row     = !tile.tile<[BLOCK_N], ACC>
!wide    = !tile.tile<[BLOCK_V], ACC>
!each    = !tile.tile<[BLOCK_V, BLOCK_N], ACC>
!state   = !tile.tile<[BLOCK_V, DP], ACC>
!state_t = !tile.tile<[BLOCK_V, DP], T>
!acc     = !tile.param<ACC>

// The launches that need no O, and no gradients of results.
tile.program @delta_states
    params(D, DV: int, T: type, BLOCK_N, BLOCK_V: int, GRADIENTS: flag, let ACC: type = accumulator(T),
           let CHUNKS: int = dim(v, 1) * ceildiv(dim(v, 2), BLOCK_N))
    (%q: !k_view when (GRADIENTS), %k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view,
     %state_in: optional !state_view, %state_out: optional !state_view, %scale: !acc when (GRADIENTS)) {
  %sums = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N] : !rows_view
  %lefts = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N] : !rows_view
  %totals = tile.workspace [dim(v, 0), CHUNKS, BLOCK_V] : !wide_view
  %scaled = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N, BLOCK_N] : !m_view
  %ws = tile.workspace [dim(v, 0), CHUNKS, BLOCK_N, D] : !w_view
  %us = tile.workspace [dim(v, 0), CHUNKS, DV, BLOCK_N] : !vt_view
  %states = tile.workspace [dim(v, 0), CHUNKS, DV, D] : !chunk_view
  %inverses = tile.workspace [select(GRADIENTS, dim(v, 0), 0), CHUNKS, BLOCK_N, BLOCK_N] : !m_view
  %ps = tile.workspace [select(GRADIENTS, dim(v, 0), 0), CHUNKS, BLOCK_N, BLOCK_N] : !m_view
  %qs = tile.workspace [select(GRADIENTS, dim(v, 0), 0), CHUNKS, BLOCK_N, D] : !w_view
  tile.launch @delta_chunks(sums = %sums, lefts = %lefts, totals = %totals, scaled = %scaled, ws = %ws,
                            inverses = %inverses, ps = %ps, qs = %qs)
      : !rows_view, !rows_view, !wide_view, !m_view, !w_view, !m_view, !m_view, !w_view
  tile.launch @delta_sequence(totals = %totals, lefts = %lefts, scaled = %scaled, ws = %ws, us = %us, states = %states)
      : !wide_view, !rows_view, !m_view, !w_view, !vt_view, !chunk_view
  tile.return %sums, %lefts, %totals, %scaled, %ws, %us, %states, %inverses, %ps, %qs
      : !rows_view, !rows_view, !wide_view, !m_view, !w_view, !vt_view, !chunk_view, !m_view, !m_view, !w_view
}

// What does not depend on the state. Rows that there are not have g, beta and k of zero: the sums are constant there.
tile.kernel @delta_chunks
    params(D: int, T: type, BLOCK_N, BLOCK_V: int, GRADIENTS: flag,
           let DP: int = padded_for("state", D, D, T),
           let LEVELS: int = select(BLOCK_N == 64, 6, select(BLOCK_N == 32, 5, 4)), let COARSE: flag = bits(T) < 32,
           let ACC: type = accumulator(T))
    (%q: !k_view when (GRADIENTS), %k: !k_view, %g: !row_view, %beta: !row_view, %sums: !rows_view, %lefts: !rows_view,
     %totals: !wide_view, %scaled: !m_view, %ws: !w_view, %inverses: !m_view when (GRADIENTS),
     %ps: !m_view when (GRADIENTS), %qs: !w_view when (GRADIENTS), %scale: !acc when (GRADIENTS))
    grid(%bn = ceildiv(dim(g, 2), BLOCK_N), %h = dim(g, 1), %b = dim(g, 0)) {
  %c0 = arith.constant 0 : i32
  %n = tile.expr %bn * BLOCK_N : i32
  %rows = tile.dim %g, 2 : !row_view
  %chunk = tile.expr %h * ceildiv(%rows, BLOCK_N) + %bn : i32
  %heads = tile.dim %g, 1 : !row_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32
  %none = tile.constant 0.0 : !s
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos

  // All reads begin before the first result is used.
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %g_row = tile.load %g[%b, %h, %n] : !row_view -> !row
  %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
  %g_each = tile.expand %g_row dim 0 : !row -> !s
  %g_kept = tile.select %keep, %g_each, %none : !keep, !s
  %sums_row = tile.reduce add %g_kept dim 1 : !s -> !row
  %total_row = tile.reduce add %g_each dim 1 : !s -> !row
  tile.store %sums_row, %sums[%b, %chunk, 0] : !row, !rows_view
  %left_row = tile.expr exp(%total_row - %sums_row) : !row
  tile.store %left_row, %lefts[%b, %chunk, 0] : !row, !rows_view
  %g_wide = tile.expand %g_row dim 0 : !row -> !each
  %total_wide = tile.reduce add %g_wide dim 1 : !each -> !wide
  %decay_wide = math.exp %total_wide : !wide
  tile.store %decay_wide, %totals[%b, %chunk, 0] : !wide, !wide_view
  %decays = func.call @decays(%sums_row) : (!row) -> !s
  %products = tile.dot %k_tile, %k_tile transpose_b : !k, !k -> !s
  %a = tile.expr %products * %decays * expand(%beta_row, 1) : !s
  %inverse = func.call @unit_lower_inverse(%a) : (!s) -> !s
  %weighted = tile.expr %inverse * expand(%beta_row, 0) : !s
  %m_tile = tile.cast %weighted : !s -> !m
  tile.store %m_tile, %scaled[%b, %chunk, 0, 0] : !m, !m_view
  %decay_row = math.exp %sums_row : !row
  %decayed = tile.expr neg(%weighted * expand(%decay_row, 0)) : !s -> !m
  %w = tile.dot %decayed, %k_tile : !m, !k -> !k_acc
  %w_tile = tile.cast %w : !k_acc -> !k
  tile.store %w_tile, %ws[%b, %chunk, 0, 0] : !k, !w_view

  %with_gradients = tile.param GRADIENTS : i1
  scf.if %with_gradients {
    %rounded = tile.cast %inverse : !s -> !m
    tile.store %rounded, %inverses[%b, %chunk, 0, 0] : !m, !m_view
    %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
    %scores = tile.dot %q_tile, %k_tile transpose_b : !k, !k -> !s
    %p = tile.expr select(%keep, %scores * %decays * full(%scale), %none) : !s -> !m
    tile.store %p, %ps[%b, %chunk, 0, 0] : !m, !m_view
    %q_row = tile.expr %decay_row * full(%scale) : !row
    %q_decayed = tile.expr cast(%q_tile : !k) * expand(%q_row, 1) : !k_acc -> !k
    tile.store %q_decayed, %qs[%b, %chunk, 0, 0] : !k, !w_view
  }
}

// The state before each chunk, and U, with rows and columns exchanged: so one result is the left operand of the next
// product, in registers.
tile.kernel @delta_sequence
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%k: !k_view, %v: !v_view, %totals: !wide_view, %lefts: !rows_view, %scaled: !m_view, %ws: !w_view,
     %us: !vt_view, %states: !chunk_view, %state_in: optional !state_view, %state_out: optional !state_view)
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

  %first = tile.load %state_in[%b, %h, 0, %c] dims [3, 2] : !state_view -> !state
  %last = scf.for %n = %c0 to %rows step %block_n iter_args(%state = %first) -> (!state) : i32 {
    %chunk = tile.expr %h * %chunks + %n / BLOCK_N : i32
    %v_tile = tile.load %v[%b, %h, %n, %c] : !v_view -> !v
    %m_tile = tile.load %scaled[%b, %chunk, 0, 0] : !m_view -> !m
    %w_tile = tile.load %ws[%b, %chunk, 0, 0] : !w_view -> !k
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
    %left_row = tile.load %lefts[%b, %chunk, 0] : !rows_view -> !row
    %total_row = tile.load %totals[%b, %chunk, 0] : !wide_view -> !wide

    %of_v = tile.dot %v_tile, %m_tile transpose_a transpose_b : !v, !m -> !vt_acc
    %state_tile = tile.cast %state : !state -> !state_t
    %u = tile.dot %state_tile, %w_tile, %of_v transpose_b : !state_t, !k -> !vt_acc
    tile.store %state_tile, %states[%b, %chunk, %c, 0] : !state_t, !chunk_view
    %u_left = tile.expr %u * expand(%left_row, 0) : !vt_acc -> !vt
    %old = tile.expr %state * expand(%total_row, 1) : !state
    %state_new = tile.dot %u_left, %k_tile, %old : !vt, !k -> !state
    %u_tile = tile.cast %u : !vt_acc -> !vt
    tile.store %u_tile, %us[%b, %chunk, %c, 0] : !vt, !vt_view
    scf.yield %state_new : !state
  }
  tile.store %last, %state_out[%b, %h, 0, %c] dims [3, 2] : !state, !state_view
}
