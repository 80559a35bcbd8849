// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with dropout of probabilities, backward: the gradients of
// attention_dropout_forward.mlir, with the same mask Z.
//
//   P     = exp(scale * Q K^T - LSE)
//   delta = rowsum(dO * O) - dLSE
//   dV    = (Z * P)^T dO
//   dS    = P * (Z * dO V^T - delta)
//   dQ    = scale * dS K,   dK = scale * dS^T Q
//
//   q, dq  [B, Hq,  Sq,  D]   T      k, dk [B, Hkv, Skv, D]  T     v, dv [B, Hkv, Skv, DV]  T
//   o, do  [B, Hq,  Sq,  DV]  T      lse, dlse [B, Hq, Sq]  ACC; dlse optional (absent: zero)
//   scale          f32
//   seed, offset   [1]  i64, those of the forward
//   dropout        f32, that of the forward: the probability p of dropping a pair, 0 <= p < 1
//
// Z(b, h, i, j) is 0 where the 32 bits of Philox4x32-10 at the counter (j, i, b * Hq + h) are below
// floor(p * 2^32), else 1 / (1 - p): tiles and their order do not matter.
//
// Parameters D, DV, T, ACC, CAUSAL, BLOCK_M and BLOCK_N: as in attention_forward.mlir.
//
// A query that attends no key and a key that no query attends get zero gradients; all of dq, dk and
// dv is written. P and dS are rounded to T; everything else is kept in ACC. (In the kernel for dQ,
// dS only.) No atomics: dK and dV are summed by one instance for each block of keys, dQ by one for
// each block of queries; runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023), with S^T instead of S for dK and dV.

tile.link "lib/attention.mlir"
tile.link "lib/delta.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!seed_view = !tile.view<[1], i64>

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
!pos  = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!post = !tile.tile<[BLOCK_N, BLOCK_M], i32>

// 1 / (1 - p) where the pair is kept, 0 where it is dropped. The bits depend on the logical
// position alone, so these are those of the forward.
func.func private @dropout_factor(%j: i32, %i: i32, %head: i32, %seed: i64, %offset: i64,
                                  %threshold: i32, %kept_scale: !acc) -> !acc {
  %zero = arith.constant 0.0 : !acc
  %bits = tile.random %seed, %offset at (%j, %i, %head) : i32
  %dropped = arith.cmpi ult, %bits, %threshold : i32
  %factor = arith.select %dropped, %zero, %kept_scale : !acc
  return %factor : !acc
}

tile.program @attention_dropout_backward
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
                  // Above 192, Philox and 128 keys would spill.
                  select(and(ROW_BYTES <= 192, bits(T) == 16), 128,
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
            finite(scale), dropout >= 0, dropout < 1)
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %do: !v_view, %lse: !row_view,
     %dlse: optional !row_view, %dq: !qk_view, %dk: !qk_view, %dv: !v_view,
     %seed: !seed_view, %offset: !seed_view, %scale: f32, %dropout: f32) {
  %delta = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2)] : !row_view
  %lse_base2 = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2)] : !row_view
  tile.launch @attention_backward_delta(%o, %do, %lse, %dlse, %delta, %lse_base2)
      : !v_view, !v_view, !row_view, !row_view, !row_view, !row_view
  tile.launch @attention_dropout_backward_keys(%q, %k, %v, %do, %lse_base2, %delta, %dk, %dv,
                                               %seed, %offset, %scale, %dropout)
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !qk_view, !v_view,
        !seed_view, !seed_view, f32, f32
  // Blocks of its own: in those of the keys this kernel would spill.
  tile.launch @attention_dropout_backward_queries(%q, %k, %v, %do, %lse_base2, %delta, %dq,
                                                  %seed, %offset, %scale, %dropout)
      with (BLOCK_M = max(BLOCK_M, ceildiv(BLOCK_N, 2)),
            BLOCK_N = select(or(TARGET == "cpu", ROW_BYTES <= 128), BLOCK_N, min(BLOCK_N, 64)))
      : !qk_view, !qk_view, !v_view, !v_view, !row_view, !row_view, !qk_view,
        !seed_view, !seed_view, f32, f32
}

// A block of keys against the queries of every head of its group: dK and dV need no atomics.
tile.kernel @attention_dropout_backward_keys
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %dk: !qk_view, %dv: !v_view, %seed: !seed_view, %offset: !seed_view,
     %scale: f32, %dropout: f32)
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

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scale_base2 = arith.mulf %scale_acc, %log2e : !acc
  %scales_base2 = tile.full %scale_base2 : !st
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !st
  %kept_scales = tile.full %kept_scale : !st
  %zero = arith.constant 0.0 : !acc
  %no_dk = tile.full %zero : !dk
  %no_dv = tile.full %zero : !dv

  %cols = tile.iota %n dim 0 : !post
  %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
  %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v

  %dk_all, %dv_all = scf.for %g = %c0 to %group step %c1
      iter_args(%dk_heads = %no_dk, %dv_heads = %no_dv) -> (!dk, !dv) : i32 {
    %h = arith.addi %first_head, %g : i32
    %head = arith.addi %batch_row, %h : i32
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries) against (%n to %keys)
        where @attends_causally(block, against, %shift : i32)
        keep %keep : !tile.tile<[BLOCK_N, BLOCK_M], i1>
        iter_args(%dk_old = %dk_heads : !dk, %dv_old = %dv_heads : !dv) {
      %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
      %do_tile = tile.load %do[%b, %h, %m, 0] : !v_view -> !o

      %st = tile.dot %k_tile, %q_tile transpose_b : !k, !q -> !st
      %base2 = arith.mulf %st, %scales_base2 fastmath<contract> : !st
      %lse_row = tile.load %lse_base2[%b, %h, %m] : !row_view -> !row
      %lse_each = tile.expand %lse_row dim 0 : !row -> !st
      %below = arith.subf %base2, %lse_each fastmath<contract> : !st
      %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_N, BLOCK_M], i1>, !st
      %pt = math.exp2 %x : !st
      %pt_rounded = tile.cast %pt : !st -> !dst

      // Z without its scale, which dV and dP take instead: what waits for dP are P and Z * P,
      // numbers of type T.
      %rows = tile.iota %m dim 1 : !post
      %kept = tile.map @dropout_factor(%cols, %rows, %head, %seed_value, %offset_value,
                                       %threshold, %one)
          : (!post, !post, i32, i64, i64, i32, !acc) -> !st
      %pt_some = arith.mulf %pt, %kept : !st
      %pt_kept = tile.cast %pt_some : !st -> !dst

      %dpt = tile.dot %v_tile, %do_tile transpose_b : !v, !o -> !st
      %delta_row = tile.load %delta[%b, %h, %m] : !row_view -> !row
      %delta_each = tile.expand %delta_row dim 0 : !row -> !st
      %dpt_scaled = arith.mulf %dpt, %kept_scales : !st
      %kept_acc = tile.cast %pt_kept : !dst -> !st
      %pt_acc = tile.cast %pt_rounded : !dst -> !st
      %gained = arith.mulf %kept_acc, %dpt_scaled fastmath<contract> : !st
      %shared = arith.mulf %pt_acc, %delta_each fastmath<contract> : !st
      %dst = arith.subf %gained, %shared fastmath<contract> : !st
      %dst_rounded = tile.cast %dst : !st -> !dst

      %dv_new = tile.dot %pt_kept, %do_tile, %dv_old : !dst, !o -> !dv
      %dk_new = tile.dot %dst_rounded, %q_tile, %dk_old : !dst, !q -> !dk

      tile.yield %dk_new, %dv_new : !dk, !dv
    }
    scf.yield %dk_head, %dv_head : !dk, !dv
  }

  %scales = tile.full %scale_acc : !dk
  %dk_scaled = arith.mulf %dk_all, %scales : !dk
  %dk_rounded = tile.cast %dk_scaled : !dk -> !k
  %kept_scales_dv = tile.full %kept_scale : !dv
  %dv_scaled = arith.mulf %dv_all, %kept_scales_dv : !dv
  %dv_rounded = tile.cast %dv_scaled : !dv -> !v
  tile.store %dk_rounded, %dk[%b, %hk, %n, 0] : !k, !qk_view
  tile.store %dv_rounded, %dv[%b, %hk, %n, 0] : !v, !v_view
}

// A block of queries against the keys it attends: dQ without atomics.
tile.kernel @attention_dropout_backward_queries
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           BLOCK_M: int, BLOCK_N: int,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %do: !v_view, %lse_base2: !row_view,
     %delta: !row_view, %dq: !qk_view, %seed: !seed_view, %offset: !seed_view,
     %scale: f32, %dropout: f32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %h = dim(q, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %some_heads = arith.maxsi %k_heads, %c1 : i32
  %heads_each = arith.divsi %q_heads, %some_heads : i32
  %group = arith.maxsi %heads_each, %c1 : i32
  %hk = arith.divsi %h, %group : i32
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32

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

  %log2e = arith.constant 1.4426950408889634 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scale_base2 = arith.mulf %scale_acc, %log2e : !acc
  %scales_base2 = tile.full %scale_base2 : !s
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  %zero = arith.constant 0.0 : !acc
  %no_dq = tile.full %zero : !dq

  %rows = tile.iota %m dim 0 : !pos
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
    %base2 = arith.mulf %s, %scales_base2 fastmath<contract> : !s
    %below = arith.subf %base2, %lse_each fastmath<contract> : !s
    %x = tile.select %keep, %below, %masked_out : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s
    %p = math.exp2 %x : !s
    %dp = tile.dot %do_tile, %v_tile transpose_b : !o, !v -> !s
    %cols = tile.iota %n dim 1 : !pos
    %factor = tile.map @dropout_factor(%cols, %rows, %head, %seed_value, %offset_value,
                                       %threshold, %kept_scale)
        : (!pos, !pos, i32, i64, i64, i32, !acc) -> !s
    %dp_kept = arith.mulf %dp, %factor : !s
    %dp_centred = arith.subf %dp_kept, %delta_each : !s
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
