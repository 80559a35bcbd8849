// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Differential attention, forward: the difference of two softmaxes over one set of values.
//
//   S1 = scale * Q1 K1^T,  S2 = scale * Q2 K2^T
//   O  = (softmax(S1) - lambda[h] * softmax(S2)) V
//
// Arguments
//   q1, q2   [B, Hq,  Sq,  D]   T
//   k1, k2   [B, Hkv, Skv, D]   T
//   v        [B, Hkv, Skv, DV]  T
//   lambda   [Hq]               f32
//   o        [B, Hq,  Sq,  DV]  T     result
//   o2       [B, Hq,  Sq,  DV]  T     result, only with SAVE: softmax(S2) V
//   lse      [B, 2 Hq, Sq]      ACC   result, only with SAVE: log sum exp of a row of S1 in head 2 h, of S2 in 2 h + 1
//   scale    ACC, finite, usually 1 / sqrt(D)
//   window_left, window_right   as in attention_forward.mlir, -1 unless WINDOW
//
// Hq is a multiple of Hkv: Hq / Hkv consecutive query heads share a key head. Sq and Skv may have any value, including
// 0, and need not be multiples of the block sizes. Strides are arbitrary: if a model keeps both queries of a head in
// one array, pass views of its halves.
//
// Parameters
//   D, DV      Widths of a query and of a value, at most 256. DV defaults to min(2 * D, 256). Tiles of queries and keys
//              have the width DP, which is D rounded up to a multiple of 8; the padding reads as zero.
//   T          Element type of the arrays: f16, bf16, f32 or f64. Scores and sums have the type ACC: f64 for f64, else
//              f32.
//   CAUSAL, WINDOW   As in attention_forward.mlir. A file that is linked may replace @mask_mod (lib/attention.mlir).
//   SAVE       On: also writes o2 and lse, for differential_attention_backward.mlir. Default: off.
//   BLOCK_M, BLOCK_N   Queries of a program instance, and keys of an iteration. The compiler chooses the defaults.
//   BLOCK_V    Columns of v and o of a program instance. An instance holds two sums of BLOCK_M x BLOCK_V elements.
//              Instances for different columns of the same queries each compute the scores. Default: DV rounded up to
//              a multiple of 8, at most 128.
//
// A query that attends no key gets O = 0. A NaN in a query affects only its own row. P1 and P2 are rounded to T before
// the product with V; all other values have the type ACC. Runs are bit-identical.
//
// Algorithm: differential attention (Ye et al., Differential Transformer, 2024). One loop over the keys computes both
// softmaxes (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018), so each block of V is loaded
// once. The maxima of the two softmaxes differ, so each has a sum of its own.

tile.link "lib/attention.mlir"

!v = !tile.tile<[BLOCK_N, BLOCK_V], T>
!o = !tile.tile<[BLOCK_M, BLOCK_V], ACC>
!o_t = !tile.tile<[BLOCK_M, BLOCK_V], T>

// x, or 0 where x is -inf: the maximum of a row that has no key so far.
tile.function @zero_if_minus_inf(%x: !acc) -> !acc = select(%x == minus_inf, 0, %x)

// weight / x, or 0 where x is 0: a row without keys has the sum 0 and gets the result 0.
tile.function @quotient_or_zero(%x, %weight: !acc) -> !acc = select(%x == 0, 0, %weight / %x)

// The logarithm of the sum of a row, whose maximum is in base 2.
tile.function @log_sum(%max, %sum: !acc) -> !acc = %max * ln2 + log(%sum)

// From products of a block of keys, and factors of these: the new maximum, sum, and sum of P V of one softmax.
tile.function @softmax_round(%s, %factors: !s, %keep: !keep, %masked_out: !s, %v_tile: !v, %max_old, %sum_old: !row,
                             %acc_old: !o) -> (!row, !row, !o) {
  %x = tile.expr select(%keep, %s * %factors, %masked_out) fastmath<reassoc, contract> : !s
  %max_new = tile.expr max(%max_old, reduce max(%x, 1)) : !row
  %max_safe = tile.expr map @zero_if_minus_inf(%max_new) : !row
  %below = tile.expr %x - expand(%max_safe, 1) fastmath<contract>
  %p = math.exp2 %below : !s
  %rescale = tile.expr exp2(%max_old - %max_safe)
  %sum_block = tile.reduce add %p dim 1 : !s
  %sum_new = tile.expr %sum_old * %rescale + %sum_block
  %acc_kept = tile.expr %acc_old * expand(%rescale, 1)
  tile.result %max_new, %sum_new, dot(cast(%p) : !p, %v_tile, %acc_kept)
}

tile.kernel @differential_attention
    params(D: int, DV: int = min(2 * D, 256), T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW, SAVE: flag = false,
           BLOCK_M, BLOCK_N: int = block(), BLOCK_V: int = min(padded(DV), 128), let DP: int = padded(D),
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, same_dims(q2, q1, 0, 1, 2), dim(k1, 0) == dim(q1, 0), dim(v, 0) == dim(q1, 0),
            floordiv(dim(q1, 1), max(dim(k1, 1), 1)) * dim(k1, 1) == dim(q1, 1), same_dims(k2, k1, 0, 1, 2),
            same_dims(v, k1, 1, 2), same_dims(o, q1, 0, 1, 2), dim(lambda, 0) == dim(q1, 1), finite(scale),
            same_dims(o2, q1, 0, 1, 2), same_dims(lse, q1, 0, 2), dim(lse, 1) == 2 * dim(q1, 1),
            select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q1, %q2, %k1, %k2: !qk_view, %v: !v_view, %lambda: !tile.view<[?], f32>, %o: !v_view, %o2: !v_view when (SAVE),
     %lse: !row_view when (SAVE), %scale: !acc, %window_left, %window_right: i32 = -1)
    grid(%bv = ceildiv(DV, BLOCK_V), %bm = ceildiv(dim(q1, 2), BLOCK_M), %h = dim(q1, 1), %b = dim(q1, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q1, 2 : !qk_view
  %keys = tile.dim %k1, 2 : !qk_view
  %c = tile.expr %bv * BLOCK_V : i32

  // The first query of this instance, and the key head that it reads. Under a causal mask, the last queries attend the
  // most keys; their instances come first to balance the load.
  %m = tile.expr select(param(CAUSAL == "none"), %bm, ceildiv(%queries, BLOCK_M) - 1 - %bm) * BLOCK_M : i32
  %hk = tile.expr @key_head(%h, %q1, %k1) : i32
  // The key on the diagonal of the first query.
  %shift = tile.expr @diagonal_shift(%queries, %keys) : i32
  // Scores are in base 2: one factor combines scale and log2(e).
  %factors = tile.expr full(%scale * log2e) : !s
  %masked_out = tile.constant minus_inf : !s
  %no_max = tile.constant minus_inf : !row
  %no_sum = tile.constant 0 : !row
  %no_o = tile.constant 0 : !o
  %q1_tile = tile.load %q1[%b, %h, %m, 0] : !qk_view -> !q
  %q2_tile = tile.load %q2[%b, %h, %m, 0] : !qk_view -> !q

  // The loop carries for each softmax and row: the maximum so far, the sum of exp2(x - maximum), and the sum of
  // exp2(x - maximum) V.
  %max1, %sum1, %acc1, %max2, %sum2, %acc2 =
      tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right)
      keep %keep : !keep
      iter_args(%max1_old = %no_max : !row, %sum1_old = %no_sum : !row, %acc1_old = %no_o : !o,
                %max2_old = %no_max : !row, %sum2_old = %no_sum : !row, %acc2_old = %no_o : !o) {
    %s1 = tile.expr dot(%q1_tile, load %k1[%b, %hk, %n, 0] : !k transpose_b) : !s
    %s2 = tile.expr dot(%q2_tile, load %k2[%b, %hk, %n, 0] : !k transpose_b) : !s
    %v_tile = tile.load %v[%b, %hk, %n, %c] : !v_view -> !v
    %max1_new, %sum1_new, %acc1_new = tile.expr
        @softmax_round(%s1, %factors, %keep, %masked_out, %v_tile, %max1_old, %sum1_old, %acc1_old) : !row, !row, !o
    %max2_new, %sum2_new, %acc2_new = tile.expr
        @softmax_round(%s2, %factors, %keep, %masked_out, %v_tile, %max2_old, %sum2_old, %acc2_old) : !row, !row, !o
    tile.yield %max1_new, %sum1_new, %acc1_new, %max2_new, %sum2_new, %acc2_new : !row, !row, !o, !row, !row, !o
  }

  %lambda_acc = tile.expr cast(%lambda[%h]) : !acc
  %share1 = tile.expr map @quotient_or_zero(%sum1, 1 : !acc) : !row
  %share2 = tile.expr map @quotient_or_zero(%sum2, %lambda_acc) : !row
  tile.store cast(%acc1 * expand(%share1, 1) - %acc2 * expand(%share2, 1)), %o[%b, %h, %m, %c] : !o_t
  tile.if SAVE {
    %inverse2 = tile.expr map @quotient_or_zero(%sum2, 1 : !acc) : !row
    tile.store cast(%acc2 * expand(%inverse2, 1)), %o2[%b, %h, %m, %c] : !o_t
    // One of the instances that share these queries.
    tile.if %bv == 0 {
      tile.store map @log_sum(%max1, %sum1), %lse[%b, 2 * %h, %m] : !row
      tile.store map @log_sum(%max2, %sum2), %lse[%b, 2 * %h + 1, %m] : !row
    }
  }
}
