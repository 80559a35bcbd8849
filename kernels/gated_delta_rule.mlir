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
//   inverse = (1 + the part below the diagonal of beta[i] D[i, j] K[i] . K[j])^-1, its column j times beta[j]
//   U       = inverse (V - exp(G) K state)
//   O       = scale * (exp(G) Q state + (lower triangle of D[i, j] Q[i] . K[j]) U)
//   state   = exp(G[last]) state + K^T (exp(G[last] - G) U)
//
// One launch computes the inverses of all chunks, and one goes through the chunks of each head.
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
//   BLOCK_N   Rows of a chunk: 16, 32 or 64. Default: 64, or 32 for f32 and 16 for f64.
//   BLOCK_V   Columns of v, o and the state in a program instance. Default: 64, or 32 for f32 and f64.
//
// The inverse, the state, U and the terms of O are rounded to T before products; for T of 16 bits, operands of the
// products that make the inverse are rounded to tf32. All other values have the type ACC. Runs are bit-identical.
//
// Algorithm: Yang, Kautz and Hatamizadeh, Gated delta networks, 2024; the inverse as in lib/triangular.mlir.

tile.link "lib/decay.mlir"
tile.link "lib/triangular.mlir"

!k_view     = !tile.view<[?, ?, ?, D], T>
!v_view     = !tile.view<[?, ?, ?, DV], T>
!row_view   = !tile.view<[?, ?, ?], ACC>
!m_view     = !tile.view<[?, ?, ?, BLOCK_N], T>
!state_view = !tile.view<[?, ?, D, DV], ACC>

!k       = !tile.tile<[BLOCK_N, DP], T>
!v       = !tile.tile<[BLOCK_N, BLOCK_V], T>
!m       = !tile.tile<[BLOCK_N, BLOCK_N], T>
!s       = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!pos     = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!keep    = !tile.tile<[BLOCK_N, BLOCK_N], i1>
!o       = !tile.tile<[BLOCK_N, BLOCK_V], ACC>
!row     = !tile.tile<[BLOCK_N], ACC>
!state   = !tile.tile<[DP, BLOCK_V], ACC>
!state_t = !tile.tile<[DP, BLOCK_V], T>
!acc     = !tile.param<ACC>

tile.program @gated_delta_rule
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           BLOCK_N: int in [16, 32, 64] = select(bits(T) == 16, 64, select(bits(T) == 32, 32, 16)),
           BLOCK_V: int = select(bits(T) == 16, 64, 32),
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, same_dims(k, q, 0, 1, 2), dim(v, 0) == dim(q, 0), dim(v, 2) == dim(q, 2),
            floordiv(dim(v, 1), max(dim(q, 1), 1)) * dim(q, 1) == dim(v, 1), same_dims(o, v, 0, 1, 2),
            same_dims(g, v, 0, 1, 2), same_dims(beta, v, 0, 1, 2), same_dims(state_in, v, 0, 1),
            same_dims(state_out, v, 0, 1), finite(scale))
    (%q: !k_view, %k: !k_view, %v: !v_view, %g: !row_view, %beta: !row_view, %o: !v_view,
     %state_in: optional !state_view, %state_out: optional !state_view, %scale: !acc) {
  %inverses = tile.workspace [dim(v, 0), dim(v, 1), dim(v, 2), BLOCK_N] : !m_view
  %sums = tile.workspace [dim(v, 0), dim(v, 1), dim(v, 2)] : !row_view
  tile.launch @gated_delta_rule_inverses(%k, %g, %beta, %inverses, %sums)
      : !k_view, !row_view, !row_view, !m_view, !row_view
  tile.launch @gated_delta_rule_chunks(%q, %k, %v, %inverses, %sums, %o, %state_in, %state_out, %scale)
      : !k_view, !k_view, !v_view, !m_view, !row_view, !v_view, !state_view, !state_view, !acc
}

tile.kernel @gated_delta_rule_inverses
    params(D: int, T: type, BLOCK_N: int, let DP: int = padded_for("state", D, D, T),
           let LEVELS: int = select(BLOCK_N == 64, 6, select(BLOCK_N == 32, 5, 4)), let COARSE: flag = bits(T) < 32,
           let ACC: type = accumulator(T))
    (%k: !k_view, %g: !row_view, %beta: !row_view, %inverses: !m_view, %sums: !row_view)
    grid(%bn = ceildiv(dim(g, 2), BLOCK_N), %h = dim(g, 1), %b = dim(g, 0)) {
  %c0 = arith.constant 0 : i32
  %block_n = tile.param BLOCK_N : i32
  %n = arith.muli %bn, %block_n : i32
  %heads = tile.dim %g, 1 : !row_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32

  %g_row = tile.load %g[%b, %h, %n] : !row_view -> !row
  %sums_row = tile.scan add %g_row dim 0 : !row
  tile.store %sums_row, %sums[%b, %h, %n] : !row, !row_view
  %decays = func.call @decays(%sums_row) : (!row) -> !s

  %beta_row = tile.load %beta[%b, %h, %n] : !row_view -> !row
  %beta_of_row = tile.expand %beta_row dim 1 : !row -> !s
  %beta_of_column = tile.expand %beta_row dim 0 : !row -> !s
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
  %products = tile.dot %k_tile, %k_tile transpose_b : !k, !k -> !s
  %decayed = arith.mulf %products, %decays : !s
  %weighted = arith.mulf %decayed, %beta_of_row : !s
  %inverse = func.call @unit_lower_inverse(%weighted) : (!s) -> !s
  %scaled = arith.mulf %inverse, %beta_of_column : !s
  %rounded = tile.cast %scaled : !s -> !m
  tile.store %rounded, %inverses[%b, %h, %n, 0] : !m, !m_view
}

tile.kernel @gated_delta_rule_chunks
    params(D: int, DV: int, T: type, BLOCK_N: int, BLOCK_V: int,
           let DP: int = padded_for("state", D, DV, T), let ACC: type = accumulator(T))
    (%q: !k_view, %k: !k_view, %v: !v_view, %inverses: !m_view, %sums: !row_view, %o: !v_view,
     %state_in: optional !state_view, %state_out: optional !state_view, %scale: !acc)
    grid(%bv = ceildiv(DV, BLOCK_V), %h = dim(v, 1), %b = dim(v, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_n = tile.param BLOCK_N : i32
  %block_v = tile.param BLOCK_V : i32
  %c = arith.muli %bv, %block_v : i32
  %rows = tile.dim %v, 2 : !v_view
  %last_row = arith.subi %rows, %c1 : i32
  %heads = tile.dim %v, 1 : !v_view
  %key_heads = tile.dim %k, 1 : !k_view
  %group = arith.divsi %heads, %key_heads : i32
  %hk = arith.divsi %h, %group : i32

  %nothing = tile.constant 0.0 : !s
  %scales = tile.full %scale : !o
  %i = tile.iota %c0 dim 0 : !pos
  %j = tile.iota %c0 dim 1 : !pos
  %keep = arith.cmpi sle, %j, %i : !pos

  %first = tile.load %state_in[%b, %h, 0, %c] : !state_view -> !state
  %last = scf.for %n = %c0 to %rows step %block_n iter_args(%state = %first) -> (!state) : i32 {
    %q_tile = tile.load %q[%b, %hk, %n, 0] : !k_view -> !k
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !k_view -> !k
    %v_tile = tile.load %v[%b, %h, %n, %c] : !v_view -> !v
    %m_tile = tile.load %inverses[%b, %h, %n, 0] : !m_view -> !m
    %sums_row = tile.load %sums[%b, %h, %n] : !row_view -> !row
    %past = arith.addi %n, %block_n : i32
    %past_last = arith.subi %past, %c1 : i32
    %at = arith.minsi %past_last, %last_row : i32
    %total = tile.at %sums[%b, %h, %at] : !row_view
    %decay_row = math.exp %sums_row : !row
    %decay_each = tile.expand %decay_row dim 1 : !row -> !o

    // What the rows add to the state.
    %state_tile = tile.cast %state : !state -> !state_t
    %k_state = tile.dot %k_tile, %state_tile : !k, !state_t -> !o
    %known = arith.mulf %k_state, %decay_each : !o
    %v_acc = tile.cast %v_tile : !v -> !o
    %change = arith.subf %v_acc, %known : !o
    %change_tile = tile.cast %change : !o -> !v
    %u = tile.dot %m_tile, %change_tile : !m, !v -> !o
    %u_tile = tile.cast %u : !o -> !v

    %s = tile.dot %q_tile, %k_tile transpose_b : !k, !k -> !s
    %decays = func.call @decays(%sums_row) : (!row) -> !s
    %decayed = arith.mulf %s, %decays : !s
    %kept = tile.select %keep, %decayed, %nothing : !keep, !s
    %p = tile.cast %kept : !s -> !m
    %q_state = tile.dot %q_tile, %state_tile : !k, !state_t -> !o
    %from_before = arith.mulf %q_state, %decay_each : !o
    %sum = tile.dot %p, %u_tile, %from_before : !m, !v -> !o
    %result = arith.mulf %sum, %scales : !o
    %o_tile = tile.cast %result : !o -> !v
    tile.store %o_tile, %o[%b, %h, %n, %c] : !v, !v_view

    %total_row = tile.full %total : !row
    %left_row = arith.subf %total_row, %sums_row : !row
    %left = math.exp %left_row : !row
    %left_each = tile.expand %left dim 1 : !row -> !o
    %u_left = arith.mulf %u, %left_each : !o
    %u_left_tile = tile.cast %u_left : !o -> !v
    %decay = math.exp %total : !acc
    %decay_state = tile.full %decay : !state
    %state_old = arith.mulf %state, %decay_state : !state
    %state_new = tile.dot %k_tile, %u_left_tile, %state_old transpose_a : !k, !v -> !state
    scf.yield %state_new : !state
  }
  tile.store %last, %state_out[%b, %h, 0, %c] : !state, !state_view
}
