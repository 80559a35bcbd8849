// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with dropout of probabilities, forward.
//
//   P = softmax(scale * Q K^T),   O = (Z * P) V,   LSE = log sum exp(scale * Q K^T)
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  T        lse [B, Hq, Sq]   ACC, optional
//   scale          f32
//   seed, offset   [1]  i64, in memory, so that a recorded launch draws new numbers when replayed
//   dropout        f32, the probability p of dropping a pair, 0 <= p < 1
//
// Z(b, h, i, j) is 0 with probability p, else 1 / (1 - p): a pair is dropped where the 32 bits of
// Philox4x32-10 at the counter (j, i, b * Hq + h) are below floor(p * 2^32) (tile.random). The mask
// depends on seed, offset and the logical position only, not on tiles.
//
// Parameters D, DV, T, ACC, CAUSAL, BLOCK_M and BLOCK_N: as in attention_forward.mlir.
//
// A query that attends no key gets O = 0 and LSE = -inf. A NaN in a query poisons that row alone.
// LSE is that of the attention without dropout. Runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023); the generator: Salmon et al., Parallel random numbers:
// as easy as 1, 2, 3 (SC11).

tile.link "lib/attention.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!seed_view = !tile.view<[1], i64>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

// 1 / (1 - p) where the pair is kept, 0 where it is dropped. The bits depend on the logical
// position alone, so that the backward finds the same with other tiles, and transposed.
func.func private @dropout_factor(%j: i32, %i: i32, %head: i32, %seed: i64, %offset: i64,
                                  %threshold: i32, %kept_scale: !acc) -> !acc {
  %zero = arith.constant 0.0 : !acc
  %bits = tile.random %seed, %offset at (%j, %i, %head) : i32
  %dropped = arith.cmpi ult, %bits, %threshold : i32
  %factor = arith.select %dropped, %zero, %kept_scale : !acc
  return %factor : !acc
}

tile.kernel @attention_dropout_forward
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
            finite(scale), dropout >= 0, dropout < 1)
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view,
     %seed: !seed_view, %offset: !seed_view, %scale: f32, %dropout: f32)
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

  // Where the diagonal starts.
  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32

  // The generator and the threshold below which its 32 bits drop a pair.
  %seed_value = tile.at %seed[0] : !seed_view
  %offset_value = tile.at %offset[0] : !seed_view
  %two_32 = arith.constant 4294967296.0 : f32
  %threshold_f32 = arith.mulf %dropout, %two_32 : f32
  %threshold_i64 = arith.fptosi %threshold_f32 : f32 to i64
  %threshold = arith.trunci %threshold_i64 : i64 to i32
  %one = arith.constant 1.0 : !acc
  %p_drop = tile.cast %dropout : f32 -> !acc
  %p_keep = arith.subf %one, %p_drop : !acc
  %kept_scale = arith.divf %one, %p_keep : !acc
  %batch_row = arith.muli %b, %q_heads : i32
  %head = arith.addi %batch_row, %h : i32

  // Scores are kept in base 2: exp2 is what machines have.
  %log2e = arith.constant 1.4426950408889634 : !acc
  %ln2 = arith.constant 0.6931471805599453 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scale_base2 = arith.mulf %scale_acc, %log2e : !acc
  %scales = tile.full %scale_base2 : !s

  %zero = arith.constant 0.0 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %no_max = tile.full %minus_inf : !row
  %no_sum = tile.full %zero : !row
  %no_o = tile.full %zero : !o

  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
  %rows = tile.iota %m dim 0 : !pos

  // Carries the maximum of each row so far, the sum of exp2(x - maximum), and the sum of
  // exp2(x - maximum) V.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends_causally(against, block, %shift : i32)
      keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
    %base2 = arith.mulf %s, %scales fastmath<contract> : !s
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

    // Only what meets V is dropped: the sum is that of the whole row.
    %cols = tile.iota %n dim 1 : !pos
    %factor = tile.map @dropout_factor(%cols, %rows, %head, %seed_value, %offset_value, %threshold,
                                       %kept_scale)
        : (!pos, !pos, i32, i64, i64, i32, !acc) -> !s
    %p_kept = arith.mulf %p, %factor : !s

    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %p_tile = tile.cast %p_kept : !s -> !p
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
