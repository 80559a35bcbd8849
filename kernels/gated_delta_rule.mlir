// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gated delta rule: linear attention whose state forgets, and replaces what it has for a key.
//
//   state[i] = exp(g[i]) (1 - beta[i] K[i]^T K[i]) state[i - 1] + beta[i] K[i]^T V[i]
//   O[i]     = scale * Q[i] state[i]
//
// The kernels process rows in chunks. With G, the sums of g from the beginning of a chunk, and D[i, j] = exp(G[i] -
// G[j]):
//
//   inverse = (1 + the part below the diagonal of beta[i] D[i, j] K[i] . K[j])^-1
//   W       = inverse (beta exp(G) K)
//   U       = inverse (beta V) - W state
//   state   = exp(G[last]) state + K^T (exp(G[last] - G) U)
//   P       = scale * (lower triangle of D[i, j] Q[i] . K[j])
//   O       = scale * exp(G) Q state + P U
//
// Three launches: inverse and W of all chunks; the states and U, from the first chunk of a head to the last; and O of
// all chunks. Only the second, with three products for a chunk, goes through chunks one after the other. Between them,
// a chunk of a head takes 2 * BLOCK_N * (D + DV + BLOCK_N) bytes for T of 16 bits, and 2 * D * DV for its state.
//
// Arguments
//   q, k        [B, Hk, S, D]   T
//   v           [B, H, S, DV]   T     H is a multiple of Hk: neighboring heads share q and k
//   g           [B, H, S]       ACC   logarithms of the decay, at most zero
//   beta        [B, H, S]       ACC   usually from 0 to 1, with rows of k of length 1
//   o           [B, H, S, DV]   T     result
//   state_in    [B, H, D, DV]   ACC   optional: the state before the first row; absent: zero
//   state_out   [B, H, D, DV]   ACC   result, optional: the state after the last row
//   scale       ACC, finite, usually 1 / sqrt(D)
//
// S may have any value, including 0 (state_out is then state_in), and need not be a multiple of the chunk. Strides are
// arbitrary.
//
// Parameters
//   D, DV     Widths of a key and of a value, at most 256. DV defaults to D. The padding of D reads as zero.
//   T         Element type of the arrays: f16, bf16, f32 or f64. Sums and the state have the type ACC: f64 for f64,
//             else f32.
//   BLOCK_N   Rows of a chunk: 16, 32 or 64. Default: 64, or 32 for f32 and for D > 128, and 16 for f64.
//   BLOCK_V   Columns of v, o and the state in a program instance. Default: 64, or 32 for f32 and f64.
//
// The inverse, W, the state, U and P are rounded to T; for T of 16 bits, operands of the products that make the inverse
// are rounded to f16, so these must not exceed 65504: with keys of length 1 and beta up to 2, none exceeds 2. All other
// values have the type ACC. Runs are bit-identical.
//
// Algorithm: Yang, Kautz and Hatamizadeh, Gated delta networks, 2024; the inverse as in lib/triangular.mlir.

tile.link "lib/decay.mlir"
tile.link "lib/delta_rule.mlir"

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
!v       = !tile.tile<[BLOCK_N, BLOCK_V], T>
!vt      = !tile.tile<[BLOCK_V, BLOCK_N], T>
!m       = !tile.tile<[BLOCK_N, BLOCK_N], T>
!s       = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!keep    = !tile.tile<[BLOCK_N, BLOCK_N], i1>
!pos     = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!o       = !tile.tile<[BLOCK_N, BLOCK_V], ACC>
!row     = !tile.tile<[BLOCK_N], ACC>
!state_t = !tile.tile<[BLOCK_V, DP], T>
!acc     = !tile.param<ACC>

tile.program @gated_delta_rule
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           BLOCK_N: int in [16, 32, 64] = select(bits(T) == 64, 16, select(and(bits(T) == 16, D <= 128), 64, 32)),
           BLOCK_V: int = select(bits(T) == 16, 64, 32),
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, same_dims(k, q, 0, 1, 2), dim(v, 0) == dim(q, 0), dim(v, 2) == dim(q, 2),
            floordiv(dim(v, 1), max(dim(q, 1), 1)) * dim(q, 1) == dim(v, 1), same_dims(o, v, 0, 1, 2),
            same_dims(g, v, 0, 1, 2), same_dims(beta, v, 0, 1, 2), same_dims(state_in, v, 0, 1),
            same_dims(state_out, v, 0, 1), finite(scale))
    (%q: !k_view, %k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view, %o: !v_view,
     %state_in: optional !state_view, %state_out: optional !state_view, %scale: !acc) {
  %sums, %lefts, %totals, %scaled, %ws, %us, %states, %inverses, %ps, %qs
      = tile.call @delta_states() with (GRADIENTS = false)
      -> !rows_view, !rows_view, !wide_view, !m_view, !w_view, !vt_view, !chunk_view, !m_view, !m_view, !w_view
  tile.launch @gated_delta_rule_outputs(sums = %sums, us = %us, states = %states) : !rows_view, !vt_view, !chunk_view
}

tile.kernel @gated_delta_rule_outputs
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%q: !k_view, %k: !k_view, %sums: !rows_view, %us: !vt_view, %states: !chunk_view, %o: !v_view, %scale: !acc)
    grid(%bn = ceildiv(dim(o, 2), BLOCK_N), %h = dim(o, 1), %b = dim(o, 0)) {
  %c0 = arith.constant 0 : i32
  %block_v = tile.param BLOCK_V : i32
  %width = tile.param DV : i32
  %n = tile.expr %bn * BLOCK_N : i32
  %rows = tile.dim %o, 2 : !v_view
  %chunk = tile.expr %h * ceildiv(%rows, BLOCK_N) + %bn : i32
  %heads = tile.dim %o, 1 : !v_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32
  %nothing = tile.constant 0.0 : !s
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos

  %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %sums_row = tile.load %sums[%b, %chunk, 0] : !rows_view -> !row
  %decays = func.call @decays(%sums_row) : (!row) -> !s
  %p = tile.expr select(%keep, dot(%q_tile, %k_tile transpose_b) * %decays, %nothing) : !s -> !m
  %decay_row = math.exp %sums_row : !row
  scf.for %c = %c0 to %width step %block_v : i32 {
    %state = tile.load %states[%b, %chunk, %c, 0] : !chunk_view -> !state_t
    %u = tile.load %us[%b, %chunk, %c, 0] : !vt_view -> !vt
    %q_state = tile.dot %q_tile, %state transpose_b : !k, !state_t -> !o
    %before = tile.expr %q_state * expand(%decay_row, 1) : !o
    %sum = tile.dot %p, %u, %before transpose_b : !m, !vt -> !o
    %o_tile = tile.expr %sum * full(%scale) : !o -> !v
    tile.store %o_tile, %o[%b, %h, %n, %c] : !v, !v_view
  }
}
