// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward.
//
//   S   = scale * Q K^T              the score of each pair of a query i and a key j
//   T   = score_mod(S, b, h, i, j)   the identity, unless another file replaces @score_mod
//   O   = softmax(T) V               over the keys that query i attends
//   LSE = log(sum(exp(T)))           natural logarithm, for the backward and to merge partial results
//
// Arguments
//   q     [B, Hq,  Sq,  D]   T       queries
//   k     [B, Hkv, Skv, D]   T       keys; with CACHED [P, R, Hkv, D] CACHE, pages of R rows
//   v     [B, Hkv, Skv, DV]  T       values; with CACHED [P, R, Hkv, DV] CACHE
//   o     [B, Hq,  Sq,  DV]  TO      result
//   lse   [B, Hq,  Sq]       ACC     result, optional
//   scale                    ACC     finite, usually 1 / sqrt(D)
//   window_left, window_right    i32, >= -1, default -1: that side of the window is open. Other values require WINDOW.
//   cu_seqlens_q, cu_seqlens_k   only with PACKED: see lib/batch.mlir. With CACHED there is no cu_seqlens_k.
//   seq_lens, block_table, leftpad, k_factors, v_factors
//                                only with CACHED, PAGE_ROWS, LEFTPAD and DESCALE: see lib/cache.mlir
//   kv_indices, kv_num_blocks    only with LISTED: see lib/attention.mlir
//   first_row, first_key, diagonal, first_head, first_batch
//                                i32, only with SHARD: see lib/shard.mlir
//   q_descale, k_descale, v_descale   [1]  f32, only if T has 8 bits: q, k and v hold values divided by these factors
//   o_before  [B, Hq, Sq, DV] ACC, lse_before [B, Hq, Sq] ACC, only with CONTINUED: O and LSE over other keys. May be
//                                the arrays o and lse.
//
// Hq is a multiple of Hkv: Hq / Hkv consecutive query heads share a key head (MHA, GQA, MQA). Sq and Skv may have any
// value, including 0, and need not be multiples of the block sizes. Strides are arbitrary: a cache may have its heads
// outside of its rows, or keys and values behind each other.
//
// Parameters
//   D, DV     Widths of a query and of a value, at most 512, as far as the smallest blocks fit the shared memory: those
//             of f64 do up to 320 on sm_80. Above 256, blocks were not tuned. DV defaults to D.
//   T         Element type of q, k and v: f16, bf16, f32, f64, e4m3 or e5m2.
//   TO        Element type of o. Default: bf16 if T has 8 bits, else T.
//   ACC       Type of scores, sums and LSE, derived from T: f64 for f64, else f32.
//   CAUSAL    none (default), top_left: keeps j <= i, or bottom_right: keeps j <= i + Skv - Sq.
//   WINDOW    Keeps i + shift - window_left <= j <= i + shift + window_right. The shift is Skv - Sq under bottom_right,
//             else 0. Default: false.
//   PACKED    B is 1, and the arrays hold sequences of different lengths one after the other (lib/batch.mlir).
//             Positions, lengths and masks are relative to the sequence. Default: false.
//   CACHED    The keys and values of each sequence are in a cache, in pages by a block table or in one piece. Skv is
//             the number of its keys. T has 16 bits or more. Default: whether there are PAGE_ROWS.
//   CACHE, DESCALE, BY_TOKEN, PAGE_ROWS, LEFTPAD   As in lib/cache.mlir. LEFTPAD not with LISTED.
//   ABOVE     With PACKED and CACHED, sequences with at most so many queries are left out, and their rows are not
//             written: attention_decode.mlir with PACKED and ROWS = ABOVE writes them. Default: 0.
//   SHARD     The arrays hold a part of longer sequences, or some heads (lib/shard.mlir). With PACKED, the others than
//             first_head must be 0. Not with CACHED. Lists of blocks are those of the arrays. Default: false.
//   CONTINUED The softmax continues that of o_before and lse_before, so that the results are those over their keys and
//             the keys of this launch. A sink belongs to the first launch. Not with 8-bit types. Default: false.
//   LISTED    Queries attend only keys of listed blocks of LIST_BLOCK_M queries and LIST_BLOCK_N keys, by default 128.
//             Default: false.
//   BLOCK_M, BLOCK_N             Queries of a program instance, and keys of an iteration. With LISTED, they divide
//             LIST_BLOCK_M and LIST_BLOCK_N. By default, the compiler chooses them for the target.
//   DP, DVP   Widths of the tiles, derived from D and DV. The padding reads as zero and is never stored.
//
// Q K^T and log2(e) * T are finite: scores are at most 2.3e38 in magnitude, or for f64 1.2e308. With modifiers that may
// exceed this, such as a bias of the lowest number, scores up to the greatest number have their results, which costs a
// multiplication for each pair. The sink may have any value.
//
// A query that attends no key gets O = 0 and LSE = -inf (with mods/sink.mlir: the sink). A NaN in a query affects only
// its own row. A NaN or infinity in v reaches the queries that attend its key, and may reach queries whose block
// contains that key, since 0 * NaN is NaN.
//
// Precision: P is rounded to T before the product with V; all other values have the type ACC. 8-bit types have few
// small values, so the maximum that is subtracted is log2(256 / @weight_limit) less, and P at most 256 (the largest
// e4m3 is 448). Runs are bit-identical.
//
// Algorithm: online softmax over blocks of keys (lib/forward.mlir) in the loop order of FlashAttention-2 (Dao, 2023).
// Other files replace @score_mod, @mask_mod, @weight_mod, @weight_limit and @sink: see lib/attention.mlir.

tile.link "lib/attention.mlir", "lib/batch.mlir", "lib/cache.mlir", "lib/forward.mlir", "lib/shard.mlir",
    "lib/token_scales.mlir"

!o_view = !tile.view<[?, ?, ?, DV], TO>
!before_view = !tile.view<[?, ?, ?, DV], ACC>

// Whether a query attends a key, by their positions in the whole. Padding is that of caches, which are no shards.
tile.function @attends_among(%first_row, %first_key, %padding, %b, %h, %i, %j, %shift, %left, %right: i32) -> i1
    = @attends_behind(%padding, %b, %h, @in_whole(%i, %first_row) : i32, @in_whole(%j, %first_key) : i32, %shift,
                      %left, %right)

tile.kernel @attention_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64, e4m3, e5m2], let FP8: flag = bits(T) == 8,
           TO: type = select(FP8, bf16, T), CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           WINDOW, PACKED, LISTED: flag = false, PAGE_ROWS: int in [0, 1, 8, 16, 32, 64, 128] = 0,
           CACHED: flag = PAGE_ROWS > 0, LEFTPAD: flag = false,
           CACHE: type in [f16, bf16, f32, f64, e4m3, e5m2, i8] = T, BY_TOKEN: flag = false,
           DESCALE: flag = and(and(bits(CACHE) == 8, bits(T) > 8), not(BY_TOKEN)), ABOVE: int = 0,
           SHARD, CONTINUED: flag = false, LIST_BLOCK_M: int = select(LISTED, 128, 0), LIST_BLOCK_N: int = LIST_BLOCK_M,
           BLOCK_M: int = block_in(LIST_BLOCK_M), BLOCK_N: int = block_in(LIST_BLOCK_N), let ACC: type = accumulator(T),
           let DP: int = padded_for("depth", D, DV, T), let DVP: int = padded_for("columns", DV, D, T),
           let NATURAL: flag = replaced("score_mod.unbounded"), let SINKS: flag = and(replaced("sink"), not(CONTINUED)),
           let HEAD_ROWS: int = 0, let UNIT: int = select(T == f16, 256, 1))
    require(D <= 512, DV <= 512, or(CACHED, PAGE_ROWS == 0), not(and(LEFTPAD, LISTED)), not(and(CACHED, FP8)),
            or(CACHE == T, and(CACHED, bits(CACHE) == 8)), or(not(DESCALE), and(CACHED, bits(CACHE) == 8)),
            or(CACHED, not(LEFTPAD)), ABOVE >= 0, or(ABOVE == 0, and(PACKED, CACHED)),
            select(CACHED, or(PAGE_ROWS > 0, dim(k, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0))),
                   dim(k, 0) == dim(q, 0)), select(CACHED, dim(v, 0) == dim(k, 0), dim(v, 0) == dim(q, 0)),
            select(CACHED, floordiv(dim(q, 1), max(dim(k, 2), 1)) * dim(k, 2) == dim(q, 1),
                   floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1)), same_dims(v, k, 1, 2),
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), or(not(PACKED), dim(q, 0) == 1),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0), ascending(cu_seqlens_q),
            within(cu_seqlens_q, 0, dim(q, 2) + 1), ascending(cu_seqlens_k), within(cu_seqlens_k, 0, dim(k, 2) + 1),
            or(PAGE_ROWS == 0, mod(dim(k, 1), max(PAGE_ROWS, 1)) == 0),
            dim(block_table, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0)),
            dim(seq_lens, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0)),
            within(seq_lens, 0, dim(k, 1) * select(PAGE_ROWS > 0, dim(block_table, 1), 1) + 1),
            within_first(block_table, 0, dim(k, 0), seq_lens, max(dim(k, 1), 1)),
            dim(k_factors, 0) == select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0)), dim(k_factors, 1) == dim(k, 2),
            same_dims(v_factors, k_factors, 0, 1), or(not(BY_TOKEN), and(CACHED, bits(CACHE) == 8)),
            dim(k_scales, 0) == dim(k, 0) * dim(k, 1), dim(k_scales, 1) == dim(k, 2),
            same_dims(v_scales, k_scales, 0, 1), same_dims(leftpad, seq_lens, 0),
            within(leftpad, 0, dim(k, 1) * select(PAGE_ROWS > 0, dim(block_table, 1), 1) + 1),
            or(not(LISTED), mod(max(LIST_BLOCK_M, 1), BLOCK_M) == 0), same_dims(kv_indices, kv_num_blocks, 0, 1, 2),
            or(dim(kv_num_blocks, 0) == 1, or(PACKED, dim(kv_num_blocks, 0) == dim(q, 0))),
            or(or(dim(kv_num_blocks, 1) == 1, dim(kv_num_blocks, 1) == dim(q, 1)),
               and(CACHED, dim(kv_num_blocks, 1) == dim(k, 2))),
            or(PACKED, dim(kv_num_blocks, 2) == ceildiv(dim(q, 2), LIST_BLOCK_M)), finite(scale),
            select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1), not(and(SHARD, CACHED)), not(and(CONTINUED, FP8)),
            same_dims(o_before, o, 0, 1, 2), same_dims(lse_before, o, 0, 1, 2),
            or(not(PACKED), and(and(first_row == 0, first_key == 0), and(diagonal == 0, first_batch == 0))))
    (%q: !qk_view, %k: !k_cache, %v: !v_cache, %o: !o_view, %lse: optional !row_view,
     %cu_seqlens_q: !cu_view when (PACKED), %cu_seqlens_k: !cu_view when (and(PACKED, not(CACHED))),
     %block_table: !table when (PAGE_ROWS > 0), %seq_lens: !cu_view when (CACHED), %leftpad: !cu_view when (LEFTPAD),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED),
     %k_factors, %v_factors: !factors when (DESCALE), %k_scales, %v_scales: !factors when (BY_TOKEN),
     %q_descale, %k_descale, %v_descale: !one_view when (FP8), %o_before: !before_view when (CONTINUED),
     %lse_before: !row_view when (CONTINUED), %scale: !acc, %window_left, %window_right: i32 = -1,
     %first_row, %first_key, %diagonal, %first_head, %first_batch: i32 when (SHARD))
    grid(%bm = select(PACKED, (ceildiv(dim(q, 2), BLOCK_M) + dim(cu_seqlens_q, 0)) * min(dim(q, 2), 1),
                      ceildiv(dim(q, 2), BLOCK_M)),
         %h = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !k_cache
  // The rows of this instance: %b is the batch element or packed sequence, %a its index in the arrays, and %m the first
  // query, relative to the sequence.
  %b, %a, %q_begin, %all_own, %m = tile.expr @longest_block(%e, %bm, %cu_seqlens_q, %all_queries) : i32
  %k_begin, %keys_there = tile.expr @keys_of(%b, %cu_seqlens_k, %all_keys, %k, %block_table, %seq_lens) : i32
  %queries, %keys = tile.expr @unless_few(%b, %cu_seqlens_q, %all_own, %keys_there) : i32
  %origin, %padding = tile.expr @padding_of(%b, %leftpad, %keys) : i32
  %q_part = tile.subview %q dim 2 from %q_begin size %queries when (PACKED)
  %k_part, %v_part = tile.subview %k, %v dim 2 from %k_begin size %keys when (PACKED)
  %k_cached = tile.expr @cached_rows_of_keys(%k, %b, %block_table, %keys) : !k_rows
  %v_cached = tile.expr @cached_rows_of_values(%v, %b, %block_table, %keys) : !v_rows
  %o_part, %lse_part = tile.subview %o, %lse dim 2 from %q_begin size %queries when (PACKED)
  %hk = tile.expr @head_of_keys(%h, %q, %k) : i32
  // Places in the whole: zeros without SHARD.
  %row_0 = tile.expr select(SHARD, %first_row, 0) : i32
  %key_0 = tile.expr select(SHARD, %first_key, 0) : i32
  %shift = tile.expr select(param(and(SHARD, not(PACKED))), %diagonal, @diagonal_shift(%queries, %keys)) : i32
  %at_b = tile.expr %b + select(SHARD, %first_batch, 0) overflow<nsw> : i32
  %at_h = tile.expr %h + select(SHARD, %first_head, 0) overflow<nsw> : i32
  %at_m = arith.addi %m, %row_0 overflow<nsw> : i32
  %scale_fp8 = tile.expr @scale_of_scores(%scale, %q_descale, %k_descale) : !acc
  %scale_all = tile.expr @scale_by_factor(%scale_fp8, %k_factors, %b, %hk) : !acc

  %list_head = tile.expr @head_of_list(%h, %hk, %q, %kv_num_blocks) : i32
  %list_b, %list_h, %list_m, %count = tile.expr @list_of(%b, %list_head, %m, LIST_BLOCK_M : i32, %kv_num_blocks) : i32
  // State of the online softmax before the first key.
  %before_part = tile.subview %o_before dim 2 from %q_begin size %queries : !before_view
  %sums_part = tile.subview %lse_before dim 2 from %q_begin size %queries when (PACKED) : !row_view
  %no_max, %no_sum, %no_o = tile.expr choose(CONTINUED,
      @after_keys(load %before_part[%a, %h, %m, 0] : !o, load %sums_part[%a, %h, %m] : !row),
      @before_keys(%at_h)) : !row, !row, !o
  %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !q

  // Iterate from the last block of keys to the first: blocks that need a mask, or that the end of the keys cuts, then
  // mostly come first.
  %max, %sum, %acc = tile.for_blocks %n in (%origin to %keys
          listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
      against (%m to %queries) descending
      where @attends_among(%row_0, %key_0, %padding, %at_b, %at_h, against, block, %shift, %window_left, %window_right)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_by, %v_by = tile.expr @factors_of_tokens(%n, %keys, %b, %hk, %k, %block_table, %k_scales, %v_scales) : !by
    %k_tile = tile.expr @block_of_keys(%k_part, %k_cached, %a, %hk, %n) : !k
    %v_tile = tile.expr @block_of_values(%v_part, %v_cached, %a, %hk, %n) : !v
    %at_n = arith.addi %n, %key_0 overflow<nsw> : i32
    %max_new, %sum_new, %acc_new = tile.expr choose(BY_TOKEN,
        @round_of_tokens(%q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %at_b, %at_h, %at_m, %at_n,
                         %scale_all, %k_by, %v_by),
        @round_of_keys(%q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %at_b, %at_h, %at_m, %at_n,
                       %scale_all)) : !row, !row, !o
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  // Epilogue: normalize, and store O and LSE.
  %result_fp8 = tile.expr @descaled(@without_unit(@output_of(%sum, %acc) : !o) : !o, %v_descale) : !o
  %result = tile.expr @values_by_factor(%result_fp8, %v_factors, %b, %hk) : !o
  tile.store cast(%result), %o_part[%a, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], TO>
  tile.store @lse_of_head(%at_h, %max, %sum), %lse_part[%a, %h, %m] : !row
}
