// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over packed sequences of different lengths, backward: attention_backward.mlir within
// each sequence of attention_varlen_forward.mlir.
//
//   q, dq  [Tq, Hq,  D]   T      k, dk [Tk, Hkv, D]  T      v, dv [Tk, Hkv, DV]  T
//   o, do  [Tq, Hq,  DV]  T      lse, dlse [Hq, Tq]  ACC; dlse optional (absent: zero)
//   cu_seqlens_q, cu_seqlens_k   [B + 1]  i32, ascending, the first 0, the last Tq (Tk). Checked in
//                                host memory, on a device where asked for. Unchecked, each is taken for
//                                the nearest of 0 to Tq (Tk), a sequence that ends before it begins for
//                                empty, and rows that two sequences claim hold the result of either
//   max_seqlen_q, max_seqlen_k   i32, at least the length of the longest sequence
//   scale, window_left, window_right and the parameters: as in attention_forward.mlir
//
//   CAPTURE_GRADIENTS, DETERMINISTIC: gradients of what @score_mod captures, and whether their sums
//   are exact, as in attention_backward.mlir
//
// @score_mod and @mask_mod are replaceable as in the forward, and take positions within a sequence.
// Sequences may be empty. A query that attends no key and a key that no query attends get zero
// gradients; every row of a sequence is written. P, P * score_mod'(S) and dS are rounded to T;
// everything else is kept in ACC. (In the kernel for dQ, dS only.)
// dK and dV are summed by one instance for each block of keys, dQ by one for each block of queries:
// no atomics, runs are bit-identical (gradients of captures: with DETERMINISTIC).
//
// Algorithm: FlashAttention-2 (Dao, 2023), over subviews; S^T instead of S for dK and dV.

tile.link "lib/attention.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, D], T>
!v_view   = !tile.view<[?, ?, DV], T>
!row_view = !tile.view<[?, ?], ACC>
!cu_view  = !tile.view<[?], i32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!dq  = !tile.tile<[BLOCK_M, DP], ACC>
!dk  = !tile.tile<[BLOCK_N, DP], ACC>
!dv  = !tile.tile<[BLOCK_N, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>
// Scores and their gradients, by query and key, and transposed.
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!st  = !tile.tile<[BLOCK_N, BLOCK_M], ACC>
!ds  = !tile.tile<[BLOCK_M, BLOCK_N], T>
!dst = !tile.tile<[BLOCK_N, BLOCK_M], T>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!post = !tile.tile<[BLOCK_N, BLOCK_M], i32>

tile.program @attention_varlen_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           DETERMINISTIC: flag = false, CAPTURE_GRADIENTS: flag = false,
           TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           BLOCK_M: int in [16, 32, 64, 128] =
               select(TARGET == "cpu", 64,
                  select(and(bits(T) == 16, and(ROW_BYTES > 128, ROW_BYTES <= 256)), 64,
                         select(ROW_BYTES <= 512, 32, 16))),
           BLOCK_N: int in [16, 32, 64, 128] =
               select(TARGET == "cpu", select(max(D, DV) <= 128, 128, 64),
                  select(and(ROW_BYTES <= 256, bits(T) == 16), 128,
                         select(ROW_BYTES <= 256, 64, select(ROW_BYTES <= 512, 32, 16)))),
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
     %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view, %max_seqlen_q: i32, %max_seqlen_k: i32,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1) {
  %delta = tile.workspace [dim(q, 1), dim(q, 0)] : !row_view
  %lse_base2 = tile.workspace [dim(q, 1), dim(q, 0)] : !row_view
  tile.launch @attention_varlen_backward_delta(%o, %do, %lse, %dlse, %delta, %lse_base2)
      : !v_view, !v_view, !row_view, !row_view, !row_view, !row_view
  tile.launch @attention_varlen_backward_keys(
      %q, %k, %v, %do, %lse_base2, %delta, %dk, %dv, %cu_seqlens_q, %cu_seqlens_k, %max_seqlen_k,
      %scale, %window_left, %window_right)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !qk_view, !v_view,
        !cu_view, !cu_view, i32, f32, i32, i32
  // Squarer blocks than those of the keys, in which this kernel would spill.
  tile.launch @attention_varlen_backward_queries(
      %q, %k, %v, %do, %lse_base2, %delta, %dq, %cu_seqlens_q, %cu_seqlens_k, %max_seqlen_q,
      %scale, %window_left, %window_right)
      with (BLOCK_M = max(BLOCK_M, ceildiv(BLOCK_N, 2)),
            BLOCK_N = select(TARGET == "cpu", BLOCK_N, min(BLOCK_N, 64)))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !qk_view,
        !cu_view, !cu_view, i32, f32, i32, i32
}

// delta = rowsum(dO * O) - dLSE, and LSE in base 2; for all rows alike: sequences do not matter
// here.
tile.kernel @attention_varlen_backward_delta
    params(DV: int, T: type, BLOCK_M: int, DETERMINISTIC: flag = false,
           CAPTURE_GRADIENTS: flag = false, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%o: !v_view, %do: !v_view, %lse: !row_view, %dlse: optional !row_view, %delta: !row_view,
     %lse_base2: !row_view)
    grid(%bm = ceildiv(dim(o, 0), BLOCK_M), %h = dim(o, 1)) {
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %o_tile = tile.load %o[%m, %h, 0] dims [0, 2] : !v_view -> !o
  %do_tile = tile.load %do[%m, %h, 0] dims [0, 2] : !v_view -> !o
  %dlse_row = tile.load %dlse[%h, %m] : !row_view -> !row
  %o_acc = tile.cast %o_tile : !o -> !tile.tile<[BLOCK_M, DVP], ACC>
  %do_acc = tile.cast %do_tile : !o -> !tile.tile<[BLOCK_M, DVP], ACC>
  %product = arith.mulf %o_acc, %do_acc : !tile.tile<[BLOCK_M, DVP], ACC>
  %sum = tile.reduce add %product dim 1 : !tile.tile<[BLOCK_M, DVP], ACC> -> !row
  %result = arith.subf %sum, %dlse_row : !row
  tile.store %result, %delta[%h, %m] : !row, !row_view
  %lse_row = tile.load %lse[%h, %m] : !row_view -> !row
  %base2_row = tile.map @base2_or_zero(%lse_row) : (!row) -> !row
  tile.store %base2_row, %lse_base2[%h, %m] : !row, !row_view

  %dsink = tile.map @sink_adjoint(%h, %result, %base2_row) : (i32, !row, !row) -> !row
  %sums = tile.param and(CAPTURE_GRADIENTS, not(DETERMINISTIC)) : i1
  scf.if %sums {
    tile.add_gradients @sink(%h) seed %dsink : !row : (i32)
  }
  %exact_sums = tile.param and(CAPTURE_GRADIENTS, DETERMINISTIC) : i1
  scf.if %exact_sums {
    tile.add_gradients @sink(%h) seed %dsink : !row exact : (i32)
  }
}

// A block of keys against the queries of every head of its group: dK and dV need no atomics.
tile.kernel @attention_varlen_backward_keys
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, DETERMINISTIC: flag, CAPTURE_GRADIENTS: flag, BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %dk: !qk_view, %dv: !v_view, %cu_seqlens_q: !cu_view,
     %cu_seqlens_k: !cu_view, %max_seqlen_k: i32,
     %scale: f32, %window_left: i32, %window_right: i32)
    grid(%bn = ceildiv(min(max_seqlen_k, dim(k, 0)), BLOCK_N), %hk = dim(k, 1),
         %b = dim(cu_seqlens_k, 0) - 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %group = arith.divsi %q_heads, %k_heads : i32
  %first_head = arith.muli %hk, %group : i32
  %block_n = tile.param BLOCK_N : i32
  %n = arith.muli %bn, %block_n : i32

  // The sequence: its rows bound what is loaded and stored, and lie inside whatever was given.
  %next = arith.addi %b, %c1 : i32
  %tq = tile.dim %q, 0 : !qk_view
  %q_first = tile.at %cu_seqlens_q[%b] : !cu_view
  %q_last = tile.at %cu_seqlens_q[%next] : !cu_view
  %q_not_before = arith.maxsi %q_first, %c0 : i32
  %q_begin = arith.minsi %q_not_before, %tq : i32
  %q_not_empty = arith.maxsi %q_last, %q_begin : i32
  %q_end = arith.minsi %q_not_empty, %tq : i32
  %queries = arith.subi %q_end, %q_begin : i32
  %tk = tile.dim %k, 0 : !qk_view
  %k_first = tile.at %cu_seqlens_k[%b] : !cu_view
  %k_last = tile.at %cu_seqlens_k[%next] : !cu_view
  %k_not_before = arith.maxsi %k_first, %c0 : i32
  %k_begin = arith.minsi %k_not_before, %tk : i32
  %k_not_empty = arith.maxsi %k_last, %k_begin : i32
  %k_end = arith.minsi %k_not_empty, %tk : i32
  %keys = arith.subi %k_end, %k_begin : i32
  %q_seq = tile.subview %q dim 0 from %q_begin size %queries : !qk_view
  %k_seq = tile.subview %k dim 0 from %k_begin size %keys : !qk_view
  %v_seq = tile.subview %v dim 0 from %k_begin size %keys : !v_view
  %do_seq = tile.subview %do dim 0 from %q_begin size %queries : !v_view
  %lse_seq = tile.subview %lse_base2 dim 1 from %q_begin size %queries : !row_view
  %delta_seq = tile.subview %delta dim 1 from %q_begin size %queries : !row_view
  %dk_seq = tile.subview %dk dim 0 from %k_begin size %keys : !qk_view
  %dv_seq = tile.subview %dv dim 0 from %k_begin size %keys : !v_view

  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !st
  %log2es = tile.full %log2e : !st
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !st
  %zero = arith.constant 0.0 : !acc
  %no_dk = tile.full %zero : !dk
  %no_dv = tile.full %zero : !dv

  %k_tile = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !k
  %v_tile = tile.load %v_seq[%n, %hk, 0] dims [0, 2] : !v_view -> !v
  %cols = tile.iota %n dim 0 : !post

  %dk_all, %dv_all = scf.for %g = %c0 to %group step %c1
      iter_args(%dk_heads = %no_dk, %dv_heads = %no_dv) -> (!dk, !dv) : i32 {
    %h = arith.addi %first_head, %g : i32
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
        where @attends(%b, %h, block, against, %shift, %window_left, %window_right
                       : i32, i32, i32, i32, i32)
        keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1>
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q_seq[%m, %h, 0] dims [0, 2] : !qk_view -> !q
      %do_tile = tile.load %do_seq[%m, %h, 0] dims [0, 2] : !v_view -> !o

      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %rows = tile.iota %m dim 1 : !post
      %natural = arith.mulf %st, %scales_s fastmath<reassoc> : !st
      %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
          : (!st, i32, i32, !post, !post) -> !st
      %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !st
      %lse_row = tile.load %lse_seq[%h, %m] : !row_view -> !row
      %lse_each = tile.expand %lse_row dim 0 : !row -> !st
      %below = arith.subf %base2, %lse_each fastmath<contract> : !st
      %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_N, BLOCK_M], i1>, !st
      %pt = math.exp2 %x : !st
      %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !post, !post) -> !st
      %pt_weighted = arith.mulf %pt, %weight : !st
      %pt_rounded = tile.cast %pt_weighted : !st -> !dst

      // A gradient is linear in its seed, so the score's comes before dP is there, and what waits
      // for dP are numbers of type T.
      %gt = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %pt : !st
          : (!st, i32, i32, !post, !post) -> !st
      %gt_rounded = tile.cast %gt : !st -> !dst

      %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %delta_row = tile.load %delta_seq[%h, %m] : !row_view -> !row
      %delta_each = tile.expand %delta_row dim 0 : !row -> !st
      %dpt_weighted = arith.mulf %dpt, %weight : !st
      %dpt_centred = arith.subf %dpt_weighted, %delta_each : !st
      %gt_acc = tile.cast %gt_rounded : !dst -> !st
      %dst = arith.mulf %gt_acc, %dpt_centred : !st
      %dst_rounded = tile.cast %dst : !st -> !dst

      %dv_new = tile.dot %pt_rounded, %do_tile, %dv_old : !dst, !o -> !dv
      %dk_new = tile.dot %dst_rounded, %q_tile, %dk_old : !dst, !q -> !dk

      %pt_plain = tile.cast %pt : !st -> !dst
      %pt_acc = tile.cast %pt_plain : !dst -> !st
      %dt = arith.mulf %pt_acc, %dpt_centred : !st
      %dw = arith.mulf %pt_acc, %dpt : !st
      %sums = tile.param and(CAPTURE_GRADIENTS, not(DETERMINISTIC)) : i1
      scf.if %sums {
        tile.add_gradients @score_mod(%natural, %b, %h, %rows, %cols) seed %dt : !st once
            : (!st, i32, i32, !post, !post)
        tile.add_gradients @weight_mod(%b, %h, %rows, %cols) seed %dw : !st once
            : (i32, i32, !post, !post)
      }
      %exact_sums = tile.param and(CAPTURE_GRADIENTS, DETERMINISTIC) : i1
      scf.if %exact_sums {
        tile.add_gradients @score_mod(%natural, %b, %h, %rows, %cols) seed %dt : !st exact once
            : (!st, i32, i32, !post, !post)
        tile.add_gradients @weight_mod(%b, %h, %rows, %cols) seed %dw : !st exact once
            : (i32, i32, !post, !post)
      }
      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    scf.yield %dk_head, %dv_head : !dk, !dv
  }

  %scales = tile.full %scale_acc : !dk
  %dk_scaled = arith.mulf %dk_all, %scales : !dk
  %dk_rounded = tile.cast %dk_scaled : !dk -> !k
  %dv_rounded = tile.cast %dv_all : !dv -> !v
  tile.store %dk_rounded, %dk_seq[%n, %hk, 0] dims [0, 2] : !k, !qk_view
  tile.store %dv_rounded, %dv_seq[%n, %hk, 0] dims [0, 2] : !v, !v_view
}

// A block of queries against the keys it attends: dQ without atomics.
tile.kernel @attention_varlen_backward_queries
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %dq: !qk_view, %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view,
     %max_seqlen_q: i32, %scale: f32, %window_left: i32, %window_right: i32)
    grid(%bm = ceildiv(min(max_seqlen_q, dim(q, 0)), BLOCK_M), %h = dim(q, 1), %b = dim(cu_seqlens_q, 0) - 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %some_heads = arith.maxsi %k_heads, %c1 : i32
  %heads_each = arith.divsi %q_heads, %some_heads : i32
  %group = arith.maxsi %heads_each, %c1 : i32
  %hk = arith.divsi %h, %group : i32
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32

  // The sequence: its rows bound what is loaded and stored, and lie inside whatever was given.
  %next = arith.addi %b, %c1 : i32
  %tq = tile.dim %q, 0 : !qk_view
  %q_first = tile.at %cu_seqlens_q[%b] : !cu_view
  %q_last = tile.at %cu_seqlens_q[%next] : !cu_view
  %q_not_before = arith.maxsi %q_first, %c0 : i32
  %q_begin = arith.minsi %q_not_before, %tq : i32
  %q_not_empty = arith.maxsi %q_last, %q_begin : i32
  %q_end = arith.minsi %q_not_empty, %tq : i32
  %queries = arith.subi %q_end, %q_begin : i32
  %tk = tile.dim %k, 0 : !qk_view
  %k_first = tile.at %cu_seqlens_k[%b] : !cu_view
  %k_last = tile.at %cu_seqlens_k[%next] : !cu_view
  %k_not_before = arith.maxsi %k_first, %c0 : i32
  %k_begin = arith.minsi %k_not_before, %tk : i32
  %k_not_empty = arith.maxsi %k_last, %k_begin : i32
  %k_end = arith.minsi %k_not_empty, %tk : i32
  %keys = arith.subi %k_end, %k_begin : i32
  %q_seq = tile.subview %q dim 0 from %q_begin size %queries : !qk_view
  %k_seq = tile.subview %k dim 0 from %k_begin size %keys : !qk_view
  %v_seq = tile.subview %v dim 0 from %k_begin size %keys : !v_view
  %do_seq = tile.subview %do dim 0 from %q_begin size %queries : !v_view
  %lse_seq = tile.subview %lse_base2 dim 1 from %q_begin size %queries : !row_view
  %delta_seq = tile.subview %delta dim 1 from %q_begin size %queries : !row_view
  %dq_seq = tile.subview %dq dim 0 from %q_begin size %queries : !qk_view

  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %zero = arith.constant 0.0 : !acc
  %no_dq = tile.full %zero : !dq

  %q_tile = tile.load %q_seq[%m, %h, 0] dims [0, 2] : !qk_view -> !q
  %do_tile = tile.load %do_seq[%m, %h, 0] dims [0, 2] : !v_view -> !o
  %lse_row = tile.load %lse_seq[%h, %m] : !row_view -> !row
  %delta_row = tile.load %delta_seq[%h, %m] : !row_view -> !row
  %lse_each = tile.expand %lse_row dim 1 : !row -> !s
  %delta_each = tile.expand %delta_row dim 1 : !row -> !s

  %rows = tile.iota %m dim 0 : !pos
  %dq_all = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right
                     : i32, i32, i32, i32, i32)
      keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%dq_old = %no_dq : !dq) {
    %k_tile = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !k
    %v_tile = tile.load %v_seq[%n, %hk, 0] dims [0, 2] : !v_view -> !v
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
    %cols = tile.iota %n dim 1 : !pos
    %natural = arith.mulf %s, %scales_s fastmath<reassoc> : !s
    %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
        : (!s, i32, i32, !pos, !pos) -> !s
    %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !s
    %below = arith.subf %base2, %lse_each fastmath<contract> : !s
    %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s
    %p = math.exp2 %x : !s
    %dp = tile.dot %do_tile, %v_tile transpose_b : !o, !v -> !s
    %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !pos, !pos) -> !s
    %dp_weighted = arith.mulf %dp, %weight : !s
    %dp_centred = arith.subf %dp_weighted, %delta_each : !s
    %dt = arith.mulf %p, %dp_centred : !s
    %ds = tile.map_gradient @score_mod(%natural, %b, %h, %rows, %cols) wrt 0 seed %dt : !s
        : (!s, i32, i32, !pos, !pos) -> !s
    %ds_rounded = tile.cast %ds : !s -> !ds
    %dq_new = tile.dot %ds_rounded, %k_tile, %dq_old : !ds, !k -> !dq
    tile.yield %dq_new : !dq
  }

  %scales = tile.full %scale_acc : !dq
  %scaled = arith.mulf %dq_all, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !q
  tile.store %rounded, %dq_seq[%m, %h, 0] dims [0, 2] : !q, !qk_view
}
