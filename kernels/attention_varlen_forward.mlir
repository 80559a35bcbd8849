// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over packed sequences of different lengths, forward. Sequence b holds the queries
// cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1 of q, and the keys of the same rule; within it this is
// attention_forward.mlir: formulas, masks and positions are those of the sequence, from 0.
//
//   q   [Tq, Hq,  D]   T        k [Tk, Hkv, D]   T        v [Tk, Hkv, DV]   T
//   o   [Tq, Hq,  DV]  T        lse [Hq, Tq]   ACC, optional
//   cu_seqlens_q, cu_seqlens_k   [B + 1]  i32, ascending, the first 0, the last Tq (Tk). Checked in
//                                host memory, on a device where asked for. Unchecked, each is taken for
//                                the nearest of 0 to Tq (Tk), a sequence that ends before it begins for
//                                empty; where they do not ascend, it is open which rows are written
//   max_seqlen_q   i32, not needed: callers may give the length of the longest sequence
//   scale, window_left, window_right and the parameters: as in attention_forward.mlir
//
// Sequences may be empty. A query that attends no key gets O = 0 and LSE = -inf. Runs are
// bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023), over subviews.

tile.link "lib/attention.mlir"
tile.link "lib/packed.mlir"
tile.link "lib/softmax.mlir"

!qk_view  = !tile.view<[?, ?, D], T>
!v_view   = !tile.view<[?, ?, DV], T>
!row_view = !tile.view<[?, ?], ACC>
!cu_view  = !tile.view<[?], i32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!s   = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p   = !tile.tile<[BLOCK_M, BLOCK_N], T>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

func.func private @lowest() -> !acc
func.func private @sink(i32) -> !acc
func.func private @sequence_of_longest(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)

tile.kernel @attention_varlen_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           BLOCK_M: int = block(), BLOCK_N: int = block(),
           let DP: int = ceildiv(D, 16) * 16, let DVP: int = ceildiv(DV, 16) * 16,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 0) == dim(k, 0), dim(v, 1) == dim(k, 1),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1),
            dim(lse, 0) == dim(q, 1), dim(lse, 1) == dim(q, 0),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0),
            ascending(cu_seqlens_q), within(cu_seqlens_q, 0, dim(q, 0) + 1),
            ascending(cu_seqlens_k), within(cu_seqlens_k, 0, dim(k, 0) + 1),
            finite(scale),
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view,
     %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view, %max_seqlen_q: i32 = 0,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%t = (ceildiv(dim(q, 0), BLOCK_M) + dim(cu_seqlens_q, 0) - 1) * min(dim(q, 0), 1), %h = dim(q, 1)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view

  // The sequence of this instance, whose rows bound what is loaded and stored, and its first query,
  // counted there.
  %block_m = tile.param BLOCK_M : i32
  %tq = tile.dim %q, 0 : !qk_view
  %tk = tile.dim %k, 0 : !qk_view
  %b, %q_begin, %queries, %m = func.call @sequence_of_longest(%t, %block_m, %cu_seqlens_q, %tq)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %tk)
      : (i32, !cu_view, i32) -> (i32, i32)
  %q_seq = tile.subview %q dim 0 from %q_begin size %queries : !qk_view
  %k_seq = tile.subview %k dim 0 from %k_begin size %keys : !qk_view
  %v_seq = tile.subview %v dim 0 from %k_begin size %keys : !v_view
  %o_seq = tile.subview %o dim 0 from %q_begin size %queries : !v_view
  %lse_seq = tile.subview %lse dim 1 from %q_begin size %queries : !row_view

  // The key head. Divisors are at least 1, also where there are no heads.
  %some_heads = arith.maxsi %k_heads, %c1 : i32
  %heads_each = arith.divsi %q_heads, %some_heads : i32
  %group = arith.maxsi %heads_each, %c1 : i32
  %hk = arith.divsi %h, %group : i32

  // Where the diagonal starts.
  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32

  // Scores are kept in base 2: exp2 is what machines have. The two factors may be rounded together,
  // and the difference below with its product.
  %log2e = arith.constant 1.4426950408889634 : !acc
  %ln2 = arith.constant 0.6931471805599453 : !acc
  %scale_acc = tile.cast %scale : f32 -> !acc
  %scales = tile.full %scale_acc : !s
  %log2es = tile.full %log2e : !s

  %zero = arith.constant 0.0 : !acc
  %one = arith.constant 1.0 : !acc
  %minus_inf = arith.constant 0xFFF0000000000000 : !acc
  %masked_out = tile.full %minus_inf : !s
  // What a row begins with: its sink, if there is one.
  %sink = func.call @sink(%h) : (i32) -> !acc
  %sink_base2 = arith.mulf %sink, %log2e : !acc
  %no_sink = arith.cmpf oeq, %sink, %minus_inf : !acc
  %sink_weight = arith.select %no_sink, %zero, %one : !acc
  %lowest = func.call @lowest() : () -> !acc
  %first_max = arith.maximumf %sink_base2, %lowest : !acc
  %no_max = tile.full %first_max : !row
  %no_sum = tile.full %sink_weight : !row
  %no_o = tile.full %zero : !o

  %q_tile = tile.load %q_seq[%m, %h, 0] dims [0, 2] : !qk_view -> !q
  %rows = tile.iota %m dim 0 : !pos

  // Carries the maximum of each row so far, the sum of exp2(x - maximum), and the sum of
  // exp2(x - maximum) V.
  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right
                     : i32, i32, i32, i32, i32)
      keep %keep : !tile.tile<[BLOCK_M, BLOCK_N], i1>
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !k
    %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s

    %cols = tile.iota %n dim 1 : !pos
    %natural = arith.mulf %s, %scales fastmath<reassoc> : !s
    %modified = tile.map @score_mod(%natural, %b, %h, %rows, %cols)
        : (!s, i32, i32, !pos, !pos) -> !s
    %base2 = arith.mulf %modified, %log2es fastmath<reassoc, contract> : !s
    %x = tile.select %keep, %base2, %masked_out : !tile.tile<[BLOCK_M, BLOCK_N], i1>, !s

    %max_block = tile.reduce max %x dim 1 : !s -> !row
    %max_new = arith.maximumf %max_old, %max_block : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !s
    %below = arith.subf %x, %max_each fastmath<contract> : !s
    %p = math.exp2 %below : !s

    // What was summed against the old maximum shrinks by 2^(old - new).
    %fall = arith.subf %max_old, %max_new : !row
    %rescale = math.exp2 %fall : !row
    %sum_block = tile.reduce add %p dim 1 : !s -> !row
    %sum_kept = arith.mulf %sum_old, %rescale fastmath<reassoc, contract> : !row
    %sum_new = arith.addf %sum_kept, %sum_block fastmath<reassoc, contract> : !row
    %rescale_each = tile.expand %rescale dim 1 : !row -> !o
    %acc_kept = arith.mulf %acc_old, %rescale_each : !o

    %v_tile = tile.load %v_seq[%n, %hk, 0] dims [0, 2] : !v_view -> !v
    %weight = tile.map @weight_mod(%b, %h, %rows, %cols) : (i32, i32, !pos, !pos) -> !s
    %p_weighted = arith.mulf %p, %weight : !s
    %p_tile = tile.cast %p_weighted : !s -> !p
    %acc_new = tile.dot %p_tile, %v_tile, %acc_kept : !p, !v -> !o
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %inverse = tile.map @reciprocal_or_zero(%sum) : (!row) -> !row
  %inverse_each = tile.expand %inverse dim 1 : !row -> !o
  %result = arith.mulf %acc, %inverse_each : !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o_seq[%m, %h, 0] dims [0, 2]
      : !tile.tile<[BLOCK_M, DVP], T>, !v_view

  // log(2^max * sum); the logarithm of a row without keys is -inf.
  %ln2s = tile.full %ln2 : !row
  %max_natural = arith.mulf %max, %ln2s : !row
  %log_sum = math.log %sum : !row
  %lse_row = arith.addf %max_natural, %log_sum : !row
  tile.store %lse_row, %lse_seq[%h, %m] : !row, !row_view
}
