// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Softmaxes whose scores may be too large for base 2, and LSE too large to hold the logarithm of a sum: that of equal
// scores of -3e38 is -3e38. Then P = exp2((S - max) * log2(e) - log2(sum)), with the maximum of the scores of the row,
// and the sum of their exponentials relative to it.

tile.link "attention.mlir", "batch.mlir", "pair_types.mlir", "softmax.mlir"

// With FACTORS, for rows whose LSE is so large that its fraction says little about the sum: the maximum of the scores
// in %extras, and log2 of the sum in %rows. Other rows are left as they are. Blocks without such rows compute nothing;
// if there are none at all, %found is 0. With SHARD, keys may be missing: %extras gets LSE then, and %rows 0.
tile.program @large_rows
    params(D: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW, PACKED, LISTED: flag,
           LIST_BLOCK_M, LIST_BLOCK_N, PAD: int, FACTORS, SHARD: flag, ROW_BYTES: int,
           // Blocks too small for roles: most of them have no row to compute, and end at once.
           let SUM_BLOCK: int = select(ROW_BYTES <= 512, 32, 16),
           let SUM_BLOCK_M: int = select(mod(LIST_BLOCK_M, SUM_BLOCK) == 0, SUM_BLOCK,
                                         select(mod(LIST_BLOCK_M, 16) == 0, 16, LIST_BLOCK_M)),
           let SUM_BLOCK_N: int = select(mod(LIST_BLOCK_N, SUM_BLOCK) == 0, SUM_BLOCK,
                                         select(mod(LIST_BLOCK_N, 16) == 0, 16, LIST_BLOCK_N)),
           let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %lse, %rows: !row_view, %extras: !row_view, %found: !found_view,
     %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED), %kv_indices: !list_view when (LISTED),
     %kv_num_blocks: !count_view when (LISTED), %scale: !acc, %window_left, %window_right: i32) {
  tile.launch @large_rows_sums() with (OWN = SUM_BLOCK_M, OTHER = SUM_BLOCK_N) when (FACTORS)
}

// For rows of large LSE among OWN queries: the maximum of their scores, and log2 of their sum.
tile.kernel @large_rows_sums
    params(D: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW, PACKED, LISTED: flag,
           LIST_BLOCK_M, LIST_BLOCK_N, PAD: int, FACTORS, SHARD: flag, OWN, OTHER: int, let BLOCK_M: int = OWN,
           let DP: int = padded_for("scores", D, D, T), let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %lse, %rows: !row_view, %extras: !row_view when (FACTORS), %found: !found_view when (FACTORS),
     %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED), %kv_indices: !list_view when (LISTED),
     %kv_num_blocks: !count_view when (LISTED), %scale: !acc, %window_left, %window_right: i32)
    grid(%part = min((ceildiv(dim(q, 2), OWN) + select(PACKED, dim(cu_seqlens_q, 0), 0)) * min(dim(q, 2), 1),
                     ceildiv(8 * multiprocessors(), max(dim(q, 0) * dim(q, 1), 1))),
         %h = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %c0 = arith.constant 0 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %hk = tile.expr @key_head(%h, %q, %k) : i32
  %blocks = tile.expr ceildiv(%all_queries, OWN) + select(PACKED, dim(%cu_seqlens_q, 0), 0) : i32
  %parts = tile.expr min(%blocks, ceildiv(param(8 * multiprocessors()), dim(%q, 0) * dim(%q, 1))) : i32
  %rounds = tile.expr select(ne(%found[0], 0), ceildiv(%blocks - %part, %parts), 0) : i32
  tile.for %round in (0 to %rounds) {
    %bm = tile.expr %round * %parts + %part : i32
    %b, %a, %q_begin, %queries, %m = tile.expr @longest_block(%e, %bm, %cu_seqlens_q, %all_queries) : i32
    %k_begin, %keys = tile.expr @rows_of(%b, %cu_seqlens_k, %all_keys) : i32
    %q_part, %lse_part = tile.subview %q, %lse dim 2 from %q_begin size %queries when (PACKED)
    %k_part = tile.subview %k dim 2 from %k_begin size %keys when (PACKED)
    %workspace_begin = tile.expr @workspace_begin(%b, %q_begin) : i32
    %near_part, %far_part = tile.subview %rows, %extras dim 2 from %workspace_begin size %queries when (PACKED)
    %shift = tile.expr @diagonal_shift(%queries, %keys) : i32

    // Rows of no sequence have no keys.
    %number = tile.for %i in (0 to OWN) iter_args(%before = 0 : i32) {
      %own_is_large = tile.expr @is_large(%lse_part[%a, %h, %m + %i]) : i1
      %one = arith.extui %own_is_large : i1 to i32
      %now = arith.ori %before, %one : i32
      tile.yield %now
    }
    %has_large = tile.expr ne(%number, 0) : i32
    %end = tile.expr select(%has_large, select(SHARD, 0, %keys), 0) : i32

    %list_b, %list_h, %list_m, %count = tile.expr @list_of(%b, %h, %m, LIST_BLOCK_M : i32, %kv_num_blocks) : i32
    %sink = tile.expr @sink(%h) : !acc
    %no_max = tile.expr full(max(%sink, @lowest())) : !own_row
    %no_sum = tile.expr full(select(%sink == minus_inf, 0, 1)) : !own_row
    %q_tile = tile.load %q_part[%a, %h, %m, 0] : !qk_view -> !own_k
    %max, %sum = tile.for_blocks %n in (%c0 to %end
            listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
        against (%m to %queries)
        where @attends(%b, %h, against, block, %shift, %window_left, %window_right)
        keep %keep : !pair_keep
        iter_args(%max_old = %no_max : !own_row, %sum_old = %no_sum : !own_row) {
      %k_tile = tile.load %k_part[%a, %hk, %n, 0] : !qk_view -> !other_k
      %row_ids = tile.iota %m dim 0 : !pair_pos
      %cols = tile.iota %n dim 1 : !pair_pos
      %natural = tile.expr dot(%q_tile, %k_tile transpose_b) * full(%scale) fastmath<reassoc, contract> : !pair
      %x = tile.expr select(%keep, map @score_mod(%natural, %b, %h, %row_ids, %cols), minus_inf) : !pair
      %max_new = tile.expr max(%max_old, reduce max(%x, 1)) : !own_row
      %p = tile.expr exp2((%x - expand(%max_new, 1)) * log2e) : !pair
      %rescale = tile.expr exp2((%max_old - %max_new) * log2e)
      %sum_block = tile.reduce add %p dim 1 : !pair
      tile.yield %max_new, %sum_old * %rescale + %sum_block
    }
    tile.if %has_large {
      %lse_row = tile.load %lse_part[%a, %h, %m] : !row_view -> !own_row
      %far = tile.expr select(SHARD, %lse_row, %max) : !own_row
      %near = tile.expr select(SHARD, 0, log2(%sum)) : !own_row
      %base2 = tile.expr map @base2_or_zero(%lse_row) : !own_row
      tile.store map @if_large(%lse_row, %near, %base2), %near_part[%a, %h, %m] : !own_row
      tile.store map @if_large(%lse_row, %far, 0 : !own_row), %far_part[%a, %h, %m] : !own_row
    }
  }
}

// %value where LSE is large, else %otherwise.
tile.function @if_large(%lse, %value, %otherwise: !acc) -> !acc = select(@is_large(%lse), %value, %otherwise)
