// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over packed sequences of different lengths, backward: attention_backward.mlir within
// each sequence of attention_varlen_forward.mlir.
//
//   q, dq  [Tq, Hq,  D]   T      k, dk [Tk, Hkv, D]  T      v, dv [Tk, Hkv, DV]  T
//   o, do  [Tq, Hq,  DV]  T      lse, dlse [Hq, Tq]  ACC; dlse optional (absent: zero)
//   cu_seqlens_q, cu_seqlens_k   [B + 1]  i32, as in attention_varlen_forward.mlir
//   max_seqlen_q, max_seqlen_k   i32, not needed: callers may give the lengths of the longest
//   scale, window_left, window_right and the parameters: as in attention_forward.mlir
//
//   DETERMINISTIC, SPLIT, CAPTURE_GRADIENTS: as in attention_backward.mlir
//
// @score_mod and @mask_mod are replaceable as in the forward, and take positions within a sequence.
// Sequences may be empty. A query that attends no key and a key that no query attends get zero
// gradients; every row of a sequence is written. What is rounded, and the kernels, are those of
// attention_backward.mlir.
//
// What one kernel leaves for another (delta, LSE in base 2, sums of dQ) begins at a whole block of
// PAD rows for each sequence: a block of queries that is cut by the end of its sequence ends in rows
// of its own, which have delta = 0 and LSE = 0.
//
// Algorithm: FlashAttention-2 (Dao, 2023), over subviews; S^T instead of S for dK and dV.

tile.link "lib/attention.mlir"
tile.link "lib/backward.mlir"
tile.link "lib/delta.mlir"
tile.link "lib/packed.mlir"

!qk_view  = !tile.view<[?, ?, D], T>
!v_view   = !tile.view<[?, ?, DV], T>
!row_view = !tile.view<[?, ?], ACC>
!acc_view = !tile.view<[?, ?, D], ACC>
!cu_view  = !tile.view<[?], i32>

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

func.func private @key_head(i32, i32, i32) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @probabilities_of_keys(!st, !row, !keept, i32, i32, i32, i32, f32)
    -> (!st, !st, !st, !dst, !dst)
func.func private @gradients_of_keys(
    !st, !st, !st, !dst, !dst, !st, !row, !kw, !q, !o, !dk, !dv, i32, i32, i32, i32) -> (!dk, !dv, !dqt)
func.func private @round_of_queries(!q, !o, !row, !row, !k, !v, !keep, !dq, i32, i32, i32, i32, f32) -> !dq
func.func private @delta_of_rows(!o, !o, !row, !row, i32) -> (!row, !row)
func.func private @sequence_of(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @sequence_of_longest(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)
func.func private @padded_begin(i32, i32) -> i32
func.func private @rows_before_padding(i32, !cu_view, i32) -> (i32, i32, i32)

tile.program @attention_varlen_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           DETERMINISTIC: flag = false, CAPTURE_GRADIENTS: flag = false,
           TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let HOPPER: flag = and(TARGET == "sm_90a", bits(T) == 16),
           SPLIT: flag = and(and(not(TARGET == "cpu"), bits(T) == 16),
                             and(ROW_BYTES > 256, and(mod(D, 32) == 0, mod(DV, 32) == 0))),
           let DQ_KERNEL: flag = or(DETERMINISTIC, SPLIT),
           BLOCK_M: int = block(), BLOCK_N: int = block(),
           DQ_BLOCK_M: int = block(), DQ_BLOCK_N: int = block(),
           DV_BLOCK_M: int = select(not(SPLIT), BLOCK_M,
                                    select(not(HOPPER), 64, select(ROW_BYTES <= 384, 96, 80))),
           DELTA_BLOCK_M: int = select(and(HOPPER, mod(BLOCK_M, 32) == 0), 32, BLOCK_M),
           // Of the workspaces' rows, which a bundle for several GPUs has but once.
           let PAD: int = ceildiv(select(ROW_BYTES <= 128, 128, 64), BLOCK_M) * BLOCK_M,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 0) == dim(k, 0), dim(v, 1) == dim(k, 1),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1),
            dim(do, 0) == dim(q, 0), dim(do, 1) == dim(q, 1),
            dim(lse, 0) == dim(q, 1), dim(lse, 1) == dim(q, 0),
            dim(dlse, 0) == dim(q, 1), dim(dlse, 1) == dim(q, 0),
            dim(dq, 0) == dim(q, 0), dim(dq, 1) == dim(q, 1),
            dim(dk, 0) == dim(k, 0), dim(dk, 1) == dim(k, 1),
            dim(dv, 0) == dim(k, 0), dim(dv, 1) == dim(k, 1),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0),
            ascending(cu_seqlens_q), within(cu_seqlens_q, 0, dim(q, 0) + 1),
            ascending(cu_seqlens_k), within(cu_seqlens_k, 0, dim(k, 0) + 1),
            finite(scale),
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %do: !v_view, %lse: !row_view,
     %dlse: optional !row_view, %dq: !qk_view, %dk: !qk_view, %dv: !v_view,
     %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view, %max_seqlen_q: i32 = 0, %max_seqlen_k: i32 = 0,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1) {
  // A block more for each sequence.
  %delta = tile.workspace
      [dim(q, 1), (floordiv(dim(q, 0), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD] : !row_view
  %lse_base2 = tile.workspace
      [dim(q, 1), (floordiv(dim(q, 0), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD] : !row_view
  // Empty where nothing is added to it.
  %dq_sum = tile.workspace
      [select(DQ_KERNEL, 0, dim(q, 1)),
       (floordiv(dim(q, 0), PAD) + dim(cu_seqlens_q, 0) - 1) * PAD, D] fill 0.0 : !acc_view

  tile.launch @attention_varlen_backward_delta(%o, %do, %lse, %dlse, %cu_seqlens_q,
                                               %delta, %lse_base2)
      with (BLOCK_M = DELTA_BLOCK_M)
      : !v_view, !v_view, !row_view, !row_view, !cu_view, !row_view, !row_view
  tile.launch @attention_varlen_backward_keys(
      %q, %k, %v, %do, %lse_base2, %delta, %dq_sum, %dk, %dv, %cu_seqlens_q, %cu_seqlens_k,
      %scale, %window_left, %window_right)
      with (WITH_DV = not(SPLIT), WITH_DQ = not(DQ_KERNEL))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !acc_view, !qk_view, !v_view,
        !cu_view, !cu_view, f32, i32, i32
  // Its blocks may end in the rows of the next sequence, whose LSE the mask drops.
  tile.launch @attention_varlen_backward_keys(
      %q, %k, %v, %do, %lse_base2, %delta, %dq_sum, %dk, %dv, %cu_seqlens_q, %cu_seqlens_k,
      %scale, %window_left, %window_right)
      with (WITH_DK = false, WITH_DQ = false, BLOCK_M = DV_BLOCK_M, CAPTURE_GRADIENTS = false)
      when (SPLIT)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !acc_view, !qk_view, !v_view,
        !cu_view, !cu_view, f32, i32, i32
  tile.launch @attention_varlen_backward_convert(%dq_sum, %dq, %cu_seqlens_q, %scale)
      when (not(DQ_KERNEL))
      : !acc_view, !qk_view, !cu_view, f32
  tile.launch @attention_varlen_backward_queries(
      %q, %k, %v, %do, %lse_base2, %delta, %dq, %cu_seqlens_q, %cu_seqlens_k,
      %scale, %window_left, %window_right)
      with (BLOCK_M = DQ_BLOCK_M, BLOCK_N = DQ_BLOCK_N) when (DQ_KERNEL)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !qk_view,
        !cu_view, !cu_view, f32, i32, i32
}

// delta = rowsum(dO * O) - dLSE, and LSE in base 2, of the padded rows: zeros behind each sequence.
tile.kernel @attention_varlen_backward_delta
    params(DV: int, T: type, BLOCK_M: int, PAD: int, DETERMINISTIC: flag = false,
           CAPTURE_GRADIENTS: flag = false, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%o: !v_view, %do: !v_view, %lse: !row_view, %dlse: optional !row_view,
     %cu_seqlens_q: !cu_view, %delta: !row_view, %lse_base2: !row_view)
    grid(%bm = floordiv(dim(delta, 1), BLOCK_M), %h = dim(o, 1)) {
  %block_m = tile.param BLOCK_M : i32
  %padded_m = arith.muli %bm, %block_m : i32
  %tq = tile.dim %o, 0 : !v_view
  %m, %q_begin, %queries = func.call @rows_before_padding(%padded_m, %cu_seqlens_q, %tq)
      : (i32, !cu_view, i32) -> (i32, i32, i32)
  %o_seq = tile.subview %o dim 0 from %q_begin size %queries : !v_view
  %do_seq = tile.subview %do dim 0 from %q_begin size %queries : !v_view
  %lse_seq = tile.subview %lse dim 1 from %q_begin size %queries : !row_view
  %dlse_seq = tile.subview %dlse dim 1 from %q_begin size %queries : !row_view

  %lse_row = tile.load %lse_seq[%h, %m] : !row_view -> !row
  %o_tile = tile.load %o_seq[%m, %h, 0] dims [0, 2] : !v_view -> !o
  %do_tile = tile.load %do_seq[%m, %h, 0] dims [0, 2] : !v_view -> !o
  %dlse_row = tile.load %dlse_seq[%h, %m] : !row_view -> !row
  %result, %base2_row = func.call @delta_of_rows(%o_tile, %do_tile, %lse_row, %dlse_row, %h)
      : (!o, !o, !row, !row, i32) -> (!row, !row)
  tile.store %result, %delta[%h, %padded_m] : !row, !row_view
  tile.store %base2_row, %lse_base2[%h, %padded_m] : !row, !row_view
}

// A block of keys against the queries of every head of its group: dK and dV need no atomics.
tile.kernel @attention_varlen_backward_keys
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, DETERMINISTIC: flag, CAPTURE_GRADIENTS: flag, BLOCK_M: int, BLOCK_N: int,
           PAD: int, WITH_DK: flag = true, WITH_DV: flag = true, WITH_DQ: flag = true,
           HOPPER: flag, let DP: int = ceildiv(D, 16) * 16, let DVP: int = ceildiv(DV, 8) * 8,
           let DW: int = select(and(HOPPER, D > 64), ceildiv(D, 64) * 64, DP),
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %dq_sum: !acc_view, %dk: !qk_view, %dv: !v_view,
     %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view,
     %scale: f32, %window_left: i32, %window_right: i32)
    grid(%t = (ceildiv(dim(k, 0), BLOCK_N) + dim(cu_seqlens_k, 0) - 1) * min(dim(k, 0), 1), %hk = dim(k, 1)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %group = arith.divsi %q_heads, %k_heads : i32
  %first_head = arith.muli %hk, %group : i32
  %block_n = tile.param BLOCK_N : i32

  // The sequence of this instance, whose rows bound what is loaded and stored, and its first key,
  // counted there.
  %tq = tile.dim %q, 0 : !qk_view
  %tk = tile.dim %k, 0 : !qk_view
  %b, %k_begin, %keys, %n = func.call @sequence_of(%t, %block_n, %cu_seqlens_k, %tk)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %q_begin, %queries = func.call @rows_of(%b, %cu_seqlens_q, %tq)
      : (i32, !cu_view, i32) -> (i32, i32)
  %padded_begin = func.call @padded_begin(%b, %q_begin) : (i32, i32) -> i32
  %q_seq = tile.subview %q dim 0 from %q_begin size %queries : !qk_view
  %k_seq = tile.subview %k dim 0 from %k_begin size %keys : !qk_view
  %v_seq = tile.subview %v dim 0 from %k_begin size %keys : !v_view
  %do_seq = tile.subview %do dim 0 from %q_begin size %queries : !v_view
  %dk_seq = tile.subview %dk dim 0 from %k_begin size %keys : !qk_view
  %dv_seq = tile.subview %dv dim 0 from %k_begin size %keys : !v_view

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %zero = arith.constant 0.0 : !acc
  %no_dk = tile.full %zero : !dk
  %no_dv = tile.full %zero : !dv

  %with_dk = tile.param WITH_DK : i1
  %with_dv = tile.param WITH_DV : i1
  %with_dq = tile.param WITH_DQ : i1
  %k_tile = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !k
  %k_wide = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !kw
  %v_tile = tile.load %v_seq[%n, %hk, 0] dims [0, 2] : !v_view -> !v

  %dk_all, %dv_all = scf.for %g = %c0 to %group step %c1
      iter_args(%dk_heads = %no_dk, %dv_heads = %no_dv) -> (!dk, !dv) : i32 {
    %h = arith.addi %first_head, %g : i32
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
        where @attends(%b, %h, block, against, %shift, %window_left, %window_right
                       : i32, i32, i32, i32, i32)
        keep %keep : !keept
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q_seq[%m, %h, 0] dims [0, 2] : !qk_view -> !q
      %do_tile = tile.load %do_seq[%m, %h, 0] dims [0, 2] : !v_view -> !o

      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %padded_m = arith.addi %padded_begin, %m : i32
      %lse_row = tile.load %lse_base2[%h, %padded_m] : !row_view -> !row
      %natural, %pt, %weight, %pt_rounded, %gt_rounded = func.call @probabilities_of_keys(
          %st, %lse_row, %keep, %b, %h, %m, %n, %scale)
          : (!st, !row, !keept, i32, i32, i32, i32, f32) -> (!st, !st, !st, !dst, !dst)
      %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %delta_row = tile.load %delta[%h, %padded_m] : !row_view -> !row
      %dk_new, %dv_new, %dq_new = func.call @gradients_of_keys(
          %natural, %pt, %weight, %pt_rounded, %gt_rounded, %dpt, %delta_row, %k_wide, %q_tile,
          %do_tile, %dk_old, %dv_old, %b, %h, %m, %n)
          : (!st, !st, !st, !dst, !dst, !st, !row, !kw, !q, !o, !dk, !dv, i32, i32, i32, i32)
          -> (!dk, !dv, !dqt)
      // Transposed too: threads next to each other then add to numbers next to each other.
      scf.if %with_dq {
        tile.atomic_add %dq_new, %dq_sum[%h, %padded_m, 0] dims [2, 1] : !dqt, !acc_view
      }
      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    scf.yield %dk_head, %dv_head : !dk, !dv
  }

  scf.if %with_dk {
    %scale_acc = tile.cast %scale : f32 -> !acc
    %scales = tile.full %scale_acc : !dk
    %dk_scaled = arith.mulf %dk_all, %scales : !dk
    %dk_rounded = tile.cast %dk_scaled : !dk -> !k
    tile.store %dk_rounded, %dk_seq[%n, %hk, 0] dims [0, 2] : !k, !qk_view
  }
  scf.if %with_dv {
    %dv_rounded = tile.cast %dv_all : !dv -> !v
    tile.store %dv_rounded, %dv_seq[%n, %hk, 0] dims [0, 2] : !v, !v_view
  }
}

// dQ = scale * the sum, in the type of the arrays.
tile.kernel @attention_varlen_backward_convert
    params(D: int, T: type, BLOCK_M: int, PAD: int, let DP: int = ceildiv(D, 8) * 8,
           let ACC: type = accumulator(T))
    (%dq_sum: !acc_view, %dq: !qk_view, %cu_seqlens_q: !cu_view, %scale: f32)
    grid(%bm = floordiv(dim(dq_sum, 1), BLOCK_M), %h = dim(dq, 1)) {
  %block_m = tile.param BLOCK_M : i32
  %padded_m = arith.muli %bm, %block_m : i32
  %tq = tile.dim %dq, 0 : !qk_view
  %m, %q_begin, %queries = func.call @rows_before_padding(%padded_m, %cu_seqlens_q, %tq)
      : (i32, !cu_view, i32) -> (i32, i32, i32)
  %dq_seq = tile.subview %dq dim 0 from %q_begin size %queries : !qk_view
  %sum = tile.load %dq_sum[%h, %padded_m, 0] dims [1, 2] : !acc_view -> !dq
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !dq
  %scaled = arith.mulf %sum, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !q
  tile.store %rounded, %dq_seq[%m, %h, 0] dims [0, 2] : !q, !qk_view
}

// A block of queries against the keys it attends: dQ without atomics.
tile.kernel @attention_varlen_backward_queries
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, BLOCK_M: int, BLOCK_N: int, PAD: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %dq: !qk_view, %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view,
     %scale: f32, %window_left: i32, %window_right: i32)
    grid(%t = (ceildiv(dim(q, 0), BLOCK_M) + dim(cu_seqlens_q, 0) - 1) * min(dim(q, 0), 1), %h = dim(q, 1)) {
  %c0 = arith.constant 0 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32
  %block_m = tile.param BLOCK_M : i32

  // The sequence of this instance, whose rows bound what is loaded and stored, and its first query,
  // counted there.
  %tq = tile.dim %q, 0 : !qk_view
  %tk = tile.dim %k, 0 : !qk_view
  %b, %q_begin, %queries, %m = func.call @sequence_of_longest(%t, %block_m, %cu_seqlens_q, %tq)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %tk)
      : (i32, !cu_view, i32) -> (i32, i32)
  %padded_begin = func.call @padded_begin(%b, %q_begin) : (i32, i32) -> i32
  %q_seq = tile.subview %q dim 0 from %q_begin size %queries : !qk_view
  %k_seq = tile.subview %k dim 0 from %k_begin size %keys : !qk_view
  %v_seq = tile.subview %v dim 0 from %k_begin size %keys : !v_view
  %do_seq = tile.subview %do dim 0 from %q_begin size %queries : !v_view
  %dq_seq = tile.subview %dq dim 0 from %q_begin size %queries : !qk_view
  %padded_m = arith.addi %padded_begin, %m : i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %zero = arith.constant 0.0 : !acc
  %no_dq = tile.full %zero : !dq

  %q_tile = tile.load %q_seq[%m, %h, 0] dims [0, 2] : !qk_view -> !q
  %do_tile = tile.load %do_seq[%m, %h, 0] dims [0, 2] : !v_view -> !o
  %lse_row = tile.load %lse_base2[%h, %padded_m] : !row_view -> !row
  %delta_row = tile.load %delta[%h, %padded_m] : !row_view -> !row

  %dq_all = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right
                     : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%dq_old = %no_dq : !dq) {
    %k_tile = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !k
    %v_tile = tile.load %v_seq[%n, %hk, 0] dims [0, 2] : !v_view -> !v
    %dq_new = func.call @round_of_queries(
        %q_tile, %do_tile, %lse_row, %delta_row, %k_tile, %v_tile, %keep, %dq_old,
        %b, %h, %m, %n, %scale)
        : (!q, !o, !row, !row, !k, !v, !keep, !dq, i32, i32, i32, i32, f32) -> !dq
    tile.yield %dq_new : !dq
  }

  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !dq
  %scaled = arith.mulf %dq_all, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !q
  tile.store %rounded, %dq_seq[%m, %h, 0] dims [0, 2] : !q, !qk_view
}
