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
//   cu_seqlens_q, cu_seqlens_k, kv_indices, kv_num_blocks, scale, window_left, window_right
//                as in attention_forward.mlir
//   first_row, first_key, diagonal, first_head, first_batch
//                as in attention_forward.mlir
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
//                       4096, P has the error of its last place (see the kernel sums, which needs all keys). Not with
//                       SCORE_GRADIENT.
//   DETERMINISTIC       Off: dQ may be summed by atomic additions, and its last bits may differ from run to run. The
//                       same holds for dK and dV in 16 bits on a GPU if query heads share a key head. On: runs are
//                       bit-identical. Blocks of keys add to dQ in order where that is possible: in 16 bits on
//                       sm_90a, if D and DV are at most 128, without LISTED, CAPTURE_GRADIENTS, linked weights and
//                       linked masks. Under a causal mask, the order, and so the last bits of dQ, depend on the place
//                       of a head among all heads of the launch. Elsewhere a second kernel recomputes S and dP for dQ
//                       (seven products for each pair instead of five). Default: off.
//   SPLIT               On: dQ has a kernel of its own without atomic additions; dK and dV share another, or have one
//                       each. This is faster for wide heads on a GPU, since a thread holds only one sum. Default: on
//                       for 16-bit types on a GPU if D or DV exceeds 128.
//   PAIRED              With SPLIT. On: one kernel computes dK and dV (seven products for each pair). Off: each has a
//                       kernel (eight products). Default: on for sm_90a, unless a mask is linked (it may require a
//                       vote, which two roles cannot take together) or CAPTURE_GRADIENTS is on. If you choose the block
//                       sizes, two roles allow at most 64 keys, and 64 queries, or 96 if heads have at most 192
//                       columns; else turn PAIRED off.
//   SCORE_GRADIENT      On: the program writes d_score, the gradient of scale * Q K^T, summed over all pairs that share
//                       an entry. This is the gradient of an additive bias of the same shape (mods/bias.mlir, linked
//                       first). A further kernel recomputes S and dP; it needs no atomic additions and stores only
//                       d_score. Not with PACKED or LISTED. Default: off.
//   CAPTURE_GRADIENTS   On: for each captured float @x that @score_mod, @weight_mod or @sink reads, the program takes
//                       an optional argument d_x of its shape (one element for a scalar), in f32 (f64 for f64), and
//                       writes the gradient. An absent d_x costs nothing. With DETERMINISTIC, these are exact sums,
//                       with a workspace of 104 bytes for each entry. Default: off.
//   BLOCK_M, BLOCK_N    Block sizes of the keys kernel. DQ_BLOCK_M and DQ_BLOCK_N are those of the queries kernel,
//                       DV_BLOCK_M, DELTA_BLOCK_M, SCORE_BLOCK_M and SCORE_BLOCK_N those of the kernels for dV alone,
//                       delta and d_score. BLOCK_N divides LIST_BLOCK_N, and DQ_BLOCK_M divides LIST_BLOCK_M.
//
// Precision: P, P * score_mod'(S) and dS are rounded to T; the queries kernel rounds only dS, and the kernel for
// d_score neither P nor dS. All other values have the type ACC.
//
// Kernels
//   delta     delta and LSE in base 2 for all rows, and the zeros to which dQ is added.
//   sums      If a modifier is linked whose scores may exceed 0.69 times the greatest number (mods/bias.mlir), for rows
//             whose LSE is large: the maximum of the scores, and the inverse of their sum.
//   keys      A block of keys with all queries of its heads: dK, dV, and additions to the sum of dQ. If it adds in
//             order, it also does what convert does.
//   convert   dQ from its sum, from ACC to T.
//   queries   Instead of convert, with DETERMINISTIC or SPLIT: a block of queries with its keys: dQ.
//   scores    With SCORE_GRADIENT: d_score.
//   turn_lists (lib/lists.mlir)   With LISTED: transposes the lists for the keys kernel.
//   order_blocks (lib/order.mlir) With PACKED, if additions are in order under a causal mask: the order in which the
//                                 blocks of keys of the last heads start.
//
// With SPLIT, keys runs once for dK and dV (PAIRED), or once for each.
//
// With PACKED, the rows of each sequence in a workspace (delta, LSE in base 2, sums of dQ) begin at a multiple of PAD.
// If a sequence ends within a block of queries, the rest of the block is padding of this sequence, where delta and LSE
// are 0.
//
// Algorithm: FlashAttention-2 (Dao, 2023). The keys kernel computes S^T instead of S: P^T and dS^T then have the layout
// in which the products for dV and dK read them.

tile.link "lib/attention.mlir"
tile.link "lib/backward.mlir"
tile.link "lib/batch.mlir"
tile.link "lib/lists.mlir"
tile.link "lib/order.mlir"
tile.link "lib/shard.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!acc_view = !tile.view<[?, ?, ?, D], ACC>
!dqk_view = !tile.view<[?, ?, ?, D], TO>
!dv_view  = !tile.view<[?, ?, ?, DV], TO>
!score_view = !tile.view<[?, ?, ?, ?], ACC>
!cu_view  = !tile.view<[?], i32>
!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>
!weight_view = !tile.view<[?, ?, ?], T>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!dq  = !tile.tile<[BLOCK_M, DP], ACC>
!dk  = !tile.tile<[BLOCK_N, DP], ACC>
!dv  = !tile.tile<[BLOCK_N, DVP], ACC>
// K, padded to whole warpgroups of columns, and dQ^T, which has these columns as rows.
!kw  = !tile.tile<[BLOCK_N, DW], T>
!dqt = !tile.tile<[DW, BLOCK_M], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!weights = !tile.tile<[BLOCK_M], T>
!acc = !tile.param<ACC>
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!dst = !tile.tile<[BLOCK_N, BLOCK_M], T>
!keept = !tile.tile<[BLOCK_N, BLOCK_M], i1>

// Of the forward only. Declared, since a file that replaces @weight_mod may replace it.
func.func private @weight_limit(!acc) -> !acc
func.func private @key_head(i32, !qk_view, !qk_view) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @block(i32, i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)
func.func private @part_of_queries_and_keys(!qk_view, i32, i32) -> !qk_view
func.func private @part_of_values(!v_view, i32, i32) -> !v_view
func.func private @part_of_gradients(!dqk_view, i32, i32) -> !dqk_view
func.func private @part_of_outputs(!dv_view, i32, i32) -> !dv_view
func.func private @list_of(i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
func.func private @workspace_begin(i32, i32) -> i32
func.func private @row_of_workspace(i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @probabilities_of_keys(
    !st, !row, !weights, !keept, i32, i32, i32, i32, !acc) -> (!st, !st, !dst, !dst)
func.func private @gradients_of_keys(
    !st, !st, !dst, !dst, !st, !row, !kw, !q, !o, !dk, !dv, i32, i32, i32, i32) -> (!dk, !dv, !dqt)

tile.program @attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], TO: type = T, SHARD: flag = false,
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false, PACKED: flag = false,
           LISTED: flag = false, LIST_BLOCK_M: int = select(LISTED, 128, 0), LIST_BLOCK_N: int = LIST_BLOCK_M,
           DETERMINISTIC: flag = false, SCORE_GRADIENT: flag = false, CAPTURE_GRADIENTS: flag = false,
           // Keys are never in a cache. Files that replace functions read the parameter.
           let CACHED: flag = false, let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let HOPPER: flag = and(has_roles(), bits(T) == 16),
           SPLIT: flag = and(and(on_gpu(), bits(T) == 16), ROW_BYTES > 256),
           PAIRED: flag = and(and(SPLIT, HOPPER), not(or(CAPTURE_GRADIENTS, replaced("mask_mod")))),
           let DQ_KERNEL: flag = or(SPLIT, and(DETERMINISTIC, not(adds_in_order()))),
           BLOCK_M: int = block_in(LIST_BLOCK_M), BLOCK_N: int = block_in(LIST_BLOCK_N),
           DQ_BLOCK_M: int = block_in(LIST_BLOCK_M), DQ_BLOCK_N: int = block_in(LIST_BLOCK_N),
           DV_BLOCK_M: int = block_in(LIST_BLOCK_M), SCORE_BLOCK_M: int = block(), SCORE_BLOCK_N: int = block(),
           // Row granularity of the workspaces.
           let PAD: int = ceildiv(select(ROW_BYTES <= 128, 128, 64), BLOCK_M) * BLOCK_M,
           DELTA_BLOCK_M: int = block_in(select(PACKED, PAD, 0)),
           // Blocks of the kernel for sums, too small for roles: most of them have no row to compute, and end at once.
           let SUM_BLOCK: int = select(ROW_BYTES <= 512, 32, 16),
           let SUM_BLOCK_M: int = select(mod(LIST_BLOCK_M, SUM_BLOCK) == 0, SUM_BLOCK,
                                         select(mod(LIST_BLOCK_M, 16) == 0, 16, LIST_BLOCK_M)),
           let SUM_BLOCK_N: int = select(mod(LIST_BLOCK_N, SUM_BLOCK) == 0, SUM_BLOCK,
                                         select(mod(LIST_BLOCK_N, 16) == 0, 16, LIST_BLOCK_N)),
           let NATURAL: flag = replaced("score_mod.unbounded"), let ACC: type = accumulator(T))
    require(D <= 512, DV <= 512, not(and(PACKED, SCORE_GRADIENT)), not(and(SHARD, SCORE_GRADIENT)),
            or(not(PACKED), and(and(first_row == 0, first_key == 0), and(diagonal == 0, first_batch == 0))),
            not(and(LISTED, SCORE_GRADIENT)),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1), dim(k, 0) == dim(q, 0),
            dim(v, 0) == dim(q, 0), same_dims(v, k, 1, 2), same_dims(o, q, 0, 1, 2), same_dims(do, q, 0, 1, 2),
            same_dims(lse, q, 0, 1, 2), same_dims(dlse, q, 0, 1, 2), same_dims(dq, q, 0, 1, 2),
            same_dims(dk, k, 0, 1, 2), same_dims(dv, k, 0, 1, 2), or(not(PACKED), dim(q, 0) == 1),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0), or(dim(d_score, 0) == 1, dim(d_score, 0) == dim(q, 0)),
            same_dims(kv_indices, kv_num_blocks, 0, 1, 2), or(dim(d_score, 1) == 1, dim(d_score, 1) == dim(q, 1)),
            or(dim(d_score, 2) == 1, dim(d_score, 2) == dim(q, 2)), dim(d_score, 3) == dim(k, 2),
            ascending(cu_seqlens_q), within(cu_seqlens_q, 0, dim(q, 2) + 1), ascending(cu_seqlens_k),
            within(cu_seqlens_k, 0, dim(k, 2) + 1),
            or(not(LISTED), and(mod(max(LIST_BLOCK_M, 1), DQ_BLOCK_M) == 0, mod(max(LIST_BLOCK_N, 1), BLOCK_N) == 0)),
            or(dim(kv_num_blocks, 0) == 1, or(PACKED, dim(kv_num_blocks, 0) == dim(q, 0))), finite(scale),
            or(dim(kv_num_blocks, 1) == 1, dim(kv_num_blocks, 1) == dim(q, 1)),
            select(WINDOW, window_left >= -1, window_left == -1),
            or(PACKED, dim(kv_num_blocks, 2) == ceildiv(dim(q, 2), LIST_BLOCK_M)),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %do: !v_view, %lse: !row_view,
     %dlse: optional !row_view, %dq: !dqk_view, %dk: !dqk_view, %dv: !dv_view,
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %d_score: !score_view when (SCORE_GRADIENT), %scale: !acc, %window_left: i32 = -1, %window_right: i32 = -1,
     %first_row: i32 when (SHARD), %first_key: i32 when (SHARD), %diagonal: i32 when (SHARD),
     %first_head: i32 when (SHARD), %first_batch: i32 when (SHARD)) {
  // Rows have a multiple of 16 bytes, as tensor maps require. With PACKED, there is one more block for each sequence,
  // and one for rows before the first.
  %delta = tile.workspace [dim(q, 0), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, ceildiv(dim(q, 2), 4) * 4)] : !row_view
  %lse_base2 = tile.workspace [dim(q, 0), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, ceildiv(dim(q, 2), 4) * 4)] : !row_view
  // Only with NATURAL: the inverse sums of rows, where lse_base2 holds their maxima, else 1.
  %row_weights = tile.workspace [dim(q, 0), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, ceildiv(dim(q, 2), 8) * 8)] : !weight_view
  // Empty if dQ has a kernel of its own.
  %dq_sum = tile.workspace [select(DQ_KERNEL, 0, dim(q, 0)), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, dim(q, 2)), D] : !acc_view
  %q_indices = tile.workspace [dim(kv_num_blocks, 0), dim(kv_num_blocks, 1), ceildiv(dim(k, 2), LIST_BLOCK_N),
                               dim(kv_num_blocks, 2)] : !list_view
  %q_num_blocks = tile.workspace [dim(kv_num_blocks, 0), dim(kv_num_blocks, 1), ceildiv(dim(k, 2), LIST_BLOCK_N)]
      : !count_view
  // The blocks of keys of all packed sequences, in the order in which those of the last heads start.
  %order = tile.workspace [(ceildiv(dim(k, 2), BLOCK_N) + dim(cu_seqlens_k, 0)) * min(dim(k, 2), 1)] : !cu_view

  tile.launch @turn_lists(%kv_indices, %kv_num_blocks, %q_indices, %q_num_blocks) when (LISTED)
      : !list_view, !count_view, !list_view, !count_view
  tile.launch @attention_backward_delta(%o, %do, %lse, %dlse, %cu_seqlens_q, %delta, %lse_base2, %row_weights,
                                        %dq_sum, %first_head)
      with (BLOCK_M = DELTA_BLOCK_M, WITH_DQ = not(or(DQ_KERNEL, DETERMINISTIC)))
      : !v_view, !v_view, !row_view, !row_view, !cu_view, !row_view, !row_view, !weight_view, !acc_view, i32
  tile.launch @attention_backward_sums(%q, %k, %lse, %lse_base2, %row_weights, %cu_seqlens_q, %cu_seqlens_k,
                                       %kv_indices, %kv_num_blocks, %scale, %window_left, %window_right)
      with (BLOCK_M = SUM_BLOCK_M, BLOCK_N = SUM_BLOCK_N) when (and(NATURAL, not(SHARD))) : !qk_view, !qk_view,
        !row_view, !row_view, !weight_view, !cu_view, !cu_view, !list_view, !count_view, !acc, i32, i32
  tile.launch @order_blocks(%k, %cu_seqlens_k, %order) when (PACKED) : !qk_view, !cu_view, !cu_view
  tile.launch @attention_backward_keys(%q, %k, %v, %do, %lse_base2, %row_weights, %delta, %dq_sum, %dk, %dv, %order,
                                       %cu_seqlens_q, %cu_seqlens_k, %q_indices, %q_num_blocks, %scale,
                                       %window_left, %window_right, %first_row, %first_key, %diagonal, %first_head,
                                       %first_batch)
      with (WITH_DV = or(not(SPLIT), PAIRED), WITH_DQ = not(DQ_KERNEL))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !weight_view, !row_view, !acc_view, !dqk_view, !dv_view,
        !cu_view, !cu_view, !cu_view, !list_view, !count_view, !acc, i32, i32, i32, i32, i32, i32, i32
  // A block of DV_BLOCK_M queries may extend into the workspace rows of the next sequence. The mask excludes them.
  tile.launch @attention_backward_keys(%q, %k, %v, %do, %lse_base2, %row_weights, %delta, %dq_sum, %dk, %dv, %order,
                                       %cu_seqlens_q, %cu_seqlens_k, %q_indices, %q_num_blocks, %scale,
                                       %window_left, %window_right, %first_row, %first_key, %diagonal, %first_head,
                                       %first_batch)
      with (WITH_DK = false, WITH_DQ = false, BLOCK_M = DV_BLOCK_M, CAPTURE_GRADIENTS = false)
      when (and(SPLIT, not(PAIRED)))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !weight_view, !row_view, !acc_view, !dqk_view, !dv_view,
        !cu_view, !cu_view, !cu_view, !list_view, !count_view, !acc, i32, i32, i32, i32, i32, i32, i32
  tile.launch @attention_backward_convert(%dq_sum, %k, %dq, %cu_seqlens_q, %cu_seqlens_k, %scale, %window_left,
                                          %window_right, %first_row, %first_key, %diagonal, %first_head, %first_batch)
      when (not(DQ_KERNEL)) : !acc_view, !qk_view, !dqk_view, !cu_view, !cu_view, !acc, i32, i32, i32, i32, i32, i32,
        i32
  tile.launch @attention_backward_queries(%q, %k, %v, %do, %lse_base2, %row_weights, %delta, %dq, %cu_seqlens_q,
                                          %cu_seqlens_k, %kv_indices, %kv_num_blocks, %scale,
                                          %window_left, %window_right, %first_row, %first_key, %diagonal,
                                          %first_head, %first_batch)
      with (BLOCK_M = DQ_BLOCK_M, BLOCK_N = DQ_BLOCK_N) when (DQ_KERNEL) : !qk_view, !qk_view, !v_view, !v_view,
        !row_view, !weight_view, !row_view, !dqk_view, !cu_view, !cu_view, !list_view, !count_view, !acc, i32, i32, i32,
        i32, i32, i32, i32
  tile.launch @attention_backward_scores(%q, %k, %v, %do, %lse_base2, %row_weights, %delta, %d_score,
                                         %scale, %window_left, %window_right)
      with (BLOCK_M = SCORE_BLOCK_M, BLOCK_N = SCORE_BLOCK_N) when (SCORE_GRADIENT)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !weight_view, !row_view, !score_view, !acc, i32, i32
}

// A block of keys with the queries of all heads of its group.
tile.kernel @attention_backward_keys
    params(D: int, DV: int, T: type, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, PACKED: flag, LISTED: flag, LIST_BLOCK_M: int, LIST_BLOCK_N: int, PAD: int,
           DETERMINISTIC: flag, CAPTURE_GRADIENTS: flag, BLOCK_M: int, BLOCK_N: int, WITH_DK: flag = true,
           WITH_DV: flag = true, WITH_DQ: flag = true, NATURAL: flag, IN_ORDER: flag = false,
           let MAY_ORDER: flag = not(or(or(LISTED, CAPTURE_GRADIENTS),
                                        or(replaced("mask_mod"), replaced("weight_mod")))),
           let DP: int = padded_for("gradient_rows", D, DV, T), let DVP: int = padded_for("gradients", DV, D, T),
           let DW: int = select(IN_ORDER, padded_for("ordered_rows", D, DV, T),
                                select(and(WITH_DQ, ne(mod(BLOCK_M, 128), 0)), padded_for("shared_rows", D, DV, T),
                                       padded_for("transposed_rows", D, DV, T))),
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %row_weights: !weight_view when (NATURAL), %delta: !row_view, %dq_sum: !acc_view, %dk: !dqk_view, %dv: !dv_view,
     %order: !cu_view when (IN_ORDER), %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %q_indices: !list_view when (LISTED), %q_num_blocks: !count_view when (LISTED), %scale: !acc,
     %window_left: i32, %window_right: i32,
     %first_row: i32 when (SHARD), %first_key: i32 when (SHARD), %diagonal: i32 when (SHARD),
     %first_head: i32 when (SHARD), %first_batch: i32 when (SHARD))
    grid(%bn = select(PACKED, (ceildiv(dim(k, 2), BLOCK_N) + dim(cu_seqlens_k, 0)) * min(dim(k, 2), 1),
                      ceildiv(dim(k, 2), BLOCK_N)),
         %hk = dim(k, 1), %e = select(PACKED, 1, dim(k, 0))) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %shared_by = arith.divsi %q_heads, %k_heads : i32
  %block_n = tile.param BLOCK_N : i32
  %block = tile.any_order %bn listed %order : !cu_view when (PACKED)
  // The rows of this instance: %b is the batch element or packed sequence, %a its index in the arrays, and %given the
  // number of the block of keys in it. The last block of a packed sequence may have no keys.
  %b, %a, %k_begin, %keys, %given = func.call @block(%e, %block, %block_n, %cu_seqlens_k, %all_keys)
      : (i32, i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
  %blocks = arith.ceildivsi %keys, %block_n : i32
  %number = tile.any_order %given of %blocks
  %n = arith.muli %number, %block_n : i32
  %q_begin, %queries = func.call @rows_of(%b, %cu_seqlens_q, %all_queries) : (i32, !cu_view, i32) -> (i32, i32)
  %q_part = func.call @part_of_queries_and_keys(%q, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %do_part = func.call @part_of_values(%do, %q_begin, %queries) : (!v_view, i32, i32) -> !v_view
  %k_part = func.call @part_of_queries_and_keys(%k, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %v_part = func.call @part_of_values(%v, %k_begin, %keys) : (!v_view, i32, i32) -> !v_view
  %dk_part = func.call @part_of_gradients(%dk, %k_begin, %keys) : (!dqk_view, i32, i32) -> !dqk_view
  %dv_part = func.call @part_of_outputs(%dv, %k_begin, %keys) : (!dv_view, i32, i32) -> !dv_view
  %own_shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %is_shard = tile.param SHARD : i1
  %row_0 = arith.select %is_shard, %first_row, %c0 : i32
  %key_0 = arith.select %is_shard, %first_key, %c0 : i32
  %is_moved = tile.param and(SHARD, not(PACKED)) : i1
  %shift = arith.select %is_moved, %diagonal, %own_shift : i32
  %head_0 = arith.select %is_shard, %first_head, %c0 : i32
  %batch_0 = arith.select %is_shard, %first_batch, %c0 : i32
  %at_b = arith.addi %b, %batch_0 overflow<nsw> : i32
  %at_n = arith.addi %n, %key_0 overflow<nsw> : i32
  %workspace_begin = func.call @workspace_begin(%b, %q_begin) : (i32, i32) -> i32
  %no_dk = tile.constant 0 : !dk
  %no_dv = tile.constant 0 : !dv
  %span = tile.param LIST_BLOCK_N : i32
  %with_dk = tile.param WITH_DK : i1
  %with_dv = tile.param WITH_DV : i1
  %with_dq = tile.param WITH_DQ : i1
  %stays_natural = tile.param NATURAL : i1
  %no_weights = tile.constant 0 : !weights
  %block_m = tile.param BLOCK_M : i32
  %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !k
  %k_wide = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !kw
  %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !v
  %dk_all, %dv_all = tile.accumulate %h of %hk each %shared_by
      even when (and(CAUSAL == "none", not(or(PACKED, LISTED)))) apart when (not(or(IN_ORDER, DETERMINISTIC)))
      iter_args(%dk_heads = %no_dk : !dk, %dv_heads = %no_dv : !dv) {
    %at_h = arith.addi %h, %head_0 overflow<nsw> : i32
    %list_b, %list_h, %list_n, %count = func.call @list_of(%b, %h, %n, %span, %q_num_blocks)
        : (i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries
            listed %q_indices[%list_b, %list_h, %list_n] count %count each LIST_BLOCK_M when (LISTED) : !list_view)
        against (%n to %keys)
        where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, block, against, %shift, %window_left, %window_right
            : i32, i32, i32, i32, i32, i32, i32)
        keep %keep : !keept
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %at_m = arith.addi %m, %row_0 overflow<nsw> : i32
      %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q
      %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !o
      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %workspace_m = arith.addi %workspace_begin, %m : i32
      %lse_row = tile.load %lse_base2[%a, %h, %workspace_m] : !row_view -> !row
      %weight_row = scf.if %stays_natural -> (!weights) {
        %own_weights = tile.load %row_weights[%a, %h, %workspace_m] : !weight_view -> !weights
        scf.yield %own_weights : !weights
      } else {
        scf.yield %no_weights : !weights
      }
      %natural, %pt, %pt_rounded, %gt_rounded = func.call @probabilities_of_keys(
          %st, %lse_row, %weight_row, %keep, %at_b, %at_h, %at_m, %at_n, %scale)
          : (!st, !row, !weights, !keept, i32, i32, i32, i32, !acc) -> (!st, !st, !dst, !dst)
      %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %delta_row = tile.load %delta[%a, %h, %workspace_m] : !row_view -> !row
      %dk_new, %dv_new, %dq_new = func.call @gradients_of_keys(
          %natural, %pt, %pt_rounded, %gt_rounded, %dpt, %delta_row, %k_wide, %q_tile,
          %do_tile, %dk_old, %dv_old, %at_b, %at_h, %at_m, %at_n)
          : (!st, !st, !dst, !dst, !st, !row, !kw, !q, !o, !dk, !dv, i32, i32, i32, i32) -> (!dk, !dv, !dqt)
      // dQ is transposed as well, so that adjacent threads add to adjacent elements.
      scf.if %with_dq {
        %m_end = arith.addi %m, %block_m overflow<nsw> : i32
        %rows_end = arith.minsi %m_end, %queries : i32
        %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %rows_end)
            where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, against, block, %shift, %window_left, %window_right
                : i32, i32, i32, i32, i32, i32, i32)
        tile.contribute %dq_new, %dq_sum[%a, %h, %workspace_m, 0] dims [3, 2]
            from %n of %first to %end each BLOCK_N in order if IN_ORDER when (MAY_ORDER)
            deterministic when (DETERMINISTIC) staggered when (not(CAUSAL == "none")) banded when (WINDOW)
            packed when (PACKED) rows (dim(q, 2)) sequences (dim(cu_seqlens_k, 0) - 1) : !dqt, !acc_view
      }
      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    tile.yield %dk_head, %dv_head : !dk, !dv
  }
  scf.if %with_dk {
    %scales = tile.full %scale : !dk
    %dk_scaled = arith.mulf %dk_all, %scales : !dk
    %dk_rounded = tile.cast %dk_scaled : !dk -> !tile.tile<[BLOCK_N, DP], TO>
    tile.store %dk_rounded, %dk_part[%a, %hk, %n, 0] : !tile.tile<[BLOCK_N, DP], TO>, !dqk_view
  }
  scf.if %with_dv {
    %dv_rounded = tile.cast %dv_all : !dv -> !tile.tile<[BLOCK_N, DVP], TO>
    tile.store %dv_rounded, %dv_part[%a, %hk, %n, 0] : !tile.tile<[BLOCK_N, DVP], TO>, !dv_view
  }
}

// dQ of its sum.
tile.kernel @attention_backward_convert
    params(D: int, T: type, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag,
           PACKED: flag, PAD: int, BLOCK_M: int, let DP: int = padded(D), let ACC: type = accumulator(T))
    (%dq_sum: !acc_view, %k: !qk_view, %dq: !dqk_view, %cu_seqlens_q: !cu_view when (PACKED),
     %cu_seqlens_k: !cu_view when (PACKED), %scale: !acc, %window_left: i32, %window_right: i32,
     %first_row: i32 when (SHARD), %first_key: i32 when (SHARD), %diagonal: i32 when (SHARD),
     %first_head: i32 when (SHARD), %first_batch: i32 when (SHARD))
    grid(%bm = select(PACKED, floordiv((ceildiv(dim(dq, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, BLOCK_M),
                      ceildiv(dim(dq, 2), BLOCK_M)),
         %h = dim(dq, 1), %a = dim(dq, 0)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %workspace_m = arith.muli %bm, %block_m : i32
  %all_queries = tile.dim %dq, 2 : !dqk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %sequence, %m, %begin, %queries = func.call @row_of_workspace(%workspace_m, %cu_seqlens_q, %all_queries)
      : (i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %packed = tile.param PACKED : i1
  %b = arith.select %packed, %sequence, %a : i32
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %all_keys) : (i32, !cu_view, i32) -> (i32, i32)
  %part = func.call @part_of_gradients(%dq, %begin, %queries) : (!dqk_view, i32, i32) -> !dqk_view
  %own_shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %is_shard = tile.param SHARD : i1
  %row_0 = arith.select %is_shard, %first_row, %c0 : i32
  %key_0 = arith.select %is_shard, %first_key, %c0 : i32
  %is_moved = tile.param and(SHARD, not(PACKED)) : i1
  %shift = arith.select %is_moved, %diagonal, %own_shift : i32
  %head_0 = arith.select %is_shard, %first_head, %c0 : i32
  %batch_0 = arith.select %is_shard, %first_batch, %c0 : i32
  %at_b = arith.addi %b, %batch_0 overflow<nsw> : i32
  %at_h = arith.addi %h, %head_0 overflow<nsw> : i32
  %m_end = arith.addi %m, %block_m : i32
  %rows_end = arith.minsi %m_end, %queries : i32
  %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %rows_end)
      where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, against, block, %shift, %window_left, %window_right
          : i32, i32, i32, i32, i32, i32, i32)
  %sum = tile.complete %dq_sum[%a, %h, %workspace_m, 0] of %first to %end : !acc_view -> !dq
  %scales = tile.full %scale : !dq
  %scaled = arith.mulf %sum, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !tile.tile<[BLOCK_M, DP], TO>
  tile.store %rounded, %part[%a, %h, %m, 0] : !tile.tile<[BLOCK_M, DP], TO>, !dqk_view
}
