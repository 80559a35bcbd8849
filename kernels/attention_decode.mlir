// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of one or a few new queries of each sequence over a cache of keys and values.
//
//   O and LSE are those of attention_forward.mlir, with its modifiers and masks
//
// Arguments
//   q             [B, Hq, Sq, D]       T     the last queries of each sequence
//   k_pages       [P, R, Hkv, D]       CACHE pages of R rows of keys; or P = B, and sequence b is page b
//   v_pages       [P, R, Hkv, DV]      CACHE pages of values
//   o             [B, Hq, Sq, DV]      T     result
//   lse           [B, Hq, Sq]          ACC   result, optional
//   seq_lens, block_table, leftpad, k_scales, v_scales   as in lib/cache.mlir; block_table only with PAGE_ROWS, leftpad
//                                            with LEFTPAD, the scales with BY_TOKEN
//   k_descale, v_descale  [B, Hkv]     f32   k_factors and v_factors of lib/cache.mlir, only with DESCALE
//   cu_seqlens_q  [B + 1]              i32   only with PACKED, as in attention_forward.mlir
//   kv_indices    [B or 1, Hkv or 1, 1, L], kv_num_blocks [B or 1, Hkv or 1, 1]   i32, only with LISTED: lists of the
//                                            blocks of keys that all queries of a sequence and a key head attend
//   first_keys, total_lens  [B]        i32   only with SHARD: the position of key 0 of the cache in the whole sequence,
//                                            and under bottom_right the keys of the whole: see lib/spread.mlir
//   scale                              ACC, finite
//   window_left, window_right          i32, >= -1, default -1: that side of the window is open. Other values require
//                                      WINDOW.
//
// Parameters
//   D, DV, T    As in attention_forward.mlir, but T has at least 16 bits.
//   CACHE, BY_TOKEN, DESCALE, PAGE_ROWS, LEFTPAD   As in lib/cache.mlir.
//   GROUP       Query heads that share a key head: Hq = GROUP * Hkv. Default: 1.
//   ROWS        Sq is at most ROWS: 1 (default), 2, 4, 8 or 16. The queries of all heads of a group are the rows of one
//               tile: GROUP * ROWS is at most 128.
//   CAUSAL      none (default), top_left or bottom_right, as in attention_forward.mlir: bottom_right keeps
//               j <= i + seq_lens[b] - Sq. A single query attends all keys then.
//   WINDOW      As in attention_forward.mlir, but only with CAUSAL=bottom_right, since a window is about the position
//               of a query, which is that of one of the last keys. Without causal mask: mods/window_aligned.mlir.
//               Default: false.
//   PACKED      q, o and lse are [1, Hq, T, width], and sequence b has the queries cu_seqlens_q[b] ..
//               cu_seqlens_q[b + 1] - 1. Where they are more than ROWS, they are left out, and rows of theirs and of no
//               sequence are not written: attention_forward.mlir with ABOVE = ROWS writes them. Default: false.
//   LISTED      Queries attend only keys of listed blocks: kv_indices, kv_num_blocks. Other keys are not read. Not with
//               LEFTPAD. Default: false.
//   LIST_BLOCK_N  Keys of a block of the lists: 16, 32, 64 (default), 128 or 256.
//   SHARD       The cache has a part of the keys of longer sequences, whose positions masks and modifiers get:
//               first_keys, total_lens. seq_lens counts the keys of the part, lists name blocks of it. A sink belongs
//               to one of the parts, which attention_merge.mlir merges. Not with LEFTPAD. Default: false.
//   RANKS, RANK_KEYS  With SHARD: so many parts have the keys by turns, RANK_KEYS (1) consecutive ones each. Default:
//               1, the keys of the part are consecutive.
//   SPLITS      The keys of a sequence are attended in at most this many pieces. Their number and size follow from its
//               length and SPLITS alone, so that its result does not depend on others in the batch; the number of
//               program instances that share them may. With 0, the default, an instance has one piece, and the number
//               of instances follows from the extents of the arguments: few sequences have more.
//   PART_KEYS   Keys that an instance should have where more instances do not make a batch faster: at least 1. Default:
//               8192, long enough to hide the end of an instance behind others. Results do not depend on it if SPLITS
//               is given.
//   BLOCK_N     Keys of an iteration. With LISTED, a divisor of LIST_BLOCK_N.
//
// Lengths and page numbers are checked as lib/cache.mlir says. The order of dimensions in memory is arbitrary.
//
// A query that attends no key gets O = 0 and LSE = -inf (with mods/sink.mlir: the sink). Runs are bit-identical.
//
// Algorithm: PagedAttention (Kwon et al., 2023) and Flash-Decoding (Dao, Haziza, Massa and Sizov, 2023). One launch
// attends parts of the keys; the second merges the parts of sequences that have several. The first part has the sinks.

tile.link "lib/attention.mlir", "lib/batch.mlir", "lib/cache.mlir", "lib/forward.mlir", "lib/parts.mlir",
    "lib/pieces.mlir", "lib/quantized.mlir", "lib/spread.mlir", "lib/token_scales.mlir"

// Operands of products.
!k = !tile.tile<[BLOCK_N, DP], MT>
!v = !tile.tile<[BLOCK_N, DVP], MT>
!p = !tile.tile<[BLOCK_M, BLOCK_N], MT>
!row_i32 = !tile.tile<[BLOCK_M], i32>
// Rows by head and query.
!q_heads = !tile.tile<[HEADS, ROWS, DP], T>
!o_heads = !tile.tile<[HEADS, ROWS, DVP], ACC>
!o_t_heads = !tile.tile<[HEADS, ROWS, DVP], T>
!row_heads = !tile.tile<[HEADS, ROWS], ACC>

tile.program @attention_decode
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CACHE: type in [f16, bf16, f32, f64, e4m3, e5m2, i8] = T, BY_TOKEN: flag = false,
           DESCALE: flag = and(bits(CACHE) == 8, not(BY_TOKEN)), GROUP: int = 1, ROWS: int in [1, 2, 4, 8, 16] = 1,
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           PAGE_ROWS: int in [0, 1, 8, 16, 32, 64, 128] = 0, PACKED, LEFTPAD, LISTED: flag = false,
           LIST_BLOCK_N: int in [0, 16, 32, 64, 128, 256] = select(LISTED, 64, 0), SHARD: flag = false,
           RANKS, RANK_KEYS: int = 1, SPLITS: int = 0, PART_KEYS: int = 8192,
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let WIDE: flag = and(has_roles(), bits(T) == 16),
           BLOCK_N: int in [16, 32, 64, 128, 256] =
               min(select(LISTED, LIST_BLOCK_N, 256),
                   select(WIDE, select(floordiv(ROW_BYTES * bits(CACHE), bits(T)) <= 256, 128, 64),
                          select(or(not(on_gpu()), ROW_BYTES <= 256), 64, select(ROW_BYTES <= 512, 32, 16)))),
           // With tgpu.transpose_few_rows, keys are rows of products, and queries are columns.
           let FEW: flag = and(and(GROUP * ROWS <= 32, mod(padded(DV), 64) == 0), BLOCK_N >= 64),
           let BLOCK_M: int = select(WIDE, select(FEW, ceildiv(GROUP * ROWS, 8) * 8,
                                                  select(GROUP * ROWS <= 64, 64, 128)),
                                     ceildiv(GROUP * ROWS, 16) * 16), let ACC: type = accumulator(T),
           // Whether an instance adds the results of several pieces, for which it has registers if queries are columns,
           // and results have less than 8192 elements.
           let FOLDS: flag = and(SPLITS > 1, or(not(on_gpu()), and(FEW, BLOCK_M * padded(DV) < 8192))),
           let CACHED: flag = true, let SEQUENCES: int = select(PACKED, dim(cu_seqlens_q, 0) - 1, dim(q, 0)),
           let QUERIES: int = select(PACKED, ROWS, dim(q, 2)),
           // Keys that a sequence may have.
           let ROOM: int = select(PAGE_ROWS > 0, dim(block_table, 1) * dim(k_pages, 1), dim(k_pages, 1)),
           let SHARE_KEYS: int = select(and(SPLITS > 0, not(FOLDS)), 1, PART_KEYS),
           // What parts consist of: iterations, or blocks of the lists.
           let PART_UNIT: int = select(LISTED, LIST_BLOCK_N, BLOCK_N),
           let ATTENDED: int = select(LISTED, min(dim(kv_indices, 3) * LIST_BLOCK_N, ROOM), ROOM),
           // Parts that a sequence does not have take time, too: no more than fill the GPU four times.
           let PAIRS: int = max(SEQUENCES * dim(k_pages, 2), 1),
           let LONG_PARTS: int = max(min(ceildiv(ATTENDED, SHARE_KEYS), ceildiv(4 * multiprocessors(), PAIRS)), 1),
           // Whether parts pay if a sequence fills its room, as in @parts_of.
           let BLOCKS: int = max(ceildiv(ATTENDED, PART_UNIT), 1),
           let EVEN: int = max(select(FOLDS, min(floordiv(multiprocessors(), PAIRS), SPLITS),
                                      floordiv(multiprocessors(), PAIRS)), 1),
           let PAYS: flag = BLOCKS * max(2 * PAIRS, multiprocessors()) >
               ceildiv(BLOCKS, EVEN) * max(2 * PAIRS * EVEN, multiprocessors()) + 4 * multiprocessors(),
           let FAST: int = select(PAYS, max(EVEN, LONG_PARTS), LONG_PARTS),
           let MOST: int = min(BLOCKS, select(FOLDS, min(SPLITS, FAST), select(SPLITS > 0, SPLITS, FAST))),
           // The same for the keys that a window leaves. The size of workspaces does not depend on it.
           let KEPT: int = select(window_left >= 0, min(window_left + ROWS, ATTENDED), ATTENDED),
           let KEPT_BLOCKS: int = max(ceildiv(KEPT, PART_UNIT), 1),
           let KEPT_PARTS: int = max(min(ceildiv(KEPT, SHARE_KEYS), ceildiv(4 * multiprocessors(), PAIRS)), 1),
           let KEPT_PAYS: flag = KEPT_BLOCKS * max(2 * PAIRS, multiprocessors()) >
               ceildiv(KEPT_BLOCKS, EVEN) * max(2 * PAIRS * EVEN, multiprocessors()) + 4 * multiprocessors(),
           let PARTS: int = select(and(WINDOW, or(SPLITS == 0, FOLDS)),
                                   min(MOST, select(KEPT_PAYS, max(EVEN, KEPT_PARTS), KEPT_PARTS)), MOST),
           let PIECES: int = select(FOLDS, select(MOST > 1, min(BLOCKS, SPLITS), 1), MOST))
    require(D <= 256, DV <= 256, or(bits(CACHE) == 8, CACHE == T), GROUP >= 1, GROUP * ROWS <= 128, SPLITS >= 0,
            PART_KEYS >= 1,
            dim(q, 1) == GROUP * dim(k_pages, 2), or(PACKED, dim(q, 2) <= ROWS),
            mod(dim(k_pages, 1), max(PAGE_ROWS, 1)) == 0, same_dims(v_pages, k_pages, 0, 1, 2),
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), dim(seq_lens, 0) == SEQUENCES,
            or(PAGE_ROWS > 0, dim(k_pages, 0) == SEQUENCES), or(PAGE_ROWS == 0, dim(block_table, 0) == SEQUENCES),
            or(PAGE_ROWS > 0, dim(block_table, 0) == 0), or(not(WINDOW), CAUSAL == "bottom_right"),
            or(not(PACKED), dim(q, 0) == 1), ascending(cu_seqlens_q), within(cu_seqlens_q, 0, dim(q, 2) + 1),
            within(seq_lens, 0, ROOM + 1),
            within_first(block_table, 0, dim(k_pages, 0), seq_lens, max(dim(k_pages, 1), 1)),
            same_dims(leftpad, seq_lens, 0), within(leftpad, 0, ROOM + 1), finite(scale), not(and(LISTED, LEFTPAD)),
            or(not(LISTED), and(LIST_BLOCK_N > 0, mod(LIST_BLOCK_N, BLOCK_N) == 0)),
            same_dims(kv_indices, kv_num_blocks, 0, 1, 2), dim(kv_num_blocks, 2) == 1,
            or(dim(kv_num_blocks, 0) == 1, dim(kv_num_blocks, 0) == SEQUENCES),
            or(dim(kv_num_blocks, 1) == 1, dim(kv_num_blocks, 1) == dim(k_pages, 2)), RANKS >= 1, RANK_KEYS >= 1,
            RANKS * RANK_KEYS <= 65536, or(SHARD, and(RANKS == 1, RANK_KEYS == 1)), not(and(SHARD, LEFTPAD)),
            same_dims(first_keys, seq_lens, 0), same_dims(total_lens, seq_lens, 0), within(first_keys, 0, 2147483647),
            within(total_lens, 0, 2147483647), dim(k_descale, 0) == SEQUENCES, dim(k_descale, 1) == dim(k_pages, 2),
            same_dims(v_descale, k_descale, 0, 1), or(not(BY_TOKEN), bits(CACHE) == 8),
            dim(k_scales, 0) == dim(k_pages, 0) * dim(k_pages, 1), dim(k_scales, 1) == dim(k_pages, 2),
            same_dims(v_scales, k_scales, 0, 1), select(WINDOW, window_left >= -1, window_left == -1),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q: !qk_view, %k_pages: !k_cache, %v_pages: !v_cache, %o: !v_view, %lse: optional !row_view,
     %block_table: optional !table, %seq_lens: !lengths, %cu_seqlens_q: !lengths when (PACKED),
     %leftpad: !lengths when (LEFTPAD), %kv_indices: !list_view when (LISTED),
     %kv_num_blocks: !count_view when (LISTED), %k_descale, %v_descale: !factors when (DESCALE),
     %k_scales, %v_scales: !factors when (BY_TOKEN), %first_keys: !lengths when (SHARD),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %scale: !acc,
     %window_left, %window_right: i32 = -1) {
  %o_parts = tile.workspace [SEQUENCES, dim(q, 1), QUERIES, PIECES, DV] : !o_parts
  %lse_parts = tile.workspace [SEQUENCES, dim(q, 1), QUERIES, PIECES] : !lse_parts
  // Without elements: its extent is the number of instances that share a sequence.
  %shares = tile.workspace [PARTS, 0] : !table
  tile.launch @attention_decode_part(o_parts = %o_parts, lse_parts = %lse_parts, shares = %shares)
      with (PART_KEYS = SHARE_KEYS) : !o_parts, !lse_parts, !table
  tile.launch @attention_decode_merge(o_parts = %o_parts, lse_parts = %lse_parts, shares = %shares)
      with (PART_KEYS = SHARE_KEYS) when (PARTS > 1) : !o_parts, !lse_parts, !table
}

// The element of the arrays in which the queries of sequence b are, the first of them and their number: none if they
// are too many.
tile.function @queries_of(%b: i32, %cu_seqlens_q: !lengths, %all: i32) -> (i32, i32, i32) {
  %a = tile.expr select(PACKED, 0, %b) : i32
  %begin, %given = tile.expr @rows_of(%b, %cu_seqlens_q, %all) : i32
  tile.result %a, %begin, select(and(PACKED, %given > ROWS), 0, %given) : i32, i32, i32
}

// The keys of sequence b, the first one that is no padding and that a window may keep, how many iterations the keys
// from there on take, how many of them a part has, at least 1, how many pieces these are, and how many iterations a
// piece has. So part n exists if n times those of a part are fewer than all, which takes no division.
//
// With LISTED, blocks are those of the list of key head hk, and parts begin with the first key.
tile.function @parts_of(%b, %hk, %queries: i32, %k_pages: !k_cache, %block_table: !table, %seq_lens, %leftpad: !lengths,
                        %kv_indices: !list_view, %kv_num_blocks: !count_view, %first_keys, %total_lens: !lengths,
                        %window_left, %most, %pairs: i32) -> (i32, i32, i32, i32, i32, i32) {
  %all_keys = tile.expr @cached_keys(%b, dim(%k_pages, 1), %block_table, %seq_lens) : i32
  %keys = tile.expr select(and(PACKED, %queries == 0), 0, %all_keys) : i32
  %block_n = tile.param BLOCK_N : i32
  %origin, %padding = tile.expr @padding_of(%b, %leftpad, %keys) : i32
  %length = arith.subi %keys, %origin : i32
  // Windows, and keys behind padding, begin at whole iterations.
  %shift = tile.expr @shift_in_whole(%b, %queries, %keys, %total_lens) : i32
  %first_key = tile.expr @first_key_of(%b, %first_keys) : i32
  // A side of more than all keys would wrap.
  %wanted_position = tile.expr %shift - %origin - min(%window_left, select(SHARD, %shift, %keys) + %queries) : i32
  %wanted = tile.expr @key_not_behind(%wanted_position, %first_key) : i32
  %is_open = tile.expr or(%window_left < 0, param(not(WINDOW))) : i32
  %of_window = tile.expr select(%is_open, 0, min(max(%wanted, 0), %length) / BLOCK_N) : i32
  %first_block = tile.expr select(LEFTPAD, max(%of_window, (%padding - %origin) / BLOCK_N), %of_window) : i32
  %first = tile.expr %origin + %first_block * BLOCK_N : i32
  // Unsigned, since a signed division takes more instructions, and a first tile waits for all of them. No sum wraps: an
  // extent is at most 2^31 - 1.
  %up_to_block = tile.expr %length + (BLOCK_N + -1) : i32
  %all_blocks = arith.divui %up_to_block, %block_n : i32
  %blocks_behind = arith.subi %all_blocks, %first_block : i32
  %listed = tile.param LISTED : i1
  %blocks = scf.if %listed -> (i32) {
    %list_b, %list_h = tile.expr @list_of_keys(%b, %hk, %kv_num_blocks) : i32
    %given = tile.at %kv_num_blocks[%list_b, %list_h, 0] : !count_view
    %entries = tile.dim %kv_indices, 3 : !list_view
    %count = tile.expr min(max(%given, 0), %entries) : i32
    %own = tile.expr select(%keys == 0, 0, %count) : i32
    scf.yield %own : i32
  } else {
    scf.yield %blocks_behind : i32
  }
  %first_own = tile.expr select(LISTED, 0, %first) : i32
  %share = tile.expr @blocks_of_part(%blocks, %most, %pairs) : i32
  %pieces, %each, %of_piece = tile.expr @whole_pieces(%share, %blocks) : i32, i32, i32
  tile.result %keys, %first_own, %blocks, %each, %pieces, %of_piece : i32, i32, i32, i32, i32, i32
}

// The first two indices of the list of a sequence and a key head. All share a dimension of extent 1.
tile.function @list_of_keys(%b, %hk: i32, %counts: !count_view) -> (i32, i32) {
  %batches = tile.dim %counts, 0 : !count_view
  %heads = tile.dim %counts, 1 : !count_view
  tile.result @index_or_zero(%b, %batches), @index_or_zero(%hk, %heads) : i32, i32
}

// A part of the keys. The only part of a sequence is its result.
tile.kernel @attention_decode_part
    params(D, DV: int, T, CACHE: type, BY_TOKEN, DESCALE: flag, GROUP, ROWS: int,
           CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag, PAGE_ROWS: int,
           PACKED, LEFTPAD, LISTED: flag, LIST_BLOCK_N: int, SHARD: flag,
           RANKS, RANK_KEYS, SPLITS: int, FOLDS: flag, PART_KEYS, PART_UNIT, BLOCK_M, BLOCK_N: int,
           let HEADS: int = floordiv(BLOCK_M, ROWS), let HEAD_ROWS: int = ROWS, let DP: int = padded(D),
           let DVP: int = padded(DV), let ACC: type = accumulator(T), let CACHED: flag = true, let PAIR_SHARE: int = 2,
           // The type of products. f16 has the values of 8 bits, which take four times as long to convert to bf16.
           let SCALED: flag = and(bits(CACHE) == 8, T == bf16), let MT: type = select(SCALED, f16, T),
           let UNIT: int = select(bits(MT) == 16, 256, 1),
           // A single query attends all keys under bottom_right.
           let MASKED: flag = or(or(or(WINDOW, and(LEFTPAD, PAGE_ROWS > 0)), replaced("mask_mod")),
               or(CAUSAL == "top_left", and(CAUSAL == "bottom_right", ROWS > 1))),
           let NATURAL: flag = replaced("score_mod.unbounded"), let SINKS: flag = replaced("sink"))
    // What follows from numbers that K and V share is in uniform registers, whose operations take longer. Where a block
    // has few pages and one warpgroup computes, so that instructions do not count, each reads its own.
    require(or(and(PAGE_ROWS > 32, BLOCK_M <= 16), dim(v_pages, 0) == dim(k_pages, 0)),
            or(and(PAGE_ROWS > 32, BLOCK_M <= 16), dim(v_pages, 1) == dim(k_pages, 1)),
            dim(v_pages, 2) == dim(k_pages, 2))
    (%q: !qk_view, %k_pages: !k_cache, %v_pages: !v_cache, %o: !v_view, %lse: optional !row_view, %o_parts: !o_parts,
     %lse_parts: !lse_parts, %block_table: optional !table, %seq_lens: !lengths, %cu_seqlens_q: !lengths when (PACKED),
     %leftpad: !lengths when (LEFTPAD), %kv_indices: !list_view when (LISTED),
     %kv_num_blocks: !count_view when (LISTED), %k_descale, %v_descale: !factors when (DESCALE),
     %k_scales, %v_scales: !factors when (BY_TOKEN), %first_keys: !lengths when (SHARD),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %shares: !table when (or(FOLDS, WINDOW)),
     %scale: !acc, %window_left, %window_right: i32)
    grid(%part = select(or(FOLDS, WINDOW), dim(shares, 0), dim(o_parts, 3)), %hk = dim(k_pages, 2),
         %b = select(PACKED, dim(o_parts, 0), dim(q, 0)))
    attributes {tgpu.awaits_launch, tgpu.transpose_few_rows} {
  %c0 = arith.constant 0 : i32
  %most = tile.expr choose(or(FOLDS, WINDOW), dim(%shares, 0), dim(%o_parts, 3)) : i32
  %sequences = tile.expr select(PACKED, dim(%o_parts, 0), dim(%q, 0)) : i32
  %a, %q_begin, %queries = tile.expr @queries_of(%b, %cu_seqlens_q, dim(%q, 2)) : i32
  %q_part = tile.subview %q dim 2 from %q_begin size %queries when (PACKED) : !qk_view
  %o_part = tile.subview %o dim 2 from %q_begin size %queries when (PACKED) : !v_view
  %lse_part = tile.subview %lse dim 2 from %q_begin size %queries when (PACKED) : !row_view
  %pairs = tile.expr %sequences * dim(%k_pages, 2) : i32
  %keys, %first, %blocks, %each, %pieces, %of_piece = tile.expr @parts_of(%b, %hk, %queries, %k_pages, %block_table,
      %seq_lens, %leftpad, %kv_indices, %kv_num_blocks, %first_keys, %total_lens, %window_left, %most, %pairs)
      : i32, i32, i32, i32, i32, i32
  %keys_each = tile.expr %of_piece * BLOCK_N : i32
  %shift = tile.expr @shift_in_whole(%b, %queries, %keys, %total_lens) : i32
  %first_key = tile.expr @first_key_of(%b, %first_keys) : i32
  %origin, %padding = tile.expr @padding_of(%b, %leftpad, %keys) : i32
  %offset = tile.expr select(SHARD, %first_key, %padding) : i32
  %k = tile.paged %k_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !k_cache, !table -> !k_rows
  %v = tile.paged %v_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !v_cache, !table -> !v_rows
  %scale_all = tile.expr select(DESCALE, %scale * cast(%k_descale[%b, %hk] : f32), %scale) : !acc
  // The heads of the group. Further rows of the tile are queries of other heads, or zero, and are not stored; they
  // attend as others do, so that only the last keys need a mask.
  %h = tile.expr %hk * GROUP : i32
  %one_query = tile.param ROWS == 1 : i1
  %q_tile = scf.if %one_query -> (!q) {
    %of_heads = tile.load %q_part[%a, %h, 0, 0] dims [1, 3] : !qk_view -> !q
    scf.yield %of_heads : !q
  } else {
    %of_queries = tile.load %q_part[%a, %h, 0, 0] : !qk_view -> !q_heads
    %rows = tile.reshape %of_queries : !q_heads -> !q
    scf.yield %rows : !q
  }
  %q_own, %scales = tile.expr @queries_of_products(%q_tile, %scale_all) : !q_m, !row
  %listed = tile.param LISTED : i1
  %no_sinks = tile.constant minus_inf : !row
  // Each piece begins without keys, so that its result does not depend on the number of pieces of an instance. Without
  // FOLDS there is one, and the loop vanishes.
  %max_none, %sum_none, %o_none = tile.expr @no_keys() : !row, !row, !o
  %first_piece, %own_pieces = tile.expr @pieces_of_instance(%part, %pieces, %of_piece, %blocks) : i32, i32
  %c1 = arith.constant 1 : i32
  scf.for %i = %c0 to %own_pieces step %c1
      iter_args(%max_before = %max_none, %sum_before = %sum_none, %o_before = %o_none) -> (!row, !row, !o) : i32 {
    %piece = arith.addi %first_piece, %i : i32
    %is_first = tile.expr %piece == 0 : i32
    %blocks_before = arith.muli %piece, %of_piece : i32
    %begin_of_part = tile.expr %first + %blocks_before * BLOCK_N : i32
    %end_of_part = tile.expr min(%begin_of_part + %keys_each, %keys) : i32
    // A part of a list may have any keys.
    %begin = tile.expr select(LISTED, 0, %begin_of_part) : i32
    %end = tile.expr select(LISTED, %keys, %end_of_part) : i32
    %list_b, %list_h, %count = scf.if %listed -> (i32, i32, i32) {
      %own_b, %own_h = tile.expr @list_of_keys(%b, %hk, %kv_num_blocks) : i32
      %entries = tile.expr min(max(%blocks - %blocks_before, 0), %of_piece) : i32
      scf.yield %own_b, %own_h, %entries : i32, i32, i32
    } else {
      scf.yield %c0, %c0, %c0 : i32, i32, i32
    }
    %list = tile.subview %kv_indices dim 3 from %blocks_before size %count : !list_view
    %sinks = tile.expr choose(SINKS, select(%is_first, map @sink_of_row(%h, iota(%c0, 0) : !row_i32), %no_sinks),
        %no_sinks) : !row
    %no_max, %no_sum, %no_o = tile.expr choose(SINKS, @before_keys_of(%sinks), @no_keys()) : !row, !row, !o

    %tile_rows = tile.param BLOCK_M : i32
    %max, %sum, %acc = tile.for_blocks %n in (%begin to %end
            listed %list[%list_b, %list_h, %c0] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
        against (%c0 to %tile_rows)
        where @attends_of_cached(%offset, %b, %h, against, block, %shift, %window_left, %window_right)
            when (MASKED)
        keep %keep : !keep
        iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
      %k_token, %v_token = tile.expr @factors_of_tokens(%n, %keys, %b, %hk, %k_pages, %block_table, %k_scales,
          %v_scales) : !by
      %k_stored = tile.load %k[%n, %hk, 0] dims [0, 2] : !k_rows -> !k_stored
      %v_stored = tile.load %v[%n, %hk, 0] dims [0, 2] : !v_rows -> !v_stored
      %products_own = tile.expr @products_by_token(dot(%q_own, cast(%k_stored) : !k transpose_b) : !s, %k_token) : !s
      %scales_own = tile.expr select(SCALED, expand(%scales, 1), full(%scale_all)) : !s
      %rows = tile.iota %c0 dim 0 : !pos
      %positions = tile.expr map @key_in_whole(iota(%n, 1) : !pos, %first_key) : !pos
      %p, %max_new, %sum_new, %acc_kept = tile.expr @p_of_pairs(%products_own, %scales_own, %keep, %max_old, %sum_old,
          %acc_old, %b, %h, %rows, %positions) : !s, !row, !row, !o
      %acc_new = tile.expr dot(cast(@p_by_token(%p, %v_token) : !s) : !p, cast(%v_stored) : !v, %acc_kept) : !o
      tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
    }

    %normal = tile.expr @without_unit(@output_of(%sum, %acc) : !o) : !o
    %result = tile.expr select(DESCALE, %normal * full(cast(%v_descale[%b, %hk])), %normal) : !o
    %lse_row = tile.expr @lse_with_sinks(%sinks, %max, %sum) : !row
    // The results of the pieces up to this one.
    %max_all, %sum_all, %o_all = tile.if FOLDS -> (!row, !row, !o) {
      tile.yield @with_piece(%lse_row, %result, %max_before, %sum_before, %o_before) : !row, !row, !o
    } else {
      tile.yield %max_before, %sum_before, %o_before
    }
    // A sequence without keys has one part as well, without keys.
    %is_whole = arith.cmpi sle, %blocks, %each : i32
    scf.if %is_whole {
      %is_last = tile.expr %i + 1 == %own_pieces : i32
      scf.if %is_last {
        %o_own = tile.expr choose(FOLDS, @output_of(%sum_all, %o_all), %result) : !o
        %lse_own = tile.expr choose(FOLDS, %max_all + log(%sum_all), %lse_row) : !row
        %rows = tile.expr choose(FOLDS, GROUP, select(%is_first, GROUP, 0)) : i32
        %o_group = tile.subview %o_part dim 1 from %h size %rows : !v_view
        %lse_group = tile.subview %lse_part dim 1 from %h size %rows : !row_view
        %o_tile = tile.cast %o_own : !o -> !o_t
        scf.if %one_query {
          tile.store %o_tile, %o_group[%a, 0, 0, 0] dims [1, 3] : !o_t, !v_view
          tile.store %lse_own, %lse_group[%a, 0, 0] dims [1] : !row, !row_view
        } else {
          %o_heads = tile.reshape %o_tile : !o_t -> !o_t_heads
          tile.store %o_heads, %o_group[%a, 0, 0, 0] : !o_t_heads, !v_view
          %lse_heads = tile.reshape %lse_own : !row -> !row_heads
          tile.store %lse_heads, %lse_group[%a, 0, 0] : !row_heads, !row_view
        }
      }
    } else {
      %rows = tile.expr select(%blocks > %blocks_before, GROUP, 0) : i32
      %o_group = tile.subview %o_parts dim 1 from %h size %rows : !o_parts
      %lse_group = tile.subview %lse_parts dim 1 from %h size %rows : !lse_parts
      scf.if %one_query {
        tile.store %result, %o_group[%b, 0, 0, %piece, 0] dims [1, 4] : !o, !o_parts
        tile.store %lse_row, %lse_group[%b, 0, 0, %piece] dims [1] : !row, !lse_parts
      } else {
        %o_heads = tile.reshape %result : !o -> !o_heads
        tile.store %o_heads, %o_group[%b, 0, 0, %piece, 0] dims [1, 2, 4] : !o_heads, !o_parts
        %lse_heads = tile.reshape %lse_row : !row -> !row_heads
        tile.store %lse_heads, %lse_group[%b, 0, 0, %piece] dims [1, 2] : !row_heads, !lse_parts
      }
    }
    scf.yield %max_all, %sum_all, %o_all : !row, !row, !o
  }
}

tile.kernel @attention_decode_merge
    params(D, DV: int, T, CACHE: type, GROUP, ROWS: int, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW: flag, PAGE_ROWS: int, PACKED, LEFTPAD, LISTED, SHARD: flag,
           RANKS, RANK_KEYS, SPLITS: int, FOLDS: flag, PART_KEYS, PART_UNIT, BLOCK_N: int, let MERGE: int = 8,
           let PAIR_SHARE: int = 2, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o: !v_view, %lse: optional !row_view, %o_parts: !o_parts, %lse_parts: !lse_parts, %k_pages: !k_cache,
     %block_table: optional !table, %seq_lens: !lengths, %cu_seqlens_q: !lengths when (PACKED),
     %leftpad: !lengths when (LEFTPAD), %kv_indices: !list_view when (LISTED),
     %kv_num_blocks: !count_view when (LISTED), %first_keys: !lengths when (SHARD),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %shares: !table when (or(FOLDS, WINDOW)),
     %window_left: i32)
    grid(%h = dim(o, 1), %i = select(PACKED, dim(o_parts, 2), dim(o, 2)),
         %b = select(PACKED, dim(o_parts, 0), dim(o, 0))) {
  %most = tile.expr choose(or(FOLDS, WINDOW), dim(%shares, 0), dim(%o_parts, 3)) : i32
  %room = tile.dim %o_parts, 3 : !o_parts
  %pairs = tile.expr select(PACKED, dim(%o_parts, 0), dim(%o, 0)) * dim(%k_pages, 2) : i32
  %are_few, %o_first, %lse_first = tile.expr @first_parts(%o_parts, %lse_parts, %b, %h, %i, %room, %pairs)
      : i1, !merged, !merged_row
  %a, %q_begin, %queries = tile.expr @queries_of(%b, %cu_seqlens_q, dim(%o, 2)) : i32
  %hk = tile.expr %h / GROUP : i32
  %keys, %first_key, %blocks, %each, %pieces, %of_piece = tile.expr @parts_of(%b, %hk, %queries, %k_pages,
      %block_table, %seq_lens, %leftpad, %kv_indices, %kv_num_blocks, %first_keys, %total_lens, %window_left, %most,
      %pairs) : i32, i32, i32, i32, i32, i32
  // A sequence that one instance attends has its result.
  %blocks_of_parts = tile.expr choose(FOLDS, select(%blocks > %each, %blocks, 0), %blocks) : i32
  %max, %sum, %acc = tile.expr @merge_all_parts(%are_few, %o_first, %lse_first, %o_parts, %lse_parts, %b, %h, %i,
      %blocks_of_parts, %of_piece) : !columns, !columns, !columns
  %rows = tile.expr select(%blocks > %each, 1, 0) : i32
  %o_own = tile.subview %o dim 2 from %q_begin size %queries when (PACKED) : !v_view
  %lse_own = tile.subview %lse dim 2 from %q_begin size %queries when (PACKED) : !row_view
  %o_head = tile.subview %o_own dim 1 from %h size %rows : !v_view
  %lse_head = tile.subview %lse_own dim 1 from %h size %rows : !row_view
  %o_tile = tile.expr %acc * map @reciprocal_or_zero(%sum) : !columns -> !tile.tile<[DVP], T>
  tile.store %o_tile, %o_head[%a, 0, %i, 0] : !tile.tile<[DVP], T>, !v_view
  // All columns have the same LSE; the view of one head has room for one.
  %lse_columns = tile.expr %max + log(%sum) : !columns
  tile.store %lse_columns, %lse_head[%a, 0, %i] dims [1] : !columns, !row_view
}
