// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward, that also stores the probabilities P: for attention_backward_saved_probs.mlir, and to look at
// them. P takes Sq * Skv elements for each head, so this is for short sequences.
//
//   S   = scale * Q K^T              the score of each pair of a query i and a key j
//   X   = score_mod(S, b, h, i, j)   the identity, unless another file replaces @score_mod
//   P   = softmax(X)                 over the keys that query i attends, zero for all others
//   O   = P V
//   LSE = log(sum(exp(X)))
//
// Arguments: q, k, v, o, lse (optional), scale, window_left and window_right, as in attention_forward.mlir, and
//
//   p   [B, Hq, Sq, Skv]   T   result; all elements are written
//
// Parameters: D, DV, T (f16, bf16, f32 or f64), CAUSAL and WINDOW, as in attention_forward.mlir. BLOCK_M and BLOCK_N
// (16, 32, 64 or 128) are the queries and keys of a block.
//
// A query that attends no key gets P = 0, O = 0 and LSE = -inf. Scores are finite, at most 2.3e38 in magnitude, or for
// f64 1.2e308. The backward from P is right for any mask and any additive @score_mod, such as mods/bias.mlir; it knows
// no derivative of another one. O is the product of the P that is stored: P is rounded to T, and all else has the type
// ACC. Runs are bit-identical.
//
// Algorithm: two passes over the keys. The first finds the maximum and the sum of each row, in blocks of keys that the
// mask does not exclude; the second computes the scores again, and stores all of P.

tile.link "lib/attention.mlir", "lib/softmax.mlir"

!p_view   = !tile.view<[?, ?, ?, ?], T>

// The scores in base 2 of the queries from %m on with the keys from %n on, -inf where %keep is false.
tile.function @scores_of(%q_tile: !q, %k_tile: !k, %keep: !keep, %b, %h, %m, %n: i32, %scale: !acc) -> !s {
  %scales = tile.full %scale : !s
  %rows = tile.iota %m dim 0 : !pos
  %cols = tile.iota %n dim 1 : !pos
  %natural = tile.expr dot(%q_tile, %k_tile transpose_b) * %scales fastmath<reassoc, contract> : !s
  %modified = tile.expr map @score_mod(%natural, %b, %h, %rows, %cols) : !s
  tile.result select(%keep, %modified * log2e, minus_inf) fastmath<reassoc, contract> : !s
}

tile.kernel @attention_forward_saved_probs
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           let SHARD: flag = false, let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           BLOCK_M: int in [16, 32, 64, 128] =
               select(or(not(on_gpu()), ROW_BYTES <= 256), 64, select(ROW_BYTES <= 512, 32, 16)),
           BLOCK_N: int in [16, 32, 64, 128] = BLOCK_M, let ACC: type = accumulator(T), let DP: int = padded(D),
           let DVP: int = padded(DV))
    require(D <= 256, DV <= 256, dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1), same_dims(v, k, 1, 2),
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), same_dims(p, q, 0, 1, 2), dim(p, 3) == dim(k, 2),
            finite(scale), select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q, %k: !qk_view, %v, %o: !v_view, %p: !p_view, %lse: optional !row_view, %scale: !acc,
     %window_left, %window_right: i32 = -1)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %hk = tile.expr @key_head(%h, %q, %k) : i32
  %shift = tile.expr @diagonal_shift(%queries, %keys) : i32
  %block_n = tile.param BLOCK_N : i32
  %m = tile.expr %bm * BLOCK_M : i32
  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q

  // The maximum of each row, and the sum of exp2(x - max).
  %no_max = tile.expr full(@lowest()) : !row
  %no_sum = tile.constant 0 : !row
  %max, %sum = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %x = tile.expr @scores_of(%q_tile, %k_tile, %keep, %b, %h, %m, %n, %scale) : !s
    %max_new = tile.expr max(%max_old, reduce max(%x, 1)) : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !s
    %below = arith.subf %x, %max_each : !s
    %p_block = math.exp2 %below : !s
    %sum_block = tile.reduce add %p_block dim 1 : !s -> !row
    %sum_new = tile.expr %sum_old * exp2(%max_old - %max_new) + %sum_block : !row
    tile.yield %max_new, %sum_new : !row, !row
  }

  // P and O. Blocks that the mask excludes are visited, too: their probabilities are zeros in memory.
  %inverse_each = tile.expr expand(map @reciprocal_or_zero(%sum), 1) : !s
  %max_each = tile.expand %max dim 1 : !row -> !s
  %rows = tile.iota %m dim 0 : !pos
  %all_cols = tile.full %keys : !pos
  %no_o = tile.constant 0 : !o
  %acc = scf.for %n = %c0 to %keys step %block_n iter_args(%acc_old = %no_o) -> (!o) : i32 {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %cols = tile.iota %n dim 1 : !pos
    // A mask may keep columns behind the last key.
    %attends = tile.expr map @attends(%b, %h, %rows, %cols, %shift, %window_left, %window_right) : !keep
    %keep = tile.expr and(%attends, %cols < %all_cols) : !pos
    %x = tile.expr @scores_of(%q_tile, %k_tile, %keep, %b, %h, %m, %n, %scale) : !s
    %below = arith.subf %x, %max_each : !s
    %p_block = tile.expr exp2(%below) * %inverse_each : !s
    %p_tile = tile.cast %p_block : !s -> !p
    tile.store %p_tile, %p[%b, %h, %m, %n] : !p, !p_view
    %acc_new = tile.dot %p_tile, %v_tile, %acc_old : !p, !v -> !o
    scf.yield %acc_new : !o
  }

  %o_tile = tile.cast %acc : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o[%b, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], T>, !v_view
  // LSE = log(2^max * sum), -inf for a row without keys.
  %lse_row = tile.expr %max * ln2 + log(%sum) : !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !row_view
}
