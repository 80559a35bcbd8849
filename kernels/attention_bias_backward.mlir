// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with an additive bias, backward: the gradients of attention_forward.mlir with
// mods/bias.mlir.
//
//   P     = exp(scale * Q K^T + bias - LSE)
//   delta = rowsum(dO * O) - dLSE
//   dV    = P^T dO
//   dS    = P * (dO V^T - delta)
//   dQ    = scale * dS K,   dK = scale * dS^T Q
//   dbias = dS, summed over the batches, heads and queries that share an entry
//
//   q, dq  [B, Hq,  Sq,  D]   T      k, dk [B, Hkv, Skv, D]  T     v, dv [B, Hkv, Skv, DV]  T
//   o, do  [B, Hq,  Sq,  DV]  T      lse, dlse [B, Hq, Sq]  ACC; dlse optional (absent: zero)
//   bias    [B or 1, Hq or 1, Sq or 1, Skv]   T, optional; an extent of 1 is the same for all
//   dbias   as bias, ACC, optional
//   scale   f32
//
// Parameters D, DV, T, ACC, CAUSAL, BLOCK_M and BLOCK_N: as in attention_forward.mlir.
//
// A query that attends no key and a key that no query attends get zero gradients; all of dq, dk, dv
// and dbias is written. P and dS are rounded to T; everything else is kept in ACC. (In the kernel
// for dQ, dS only; in that for dbias, nothing.)
// No atomics: dK and dV are summed by one instance for each block of keys, dQ by one for each block
// of queries, dbias by one for each of its blocks, over everything that shares it (that kernel
// recomputes S and dP once more, and does not run where dbias is absent). Runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023), with S^T instead of S for dK and dV.

tile.link "lib/attention.mlir"
tile.link "lib/delta.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!bias_view = !tile.view<[?, ?, ?, ?], T>
!dbias_view = !tile.view<[?, ?, ?, ?], ACC>

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

func.func private @key_head(i32, i32, i32) -> i32
func.func private @diagonal_shift(i32, i32) -> i32

tile.program @attention_bias_backward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
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
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(do, 0) == dim(q, 0), dim(do, 1) == dim(q, 1), dim(do, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            dim(dlse, 0) == dim(q, 0), dim(dlse, 1) == dim(q, 1), dim(dlse, 2) == dim(q, 2),
            dim(dq, 0) == dim(q, 0), dim(dq, 1) == dim(q, 1), dim(dq, 2) == dim(q, 2),
            dim(dk, 0) == dim(k, 0), dim(dk, 1) == dim(k, 1), dim(dk, 2) == dim(k, 2),
            dim(dv, 0) == dim(k, 0), dim(dv, 1) == dim(k, 1), dim(dv, 2) == dim(k, 2),
            or(dim(bias, 0) == 1, dim(bias, 0) == dim(q, 0)),
            or(dim(bias, 1) == 1, dim(bias, 1) == dim(q, 1)),
            or(dim(bias, 2) == 1, dim(bias, 2) == dim(q, 2)),
            dim(bias, 3) == dim(k, 2),
            or(dim(dbias, 0) == 1, dim(dbias, 0) == dim(q, 0)),
            or(dim(dbias, 1) == 1, dim(dbias, 1) == dim(q, 1)),
            or(dim(dbias, 2) == 1, dim(dbias, 2) == dim(q, 2)),
            dim(dbias, 3) == dim(k, 2),
            dim(dbias, 0) == dim(bias, 0), dim(dbias, 1) == dim(bias, 1),
            dim(dbias, 2) == dim(bias, 2),
            finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %do: !v_view, %lse: !row_view,
     %dlse: optional !row_view, %dq: !qk_view, %dk: !qk_view, %dv: !v_view,
     %bias: optional !bias_view, %dbias: optional !dbias_view, %scale: f32) {
  %delta = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2)] : !row_view
  %lse_base2 = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2)] : !row_view
  tile.launch @attention_backward_delta(%o, %do, %lse, %dlse, %delta, %lse_base2)
      : !v_view, !v_view, !row_view, !row_view, !row_view, !row_view
  tile.launch @attention_bias_backward_keys(%q, %k, %v, %do, %lse_base2, %delta, %bias, %dk, %dv,
                                            %scale)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !bias_view, !qk_view, !v_view,
        f32
  // Blocks of their own: in those of the keys these kernels would spill.
  tile.launch @attention_bias_backward_queries(%q, %k, %v, %do, %lse_base2, %delta, %bias, %dq,
                                               %scale)
      with (BLOCK_M = max(BLOCK_M, ceildiv(BLOCK_N, 2)),
            BLOCK_N = select(TARGET == "cpu", BLOCK_N, min(BLOCK_N, 64)))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !bias_view, !qk_view, f32
  tile.launch @attention_bias_backward_sum(%q, %k, %v, %do, %lse_base2, %delta, %bias, %dbias,
                                           %scale)
      with (BLOCK_M = max(BLOCK_M, ceildiv(BLOCK_N, 2)),
            BLOCK_N = select(TARGET == "cpu", BLOCK_N, min(BLOCK_N, 64)))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !bias_view, !dbias_view, f32
}

// A block of keys against the queries of every head of its group: dK and dV need no atomics.
tile.kernel @attention_bias_backward_keys
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %bias: optional !bias_view, %dk: !qk_view, %dv: !v_view, %scale: f32)
    grid(%bn = ceildiv(dim(k, 2), BLOCK_N), %hk = dim(k, 1), %b = dim(k, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %group = arith.divsi %q_heads, %k_heads : i32
  %first_head = arith.muli %hk, %group : i32
  %block_n = tile.param BLOCK_N : i32
  %n = arith.muli %bn, %block_n : i32

  // Which part of the bias: index 0 where its extent is 1. Absent, its extents are 0, and the index
  // -1 lies outside: it reads zero.
  %bias_batches = tile.dim %bias, 0 : !bias_view
  %bias_heads = tile.dim %bias, 1 : !bias_view
  %bias_rows = tile.dim %bias, 2 : !bias_view
  %last_batch = arith.subi %bias_batches, %c1 : i32
  %last_head = arith.subi %bias_heads, %c1 : i32
  %bias_b = arith.minsi %b, %last_batch : i32
  %one_row = arith.cmpi eq, %bias_rows, %c1 : i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !st
  %log2es = tile.full %log2e : !st
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !st
  %zero = arith.constant 0.0 : !acc
  %no_dk = tile.full %zero : !dk
  %no_dv = tile.full %zero : !dv

  %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
  %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v

  %dk_all, %dv_all = scf.for %g = %c0 to %group step %c1
      iter_args(%dk_heads = %no_dk, %dv_heads = %no_dv) -> (!dk, !dv) : i32 {
    %h = arith.addi %first_head, %g : i32
    %bias_h = arith.minsi %h, %last_head : i32
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
        where @attends_causally(block, against, %shift : i32)
        keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1>
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
      %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o

      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %bias_tile = scf.if %one_row -> (!dst) {
        %row = tile.load %bias[%bias_b, %bias_h, 0, %n] : !bias_view -> !tile.tile<[BLOCK_N], T>
        %each = tile.expand %row dim 1 : !tile.tile<[BLOCK_N], T> -> !dst
        scf.yield %each : !dst
      } else {
        %block = tile.load %bias[%bias_b, %bias_h, %m, %n] dims [3, 2] : !bias_view -> !dst
        scf.yield %block : !dst
      }
      %bias_acc = tile.cast %bias_tile : !dst -> !st
      %natural = arith.mulf %st, %scales_s : !st
      %biased = arith.addf %natural, %bias_acc : !st
      %base2 = arith.mulf %biased, %log2es fastmath<contract> : !st
      %lse_row = tile.load %lse_base2[%b, %h, %m] : !row_view -> !row
      %lse_each = tile.expand %lse_row dim 0 : !row -> !st
      %below = arith.subf %base2, %lse_each fastmath<contract> : !st
      %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_N, BLOCK_M], i1>, !st
      %pt = math.exp2 %x : !st
      // What waits for dP are numbers of type T.
      %pt_rounded = tile.cast %pt : !st -> !dst

      %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %delta_row = tile.load %delta[%b, %h, %m] : !row_view -> !row
      %delta_each = tile.expand %delta_row dim 0 : !row -> !st
      %dpt_centred = arith.subf %dpt, %delta_each : !st
      %pt_acc = tile.cast %pt_rounded : !dst -> !st
      %dst = arith.mulf %pt_acc, %dpt_centred : !st
      %dst_rounded = tile.cast %dst : !st -> !dst

      %dv_new = tile.dot %pt_rounded, %do_tile, %dv_old : !dst, !o -> !dv
      %dk_new = tile.dot %dst_rounded, %q_tile, %dk_old : !dst, !q -> !dk

      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    scf.yield %dk_head, %dv_head : !dk, !dv
  }

  %scales = tile.full %scale_acc : !dk
  %dk_scaled = arith.mulf %dk_all, %scales : !dk
  %dk_rounded = tile.cast %dk_scaled : !dk -> !k
  %dv_rounded = tile.cast %dv_all : !dv -> !v
  tile.store %dk_rounded, %dk[%b, %hk, %n, 0] : !k, !qk_view
  tile.store %dv_rounded, %dv[%b, %hk, %n, 0] : !v, !v_view
}

// A block of queries against the keys it attends: dQ without atomics.
tile.kernel @attention_bias_backward_queries
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %bias: optional !bias_view, %dq: !qk_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32

  // Which part of the bias: index 0 where its extent is 1. Absent, its extents are 0, and the index
  // -1 lies outside: it reads zero.
  %bias_batches = tile.dim %bias, 0 : !bias_view
  %bias_heads = tile.dim %bias, 1 : !bias_view
  %bias_rows = tile.dim %bias, 2 : !bias_view
  %last_batch = arith.subi %bias_batches, %c1 : i32
  %last_head = arith.subi %bias_heads, %c1 : i32
  %bias_b = arith.minsi %b, %last_batch : i32
  %bias_h = arith.minsi %h, %last_head : i32
  %one_row = arith.cmpi eq, %bias_rows, %c1 : i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %zero = arith.constant 0.0 : !acc
  %no_dq = tile.full %zero : !dq

  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
  %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o
  %lse_row = tile.load %lse_base2[%b, %h, %m] : !row_view -> !row
  %delta_row = tile.load %delta[%b, %h, %m] : !row_view -> !row
  %lse_each = tile.expand %lse_row dim 1 : !row -> !s
  %delta_each = tile.expand %delta_row dim 1 : !row -> !s

  %dq_all = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends_causally(against, block, %shift : i32)
      keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%dq_old = %no_dq : !dq) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
    %bias_tile = scf.if %one_row -> (!ds) {
      %row = tile.load %bias[%bias_b, %bias_h, 0, %n] : !bias_view -> !tile.tile<[BLOCK_N], T>
      %each = tile.expand %row dim 0 : !tile.tile<[BLOCK_N], T> -> !ds
      scf.yield %each : !ds
    } else {
      %block = tile.load %bias[%bias_b, %bias_h, %m, %n] : !bias_view -> !ds
      scf.yield %block : !ds
    }
    %bias_acc = tile.cast %bias_tile : !ds -> !s
    %natural = arith.mulf %s, %scales_s : !s
    %biased = arith.addf %natural, %bias_acc : !s
    %base2 = arith.mulf %biased, %log2es fastmath<contract> : !s
    %below = arith.subf %base2, %lse_each fastmath<contract> : !s
    %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s
    %p = math.exp2 %x : !s
    %dp = tile.dot %do_tile, %v_tile transpose_b : !o, !v -> !s
    %dp_centred = arith.subf %dp, %delta_each : !s
    %ds = arith.mulf %p, %dp_centred : !s
    %ds_rounded = tile.cast %ds : !s -> !ds
    %dq_new = tile.dot %ds_rounded, %k_tile, %dq_old : !ds, !k -> !dq
    tile.yield %dq_new : !dq
  }

  %scales = tile.full %scale_acc : !dq
  %scaled = arith.mulf %dq_all, %scales : !dq
  %rounded = tile.cast %scaled : !dq -> !q
  tile.store %rounded, %dq[%b, %h, %m, 0] : !q, !qk_view
}

// dS for a block of dbias, summed over the batches, heads and queries that share it. Transposed, as
// in the keys kernel.
tile.kernel @attention_bias_backward_sum
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %bias: optional !bias_view, %dbias: optional !dbias_view, %scale: f32)
    grid(%bm = ceildiv(dim(dbias, 2), BLOCK_M), %bn = ceildiv(dim(dbias, 3), BLOCK_N),
         %bias_h = dim(dbias, 1), %bias_b = dim(dbias, 0)) {
  %c1 = arith.constant 1 : i32
  %batches = tile.dim %q, 0 : !qk_view
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m_begin = arith.muli %bm, %block_m : i32
  %n = arith.muli %bn, %block_n : i32

  // Who shares this block: one, or all where the extent is 1.
  %bias_batches = tile.dim %dbias, 0 : !dbias_view
  %bias_heads = tile.dim %dbias, 1 : !dbias_view
  %bias_rows = tile.dim %dbias, 2 : !dbias_view
  %one_batch = arith.cmpi eq, %bias_batches, %c1 : i32
  %one_head = arith.cmpi eq, %bias_heads, %c1 : i32
  %one_row = arith.cmpi eq, %bias_rows, %c1 : i32
  %next_b = arith.addi %bias_b, %c1 : i32
  %next_h = arith.addi %bias_h, %c1 : i32
  %next_m = arith.addi %m_begin, %block_m : i32
  %own_m_end = arith.minsi %next_m, %queries : i32
  %b_end = arith.select %one_batch, %batches, %next_b : i32
  %h_end = arith.select %one_head, %q_heads, %next_h : i32
  %m_end = arith.select %one_row, %queries, %own_m_end : i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales_s = tile.full %scale_acc : !st
  %log2es = tile.full %log2e : !st
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !st
  %zero = arith.constant 0.0 : !acc
  %no_sum = tile.full %zero : !st

  %sum = scf.for %b = %bias_b to %b_end step %c1 iter_args(%sum_batches = %no_sum) -> (!st) : i32 {
    %sum_batch = scf.for %h = %bias_h to %h_end step %c1
        iter_args(%sum_heads = %sum_batches) -> (!st) : i32 {
      %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32
      %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
      %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
      %sum_head = tile.for_blocks %m in (%m_begin to %m_end) against (%n to %keys)
          where @attends_causally(block, against, %shift : i32)
          keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1>
          iter_args(%sum_old = %sum_heads : !st) {
        %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
        %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o
        %lse_row = tile.load %lse_base2[%b, %h, %m] : !row_view -> !row
        %delta_row = tile.load %delta[%b, %h, %m] : !row_view -> !row

        %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
        %bias_tile = scf.if %one_row -> (!dst) {
          %row = tile.load %bias[%bias_b, %bias_h, 0, %n] : !bias_view -> !tile.tile<[BLOCK_N], T>
          %each = tile.expand %row dim 1 : !tile.tile<[BLOCK_N], T> -> !dst
          scf.yield %each : !dst
        } else {
          %block = tile.load %bias[%bias_b, %bias_h, %m, %n] dims [3, 2] : !bias_view -> !dst
          scf.yield %block : !dst
        }
        %bias_acc = tile.cast %bias_tile : !dst -> !st
        %natural = arith.mulf %st, %scales_s : !st
        %biased = arith.addf %natural, %bias_acc : !st
        %base2 = arith.mulf %biased, %log2es fastmath<contract> : !st
        %lse_each = tile.expand %lse_row dim 0 : !row -> !st
        %below = arith.subf %base2, %lse_each fastmath<contract> : !st
        %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_N, BLOCK_M], i1>, !st
        %pt = math.exp2 %x : !st

        %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
        %delta_each = tile.expand %delta_row dim 0 : !row -> !st
        %dpt_centred = arith.subf %dpt, %delta_each : !st
        %dst = arith.mulf %pt, %dpt_centred : !st
        %sum_new = arith.addf %sum_old, %dst : !st
        tile.yield %sum_new : !st
      }
      scf.yield %sum_head : !st
    }
    scf.yield %sum_batch : !st
  }

  scf.if %one_row {
    %sum_rows = tile.reduce add %sum dim 1 : !st -> !tile.tile<[BLOCK_N], ACC>
    tile.store %sum_rows, %dbias[%bias_b, %bias_h, 0, %n]
        : !tile.tile<[BLOCK_N], ACC>, !dbias_view
  } else {
    tile.store %sum, %dbias[%bias_b, %bias_h, %m_begin, %n] dims [3, 2] : !st, !dbias_view
  }
}
