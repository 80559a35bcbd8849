// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Causal linear attention: attention without a softmax, in time linear in the length of the sequence.
//
//   O[i] = scale * sum over j <= i of (Q[i] . K[j]) V[j]
//
// If a model has feature maps, q and k hold their results. The kernel processes the rows in chunks. The rows before a
// chunk C enter only through the state, the sum of their K[j]^T V[j]:
//
//   P     = lower triangle of Q_C K_C^T
//   O_C   = scale * (Q_C state + P V_C)
//   state = state + K_C^T V_C
//
// Arguments
//   q, k        [B, H, S, D]    T
//   v           [B, H, S, DV]   T
//   o           [B, H, S, DV]   T     result
//   state_in    [B, H, D, DV]   ACC   optional: the state before the first row; absent: zero
//   state_out   [B, H, D, DV]   ACC   result, optional: the state after the last row
//   scale       ACC, finite, usually 1 / sqrt(D)
//
// S may have any value, including 0 (state_out is then state_in), and need not be a multiple of the chunk. Strides are
// arbitrary.
//
// Parameters
//   D, DV     Widths of a key and of a value, at most 256. DV defaults to D. The columns of a tile of q or k are the
//             rows of the state. Their number DP is D rounded up to a multiple of 16, or of 128 if D > 64, so that two
//             warpgroups can share them. The padding reads as zero and is never stored.
//   T         Element type of the arrays: f16, bf16, f32 or f64. Sums and the state have the type ACC: f64 for f64,
//             else f32.
//   BLOCK_N   Rows of a chunk. The compiler chooses the default.
//   BLOCK_V   Columns of v, o and the state in a program instance. Default: 64, or 32 for f64.
//
// The state is rounded to T before the product with Q, and P before the product with V; all other values have the type
// ACC. A NaN in q affects only its own row. A NaN in k or v affects its own row and all later rows; in v, it also
// affects earlier rows of its chunk, since 0 * NaN is NaN. Runs are bit-identical.
//
// The grid has B * H * ceildiv(DV, BLOCK_V) instances. An instance processes the chunks of a head one after the other,
// since each chunk adds to the state. Instances for different columns of a head each compute P: a smaller BLOCK_V gives
// more instances, but more work.
//
// Algorithm: the chunkwise form of linear attention (Katharopoulos et al., Transformers are RNNs, 2020; Yang et al.,
// Gated linear attention transformers with hardware-efficient training, 2023).

!k_view = !tile.view<[?, ?, ?, D], T>
!v_view = !tile.view<[?, ?, ?, DV], T>
!k     = !tile.tile<[BLOCK_N, DP], T>
!v     = !tile.tile<[BLOCK_N, BLOCK_V], T>
!p     = !tile.tile<[BLOCK_N, BLOCK_N], T>
!s     = !tile.tile<[BLOCK_N, BLOCK_N], ACC>
!pos   = !tile.tile<[BLOCK_N, BLOCK_N], i32>
!o     = !tile.tile<[BLOCK_N, BLOCK_V], ACC>
!state = !tile.tile<[DP, BLOCK_V], ACC>
!acc   = !tile.param<ACC>

tile.kernel @linear_attention
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], BLOCK_N: int = block(),
           BLOCK_V: int = select(bits(T) < 64, 64, 32), let DP: int = padded_for("state", D, DV, T),
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, same_dims(k, q, 0, 1, 2), same_dims(v, q, 0, 1, 2), same_dims(o, q, 0, 1, 2),
            same_dims(state_in, q, 0, 1), same_dims(state_out, q, 0, 1), finite(scale))
    (%q, %k: !k_view, %v, %o: !v_view, %state_in, %state_out: optional !tile.view<[?, ?, D, DV], ACC>, %scale: !acc)
    grid(%bv = ceildiv(DV, BLOCK_V), %h = dim(q, 1), %b = dim(q, 0)) {
  %c = tile.expr %bv * BLOCK_V : i32
  %scales = tile.full %scale : !o

  // The causal mask within a chunk is the same for all chunks.
  %keep = tile.expr iota(0, 1) <= iota(0, 0) : !pos

  %last = tile.for %n in (0 to dim(%q, 2)) step BLOCK_N iter_args(%state = load %state_in[%b, %h, 0, %c] : !state) {
    %q_tile = tile.load %q[%b, %h, %n, 0] : !k_view -> !k
    %k_tile = tile.load %k[%b, %h, %n, 0] : !k_view -> !k
    %v_tile = tile.load %v[%b, %h, %n, %c] : !v_view -> !v
    %p = tile.expr select(%keep, dot(%q_tile, %k_tile transpose_b), 0) : !s -> !p
    %sum = tile.expr dot(%p, %v_tile, dot(%q_tile, cast(%state) : !tile.tile<[DP, BLOCK_V], T>) : !o) : !o
    %state_new = tile.dot %k_tile, %v_tile, %state transpose_a : !k, !v -> !state
    tile.store cast(%sum * %scales), %o[%b, %h, %n, %c] : !v
    tile.yield %state_new
  }
  tile.store %last, %state_out[%b, %h, 0, %c] : !state
}
