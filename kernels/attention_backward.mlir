// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, backward: the gradients of a function of O and LSE with respect to q, k and v.
//
//   S     = scale * Q K^T                 P  = exp(score_mod(S) - LSE)    recomputed; 0 where the pair is masked
//   delta = rowsum(dO * O) - dLSE         dV = P^T dO
//   dT    = P * (dO V^T - delta)          dS = dT * score_mod'(S)         derived by the compiler
//   dQ    = scale * dS K                  dK = scale * dS^T Q
//
//   q, dq  [B, Hq,  Sq,  D]   T      k, dk [B, Hkv, Skv, D]  T     v, dv [B, Hkv, Skv, DV]  T
//   o, do  [B, Hq,  Sq,  DV]  T      lse, dlse [B, Hq, Sq]  ACC; dlse optional (absent: zero)
//
// cu_seqlens_q, cu_seqlens_k, kv_indices, kv_num_blocks (transposed by lib/lists.mlir for the keys kernel), scale,
// window_left, window_right and all parameters: as in attention_forward.mlir, and
//
//   DETERMINISTIC       off: dQ is summed by atomic additions, and may differ from run to run in its last bits; so are
//                       dK and dV, on a GPU in 16 bits, where heads share one of K. On: a second kernel recomputes S
//                       and dP for dQ (seven products for each pair instead of five); runs are bit-identical.
//   ORDERED             on, with DETERMINISTIC: no second kernel; the blocks of keys add to dQ one after the other, and
//                       beside them the sums that are complete are converted. On the CPU, and on sm_90a in 16 bits with
//                       heads of at most 128; without linked masks (a block must know how many come before it), linked
//                       weights and CAPTURE_GRADIENTS.
//   ORDERED_UP_TO       without DETERMINISTIC, on sm_90a where ORDERED is possible, DV = D, with the usual blocks:
//                       launches of up to so many rows of queries (-1: of any number) take the form of ORDERED, the
//                       faster one for short rows, and where a mask staggers the blocks of keys: it needs no zeros and
//                       no launch that converts sums. Default: -1 with WINDOW; if causal 3072 (-1 with PACKED) where D
//                       is a multiple of 32, else 1024 to 2048 (0 with PACKED); without a mask 8 * D (0 with PACKED).
//                       Only if heads do not share keys: a block of keys goes over all heads of its group, which does
//                       not stagger blocks.
//   ORDERED_FROM        with PACKED, only if sequences have so many rows in the mean: a block of few queries takes as
//                       long to convert.
//   SPLIT               on: dQ has a kernel of its own, without atomic additions, and so have dK and dV, or each of
//                       them. Wide heads are faster so on a GPU: a thread holds one sum.
//   PAIRED              with SPLIT, on: one kernel computes dK and dV (seven products for each pair), off: one each
//                       (eight products). Default: on for sm_90a, unless a mask is linked (it may need a vote, which
//                       two roles cannot take together) or CAPTURE_GRADIENTS is on. With blocks of your own, two
//                       roles need at most 64 keys and 64 queries, or 96 with heads of at most 192; else turn it off.
//   SCORE_GRADIENT      on: the program takes d_score [B or 1, Hq or 1, Sq or 1, Skv] ACC, and writes dS, the gradient
//                       of scale * Q K^T, summed over what shares an entry: that of an additive bias of that shape
//                       (mods/bias.mlir, linked first). Nothing is added atomically and nothing but d_score is stored:
//                       a kernel recomputes S and dP once more. Not with PACKED or LISTED.
//   CAPTURE_GRADIENTS   on: for each captured float @x that @score_mod reads, the program takes an optional argument
//                       d_x of its shape (one element for a scalar), in f32, and writes the gradient; absent, it is
//                       free. With DETERMINISTIC these are exact sums, with a workspace of 104 bytes an entry.
//
// o and lse are those of attention_forward with the same modifier and masks, replaceable as there.
// A query that attends no key and a key that no query attends get zero gradients; all of dq, dk and dv is written.
// P, P * score_mod'(S) and dS are rounded to T (in the kernel of DETERMINISTIC for dQ, dS only), all else stays in ACC.
//
// Four kernels: delta (and LSE in base 2); keys (a block of keys against all queries of its heads: dK, dV, and dQ by
// additions to a sum); convert (dQ from ACC to T) or, with DETERMINISTIC or SPLIT, queries (a block of queries against
// its keys: dQ). In order, keys converts dQ itself, and delta writes zeros to dQ where a block of queries attends no
// key, so that nothing is added to it; convert does nothing then (ORDERED_UP_TO), or is not launched (ORDERED). With
// SPLIT, keys runs for dK and dV together, or for dK, then for dV. With APART, where heads share one of K and blocks
// are few, a block of keys is against the queries of one head, its dK and dV are added to sums, and convert runs for
// these. Which form of keys has blocks depends on extents: that with sums if dk_sum is not empty, in order if turns is
// not.
//
// PACKED: what one kernel leaves for another (delta, LSE in base 2, sums of dQ) begins at a whole block of PAD rows for
// each sequence. So a block of queries that its sequence cuts ends in rows of its own, where delta and LSE are 0.
//
// Algorithm: FlashAttention-2 (Dao, 2023). The keys kernel computes S^T instead of S, so that P^T and dS^T come out of
// a product in the order in which dV and dK take them.

tile.link "lib/attention.mlir"
tile.link "lib/backward.mlir"
tile.link "lib/batch.mlir"
tile.link "lib/lists.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!acc_view = !tile.view<[?, ?, ?, D], ACC>
!dv_acc_view = !tile.view<[?, ?, ?, DV], ACC>
!score_view = !tile.view<[?, ?, ?, ?], ACC>
!cu_view  = !tile.view<[?], i32>
!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>
!turns    = !tile.view<[?, ?, ?], i32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!dq  = !tile.tile<[BLOCK_M, DP], ACC>
!dk  = !tile.tile<[BLOCK_N, DP], ACC>
!dv  = !tile.tile<[BLOCK_N, DVP], ACC>
// K with whole warpgroups of columns, and the product that has these as rows.
!kw  = !tile.tile<[BLOCK_N, DW], T>
!dqt = !tile.tile<[DW, BLOCK_M], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!dst = !tile.tile<[BLOCK_N, BLOCK_M], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!keept = !tile.tile<[BLOCK_N, BLOCK_M], i1>

func.func private @key_head(i32, !qk_view, !qk_view) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @block(i32, i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
func.func private @longest_block(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)
func.func private @part_of_queries_and_keys(!qk_view, i32, i32) -> !qk_view
func.func private @part_of_values(!v_view, i32, i32) -> !v_view
func.func private @attended_keys(i32, i32, i32, i32, i32, i32) -> (i32, i32)
func.func private @dq_of_sum(!dq, f32) -> !q
func.func private @part_of_dk_sums(!acc_view, i32, i32) -> !acc_view
func.func private @part_of_dv_sums(!dv_acc_view, i32, i32) -> !dv_acc_view
func.func private @list_of(i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
func.func private @workspace_begin(i32, i32) -> i32
func.func private @row_of_workspace(i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @probabilities_of_keys(!st, !row, !keept, i32, i32, i32, i32, f32) -> (!st, !st, !dst, !dst)
func.func private @gradients_of_keys(
    !st, !st, !dst, !dst, !st, !row, !kw, !q, !o, !dk, !dv, i32, i32, i32, i32) -> (!dk, !dv, !dqt)
func.func private @round_of_queries(!q, !o, !row, !row, !k, !v, !keep, !dq, i32, i32, i32, i32, f32) -> !dq

tile.program @attention_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false, PACKED: flag = false,
           LISTED: flag = false, LIST_BLOCK_M: int = select(LISTED, 128, 0), LIST_BLOCK_N: int = LIST_BLOCK_M,
           DETERMINISTIC: flag = false, SCORE_GRADIENT: flag = false, CAPTURE_GRADIENTS: flag = false,
           TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu", let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let HOPPER: flag = and(TARGET == "sm_90a", bits(T) == 16),
           // The same on all GPUs, so that one bundle can be for several.
           SPLIT: flag = and(and(not(TARGET == "cpu"), bits(T) == 16), ROW_BYTES > 256),
           PAIRED: flag = and(and(SPLIT, HOPPER), not(or(CAPTURE_GRADIENTS, replaced("mask_mod")))),
           ORDERED: flag = false, let DQ_KERNEL: flag = or(and(DETERMINISTIC, not(ORDERED)), SPLIT),
           // A block of keys against all heads of a group takes as long as all heads: with few keys, blocks are fewer
           // than multiprocessors, and otherwise the longest may end after all others.
           // The same on all GPUs, as SPLIT.
           APART: flag = and(not(TARGET == "cpu"), and(bits(T) == 16, not(or(DETERMINISTIC, SPLIT)))),
           ORDERED_UP_TO: int = select(WINDOW, -1, select(CAUSAL == "none", select(PACKED, 0, 8 * D), select(
                                           PACKED, select(mod(D, 32) == 0, -1, 0),
                                           select(mod(D, 32) == 0, 3072, select(D <= 64, 2048, 1024))))),
           ORDERED_FROM: int = 384,
           // Whether launches may be in order, if IN_ORDER. The same on all GPUs, like SPLIT.
           let CHOOSES: flag = and(and(and(not(TARGET == "cpu"), bits(T) == 16),
                                       and(ne(ORDERED_UP_TO, 0), and(D == DV, D <= 128))),
                                   not(or(or(or(DETERMINISTIC, SPLIT), or(LISTED, CAPTURE_GRADIENTS)),
                                          or(replaced("mask_mod"), replaced("weight_mod"))))),
           let WITH_TURNS: flag = or(ORDERED, CHOOSES),
           // Otherwise they have zeros, and no order: with these blocks, a role that adds in order fits.
           let IN_ORDER: flag = and(and(CHOOSES, HOPPER),
                                    and(BLOCK_N == 128, select(D <= 64, BLOCK_M == 128,
                                                               or(BLOCK_M == 64, and(BLOCK_M == 80, not(PACKED)))))),
           // With 80 queries a role that adds in order leaves too few registers.
           let ORDERED_BLOCK_M: int = select(and(and(HOPPER, BLOCK_M == 80), not(PACKED)), 64, BLOCK_M),
           let EVEN: flag = and(CAUSAL == "none", not(or(PACKED, LISTED))),
           BLOCK_M: int = block_in(LIST_BLOCK_M), BLOCK_N: int = block_in(LIST_BLOCK_N),
           DQ_BLOCK_M: int = block_in(LIST_BLOCK_M), DQ_BLOCK_N: int = block_in(LIST_BLOCK_N),
           // From their products, dV alone would get the blocks of a forward, and delta none.
           DV_BLOCK_M: int = select(or(LISTED, not(SPLIT)), BLOCK_M,
                                    select(not(HOPPER), 64, select(ROW_BYTES <= 384, 96, 80))),
           DELTA_BLOCK_M: int = select(and(HOPPER, or(not(PACKED), mod(BLOCK_M, 32) == 0)), 32, BLOCK_M),
           SCORE_BLOCK_M: int = select(and(HOPPER, and(ROW_BYTES > 64, ROW_BYTES <= 128)), 128,
                                       select(or(TARGET == "cpu", and(bits(T) == 16, ROW_BYTES <= 256)), 64,
                                              select(ROW_BYTES <= 512, 32, 16))),
           SCORE_BLOCK_N: int = select(or(TARGET == "cpu", and(HOPPER, ROW_BYTES <= 256)),
                                       select(max(D, DV) <= 128, 128, 64),
                                       select(ROW_BYTES <= 256, 64, select(ROW_BYTES <= 512, 32, 16))),
           // Padding of the workspaces' rows, of which a bundle for several GPUs has one set.
           let PAD: int = ceildiv(select(ROW_BYTES <= 128, 128, 64), BLOCK_M) * BLOCK_M,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, not(and(PACKED, SCORE_GRADIENT)), not(and(LISTED, SCORE_GRADIENT)),
            or(not(ORDERED), and(DETERMINISTIC, not(CAPTURE_GRADIENTS))),
            or(not(ORDERED), not(or(replaced("mask_mod"), replaced("weight_mod")))),
            or(not(ORDERED), and(or(TARGET == "cpu", HOPPER), and(max(D, DV) <= 128, not(LISTED)))),
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
            or(dim(kv_num_blocks, 1) == 1, dim(kv_num_blocks, 1) == dim(q, 1)), or(WINDOW, window_left == -1),
            or(PACKED, dim(kv_num_blocks, 2) == ceildiv(dim(q, 2), LIST_BLOCK_M)), or(WINDOW, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %do: !v_view, %lse: !row_view,
     %dlse: optional !row_view, %dq: !qk_view, %dk: !qk_view, %dv: !v_view,
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %d_score: !score_view when (SCORE_GRADIENT), %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1) {
  // Rows of whole chunks of 16 bytes, which a tensor map asks for; packed, a block more for each sequence.
  %delta = tile.workspace [dim(q, 0), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD, ceildiv(dim(q, 2), 4) * 4)] : !row_view
  %lse_base2 = tile.workspace [dim(q, 0), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD, ceildiv(dim(q, 2), 4) * 4)] : !row_view
  // Empty where nothing is added to it. The kernel for delta writes its zeros, unless the first addition overwrites it.
  %dq_sum = tile.workspace [select(DQ_KERNEL, 0, dim(q, 0)), dim(q, 1), select(PACKED,
      (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD, dim(q, 2)), D] : !acc_view
  // Sums of dK and dV, where heads share one of K and each has blocks of keys of its own. Empty where a block loops
  // over all of them, which needs no sums, but enough blocks for 132 multiprocessors: 3.5 for each, or half as many as
  // heads share one of K, since blocks of a group that drift apart read more from memory; if all take the same time, no
  // more than a tenth of it is lost while some multiprocessors have none.
  %dk_sum = tile.workspace [
      select(and(and(APART, dim(q, 1) > dim(k, 1)), select(
          EVEN, 10 * dim(q, 1) * ceildiv(ceildiv(dim(k, 2), 128) * dim(k, 1) * dim(k, 0), 132)
                > 11 * dim(k, 1) * ceildiv(ceildiv(dim(k, 2), 128) * dim(q, 1) * dim(k, 0), 132),
          ceildiv(dim(k, 2), 128) * dim(k, 0) * dim(k, 1) * dim(k, 1)
          < max(462 * dim(k, 1), 66 * dim(q, 1)))), dim(k, 0), 0),
      dim(k, 1), dim(k, 2), D] fill 0.0 : !acc_view
  %dv_sum = tile.workspace [
      select(and(and(APART, dim(q, 1) > dim(k, 1)), select(
          EVEN, 10 * dim(q, 1) * ceildiv(ceildiv(dim(k, 2), 128) * dim(k, 1) * dim(k, 0), 132)
                > 11 * dim(k, 1) * ceildiv(ceildiv(dim(k, 2), 128) * dim(q, 1) * dim(k, 0), 132),
          ceildiv(dim(k, 2), 128) * dim(k, 0) * dim(k, 1) * dim(k, 1)
          < max(462 * dim(k, 1), 66 * dim(q, 1)))), dim(k, 0), 0),
      dim(k, 1), dim(k, 2), DV] fill 0.0 : !dv_acc_view
  %q_indices = tile.workspace [dim(kv_num_blocks, 0), dim(kv_num_blocks, 1), ceildiv(dim(k, 2), LIST_BLOCK_N),
                               dim(kv_num_blocks, 2)] : !list_view
  %q_num_blocks = tile.workspace [dim(kv_num_blocks, 0), dim(kv_num_blocks, 1), ceildiv(dim(k, 2), LIST_BLOCK_N)]
      : !count_view
  // Empty where nothing is added in order.
  %turns = tile.workspace [
      select(or(ORDERED, and(and(CHOOSES, dim(q, 1) == dim(k, 1)),
                             and(or(ORDERED_UP_TO < 0, dim(q, 2) <= ORDERED_UP_TO),
                                 or(not(PACKED), dim(q, 2) >= ORDERED_FROM * (dim(cu_seqlens_q, 0) - 1))))),
             dim(q, 0), 0),
      dim(q, 1), select(PACKED, (floordiv(dim(q, 2), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD, dim(q, 2))]
      fill 0.0 : !turns

  tile.launch @turn_lists(%kv_indices, %kv_num_blocks, %q_indices, %q_num_blocks) when (LISTED)
      : !list_view, !count_view, !list_view, !count_view
  tile.launch @attention_backward_delta(%o, %do, %lse, %dlse, %cu_seqlens_q, %delta, %lse_base2, %dq_sum, %turns,
                                        %k, %dq, %cu_seqlens_k, %window_left, %window_right)
      with (BLOCK_M = DELTA_BLOCK_M, ORDERED = or(ORDERED, IN_ORDER), WITH_DQ = not(or(DQ_KERNEL, ORDERED)))
      : !v_view, !v_view, !row_view, !row_view, !cu_view, !row_view, !row_view, !acc_view, !turns, !qk_view, !qk_view,
        !cu_view, i32, i32
  tile.launch @attention_backward_keys(%q, %k, %v, %do, %lse_base2, %delta, %dq_sum, %dk, %dv, %dk_sum, %dv_sum, %turns,
                                       %dq, %cu_seqlens_q, %cu_seqlens_k, %q_indices, %q_num_blocks, %scale,
                                       %window_left, %window_right)
      with (WITH_DV = or(not(SPLIT), PAIRED), WITH_DQ = not(DQ_KERNEL),
            BLOCK_M = select(ORDERED, ORDERED_BLOCK_M, BLOCK_M))
      when (not(and(and(CHOOSES, dim(q, 1) == dim(k, 1)),
                    and(or(ORDERED_UP_TO < 0, dim(q, 2) <= ORDERED_UP_TO),
                        or(not(PACKED), dim(q, 2) >= ORDERED_FROM * (dim(cu_seqlens_q, 0) - 1))))))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !acc_view, !qk_view, !v_view, !acc_view,
        !dv_acc_view, !turns, !qk_view, !cu_view, !cu_view, !list_view, !count_view, f32, i32, i32
  tile.launch @attention_backward_keys(%q, %k, %v, %do, %lse_base2, %delta, %dq_sum, %dk, %dv, %dk_sum, %dv_sum, %turns,
                                       %dq, %cu_seqlens_q, %cu_seqlens_k, %q_indices, %q_num_blocks, %scale,
                                       %window_left, %window_right)
      with (ORDERED = IN_ORDER, BLOCK_M = select(IN_ORDER, ORDERED_BLOCK_M, BLOCK_M))
      when (and(and(CHOOSES, dim(q, 1) == dim(k, 1)),
                and(or(ORDERED_UP_TO < 0, dim(q, 2) <= ORDERED_UP_TO),
                    or(not(PACKED), dim(q, 2) >= ORDERED_FROM * (dim(cu_seqlens_q, 0) - 1)))))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !acc_view, !qk_view, !v_view, !acc_view,
        !dv_acc_view, !turns, !qk_view, !cu_view, !cu_view, !list_view, !count_view, f32, i32, i32
  // If there are sums of dK and dV, this launch has blocks, and the previous ones have none.
  tile.launch @attention_backward_keys(%q, %k, %v, %do, %lse_base2, %delta, %dq_sum, %dk, %dv, %dk_sum, %dv_sum, %turns,
                                       %dq, %cu_seqlens_q, %cu_seqlens_k, %q_indices, %q_num_blocks, %scale,
                                       %window_left, %window_right)
      with (SUMS = true) when (APART)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !acc_view, !qk_view, !v_view, !acc_view,
        !dv_acc_view, !turns, !qk_view, !cu_view, !cu_view, !list_view, !count_view, f32, i32, i32
  tile.launch @attention_backward_convert(%dk_sum, %dk, %turns, %cu_seqlens_q, %scale)
      with (PACKED = false, BLOCK_M = 32, ORDERED = false) when (APART) : !acc_view, !qk_view, !turns, !cu_view, f32
  tile.launch @attention_backward_convert(%dv_sum, %dv, %turns, %cu_seqlens_q, %scale)
      with (PACKED = false, BLOCK_M = 32, D = DV, SCALED = false, ORDERED = false) when (APART)
      : !dv_acc_view, !v_view, !turns, !cu_view, f32
  // Its blocks may end in the rows of the next sequence, whose LSE the mask drops.
  tile.launch @attention_backward_keys(%q, %k, %v, %do, %lse_base2, %delta, %dq_sum, %dk, %dv, %dk_sum, %dv_sum, %turns,
                                       %dq, %cu_seqlens_q, %cu_seqlens_k, %q_indices, %q_num_blocks, %scale,
                                       %window_left, %window_right)
      with (WITH_DK = false, WITH_DV = not(PAIRED), WITH_DQ = false, BLOCK_M = DV_BLOCK_M,
            CAPTURE_GRADIENTS = false) when (SPLIT)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !acc_view, !qk_view, !v_view, !acc_view,
        !dv_acc_view, !turns, !qk_view, !cu_view, !cu_view, !list_view, !count_view, f32, i32, i32
  tile.launch @attention_backward_convert(%dq_sum, %dq, %turns, %cu_seqlens_q, %scale)
      with (ORDERED = IN_ORDER) when (not(or(DQ_KERNEL, ORDERED))) : !acc_view, !qk_view, !turns, !cu_view, f32
  tile.launch @attention_backward_queries(%q, %k, %v, %do, %lse_base2, %delta, %dq, %cu_seqlens_q,
                                          %cu_seqlens_k, %kv_indices, %kv_num_blocks, %scale,
                                          %window_left, %window_right)
      with (BLOCK_M = DQ_BLOCK_M, BLOCK_N = DQ_BLOCK_N) when (DQ_KERNEL) : !qk_view, !qk_view, !v_view, !v_view,
        !row_view, !row_view, !qk_view, !cu_view, !cu_view, !list_view, !count_view, f32, i32, i32
  tile.launch @attention_backward_scores(%q, %k, %v, %do, %lse_base2, %delta, %d_score,
                                         %scale, %window_left, %window_right)
      with (BLOCK_M = SCORE_BLOCK_M, BLOCK_N = SCORE_BLOCK_N) when (SCORE_GRADIENT)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !score_view, f32, i32, i32
}

// A block of keys against the queries of every head of its group: dK and dV need no atomics. With SUMS a block is
// against one head, and adds to dk_sum and dv_sum. Either has blocks as dk_sum is empty or not.
tile.kernel @attention_backward_keys
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag, PACKED: flag,
           LISTED: flag, LIST_BLOCK_M: int, LIST_BLOCK_N: int, PAD: int, DETERMINISTIC: flag, ORDERED: flag,
           WITH_TURNS: flag, CAPTURE_GRADIENTS: flag, BLOCK_M: int, BLOCK_N: int, WITH_DK: flag = true,
           WITH_DV: flag = true, WITH_DQ: flag = true, HOPPER: flag, SUMS: flag = false,
           let UNIT: int = select(bits(T) == 16, select(max(D, DV) > 128, 32, 16), 8),
           let DP: int = ceildiv(D, max(UNIT, 16)) * max(UNIT, 16), let DVP: int = ceildiv(DV, UNIT) * UNIT,
           let DW: int = select(and(HOPPER, D > 64), ceildiv(D, 64) * 64, DP), let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view, %delta: !row_view,
     %dq_sum: !acc_view, %dk: !qk_view, %dv: !v_view, %dk_sum: !acc_view, %dv_sum: !dv_acc_view,
     %turns: !turns when (WITH_TURNS), %dq: !qk_view when (WITH_TURNS),
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED), %q_indices: !list_view when (LISTED),
     %q_num_blocks: !count_view when (LISTED), %scale: f32, %window_left: i32, %window_right: i32)
    grid(%bn = select(PACKED, (ceildiv(dim(k, 2), BLOCK_N) + dim(cu_seqlens_k, 0) - 1) * min(dim(k, 2), 1),
                      ceildiv(dim(k, 2), BLOCK_N)),
         %tile_head = select(SUMS, dim(q, 1) * min(dim(dk_sum, 0), 1), dim(k, 1) * (1 - min(dim(dk_sum, 0), 1))),
         %e = select(or(WITH_DK, WITH_DV), select(PACKED, 1, dim(k, 0)), 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %shared_by = arith.divsi %q_heads, %k_heads : i32
  %with_sums = tile.param SUMS : i1
  %own_hk = arith.divsi %tile_head, %shared_by : i32
  %hk = arith.select %with_sums, %own_hk, %tile_head : i32
  %first_of_group = arith.muli %hk, %shared_by : i32
  %first_head = arith.select %with_sums, %tile_head, %first_of_group : i32
  %group = arith.select %with_sums, %c1, %shared_by : i32
  // Element b of the batch, which lies at a in the arrays, and the first key of this instance in it.
  %block_n = tile.param BLOCK_N : i32
  %b, %a, %k_begin, %keys, %given = func.call @block(%e, %bn, %block_n, %cu_seqlens_k, %all_keys)
      : (i32, i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
  // In order, from the last block on: each reaches a block of queries one iteration after the previous block. After a
  // packed sequence an instance may have no keys.
  %ordered = tile.param ORDERED : i1
  %blocks = arith.ceildivsi %keys, %block_n : i32
  %last = arith.subi %blocks, %c1 : i32
  %from_last = arith.subi %last, %given : i32
  %has_keys = arith.cmpi sge, %from_last, %c0 : i32
  %is_reversed = arith.andi %ordered, %has_keys : i1
  %number = arith.select %is_reversed, %from_last, %given : i32
  %n = arith.muli %number, %block_n : i32
  %q_begin, %queries = func.call @rows_of(%b, %cu_seqlens_q, %all_queries) : (i32, !cu_view, i32) -> (i32, i32)
  %q_part = func.call @part_of_queries_and_keys(%q, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %do_part = func.call @part_of_values(%do, %q_begin, %queries) : (!v_view, i32, i32) -> !v_view
  %k_part = func.call @part_of_queries_and_keys(%k, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %v_part = func.call @part_of_values(%v, %k_begin, %keys) : (!v_view, i32, i32) -> !v_view
  %dk_part = func.call @part_of_queries_and_keys(%dk, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %dv_part = func.call @part_of_values(%dv, %k_begin, %keys) : (!v_view, i32, i32) -> !v_view
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %workspace_begin = func.call @workspace_begin(%b, %q_begin) : (i32, i32) -> i32
  %no_dk = tile.constant 0 : !dk
  %no_dv = tile.constant 0 : !dv
  %span = tile.param LIST_BLOCK_N : i32
  %with_dk = tile.param WITH_DK : i1
  %with_dv = tile.param WITH_DV : i1
  %with_dq = tile.param WITH_DQ : i1
  %block_m = tile.param BLOCK_M : i32
  %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !k
  %k_wide = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !kw
  %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !v
  %dk_all, %dv_all = scf.for %g = %c0 to %group step %c1
      iter_args(%dk_heads = %no_dk, %dv_heads = %no_dv) -> (!dk, !dv) : i32 {
    %h = arith.addi %first_head, %g : i32
    %list_b, %list_h, %list_n, %count = func.call @list_of(%b, %h, %n, %span, %q_num_blocks)
        : (i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries
            listed %q_indices[%list_b, %list_h, %list_n] count %count each LIST_BLOCK_M when (LISTED) : !list_view)
        against (%n to %keys)
        where @attends(%b, %h, block, against, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
        keep %keep : !keept
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q
      %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !o
      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %workspace_m = arith.addi %workspace_begin, %m : i32
      %lse_row = tile.load %lse_base2[%a, %h, %workspace_m] : !row_view -> !row
      %natural, %pt, %pt_rounded, %gt_rounded = func.call @probabilities_of_keys(
          %st, %lse_row, %keep, %b, %h, %m, %n, %scale)
          : (!st, !row, !keept, i32, i32, i32, i32, f32) -> (!st, !st, !dst, !dst)
      %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %delta_row = tile.load %delta[%a, %h, %workspace_m] : !row_view -> !row
      %dk_new, %dv_new, %dq_new = func.call @gradients_of_keys(
          %natural, %pt, %pt_rounded, %gt_rounded, %dpt, %delta_row, %k_wide, %q_tile,
          %do_tile, %dk_old, %dv_old, %b, %h, %m, %n)
          : (!st, !st, !dst, !dst, !st, !row, !kw, !q, !o, !dk, !dv, i32, i32, i32, i32) -> (!dk, !dv, !dqt)
      // Transposed too: threads next to each other then add to numbers next to each other.
      scf.if %with_dq {
        scf.if %ordered {
          // As many blocks of keys that these queries attend are behind this one.
          %m_end = arith.addi %m, %block_m : i32
          %rows_end = arith.minsi %m_end, %queries : i32
          %first, %end = func.call @attended_keys(%m, %rows_end, %shift, %keys, %window_left, %window_right)
              : (i32, i32, i32, i32, i32, i32) -> (i32, i32)
          %from_n = arith.subi %end, %n : i32
          %others = arith.subi %from_n, %c1 : i32
          %turn = arith.divsi %others, %block_n : i32
          tile.atomic_add %dq_new, %dq_sum[%a, %h, %workspace_m, 0] dims [3, 2]
              in order of %turn by %turns[%a, %h, %workspace_m] : !dqt, !acc_view, !turns
        } else {
          tile.atomic_add %dq_new, %dq_sum[%a, %h, %workspace_m, 0] dims [3, 2] : !dqt, !acc_view
        }
      }
      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    scf.yield %dk_head, %dv_head : !dk, !dv
  }
  scf.if %with_sums {
    %dk_sum_part = func.call @part_of_dk_sums(%dk_sum, %k_begin, %keys) : (!acc_view, i32, i32) -> !acc_view
    %dv_sum_part = func.call @part_of_dv_sums(%dv_sum, %k_begin, %keys) : (!dv_acc_view, i32, i32) -> !dv_acc_view
    tile.atomic_add %dk_all, %dk_sum_part[%a, %hk, %n, 0] : !dk, !acc_view
    tile.atomic_add %dv_all, %dv_sum_part[%a, %hk, %n, 0] : !dv, !dv_acc_view
  } else {
    scf.if %with_dk {
      %scale_acc = tile.cast %scale : f32 -> !acc
      %scales = tile.full %scale_acc : !dk
      %dk_scaled = arith.mulf %dk_all, %scales : !dk
      %dk_rounded = tile.cast %dk_scaled : !dk -> !k
      tile.store %dk_rounded, %dk_part[%a, %hk, %n, 0] : !k, !qk_view
    }
    scf.if %with_dv {
      %dv_rounded = tile.cast %dv_all : !dv -> !v
      tile.store %dv_rounded, %dv_part[%a, %hk, %n, 0] : !v, !v_view
    }
  }
  // Beside the blocks of keys: dQ of each block of queries, as soon as all blocks that it attends have added to it.
  scf.if %ordered {
    %sum_rows = tile.dim %dq_sum, 2 : !acc_view
    %batches = tile.dim %dq_sum, 0 : !acc_view
    %m_blocks = arith.ceildivsi %sum_rows, %block_m : i32
    %blocks_of_batch = arith.muli %m_blocks, %q_heads : i32
    %all_blocks = arith.muli %blocks_of_batch, %batches : i32
    tile.spread %i to %all_blocks {
      %head = arith.divsi %i, %m_blocks : i32
      %bm = arith.remsi %i, %m_blocks : i32
      %sum_a = arith.divsi %head, %q_heads : i32
      // As blocks of keys go over the heads of a group: the first of all groups, then the second.
      %in_batch = arith.remsi %head, %q_heads : i32
      %of_group = arith.divsi %in_batch, %k_heads : i32
      %group_k = arith.remsi %in_batch, %k_heads : i32
      %group_begin = arith.muli %group_k, %shared_by : i32
      %sum_h = arith.addi %group_begin, %of_group : i32
      %sum_m = arith.muli %bm, %block_m : i32
      %sequence, %m, %m_begin, %m_queries = func.call @row_of_workspace(%sum_m, %cu_seqlens_q, %all_queries)
          : (i32, !cu_view, i32) -> (i32, i32, i32, i32)
      %own_begin, %own_keys = func.call @rows_of(%sequence, %cu_seqlens_k, %all_keys)
          : (i32, !cu_view, i32) -> (i32, i32)
      %own_shift = func.call @diagonal_shift(%m_queries, %own_keys) : (i32, i32) -> i32
      %m_end = arith.addi %m, %block_m : i32
      %rows_end = arith.minsi %m_end, %m_queries : i32
      %first, %end = func.call @attended_keys(%m, %rows_end, %own_shift, %own_keys, %window_left, %window_right)
          : (i32, i32, i32, i32, i32, i32) -> (i32, i32)
      %attends_some = arith.cmpi sgt, %end, %first : i32
      %has_rows = arith.cmpi slt, %m, %m_queries : i32
      %is_added = arith.andi %attends_some, %has_rows : i1
      scf.if %is_added {
        %last_key = arith.subi %end, %c1 : i32
        %last_n = arith.divsi %last_key, %block_n : i32
        %first_n = arith.divsi %first, %block_n : i32
        %others = arith.subi %last_n, %first_n : i32
        %added = arith.addi %others, %c1 : i32
        tile.await %added of %turns[%sum_a, %sum_h, %sum_m] : !turns
        %sum = tile.load %dq_sum[%sum_a, %sum_h, %sum_m, 0] : !acc_view -> !dq
        %dq_rounded = func.call @dq_of_sum(%sum, %scale) : (!dq, f32) -> !q
        %own_dq = func.call @part_of_queries_and_keys(%dq, %m_begin, %m_queries) : (!qk_view, i32, i32) -> !qk_view
        tile.store %dq_rounded, %own_dq[%sum_a, %sum_h, %m, 0] : !q, !qk_view
      }
    }
  }
}

// A gradient in the type of the arrays, of a sum: dQ and dK = scale * the sum, dV = the sum. With ORDERED, nothing if
// there are turns: the kernel that added in order has done it.
tile.kernel @attention_backward_convert
    params(D: int, T: type, PACKED: flag, PAD: int, BLOCK_M: int, ORDERED: flag, WITH_TURNS: flag, SCALED: flag = true,
           let DP: int = ceildiv(D, 8) * 8, let ACC: type = accumulator(T))
    (%sums: !acc_view, %gradient: !qk_view, %turns: !turns when (WITH_TURNS),
     %cu_seqlens_q: !cu_view when (PACKED), %scale: f32)
    grid(%bm = select(PACKED, floordiv(dim(sums, 2), BLOCK_M), ceildiv(dim(gradient, 2), BLOCK_M)),
         %h = dim(gradient, 1), %a = select(and(ORDERED, dim(turns, 0) > 0), 0, dim(sums, 0))) {
  %block_m = tile.param BLOCK_M : i32
  %workspace_m = arith.muli %bm, %block_m : i32
  %all_rows = tile.dim %gradient, 2 : !qk_view
  %sequence, %m, %begin, %rows = func.call @row_of_workspace(%workspace_m, %cu_seqlens_q, %all_rows)
      : (i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %part = func.call @part_of_queries_and_keys(%gradient, %begin, %rows) : (!qk_view, i32, i32) -> !qk_view
  %sum = tile.load %sums[%a, %h, %workspace_m, 0] : !acc_view -> !dq
  %one = arith.constant 1.0 : f32
  %with_scale = tile.param SCALED : i1
  %factor = arith.select %with_scale, %scale, %one : f32
  %rounded = func.call @dq_of_sum(%sum, %factor) : (!dq, f32) -> !q
  tile.store %rounded, %part[%a, %h, %m, 0] : !q, !qk_view
}

// A block of queries against the keys it attends: dQ without atomics.
tile.kernel @attention_backward_queries
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag, PACKED: flag,
           LISTED: flag, LIST_BLOCK_M: int, LIST_BLOCK_N: int, PAD: int, BLOCK_M: int, BLOCK_N: int,
           let UNIT: int = select(bits(T) == 16, select(max(D, DV) > 128, 32, 16), 8),
           let DP: int = ceildiv(D, UNIT) * UNIT, let DVP: int = ceildiv(DV, UNIT) * UNIT,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view, %delta: !row_view, %dq: !qk_view,
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %scale: f32, %window_left: i32, %window_right: i32)
    grid(%bm = select(PACKED, (ceildiv(dim(q, 2), BLOCK_M) + dim(cu_seqlens_q, 0) - 1) * min(dim(q, 2), 1),
                      ceildiv(dim(q, 2), BLOCK_M)),
         %h = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %c0 = arith.constant 0 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32
  // Element b of the batch, which lies at a in the arrays, and the first query of this instance in it.
  %b, %a, %q_begin, %queries, %m = func.call @longest_block(%e, %bm, %cu_seqlens_q, %all_queries)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %all_keys) : (i32, !cu_view, i32) -> (i32, i32)
  %q_part = func.call @part_of_queries_and_keys(%q, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %do_part = func.call @part_of_values(%do, %q_begin, %queries) : (!v_view, i32, i32) -> !v_view
  %k_part = func.call @part_of_queries_and_keys(%k, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %v_part = func.call @part_of_values(%v, %k_begin, %keys) : (!v_view, i32, i32) -> !v_view
  %dq_part = func.call @part_of_queries_and_keys(%dq, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %workspace_begin = func.call @workspace_begin(%b, %q_begin) : (i32, i32) -> i32
  %workspace_m = arith.addi %workspace_begin, %m : i32
  %span = tile.param LIST_BLOCK_M : i32
  %list_b, %list_h, %list_m, %count = func.call @list_of(%b, %h, %m, %span, %kv_num_blocks)
      : (i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
  %no_dq = tile.constant 0 : !dq
  %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q
  %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !o
  %lse_row = tile.load %lse_base2[%a, %h, %workspace_m] : !row_view -> !row
  %delta_row = tile.load %delta[%a, %h, %workspace_m] : !row_view -> !row
  %dq_all = tile.for_blocks %n in (%c0 to %keys
          listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
      against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%dq_old = %no_dq : !dq) {
    %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !v
    %dq_new = func.call @round_of_queries(
        %q_tile, %do_tile, %lse_row, %delta_row, %k_tile, %v_tile, %keep, %dq_old,
        %b, %h, %m, %n, %scale) : (!q, !o, !row, !row, !k, !v, !keep, !dq, i32, i32, i32, i32, f32) -> !dq
    tile.yield %dq_new : !dq
  }
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !dq
  %scaled = arith.mulf %dq_all, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !q
  tile.store %rounded, %dq_part[%a, %h, %m, 0] : !q, !qk_view
}
