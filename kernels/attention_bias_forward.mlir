// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with an additive bias, forward.
//
//   O = softmax(scale * Q K^T + bias) V,   LSE = log sum exp(scale * Q K^T + bias)
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  T        lse [B, Hq, Sq]   ACC, optional
//   bias    [B or 1, Hq or 1, Sq or 1, Skv]   T, optional; an extent of 1 is the same for everybody
//   scale   f32
//
// Parameters D, DV, T, ACC, CAUSAL, BLOCK_M and BLOCK_N: as in attention_forward.mlir.
//
// A bias of -inf masks a pair. A query that attends no key, or none but those, gets O = 0 and
// LSE = -inf. A NaN in a query poisons that row alone. Runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023).

tile.link "lib/attention.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!bias_view = !tile.view<[?, ?, ?, ?], T>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

tile.kernel @attention_bias_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           BLOCK_M: int in [16, 32, 64, 128, 256] =
               select(TARGET == "cpu", 128,
                  select(ROW_BYTES <= 256, select(bits(T) == 16, 128, 64),
                         select(ROW_BYTES <= 512, 64, select(ROW_BYTES <= 1024, 32, 16)))),
           BLOCK_N: int in [16, 32, 64, 128, 256] =
               select(TARGET == "cpu", select(max(D, DV) <= 128, 128, 64),
                  select(ROW_BYTES <= 256, 64, select(ROW_BYTES <= 512, 32, 16))),
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            or(dim(bias, 0) == 1, dim(bias, 0) == dim(q, 0)),
            or(dim(bias, 1) == 1, dim(bias, 1) == dim(q, 1)),
            or(dim(bias, 2) == 1, dim(bias, 2) == dim(q, 2)),
            dim(bias, 3) == dim(k, 2),
            finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view,
     %bias: optional !bias_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view

  // First query of this instance, and the key head it reads. Divisors
  // are at least 1, also where there are no heads.
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %some_heads = arith.maxsi %k_heads, %c1 : i32
  %heads_each = arith.divsi %q_heads, %some_heads : i32
  %group = arith.maxsi %heads_each, %c1 : i32
  %hk = arith.divsi %h, %group : i32

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

  // Where the diagonal starts.
  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32

  // Scores are kept in base 2: exp2 is what machines have.
  %log2e = arith.constant 1.4426950408889634 : !acc
  %ln2 = arith.constant 0.6931471805599453 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s

  %zero = arith.constant 0.0 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %no_max = tile.full %minus_inf : !row
  %no_sum = tile.full %zero : !row
  %no_o = tile.full %zero : !o

  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q

  // Carries the maximum of each row so far, the sum of exp2(x - maximum), and the sum of
  // exp2(x - maximum) V.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends_causally(against, block, %shift : i32)
      keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s

    %bias_tile = scf.if %one_row -> (!p) {
      %row = tile.load %bias[%bias_b, %bias_h, 0, %n] : !bias_view -> !tile.tile<[BLOCK_N], T>
      %each = tile.expand %row dim 0 : !tile.tile<[BLOCK_N], T> -> !p
      scf.yield %each : !p
    } else {
      %block = tile.load %bias[%bias_b, %bias_h, %m, %n] : !bias_view -> !p
      scf.yield %block : !p
    }
    %bias_acc = tile.cast %bias_tile : !p -> !s
    %natural = arith.mulf %s, %scales : !s
    %biased = arith.addf %natural, %bias_acc : !s
    %base2 = arith.mulf %biased, %log2es fastmath<contract> : !s
    %x = tile.select %keep, %base2, %masked_out : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s

    %max_block = tile.reduce max %x dim 1 : !s -> !row
    %max_new = arith.maximumf %max_old, %max_block : !row
    %max_safe = tile.map @zero_if_minus_inf(%max_new) : (!row) -> !row
    %max_each = tile.expand %max_safe dim 1 : !row -> !s
    %below = arith.subf %x, %max_each fastmath<contract> : !s
    %p = math.exp2 %below : !s

    // What was summed against the old maximum shrinks by 2^(old - new).
    %fall = arith.subf %max_old, %max_safe : !row
    %rescale = math.exp2 %fall : !row
    %sum_block = tile.reduce add %p dim 1 : !s -> !row
    %sum_kept = arith.mulf %sum_old, %rescale fastmath<reassoc, contract> : !row
    %sum_new = arith.addf %sum_kept, %sum_block fastmath<reassoc, contract> : !row
    %rescale_each = tile.expand %rescale dim 1 : !row -> !o
    %acc_kept = arith.mulf %acc_old, %rescale_each : !o

    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %p_tile = tile.cast %p : !s -> !p
    %acc_new = tile.dot %p_tile, %v_tile, %acc_kept : !p, !v -> !o
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %inverse = tile.map @reciprocal_or_zero(%sum) : (!row) -> !row
  %inverse_each = tile.expand %inverse dim 1 : !row -> !o
  %result = arith.mulf %acc, %inverse_each : !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o[%b, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], T>, !v_view

  // log(2^max * sum); -inf + -inf for a row without keys.
  %ln2s = tile.full %ln2 : !row
  %max_natural = arith.mulf %max, %ln2s : !row
  %log_sum = math.log %sum : !row
  %lse_row = arith.addf %max_natural, %log_sum : !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !row_view
}
