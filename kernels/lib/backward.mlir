// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The computation of an attention backward for one block of queries and one block of keys, and the kernels that a
// program launches in addition to its own: that for delta, which is first, that for dQ without additions to memory,
// that for the sums of rows with NATURAL, and that for the gradient of scores.
//
// P = exp2(S * log2(e) - LSE in base 2). With NATURAL, scores may be too large for base 2, and LSE too large to hold
// the logarithm of a sum: that of equal scores of -3e38 is -3e38. Then P = W * exp2((S - LSE) * log2(e)), where the
// weight W is 1, or LSE is only the maximum of the scores, and W the inverse of the sum, rounded to T.
//
// The exponent is at most 0, but for rounding, of which large scores have much. It is limited to 0 except in 16 bits on
// a GPU, where that would be an instruction for each pair in a loop that has few.
//
// A kernel that links this file declares:
//
//   D, DV, T, ACC                      as in attention_backward.mlir
//   BLOCK_M, BLOCK_N                   queries and keys of a block
//   DP, DVP                            D and DV, padded
//   DW                                 columns of K in the product for dQ
//   CAUSAL, WINDOW                     as in attention_backward.mlir
//   CAPTURE_GRADIENTS, DETERMINISTIC   as in attention_backward.mlir
//   SHARD, TO                          as in attention_backward.mlir
//   NATURAL                            whether scores may be too large for base 2
//   WITH_DK, WITH_DV, WITH_DQ          which gradients to compute
//
// A program that launches a kernel of this file declares the parameters of that kernel, or binds them in the launch.

tile.link "attention.mlir"
tile.link "batch.mlir"
tile.link "shard.mlir"
tile.link "softmax.mlir"

!qk_view    = !tile.view<[?, ?, ?, D], T>
!v_view     = !tile.view<[?, ?, ?, DV], T>
!row_view   = !tile.view<[?, ?, ?], ACC>
!acc_view   = !tile.view<[?, ?, ?, D], ACC>
!dqk_view   = !tile.view<[?, ?, ?, D], TO>
!score_view = !tile.view<[?, ?, ?, ?], ACC>
!cu_view    = !tile.view<[?], i32>
!weight_view = !tile.view<[?, ?, ?], T>
!list_view  = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>

!q     = !tile.tile<[BLOCK_M, DP], T>
!k     = !tile.tile<[BLOCK_N, DP], T>
!v     = !tile.tile<[BLOCK_N, DVP], T>
!o     = !tile.tile<[BLOCK_M, DVP], T>
!o_acc = !tile.tile<[BLOCK_M, DVP], ACC>
!dq    = !tile.tile<[BLOCK_M, DP], ACC>
!dk    = !tile.tile<[BLOCK_N, DP], ACC>
!dv    = !tile.tile<[BLOCK_N, DVP], ACC>
!kw    = !tile.tile<[BLOCK_N, DW], T>
!dqt   = !tile.tile<[DW, BLOCK_M], ACC>
!row   = !tile.tile<[BLOCK_M], ACC>
!weights = !tile.tile<[BLOCK_M], T>
!acc   = !tile.param<ACC>
// Scores and their gradients, as queries x keys and transposed.
!s     = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!st    = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!ds    = !tile.tile<[BLOCK_M, BLOCK_N], T>
!dst   = !tile.tile<[BLOCK_N, BLOCK_M], T>
!pos   = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!post  = !tile.tile<[BLOCK_N, BLOCK_M], i32>
!keep  = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!keept = !tile.tile<[BLOCK_N, BLOCK_M], i1>

func.func private @key_head(i32, !qk_view, !qk_view) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)
func.func private @row_of_workspace(i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @part_of_queries_and_keys(!qk_view, i32, i32) -> !qk_view
func.func private @part_of_values(!v_view, i32, i32) -> !v_view
func.func private @part_of_gradients(!dqk_view, i32, i32) -> !dqk_view
func.func private @part_of_sums(!row_view, i32, i32) -> !row_view
func.func private @longest_block(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
func.func private @workspace_begin(i32, i32) -> i32
func.func private @list_of(i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
func.func private @lowest() -> !acc
func.func private @sink(i32) -> !acc

// From S^T: the scaled scores, P^T, the weighted P^T rounded to T (the operand of the product for dV), and
// P^T * score_mod'(S) rounded to T. LSE is in base 2 unless NATURAL; %weight_row is W, read only with NATURAL.
// The kernel computes S^T instead of S, so that P^T and dS^T have the layout in which the products for dV and dK read
// them. It computes the products, and loads LSE and delta, between calls to these functions, so that it reads a row
// only when it needs it.
func.func private @probabilities_of_keys(
    %st: !st, %lse_row: !row, %weight_row: !weights, %keep: !keept, %b: i32, %h: i32, %m: i32, %n: i32, %scale: !acc)
    -> (!st, !st, !dst, !dst) {
  %scales_s = tile.full %scale : !st
  %log2es = tile.constant 1.4426950408889634 : !st
  %masked_out = tile.constant minus_inf : !st
  %cols = tile.iota %n dim 0 : !post
  %rows = tile.iota %m dim 1 : !post
  %natural = arith.mulf %st, %scales_s fastmath<reassoc, contract> : !st
  %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols) : (!st, i32, i32, !post, !post) -> !st
  %lse_each = tile.expand %lse_row dim 0 : !row -> !st
  %stays_natural = tile.param NATURAL : i1
  %below = scf.if %stays_natural -> (!st) {
    %below_n = arith.subf %modified, %lse_each : !st
    %below_base2 = arith.mulf %below_n, %log2es : !st
    scf.yield %below_base2 : !st
  } else {
    %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !st
    %below_2 = arith.subf %base2, %lse_each fastmath<contract> : !st
    scf.yield %below_2 : !st
  }
  %is_bounded = tile.param or(not(on_gpu()), bits(T) > 16) : i1
  %most = tile.constant 0 : !st
  %not_above = arith.minimumf %below, %most : !st
  %limited = arith.select %is_bounded, %not_above, %below : !st
  %x = tile.select %keep, %limited, %masked_out : !keept, !st
  %pt_plain = math.exp2 %x : !st
  %pt = scf.if %stays_natural -> (!st) {
    %weight_acc = tile.cast %weight_row : !weights -> !row
    %weight_each = tile.expand %weight_acc dim 0 : !row -> !st
    %pt_times = arith.mulf %pt_plain, %weight_each : !st
    scf.yield %pt_times : !st
  } else {
    scf.yield %pt_plain : !st
  }
  %pt_weighted = tile.map @weight_mod(%pt, %b, %h, %rows, %cols) : (!st, i32, i32, !post, !post) -> !st
  %pt_rounded = tile.cast %pt_weighted : !st -> !dst

  // The gradient is linear in its seed: compute it for P now and multiply it by dP later. Until dP is available, only
  // values of type T are live.
  %gt = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %pt : !st
      : (!st, i32, i32, !post, !post) -> !st
  %gt_rounded = tile.cast %gt : !st -> !dst
  return %natural, %pt, %pt_rounded, %gt_rounded : !st, !st, !dst, !dst
}

// From dP^T and the results of @probabilities_of_keys: the new sums of dK and dV, and the term to add to dQ,
// transposed. Adds the gradients of the captures of modifiers.
func.func private @gradients_of_keys(
    %natural: !st, %pt: !st, %pt_rounded: !dst, %gt_rounded: !dst, %dpt: !st,
    %delta_row: !row, %k_wide: !kw, %q_tile: !q, %do_tile: !o, %dk_old: !dk, %dv_old: !dv,
    %b: i32, %h: i32, %m: i32, %n: i32) -> (!dk, !dv, !dqt) {
  %with_dk = tile.param WITH_DK : i1
  %with_dv = tile.param WITH_DV : i1
  %with_dq = tile.param WITH_DQ : i1
  %rows = tile.iota %m dim 1 : !post
  %cols = tile.iota %n dim 0 : !post
  %delta_each = tile.expand %delta_row dim 0 : !row -> !st
  %dpt_weighted = tile.map @weight_mod(%dpt, %b, %h, %rows, %cols) : (!st, i32, i32, !post, !post) -> !st
  %dpt_centered = arith.subf %dpt_weighted, %delta_each fastmath<contract> : !st
  %gt_acc = tile.cast %gt_rounded : !dst -> !st
  %dst = arith.mulf %gt_acc, %dpt_centered : !st
  %dst_rounded = tile.cast %dst : !st -> !dst

  %dv_new = scf.if %with_dv -> (!dv) {
    %dv_sum = tile.dot %pt_rounded, %do_tile, %dv_old : !dst, !o -> !dv
    scf.yield %dv_sum : !dv
  } else {
    scf.yield %dv_old : !dv
  }
  %dk_new = scf.if %with_dk -> (!dk) {
    %dk_sum = tile.dot %dst_rounded, %q_tile, %dk_old : !dst, !q -> !dk
    scf.yield %dk_sum : !dk
  } else {
    scf.yield %dk_old : !dk
  }
  %dq_part = tile.dot %k_wide, %dst_rounded transpose_a : !kw, !dst -> !dqt
  %no_dq = tile.constant 0 : !dqt
  %dq_new = arith.select %with_dq, %dq_part, %no_dq : !dqt

  %pt_plain = tile.cast %pt : !st -> !dst
  %pt_acc = tile.cast %pt_plain : !dst -> !st
  %dt = arith.mulf %pt_acc, %dpt_centered : !st
  %sums = tile.param CAPTURE_GRADIENTS : i1
  scf.if %sums {
    tile.add_gradients @score_mod(%natural, %b, %h, %rows, %cols) seed %dt : !st exact when (DETERMINISTIC) once
        : (!st, i32, i32, !post, !post)
    tile.add_gradients @weight_mod(%pt_acc, %b, %h, %rows, %cols) seed %dpt : !st exact when (DETERMINISTIC) once
        : (!st, i32, i32, !post, !post)
  }
  return %dk_new, %dv_new, %dq_new : !dk, !dv, !dqt
}

// One iteration of a block of queries over blocks of keys: the new sum of dQ.
func.func private @round_of_queries(
    %q_tile: !q, %do_tile: !o, %lse_row: !row, %weight_row: !weights, %delta_row: !row, %k_tile: !k, %v_tile: !v,
    %keep: !keep, %dq_old: !dq, %b: i32, %h: i32, %m: i32, %n: i32, %scale: !acc) -> !dq {
  %scales_s = tile.full %scale : !s
  %log2es = tile.constant 1.4426950408889634 : !s
  %masked_out = tile.constant minus_inf : !s
  %lse_each = tile.expand %lse_row dim 1 : !row -> !s
  %delta_each = tile.expand %delta_row dim 1 : !row -> !s
  %rows = tile.iota %m dim 0 : !pos
  %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
  %cols = tile.iota %n dim 1 : !pos
  %natural = arith.mulf %s, %scales_s fastmath<reassoc, contract> : !s
  %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols) : (!s, i32, i32, !pos, !pos) -> !s
  %stays_natural = tile.param NATURAL : i1
  %below = scf.if %stays_natural -> (!s) {
    %below_n = arith.subf %modified, %lse_each : !s
    %below_base2 = arith.mulf %below_n, %log2es : !s
    scf.yield %below_base2 : !s
  } else {
    %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !s
    %below_2 = arith.subf %base2, %lse_each fastmath<contract> : !s
    scf.yield %below_2 : !s
  }
  %is_bounded = tile.param or(not(on_gpu()), bits(T) > 16) : i1
  %most = tile.constant 0 : !s
  %not_above = arith.minimumf %below, %most : !s
  %limited = arith.select %is_bounded, %not_above, %below : !s
  %x = tile.select %keep, %limited, %masked_out : !keep, !s
  %p_plain = math.exp2 %x : !s
  %p = scf.if %stays_natural -> (!s) {
    %weight_acc = tile.cast %weight_row : !weights -> !row
    %weight_each = tile.expand %weight_acc dim 1 : !row -> !s
    %p_times = arith.mulf %p_plain, %weight_each : !s
    scf.yield %p_times : !s
  } else {
    scf.yield %p_plain : !s
  }
  %dp = tile.dot %do_tile, %v_tile transpose_b : !o, !v -> !s
  %dp_weighted = tile.map @weight_mod(%dp, %b, %h, %rows, %cols) : (!s, i32, i32, !pos, !pos) -> !s
  %dp_centered = arith.subf %dp_weighted, %delta_each fastmath<contract> : !s
  %dt = arith.mulf %p, %dp_centered : !s
  %ds = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %dt : !s
      : (!s, i32, i32, !pos, !pos) -> !s
  %ds_rounded = tile.cast %ds : !s -> !ds
  %dq_new = tile.dot %ds_rounded, %k_tile, %dq_old : !ds, !k -> !dq
  return %dq_new : !dq
}

//===----------------------------------------------------------------------===//
// Kernels that a program launches in addition to its own
//===----------------------------------------------------------------------===//

// For all rows: delta = rowsum(dO * O) - dLSE, LSE in base 2, and the zeros to which dQ is added; %dq_sum may have no
// elements. The padding rows of packed sequences in a workspace get zeros.
tile.kernel @attention_backward_delta
    params(D: int, DV: int, T: type, BLOCK_M: int, PACKED: flag, PAD: int, DETERMINISTIC: flag, WITH_DQ: flag,
           CAPTURE_GRADIENTS: flag, NATURAL: flag, SHARD: flag, let DP: int = padded(D), let DVP: int = padded(DV),
           let ACC: type = accumulator(T))
    (%o: !v_view, %do: !v_view, %lse: !row_view, %dlse: optional !row_view, %cu_seqlens_q: !cu_view when (PACKED),
     %delta: !row_view, %lse_base2: !row_view, %row_weights: !weight_view when (NATURAL),
     %dq_sum: !acc_view when (WITH_DQ), %first_head: i32 when (SHARD))
    grid(%bm = select(PACKED, floordiv((ceildiv(dim(o, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, BLOCK_M),
                      ceildiv(dim(o, 2), BLOCK_M)),
         %h = dim(o, 1), %a = select(PACKED, 1, dim(o, 0))) {
  %c0 = arith.constant 0 : i32
  %is_shard = tile.param SHARD : i1
  %head_0 = arith.select %is_shard, %first_head, %c0 : i32
  %at_h = arith.addi %h, %head_0 overflow<nsw> : i32
  %block_m = tile.param BLOCK_M : i32
  %workspace_m = arith.muli %bm, %block_m : i32
  %all_queries = tile.dim %o, 2 : !v_view
  %sequence, %m, %begin, %queries = func.call @row_of_workspace(%workspace_m, %cu_seqlens_q, %all_queries)
      : (i32, !cu_view, i32) -> (i32, i32, i32, i32)
  // Rows of no sequence are not read: what they hold may be anything, and a block of queries may extend into theirs.
  %own_begin, %read = func.call @rows_of(%sequence, %cu_seqlens_q, %all_queries) : (i32, !cu_view, i32) -> (i32, i32)
  %o_part = func.call @part_of_values(%o, %own_begin, %read) : (!v_view, i32, i32) -> !v_view
  %do_part = func.call @part_of_values(%do, %own_begin, %read) : (!v_view, i32, i32) -> !v_view
  %lse_part = func.call @part_of_sums(%lse, %own_begin, %read) : (!row_view, i32, i32) -> !row_view
  %dlse_part = func.call @part_of_sums(%dlse, %own_begin, %read) : (!row_view, i32, i32) -> !row_view

  %o_tile = tile.load %o_part[%a, %h, %m, 0] : !v_view -> !o
  %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !o
  %dlse_row = tile.load %dlse_part[%a, %h, %m] : !row_view -> !row
  %lse_row = tile.load %lse_part[%a, %h, %m] : !row_view -> !row
  %o_acc = tile.cast %o_tile : !o -> !o_acc
  %do_acc = tile.cast %do_tile : !o -> !o_acc
  %product = arith.mulf %o_acc, %do_acc : !o_acc
  %sum = tile.reduce add %product dim 1 : !o_acc -> !row
  %delta_row = arith.subf %sum, %dlse_row : !row
  %natural_row = tile.map @lse_or_zero(%lse_row) : (!row) -> !row
  %base2_row = tile.map @base2_or_zero(%lse_row) : (!row) -> !row
  %natural = tile.param NATURAL : i1
  %kept_row = arith.select %natural, %natural_row, %base2_row : !row
  %dsink = tile.map @sink_adjoint(%at_h, %delta_row, %natural_row) : (i32, !row, !row) -> !row
  %sums = tile.param CAPTURE_GRADIENTS : i1
  scf.if %sums {
    tile.add_gradients @sink(%at_h) seed %dsink : !row exact when (DETERMINISTIC) : (i32)
  }
  %with_dq = tile.param WITH_DQ : i1
  scf.if %with_dq {
    %no_dq = tile.constant 0 : !dq
    tile.store %no_dq, %dq_sum[%a, %h, %workspace_m, 0] : !dq, !acc_view
  }
  tile.store %delta_row, %delta[%a, %h, %workspace_m] : !row, !row_view
  tile.store %kept_row, %lse_base2[%a, %h, %workspace_m] : !row, !row_view
  scf.if %natural {
    %one = arith.constant 1.0 : !tile.param<T>
    %ones = tile.full %one : !weights
    tile.store %ones, %row_weights[%a, %h, %workspace_m] : !weights, !weight_view
  }
}

// A block of queries with the keys that it attends: dQ without atomic additions.
tile.kernel @attention_backward_queries
    params(D: int, DV: int, T: type, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, PACKED: flag, LISTED: flag, LIST_BLOCK_M: int, LIST_BLOCK_N: int, PAD: int, NATURAL: flag,
           BLOCK_M: int, BLOCK_N: int,
           let DP: int = padded_for("gradients", D, DV, T), let DVP: int = padded_for("gradients", DV, D, T),
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %row_weights: !weight_view when (NATURAL), %delta: !row_view, %dq: !dqk_view,
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %scale: !acc, %window_left: i32, %window_right: i32,
     %first_row: i32 when (SHARD), %first_key: i32 when (SHARD), %diagonal: i32 when (SHARD),
     %first_head: i32 when (SHARD), %first_batch: i32 when (SHARD))
    grid(%bm = select(PACKED, (ceildiv(dim(q, 2), BLOCK_M) + dim(cu_seqlens_q, 0)) * min(dim(q, 2), 1),
                      ceildiv(dim(q, 2), BLOCK_M)),
         %h = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %c0 = arith.constant 0 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32
  // The rows of this instance: %b is the batch element or packed sequence, %a its index in the arrays, and %m the first
  // query, relative to the sequence.
  %b, %a, %q_begin, %queries, %m = func.call @longest_block(%e, %bm, %cu_seqlens_q, %all_queries)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %all_keys) : (i32, !cu_view, i32) -> (i32, i32)
  %q_part = func.call @part_of_queries_and_keys(%q, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %do_part = func.call @part_of_values(%do, %q_begin, %queries) : (!v_view, i32, i32) -> !v_view
  %k_part = func.call @part_of_queries_and_keys(%k, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %v_part = func.call @part_of_values(%v, %k_begin, %keys) : (!v_view, i32, i32) -> !v_view
  %dq_part = func.call @part_of_gradients(%dq, %q_begin, %queries) : (!dqk_view, i32, i32) -> !dqk_view
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
  %at_m = arith.addi %m, %row_0 overflow<nsw> : i32
  %workspace_begin = func.call @workspace_begin(%b, %q_begin) : (i32, i32) -> i32
  %workspace_m = arith.addi %workspace_begin, %m : i32
  %span = tile.param LIST_BLOCK_M : i32
  %list_b, %list_h, %list_m, %count = func.call @list_of(%b, %h, %m, %span, %kv_num_blocks)
      : (i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
  %no_dq = tile.constant 0 : !dq
  %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q
  %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !o
  %lse_row = tile.load %lse_base2[%a, %h, %workspace_m] : !row_view -> !row
  %stays_natural = tile.param NATURAL : i1
  %no_weights = tile.constant 0 : !weights
  %weight_row = scf.if %stays_natural -> (!weights) {
    %own_weights = tile.load %row_weights[%a, %h, %workspace_m] : !weight_view -> !weights
    scf.yield %own_weights : !weights
  } else {
    scf.yield %no_weights : !weights
  }
  %delta_row = tile.load %delta[%a, %h, %workspace_m] : !row_view -> !row
  %dq_all = tile.for_blocks %n in (%c0 to %keys
          listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
      against (%m to %queries)
      where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, against, block, %shift, %window_left, %window_right
          : i32, i32, i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%dq_old = %no_dq : !dq) {
    %at_n = arith.addi %n, %key_0 overflow<nsw> : i32
    %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !v
    %dq_new = func.call @round_of_queries(
        %q_tile, %do_tile, %lse_row, %weight_row, %delta_row, %k_tile, %v_tile, %keep, %dq_old, %at_b, %at_h, %at_m,
        %at_n, %scale)
        : (!q, !o, !row, !weights, !row, !k, !v, !keep, !dq, i32, i32, i32, i32, !acc) -> !dq
    tile.yield %dq_new : !dq
  }
  %scales = tile.full %scale : !dq
  %scaled = arith.mulf %dq_all, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !tile.tile<[BLOCK_M, DP], TO>
  tile.store %rounded, %dq_part[%a, %h, %m, 0] : !tile.tile<[BLOCK_M, DP], TO>, !dqk_view
}

// With NATURAL, for rows whose LSE is so large in magnitude that its fraction says little about the sum: the maximum of
// the scores instead of LSE, and the inverse of the sum as weight. Other rows are left as they are; blocks without such
// rows compute nothing.
tile.kernel @attention_backward_sums
    params(D: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag, PACKED: flag,
           LISTED: flag, LIST_BLOCK_M: int, LIST_BLOCK_N: int, PAD: int, NATURAL: flag, BLOCK_M: int, BLOCK_N: int,
           let DP: int = padded_for("scores", D, D, T), let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %lse: !row_view, %lse_base2: !row_view, %row_weights: !weight_view when (NATURAL),
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %scale: !acc, %window_left: i32, %window_right: i32)
    grid(%bm = select(PACKED, (ceildiv(dim(q, 2), BLOCK_M) + dim(cu_seqlens_q, 0)) * min(dim(q, 2), 1),
                      ceildiv(dim(q, 2), BLOCK_M)),
         %h = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32
  %b, %a, %q_begin, %queries, %m = func.call @longest_block(%e, %bm, %cu_seqlens_q, %all_queries)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %all_keys) : (i32, !cu_view, i32) -> (i32, i32)
  %q_part = func.call @part_of_queries_and_keys(%q, %q_begin, %queries) : (!qk_view, i32, i32) -> !qk_view
  %k_part = func.call @part_of_queries_and_keys(%k, %k_begin, %keys) : (!qk_view, i32, i32) -> !qk_view
  %lse_part = func.call @part_of_sums(%lse, %q_begin, %queries) : (!row_view, i32, i32) -> !row_view
  %workspace_begin = func.call @workspace_begin(%b, %q_begin) : (i32, i32) -> i32
  %max_part = func.call @part_of_sums(%lse_base2, %workspace_begin, %queries) : (!row_view, i32, i32) -> !row_view
  %packed = tile.param PACKED : i1
  %own_weights = tile.subview %row_weights dim 2 from %workspace_begin size %queries : !weight_view
  %weight_part = arith.select %packed, %own_weights, %row_weights : !weight_view
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %block_m = tile.param BLOCK_M : i32

  // Rows of no sequence have no keys.
  %found = scf.for %i = %c0 to %block_m step %c1 iter_args(%before = %c0) -> (i32) : i32 {
    %row = arith.addi %m, %i : i32
    %own = tile.at %lse_part[%a, %h, %row] : !row_view
    %own_is_large = func.call @is_large(%own) : (!acc) -> i1
    %one = arith.extui %own_is_large : i1 to i32
    %now = arith.ori %before, %one : i32
    scf.yield %now : i32
  }
  %has_large = arith.cmpi ne, %found, %c0 : i32
  %end = arith.select %has_large, %keys, %c0 : i32

  %span = tile.param LIST_BLOCK_M : i32
  %list_b, %list_h, %list_m, %count = func.call @list_of(%b, %h, %m, %span, %kv_num_blocks)
      : (i32, i32, i32, i32, !count_view) -> (i32, i32, i32, i32)
  %zero = arith.constant 0.0 : !acc
  %one_acc = arith.constant 1.0 : !acc
  %minus_inf = tile.constant minus_inf : !acc
  %lowest = func.call @lowest() : () -> !acc
  %sink = func.call @sink(%h) : (i32) -> !acc
  %no_sink = arith.cmpf oeq, %sink, %minus_inf : !acc
  %sink_weight = arith.select %no_sink, %zero, %one_acc : !acc
  %first_max = arith.maximumf %sink, %lowest : !acc
  %no_max = tile.full %first_max : !row
  %no_sum = tile.full %sink_weight : !row
  %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q
  %max, %sum = tile.for_blocks %n in (%c0 to %end
          listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
      against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row) {
    %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !k
    %scales_s = tile.full %scale : !s
    %log2es = tile.constant 1.4426950408889634 : !s
    %log2e_rows = tile.constant 1.4426950408889634 : !row
    %masked_out = tile.constant minus_inf : !s
    %rows = tile.iota %m dim 0 : !pos
    %cols = tile.iota %n dim 1 : !pos
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
    %natural = arith.mulf %s, %scales_s fastmath<reassoc, contract> : !s
    %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols) : (!s, i32, i32, !pos, !pos) -> !s
    %x = tile.select %keep, %modified, %masked_out : !keep, !s
    %max_block = tile.reduce max %x dim 1 : !s -> !row
    %max_new = arith.maximumf %max_old, %max_block : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !s
    %below = arith.subf %x, %max_each : !s
    %below_base2 = arith.mulf %below, %log2es : !s
    %p = math.exp2 %below_base2 : !s
    %fall = arith.subf %max_old, %max_new : !row
    %fall_base2 = arith.mulf %fall, %log2e_rows : !row
    %rescale = math.exp2 %fall_base2 : !row
    %sum_block = tile.reduce add %p dim 1 : !s -> !row
    %sum_kept = arith.mulf %sum_old, %rescale : !row
    %sum_new = arith.addf %sum_kept, %sum_block : !row
    tile.yield %max_new, %sum_new : !row, !row
  }
  scf.if %has_large {
    %lse_row = tile.load %lse_part[%a, %h, %m] : !row_view -> !row
    %plain_row = tile.map @lse_or_zero(%lse_row) : (!row) -> !row
    %max_row = tile.map @if_large(%lse_row, %max, %plain_row) : (!row, !row, !row) -> !row
    %ones = tile.full %one_acc : !row
    %inverse = arith.divf %ones, %sum : !row
    %weight_acc = tile.map @if_large(%lse_row, %inverse, %ones) : (!row, !row, !row) -> !row
    %weight_row = tile.cast %weight_acc : !row -> !weights
    tile.store %max_row, %max_part[%a, %h, %m] : !row, !row_view
    tile.store %weight_row, %weight_part[%a, %h, %m] : !weights, !weight_view
  }
}

// Whether half a unit in the last place of LSE may change P by more than 2^-12 of it. False for a row without keys.
func.func private @is_large(%lse: !acc) -> i1 {
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %limit = arith.constant 4096.0 : !acc
  %magnitude = math.absf %lse : !acc
  %exceeds = arith.cmpf ogt, %magnitude, %limit : !acc
  %has_keys = arith.cmpf une, %lse, %minus_inf : !acc
  %is_large = arith.andi %exceeds, %has_keys : i1
  return %is_large : i1
}

func.func private @if_large(%lse: !acc, %value: !acc, %otherwise: !acc) -> !acc {
  %is_large = func.call @is_large(%lse) : (!acc) -> i1
  %chosen = arith.select %is_large, %value, %otherwise : !acc
  return %chosen : !acc
}

// The gradient of scores, summed over all pairs that share an entry of d_score, as an additive bias needs it. A program
// instance writes one block of d_score, and iterates over the batch elements, heads and queries that share it. It
// computes S^T and dP^T, like the keys kernel.
tile.kernel @attention_backward_scores
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag,
           SCORE_GRADIENT: flag, NATURAL: flag, BLOCK_M: int, BLOCK_N: int,
           let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %row_weights: !weight_view when (NATURAL), %delta: !row_view, %d_score: !score_view when (SCORE_GRADIENT),
     %scale: !acc, %window_left: i32, %window_right: i32)
    grid(%bm = ceildiv(dim(d_score, 2), BLOCK_M), %bn = ceildiv(dim(d_score, 3), BLOCK_N),
         %first_h = dim(d_score, 1), %first_b = dim(d_score, 0)) {
  %c1 = arith.constant 1 : i32
  %batches = tile.dim %q, 0 : !qk_view
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m_begin = arith.muli %bm, %block_m : i32
  %n = arith.muli %bn, %block_n : i32

  // The range of batch elements, heads and queries of this block of d_score: all of them where an extent is 1.
  %d_batches = tile.dim %d_score, 0 : !score_view
  %d_heads = tile.dim %d_score, 1 : !score_view
  %d_rows = tile.dim %d_score, 2 : !score_view
  %one_batch = arith.cmpi eq, %d_batches, %c1 : i32
  %one_head = arith.cmpi eq, %d_heads, %c1 : i32
  %one_row = arith.cmpi eq, %d_rows, %c1 : i32
  %next_b = arith.addi %first_b, %c1 : i32
  %next_h = arith.addi %first_h, %c1 : i32
  %next_m = arith.addi %m_begin, %block_m : i32
  %own_m_end = arith.minsi %next_m, %queries : i32
  %b_end = arith.select %one_batch, %batches, %next_b : i32
  %h_end = arith.select %one_head, %q_heads, %next_h : i32
  %m_end = arith.select %one_row, %queries, %own_m_end : i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %no_sum = tile.constant 0 : !st
  %cols = tile.iota %n dim 0 : !post
  %stays_natural = tile.param NATURAL : i1
  %no_weights = tile.constant 0 : !weights

  %sum = scf.for %b = %first_b to %b_end step %c1 iter_args(%of_batches = %no_sum) -> (!st) : i32 {
    %of_batch = scf.for %h = %first_h to %h_end step %c1 iter_args(%of_heads = %of_batches) -> (!st) : i32 {
      %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32
      %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
      %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
      %of_head = tile.for_blocks %m in (%m_begin to %m_end) against (%n to %keys)
          where @attends(%b, %h, block, against, %shift, %window_left, %window_right : i32, i32, i32, i32, i32)
          keep %keep : !keept
          iter_args(%old = %of_heads : !st) {
        %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
        %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o
        %lse_row = tile.load %lse_base2[%b, %h, %m] : !row_view -> !row
        %weight_row = scf.if %stays_natural -> (!weights) {
          %own_weights = tile.load %row_weights[%b, %h, %m] : !weight_view -> !weights
          scf.yield %own_weights : !weights
        } else {
          scf.yield %no_weights : !weights
        }
        %delta_row = tile.load %delta[%b, %h, %m] : !row_view -> !row
        %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
        %natural, %pt, %pt_rounded, %gt_rounded = func.call @probabilities_of_keys(
            %st, %lse_row, %weight_row, %keep, %b, %h, %m, %n, %scale)
            : (!st, !row, !weights, !keept, i32, i32, i32, i32, !acc) -> (!st, !st, !dst, !dst)
        %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
        %rows = tile.iota %m dim 1 : !post
        %dpt_weighted = tile.map @weight_mod(%dpt, %b, %h, %rows, %cols) : (!st, i32, i32, !post, !post) -> !st
        %delta_each = tile.expand %delta_row dim 0 : !row -> !st
        %dpt_centered = arith.subf %dpt_weighted, %delta_each fastmath<contract> : !st
        %dt = arith.mulf %pt, %dpt_centered : !st
        %ds = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %dt : !st
            : (!st, i32, i32, !post, !post) -> !st
        %new = arith.addf %old, %ds : !st
        tile.yield %new : !st
      }
      scf.yield %of_head : !st
    }
    scf.yield %of_batch : !st
  }

  scf.if %one_row {
    %of_rows = tile.reduce add %sum dim 1 : !st -> !tile.tile<[BLOCK_N], ACC>
    tile.store %of_rows, %d_score[%first_b, %first_h, 0, %n] : !tile.tile<[BLOCK_N], ACC>, !score_view
  } else {
    tile.store %sum, %d_score[%first_b, %first_h, %m_begin, %n] dims [3, 2] : !st, !score_view
  }
}
