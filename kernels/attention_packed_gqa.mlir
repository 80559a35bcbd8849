// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention with the query heads of a group packed into one tile, forward: for grouped heads and
// few queries, where a tile of one head would be mostly empty.
//
//   O = softmax(scale * Q K^T) V,   LSE = log sum exp(scale * Q K^T)
//
//   q   [B, Hq,  Sq,  D]   T        k [B, Hkv, Skv, D]   T        v [B, Hkv, Skv, DV]   T
//   o   [B, Hq,  Sq,  DV]  T        lse [B, Hq, Sq]   ACC, optional
//   scale   f32
//
// Parameters
//   GROUP     query heads that share a key head: Hq = GROUP * Hkv
//   BLOCK_M   queries of one program instance; a tile has ROWS = BLOCK_M * GROUP rows, at most 256,
//             and row r is query r / GROUP of head r mod GROUP. By default a multiple of UNIT: on a
//             GPU, where products ask for ROWS to be a multiple of 16, the fewest queries that make
//             it one. GROUP is at most 256, and on a GPU 15 where it is odd, 30 where it is even but no
//             multiple of 4, and so on: UNIT * GROUP <= 256
//   D, DV, T, ACC, CAUSAL, BLOCK_N   as in attention_forward.mlir
//
// A query that attends no key gets O = 0 and LSE = -inf. A NaN in a query poisons that row alone.
// Runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023); packing as in its implementation for grouped queries.

tile.link "lib/attention.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>

!q   = !tile.tile<[ROWS, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[ROWS, BLOCK_N], ACC>
!p   = !tile.tile<[ROWS, BLOCK_N], T>
!o   = !tile.tile<[ROWS, DVP], ACC>
!row = !tile.tile<[ROWS], ACC>
!acc = !tile.param<ACC>
// Before the heads are packed into rows.
!q_heads = !tile.tile<[BLOCK_M, GROUP, DP], T>
!o_heads = !tile.tile<[BLOCK_M, GROUP, DVP], T>

func.func private @diagonal_shift(i32, i32) -> i32

tile.kernel @attention_packed_gqa
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], GROUP: int,
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let UNIT: int = select(or(TARGET == "cpu", mod(GROUP, 16) == 0), 1,
                       select(mod(GROUP, 8) == 0, 2, select(mod(GROUP, 4) == 0, 4,
                       select(mod(GROUP, 2) == 0, 8, 16)))),
           BLOCK_M: int = UNIT * max(1, floordiv(
               select(or(TARGET == "cpu", ROW_BYTES <= 512), 64, select(ROW_BYTES <= 1024, 32, 16)),
               max(1, UNIT * GROUP))),
           BLOCK_N: int in [16, 32, 64, 128, 256] =
               select(TARGET == "cpu", select(max(D, DV) <= 128, 128, 64),
                  select(ROW_BYTES <= 256, 64, select(ROW_BYTES <= 512, 32, 16))),
           let ROWS: int = BLOCK_M * GROUP,
           let DP: int = ceildiv(D, 8) * 8, let DVP: int = ceildiv(DV, 8) * 8,
           let ACC: type = accumulator(T))
    require(GROUP >= 1, UNIT * GROUP <= 256, D <= 256, DV <= 256, ROWS <= 256,
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0), dim(q, 1) == GROUP * dim(k, 1),
            dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1), dim(o, 2) == dim(q, 2),
            dim(lse, 0) == dim(q, 0), dim(lse, 1) == dim(q, 1), dim(lse, 2) == dim(q, 2),
            finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view, %scale: f32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %hk = dim(k, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view

  // First query of this instance, and the first head of its group.
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %group = tile.param GROUP : i32
  %h = arith.muli %hk, %group : i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

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

  // Queries outermost: the rows of a query lie together, and a causal tile stays a staircase.
  %q_heads = tile.load %q[%b, %h, %m, 0] dims [2, 1, 3] : !qk_view -> !q_heads
  %q_tile = tile.reshape %q_heads : !q_heads -> !q

  // Carries the maximum of each row so far, the sum of exp2(x - maximum), and the sum of
  // exp2(x - maximum) V.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends_causally(against, block, %shift : i32)
      keep %keep_query : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s

    // All heads of a query attend the same keys.
    %keep_head = tile.expand %keep_query dim 1
        : !tile.tile<[BLOCK_M, BLOCK_N], i1> -> !tile.tile<[BLOCK_M, GROUP, BLOCK_N], i1>
    %keep = tile.reshape %keep_head
        : !tile.tile<[BLOCK_M, GROUP, BLOCK_N], i1> -> !tile.tile<[ROWS, BLOCK_N], i1>
    %base2 = arith.mulf %s, %scales fastmath<contract> : !s
    %x = tile.select %keep, %base2, %masked_out : !tile.tile<[ROWS, BLOCK_N], i1>, !s

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
  %o_tile = tile.cast %result : !o -> !tile.tile<[ROWS, DVP], T>
  %o_heads = tile.reshape %o_tile : !tile.tile<[ROWS, DVP], T> -> !o_heads
  tile.store %o_heads, %o[%b, %h, %m, 0] dims [2, 1, 3] : !o_heads, !v_view

  // log(2^max * sum); -inf + -inf for a row without keys.
  %ln2s = tile.full %ln2 : !row
  %max_natural = arith.mulf %max, %ln2s : !row
  %log_sum = math.log %sum : !row
  %lse_row = arith.addf %max_natural, %log_sum : !row
  %lse_heads = tile.reshape %lse_row : !row -> !tile.tile<[BLOCK_M, GROUP], ACC>
  tile.store %lse_heads, %lse[%b, %h, %m] dims [2, 1]
      : !tile.tile<[BLOCK_M, GROUP], ACC>, !row_view
}
