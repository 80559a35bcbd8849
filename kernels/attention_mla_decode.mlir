// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Multi-head latent attention (DeepSeek-V2, 2024) of one or a few new queries of each sequence: the cache has one
// latent row for each key, which all heads share, and whose first DV columns are the value, too.
//
//   O_i   = softmax(scale * Q_i K^T) K[:, 0:DV],  LSE_i = log sum exp(scale * Q_i K^T)
//
// Arguments
//   q             [B, Hq, Sq, D]       T     the last queries of each sequence, multiplied by the up-projection of keys
//   k_pages       [P, R, 1, D]         T     pages of R latent rows; or P = B, and sequence b is page b
//   o             [B, Hq, Sq, DV]      T     result
//   lse           [B, Hq, Sq]          ACC   result, optional
//   block_table   [B, L]               i32   key j of sequence b is row j mod R of page block_table[b, j / R]; only
//                                            with PAGE_ROWS
//   seq_lens      [B]                  i32   keys of each sequence, at most L * R, or R
//   first_keys, total_lens  [B]        i32   as in attention_decode.mlir; only with SHARD and bottom_right
//   scale                              ACC, finite
//
// Parameters
//   D           Columns of a row of the cache, at most 768: 576 in DeepSeek-V3, of which the last 64 are rotated.
//   DV          Columns of a value, at most D and 512, a multiple of 32: 512 in DeepSeek-V3.
//   T           Type of elements, at least 16 bits.
//   GROUP       Hq, the number of query heads.
//   CAUSAL      none (default), or bottom_right: query i attends j <= i + seq_lens[b] - Sq.
//   PAGE_ROWS   As in attention_decode.mlir. Default: 0, without a block table.
//   SHARD, RANKS, RANK_KEYS  As in attention_decode.mlir. Default: false, 1, 1.
//   SPLITS      As in attention_decode.mlir. Default: 0.
//   BLOCK_N     Keys of an iteration.
//
// Lengths, page numbers and unused rows are treated as in attention_decode.mlir. A query that attends no key gets O = 0
// and LSE = -inf. Runs are bit-identical.
//
// Algorithm: FlashMLA (DeepSeek, 2025). A tile has up to 64 heads of one query. An iteration reads a block of rows
// once: the columns of both halves of the values, then the others. The scores are the sum of three products, and each
// half of the values has a sum of its own, so that different threads may compute the two.

tile.link "lib/attention.mlir", "lib/cache.mlir", "lib/forward.mlir", "lib/parts.mlir", "lib/spread.mlir"

!o_view   = !tile.view<[?, ?, ?, DV], T>
!k_view   = !tile.view<[?, ?, ?, D], T>
!k_rows   = !tile.view<[?, ?, D], T>

// Columns of half a value, and those that are no values.
!q_half = !tile.tile<[BLOCK_M, DVP], T>
!q_rest = !tile.tile<[BLOCK_M, REST], T>
!k_half = !tile.tile<[BLOCK_N, DVP], T>
!k_rest = !tile.tile<[BLOCK_N, REST], T>

tile.program @attention_mla_decode
    params(D: int, DV: int = min(D, 512), T: type in [f16, bf16, f32, f64], GROUP: int,
           CAUSAL: enum in ["none", "bottom_right"] = "none", PAGE_ROWS: int in [0, 1, 8, 16, 32, 64, 128] = 0,
           SHARD: flag = false, RANKS: int = 1, RANK_KEYS: int = 1, SPLITS: int = 0,
           let WIDE: flag = and(has_roles(), bits(T) == 16),
           BLOCK_N: int in [16, 32, 64, 128] =
               select(or(WIDE, not(on_gpu())), 64, select(bits(T) == 16, 32, 16)),
           // With tgpu.transpose_few_rows, keys are rows of products, and heads are columns.
           let FEW: flag = and(or(GROUP <= 32, PAGE_ROWS == 1), mod(DV, 128) == 0),
           let BLOCK_M: int = select(WIDE, select(FEW, min(ceildiv(GROUP, 8) * 8, 32), 64), 16),
           let ACC: type = accumulator(T),
           let ROOM: int = select(PAGE_ROWS > 0, dim(block_table, 1) * dim(k_pages, 1), dim(k_pages, 1)),
           let PART_KEYS: int = select(SPLITS > 0, 1, 8192), let PART_UNIT: int = BLOCK_N,
           // With more instances, none takes longer for a block: products, not the memory, are the limit of each.
           let PAIR_SHARE: int = 1,
           let PAIRS: int = max(dim(q, 0) * dim(q, 2) * ceildiv(GROUP, BLOCK_M), 1),
           let LONG_PARTS: int = max(min(ceildiv(ROOM, PART_KEYS), ceildiv(4 * multiprocessors(), PAIRS)), 1),
           let BLOCKS: int = max(ceildiv(ROOM, BLOCK_N), 1), let EVEN: int = max(floordiv(multiprocessors(), PAIRS), 1),
           let PAYS: flag = BLOCKS * max(PAIR_SHARE * PAIRS, multiprocessors()) >
               ceildiv(BLOCKS, EVEN) * max(PAIR_SHARE * PAIRS * EVEN, multiprocessors()) + 4 * multiprocessors(),
           let PARTS: int = min(BLOCKS, select(SPLITS > 0, SPLITS, select(PAYS, max(EVEN, LONG_PARTS), LONG_PARTS))))
    require(DV >= 32, DV <= 512, mod(DV, 32) == 0, DV <= D, D - DV <= 256, GROUP >= 1, GROUP <= 128, SPLITS >= 0,
            dim(q, 1) == GROUP * dim(k_pages, 2), dim(k_pages, 2) == 1, mod(dim(k_pages, 1), max(PAGE_ROWS, 1)) == 0,
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), same_dims(seq_lens, q, 0),
            or(PAGE_ROWS > 0, dim(k_pages, 0) == dim(q, 0)), or(PAGE_ROWS == 0, dim(block_table, 0) == dim(q, 0)),
            or(PAGE_ROWS > 0, dim(block_table, 0) == 0),
            within(seq_lens, 0, ROOM + 1),
            within_first(block_table, 0, dim(k_pages, 0), seq_lens, max(dim(k_pages, 1), 1)), finite(scale),
            RANKS >= 1, RANK_KEYS >= 1, RANKS * RANK_KEYS <= 65536, or(SHARD, and(RANKS == 1, RANK_KEYS == 1)),
            same_dims(first_keys, seq_lens, 0), same_dims(total_lens, seq_lens, 0),
            within(first_keys, 0, 2147483647), within(total_lens, 0, 2147483647))
    (%q: !qk_view, %k_pages: !k_view, %o: !o_view, %lse: optional !row_view, %block_table: optional !table,
     %seq_lens: !lengths, %first_keys: !lengths when (and(SHARD, CAUSAL == "bottom_right")),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %scale: !acc) {
  %o_parts = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2), PARTS, DV] : !o_parts
  %lse_parts = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2), PARTS] : !lse_parts
  tile.launch @attention_mla_decode_part(o_parts = %o_parts, lse_parts = %lse_parts) : !o_parts, !lse_parts
  tile.launch @attention_mla_decode_merge(o_parts = %o_parts, lse_parts = %lse_parts) when (PARTS > 1)
      : !o_parts, !lse_parts
}

// The keys of sequence b, how many iterations they take, and how many of these a part has. `pairs`: the tiles of all
// sequences.
tile.function @mla_parts_of(%b: i32, %k_pages: !k_view, %block_table: !table, %seq_lens: !lengths, %most,
                            %pairs: i32) -> (i32, i32, i32) {
  %keys = tile.expr @cached_keys(%b, dim(%k_pages, 1), %block_table, %seq_lens) : i32
  %block_n = tile.param BLOCK_N : i32
  %up_to_block = tile.expr %keys + param(BLOCK_N - 1) : i32
  %blocks = arith.divui %up_to_block, %block_n : i32
  tile.result %keys, %blocks, @blocks_of_part(%blocks, %most, %pairs) : i32, i32, i32
}

// A part of the keys, for one query of some heads. The only part of a sequence is its result.
tile.kernel @attention_mla_decode_part
    params(D, DV: int, T: type, GROUP: int, CAUSAL: enum in ["none", "bottom_right"], PAGE_ROWS: int, SHARD: flag,
           RANKS, RANK_KEYS, PART_KEYS, PART_UNIT, PAIR_SHARE, BLOCK_M, BLOCK_N: int, let DVP: int = floordiv(DV, 2),
           let REST: int = max(ceildiv(D - DV, 16), 1) * 16, let TILES: int = ceildiv(GROUP, BLOCK_M),
           let ACC: type = accumulator(T))
    (%q: !qk_view, %k_pages: !k_view, %o: !o_view, %lse: optional !row_view, %o_parts: !o_parts,
     %lse_parts: !lse_parts, %block_table: optional !table, %seq_lens: !lengths,
     %first_keys: !lengths when (and(SHARD, CAUSAL == "bottom_right")),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %scale: !acc)
    grid(%part = dim(o_parts, 3), %row = dim(q, 2) * ceildiv(dim(q, 1), BLOCK_M), %b = dim(q, 0))
    attributes {tgpu.awaits_launch, tgpu.transpose_few_rows} {
  %c0 = arith.constant 0 : i32
  %half = tile.param DVP : i32
  %values = tile.param DV : i32
  // The first head of the tile, and its query.
  %i = tile.expr %row / TILES : i32
  %block_m = tile.param BLOCK_M : i32
  %h = tile.expr mod(%row, TILES) * BLOCK_M : i32
  %most = tile.dim %o_parts, 3 : !o_parts
  %sequences = tile.dim %q, 0 : !qk_view
  %queries = tile.dim %q, 2 : !qk_view
  %pairs = tile.expr %sequences * (%queries * TILES) : i32
  %keys, %blocks, %each = tile.expr @mla_parts_of(%b, %k_pages, %block_table, %seq_lens, %most, %pairs) : i32
  // The last query attends all keys, and each one before it one key fewer.
  %not_attended = tile.expr select(param(CAUSAL == "bottom_right"), %queries - (%i + 1), 0) : i32
  %is_cut = tile.param and(SHARD, CAUSAL == "bottom_right") : i1
  %attended = scf.if %is_cut -> (i32) {
    %total = tile.at %total_lens[%b] : !lengths
    %first_key = tile.at %first_keys[%b] : !lengths
    %before = tile.expr @keys_before(%total - %not_attended, %first_key, %keys) : i32
    scf.yield %before : i32
  } else {
    %all_but = arith.subi %keys, %not_attended : i32
    scf.yield %all_but : i32
  }
  %keys_each = tile.expr %each * BLOCK_N : i32
  %blocks_before = arith.muli %part, %each : i32
  %begin = tile.expr %blocks_before * BLOCK_N : i32
  %end = tile.expr min(%begin + %keys_each, %attended) : i32
  %k = tile.paged %k_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !k_view, !table -> !k_rows
  // Further rows of the tile are zero, and are not stored.
  %q_0 = tile.load %q[%b, %h, %i, 0] dims [1, 3] : !qk_view -> !q_half
  %q_1 = tile.load %q[%b, %h, %i, %half] dims [1, 3] : !qk_view -> !q_half
  %q_2 = tile.load %q[%b, %h, %i, %values] dims [1, 3] : !qk_view -> !q_rest
  %no_max, %no_sum, %no_o = tile.expr @no_keys() : !row, !row, !o
  %scales = tile.expr full(%scale * log2e) : !s

  %max, %sum, %acc_0, %acc_1 = tile.for_blocks %n in (%begin to %end) against (%c0 to %block_m)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_0_old = %no_o : !o,
                %acc_1_old = %no_o : !o) {
    %k_0 = tile.load %k[%n, 0, 0] dims [0, 2] : !k_rows -> !k_half
    %k_1 = tile.load %k[%n, 0, %half] dims [0, 2] : !k_rows -> !k_half
    %k_2 = tile.load %k[%n, 0, %values] dims [0, 2] : !k_rows -> !k_rest
    %s_1 = tile.expr dot(%q_1, %k_1, dot(%q_0, %k_0 transpose_b) transpose_b) : !s
    %s = tile.expr choose(param(D > DV), dot(%q_2, %k_2, %s_1 transpose_b), %s_1) : !s
    %x = tile.expr select(%keep, %s * %scales, minus_inf) fastmath<contract> : !s
    %p, %max_new, %sum_new, %rescale = tile.expr @softmax_of_block(%x, %max_old, %sum_old) : !s, !row, !row, !row
    %p_tile = tile.cast %p : !s -> !p
    %acc_0_kept = tile.expr @rescaled(%rescale, %acc_0_old) : !o
    %acc_1_kept = tile.expr @rescaled(%rescale, %acc_1_old) : !o
    %acc_0_new = tile.dot %p_tile, %k_0, %acc_0_kept : !p, !k_half -> !o
    %acc_1_new = tile.dot %p_tile, %k_1, %acc_1_kept : !p, !k_half -> !o
    tile.yield %max_new, %sum_new, %acc_0_new, %acc_1_new : !row, !row, !o, !o
  }

  %result_0 = tile.expr @output_of(%sum, %acc_0) : !o
  %result_1 = tile.expr @output_of(%sum, %acc_1) : !o
  %lse_row = tile.expr @lse_of(%max, %sum) : !row
  // A sequence without keys has one part as well, without keys.
  %is_whole = arith.cmpi sle, %blocks, %each : i32
  scf.if %is_whole {
    %stored = tile.expr select(%part == 0, BLOCK_M, 0) : i32
    %o_tile = tile.subview %o dim 1 from %h size %stored : !o_view
    %lse_tile = tile.subview %lse dim 1 from %h size %stored : !row_view
    %o_0 = tile.cast %result_0 : !o -> !o_t
    %o_1 = tile.cast %result_1 : !o -> !o_t
    tile.store %o_0, %o_tile[%b, 0, %i, 0] dims [1, 3] : !o_t, !o_view
    tile.store %o_1, %o_tile[%b, 0, %i, %half] dims [1, 3] : !o_t, !o_view
    tile.store %lse_row, %lse_tile[%b, 0, %i] dims [1] : !row, !row_view
  } else {
    %stored = tile.expr select(%blocks > %blocks_before, BLOCK_M, 0) : i32
    %o_tile = tile.subview %o_parts dim 1 from %h size %stored : !o_parts
    %lse_tile = tile.subview %lse_parts dim 1 from %h size %stored : !lse_parts
    tile.store %result_0, %o_tile[%b, 0, %i, %part, 0] dims [1, 4] : !o, !o_parts
    tile.store %result_1, %o_tile[%b, 0, %i, %part, %half] dims [1, 4] : !o, !o_parts
    tile.store %lse_row, %lse_tile[%b, 0, %i, %part] dims [1] : !row, !lse_parts
  }
}

tile.kernel @attention_mla_decode_merge
    params(D, DV: int, T: type, GROUP, PAGE_ROWS, PART_KEYS, PART_UNIT, PAIR_SHARE, BLOCK_M, BLOCK_N: int,
           let MERGE: int = 8, let FOLDS: flag = false, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o: !o_view, %lse: optional !row_view, %o_parts: !o_parts, %lse_parts: !lse_parts, %k_pages: !k_view,
     %block_table: optional !table, %seq_lens: !lengths)
    grid(%h = dim(o, 1), %i = dim(o, 2), %b = dim(o, 0)) {
  %most = tile.dim %o_parts, 3 : !o_parts
  %pairs = tile.expr dim(%o, 0) * (dim(%o, 2) * param(ceildiv(GROUP, BLOCK_M))) : i32
  %are_few, %o_first, %lse_first = tile.expr @first_parts(%o_parts, %lse_parts, %b, %h, %i, %most, %pairs)
      : i1, !merged, !merged_row
  %keys, %blocks, %each = tile.expr @mla_parts_of(%b, %k_pages, %block_table, %seq_lens, %most, %pairs) : i32
  %max, %sum, %acc = tile.expr @merge_all_parts(%are_few, %o_first, %lse_first, %o_parts, %lse_parts, %b, %h, %i,
      %blocks, %each) : !columns, !columns, !columns
  %stored = tile.expr select(%blocks > %each, 1, 0) : i32
  %o_head = tile.subview %o dim 1 from %h size %stored : !o_view
  %lse_head = tile.subview %lse dim 1 from %h size %stored : !row_view
  %o_tile = tile.expr %acc * map @reciprocal_or_zero(%sum) : !columns -> !tile.tile<[DVP], T>
  tile.store %o_tile, %o_head[%b, 0, %i, 0] : !tile.tile<[DVP], T>, !o_view
  // All columns have the same LSE; the view of one head has room for one.
  %lse_columns = tile.expr %max + log(%sum) : !columns
  tile.store %lse_columns, %lse_head[%b, 0, %i] dims [1] : !columns, !row_view
}
