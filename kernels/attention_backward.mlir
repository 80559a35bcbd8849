// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, backward: the gradients of a function of O and LSE with respect to q, k and v.
//
//   S     = scale * Q K^T                  P  = exp(score_mod(S) - LSE)   recomputed; 0 where the pair is masked
//   delta = rowsum(dO * O) - dLSE          dV = P^T dO
//   dT    = P * (dO V^T - delta)           dS = dT * score_mod'(S)        the compiler derives score_mod'
//   dQ    = scale * dS K                   dK = scale * dS^T Q
//
// Arguments
//   q, k, v      as in attention_forward.mlir
//   o            [B, Hq,  Sq,  DV]  T     result of the forward
//   lse          [B, Hq,  Sq]       ACC   result of the forward
//   do           [B, Hq,  Sq,  DV]  T     gradient of O
//   dlse         [B, Hq,  Sq]       ACC   gradient of LSE, optional; absent: zero
//   dq           [B, Hq,  Sq,  D]   TO    result
//   dk           [B, Hkv, Skv, D]   TO    result
//   dv           [B, Hkv, Skv, DV]  TO    result
//   d_score      [B or 1, Hq or 1, Sq or 1, Skv]  ACC   result, only with SCORE_GRADIENT
//   cu_seqlens_q, cu_seqlens_k, kv_indices, kv_num_blocks, scale, window_left, window_right,
//   first_row, first_key, diagonal, first_head, first_batch   as in attention_forward.mlir
//
// The forward must have had the same masks and modifiers. A query that attends no key and a key that no query attends
// get zero gradients; the program writes all elements of dq, dk and dv. With PACKED, it does not read o, do, lse and
// dlse in rows of no sequence, and the gradients of these rows are zero.
//
// Scores have the range of attention_forward.mlir. P is recomputed from scores that are rounded to ACC, so its error,
// relative to P, is about that of S: |S| 2^-22 in f32, as in every backward that recomputes P from LSE. Beyond |S| =
// 2^20 gradients have no accurate digits, unless these are scores of a bias, to which S adds nothing. They are finite,
// since P is at most 1; but in 16 bits on a GPU, P is only at most exp(|S| 2^-22), and gradients may be infinite from
// |S| = 2^25 on.
//
// Parameters
//   D, DV, T, CAUSAL, WINDOW, PACKED, LISTED, LIST_BLOCK_M, LIST_BLOCK_N
//                       As in attention_forward.mlir, but T has at least 16 bits.
//   TO                  Type of dq, dk and dv: T, the default, or ACC, for terms of sums over several launches.
//   SHARD               As in attention_forward.mlir. The queries may attend further keys, of other launches: o and lse
//                       are the results over all of them, and dq has the terms of the keys at hand. The gradient of a
//                       sink depends on o and lse alone: it is that of all keys in each launch. Where |LSE| exceeds
//                       4096, P has the error of its last place (lib/large_rows.mlir needs all keys). Not with
//                       SCORE_GRADIENT.
//   DETERMINISTIC       Off: dQ may be summed by atomic additions, and its last bits may differ from run to run. The
//                       same holds for dK and dV in 16 bits on a GPU if query heads share a key head. On: runs are
//                       bit-identical. Blocks of keys add to dQ in order where that is possible: in 16 bits on
//                       sm_90a, if D and DV are at most 128, without LISTED, CAPTURE_GRADIENTS, linked weights and
//                       linked masks. Under a causal mask, the order, and so the last bits of dQ, depend on the place
//                       of a head among all heads of the launch. Elsewhere a second kernel recomputes S and dP for dQ
//                       (seven products for each pair instead of five). Default: off.
//   SCORE_GRADIENT      On: the program writes d_score, the gradient of scale * Q K^T, summed over all pairs that share
//                       an entry. This is the gradient of an additive bias of the same shape (mods/bias.mlir, linked
//                       first). A further kernel recomputes S and dP. Not with PACKED or LISTED. Default: off.
//   CAPTURE_GRADIENTS   On: for each captured float @x that @score_mod, @weight_mod or @sink reads, the program takes
//                       an optional argument d_x of its shape (one element for a scalar), in f32 (f64 for f64), and
//                       writes the gradient. An absent d_x costs nothing. With DETERMINISTIC, these are exact sums,
//                       with a workspace of 104 bytes for each entry. Default: off.
//   The kernels, and parameters that choose among them and their blocks, are those of lib/pairs.mlir, with SUM_BLOCK_M,
//   SUM_BLOCK_N (lib/large_rows.mlir) and SCORE_BLOCK_M, SCORE_BLOCK_N (lib/score_gradients.mlir).
//
// Precision: P, P * score_mod'(S) and dS are rounded to T; where dQ or d_score has a kernel of its own, that rounds
// only dS, or nothing. All other values have the type ACC.

tile.link "lib/attention.mlir", "lib/large_rows.mlir", "lib/pairs.mlir", "lib/score_gradients.mlir", "lib/softmax.mlir"

// Of the forward only. Declared, since a file that replaces @weight_mod may replace it.
func.func private @weight_limit(!acc) -> !acc

tile.program @attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], TO: type = T, SHARD: flag = false,
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW, PACKED, LISTED: flag = false,
           LIST_BLOCK_M: int = select(LISTED, 128, 0), LIST_BLOCK_N: int = LIST_BLOCK_M,
           DETERMINISTIC, SCORE_GRADIENT, CAPTURE_GRADIENTS: flag = false, let MAPS: int = 1, let ROWS: flag = true,
           let FACTORS: flag = replaced("score_mod.unbounded"), let HEAVY: flag = replaced("weight_mod"),
           let ACC: type = accumulator(T))
    require(not(and(PACKED, SCORE_GRADIENT)), not(and(LISTED, SCORE_GRADIENT)), not(and(SHARD, SCORE_GRADIENT)),
            or(not(PACKED), and(and(first_row == 0, first_key == 0), and(diagonal == 0, first_batch == 0))))
    (%q, %k: !qk_view, %v, %o, %do: !v_view, %lse: !row_view, %dlse: optional !row_view, %dq, %dk: !dqk_view,
     %dv: !dv_view, %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED), %kv_indices: !list_view when (LISTED),
     %kv_num_blocks: !count_view when (LISTED), %d_score: !score_view when (SCORE_GRADIENT), %scale: !acc,
     %window_left, %window_right: i32 = -1,
     %first_row, %first_key, %diagonal, %first_head, %first_batch: i32 when (SHARD)) {
  %lse_base2, %delta, %extras, %found, %sums = tile.call @pair_rows()
      -> !row_view, !row_view, !row_view, !found_view, !sum_view
  tile.call @large_rows(rows = %lse_base2, extras = %extras, found = %found)
  tile.call @pair_products(rows = %lse_base2, other_rows = %delta, extras = %extras, found = %found, sums = %sums)
  tile.call @score_gradients(rows = %lse_base2, other_rows = %delta, extras = %extras, found = %found)
}

// LSE in base 2, and delta. The gradient of the sink.
tile.function @row_values(%do, %o, %none: !sum_v, %lse, %dlse: !own_row, %h, %x: i32) -> (!own_row, !own_row) {
  %delta = tile.expr reduce add(%o * %do, 1) - %dlse : !own_row
  %dsink = tile.expr map @sink_adjoint(%h, %delta, map @lse_or_zero(%lse) : !own_row) : !own_row
  tile.if CAPTURE_GRADIENTS {
    tile.add_gradients @sink(%h) seed %dsink : !own_row exact when (DETERMINISTIC) : (i32)
  }
  tile.result map @base2_or_zero(%lse), %delta : !own_row, !own_row
}

// The scaled scores, and P. Its exponent is at most 0, but for rounding, of which large scores have much: it is limited
// to 0 except in 16 bits on a GPU, where that would be an instruction for each pair in a loop that has few.
tile.function @probabilities(%s, %lse, %extra: !pair, %keep: !pair_keep, %b, %h: i32, %i, %j: !pair_pos,
                             %scale: !acc) -> (!pair, !pair) {
  %natural = tile.expr %s * full(%scale) fastmath<reassoc, contract> : !pair
  %modified = tile.expr map @score_mod(%natural, %b, %h, %i, %j) : !pair
  %base2 = tile.if FACTORS -> (!pair) {
    %near = tile.expr %modified - %extra
    tile.yield %near * log2e fastmath<contract>
  } else {
    tile.yield %modified * log2e fastmath<reassoc, contract>
  }
  %below = tile.expr %base2 - %lse fastmath<contract>
  %limited = tile.expr select(param(or(not(on_gpu()), bits(T) > 16)), min(%below, 0), %below) : !pair
  tile.result %natural, exp2(select(%keep, %limited, minus_inf))
}

// P with weights, and P * score_mod'(S), if EARLY: the gradient is linear in its seed, so dP is multiplied by it later.
tile.function @pair_weights(%s, %lse, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32, %i, %j: !pair_pos,
                            %scale: !acc) -> (!weight, !held) {
  %natural, %p = tile.expr @probabilities(%s, %lse, %extra, %keep, %b, %h, %i, %j, %scale) : !pair
  %w = tile.expr cast(map @weight_mod(%p, %b, %h, %i, %j) : !pair) : !weight
  %g = tile.map_gradient @score_mod(%natural, %b, %h, %i, %j) wrt 0 seed %p : !pair
      : (!pair, i32, i32, !pair_pos, !pair_pos) -> !pair
  %early = tile.if EARLY -> (!pair) { tile.yield %g } else { tile.yield %p }
  tile.result %w, cast(%early) : !weight, !held
}

tile.function @pair_gradients(%held: !held, %dp, %delta, %s, %lse, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32,
                              %i, %j: !pair_pos, %scale: !acc) -> !pair {
  %natural, %p = tile.expr @probabilities(%s, %lse, %extra, %keep, %b, %h, %i, %j, %scale) : !pair
  %centered = tile.expr map @weight_mod(%dp, %b, %h, %i, %j) - %delta fastmath<contract> : !pair
  %product = tile.expr cast(%held : !held) * %centered : !pair
  %late = tile.map_gradient @score_mod(%natural, %b, %h, %i, %j) wrt 0 seed %product : !pair
      : (!pair, i32, i32, !pair_pos, !pair_pos) -> !pair
  %ds = tile.if EARLY -> (!pair) { tile.yield %product } else { tile.yield %late }
  tile.result %ds : !pair
}

// The gradients of the captures of modifiers, of P that is rounded.
tile.function @pair_captures(%dp, %delta, %s, %lse, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32, %i,
                             %j: !pair_pos, %scale: !acc) {
  %natural, %p_exact = tile.expr @probabilities(%s, %lse, %extra, %keep, %b, %h, %i, %j, %scale) : !pair
  %centered = tile.expr map @weight_mod(%dp, %b, %h, %i, %j) - %delta fastmath<contract> : !pair
  %p = tile.expr cast(cast(%p_exact) : !weight) : !pair
  %dt = arith.mulf %p, %centered : !pair
  tile.add_gradients @score_mod(%natural, %b, %h, %i, %j) seed %dt : !pair exact when (DETERMINISTIC) once
      : (!pair, i32, i32, !pair_pos, !pair_pos)
  tile.add_gradients @weight_mod(%p, %b, %h, %i, %j) seed %dp : !pair exact when (DETERMINISTIC) once
      : (!pair, i32, i32, !pair_pos, !pair_pos)
}
