// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention on 8-bit floats, forward: q, k and v hold numbers divided by a scale of their tensor.
//
//   S = scale * q_descale * k_descale * Q K^T
//   O = v_descale * softmax(S) V,   LSE = log sum exp S
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  TO       lse [B, Hq, Sq]   f32, optional
//   q_descale, k_descale, v_descale   [1]  f32, in memory, where a quantisation leaves them
//   scale   f32
//
// Parameters
//   T         e4m3 (default) or e5m2
//   TO        type of the result (bf16)
//   D, DV, CAUSAL, BLOCK_M, BLOCK_N   as in attention_forward.mlir; padded to a multiple of 32
//
// P is rounded to T before it meets V. P is at most 1, and 8-bit floats lose what is small: it is
// multiplied by 2^8 (256; the largest e4m3 is 448) by way of the exponent, and the sum, which
// carries the same factor, divides it out again.
// A query that attends no key gets O = 0 and LSE = -inf. Runs are bit-identical.
//
// Algorithm: FlashAttention-3 (Shah et al., 2024), without its block scales.

tile.link "lib/attention.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!o_view   = !tile.view<[?, ?, ?, DV], TO>
!row_view = !tile.view<[?, ?, ?], f32>
!one_view = !tile.view<[1], f32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!o   = !tile.tile<[BLOCK_M, DVP], f32>
!row = !tile.tile<[BLOCK_M], f32>

func.func private @key_head(i32, i32, i32) -> i32
func.func private @diagonal_shift(i32, i32) -> i32

tile.kernel @attention_fp8_forward
    params(D: int, DV: int = D, T: type in [e4m3, e5m2] = e4m3,
           TO: type in [f16, bf16, f32] = bf16,
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           let ROW_BYTES: int = max(D, DV) * 2,
           BLOCK_M: int in [16, 32, 64, 128, 256] =
               select(TARGET == "cpu", 128,
                  select(ROW_BYTES <= 256, 128,
                         select(ROW_BYTES <= 512, 64, select(ROW_BYTES <= 1024, 32, 16)))),
           BLOCK_N: int in [16, 32, 64, 128, 256] =
               select(TARGET == "cpu", select(max(D, DV) <= 128, 128, 64),
                  select(ROW_BYTES <= 256, 64, select(ROW_BYTES <= 512, 32, 16))),
           let DP: int = ceildiv(D, 32) * 32, let DVP: int = ceildiv(DV, 32) * 32,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !o_view, %lse: optional !row_view,
     %q_descale: !one_view, %k_descale: !one_view, %v_descale: !one_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view

  // First query of this instance, and the key head it reads.
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  // Scores are kept in base 2: exp2 is what machines have.
  %log2e = arith.constant 1.4426950408889634 : f32
  %ln2 = arith.constant 0.6931471805599453 : f32
  %q_by = tile.at %q_descale[0] : !one_view
  %k_by = tile.at %k_descale[0] : !one_view
  %v_by = tile.at %v_descale[0] : !one_view
  %qk_by = arith.mulf %q_by, %k_by : f32
  %scale_all = arith.mulf %scale, %qk_by : f32
  %scale_base2 = arith.mulf %scale_all, %log2e : f32
  %scales = tile.full %scale_base2 : !s

  %zero = arith.constant 0.0 : f32
  %minus_inf = arith.constant 0xFF800000 : f32
  %masked_out = tile.full %minus_inf : !s
  %no_max = tile.full %minus_inf : !row
  %no_sum = tile.full %zero : !row
  %no_o = tile.full %zero : !o
  // 2^8 on P and on the sum.
  %lift = arith.constant 8.0 : f32
  %lifts = tile.full %lift : !row

  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q

  // Carries the maximum of each row so far, the sum of exp2(x - maximum + 8), and the sum
  // of exp2(x - maximum + 8) V.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
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
    %base = arith.subf %max_safe, %lifts : !row
    %max_each = tile.expand %base dim 1 : !row -> !s
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
  %v_bys = tile.full %v_by : !row
  %factor = arith.mulf %inverse, %v_bys : !row
  %inverse_each = tile.expand %factor dim 1 : !row -> !o
  %result = arith.mulf %acc, %inverse_each : !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], TO>
  tile.store %o_tile, %o[%b, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], TO>, !o_view

  // log(2^(max - 8) * sum); -inf + -inf for a row without keys.
  %ln2s = tile.full %ln2 : !row
  %lowered = arith.subf %max, %lifts : !row
  %max_natural = arith.mulf %lowered, %ln2s : !row
  %log_sum = math.log %sum : !row
  %lse_row = arith.addf %max_natural, %log_sum : !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !row_view
}
