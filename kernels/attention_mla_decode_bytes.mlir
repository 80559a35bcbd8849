// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Multi-head latent attention as in attention_mla_decode.mlir, over a cache whose latent columns have 8 bits and
// factors.
//
//   O_i   = softmax(scale * Q_i K^T) K[:, 0:DV],  LSE_i = log sum exp(scale * Q_i K^T)
//
// Arguments
//   q             [B, Hq, Sq, D]       T     the last queries of each sequence, multiplied by the up-projection of keys
//   k_pages       [P, R, 1, DV]        CACHE pages of R rows, of the columns that are values, too; or P = B, and
//                                            sequence b is page b
//   rope_pages    [P, R, 1, D - DV]    T     the other columns of the rows
//   k_scales      [P * R, SPANS]       f32   factors of SPANS equal parts of the columns of k_pages: of row j of page p
//                                            in row p * R + j. Others are not read
//   o             [B, Hq, Sq, DV]      T     result
//   lse           [B, Hq, Sq]          ACC   result, optional
//   block_table, seq_lens, first_keys, total_lens, scale   as in attention_mla_decode.mlir
//
// The three arrays of a cache may be views of one buffer. Rows of FlashMLA have 656 bytes: 512 e4m3, 4 f32, 64 bf16.
//
// Parameters
//   D, DV       As in attention_mla_decode.mlir, but DV is less than D and a multiple of 64.
//   T           f16, bf16, f32 or f64.
//   CACHE       e4m3 (default) or e5m2.
//   SPANS       1, 2 or 4 (default) factors of a row, at most 1 if T has 16 bits: see lib/token_scales.mlir.
//   GROUP, CAUSAL, PAGE_ROWS, SHARD, RANKS, RANK_KEYS, SPLITS, BLOCK_N   As in attention_mla_decode.mlir.
//
// The latent columns are converted to T, or f16 for bf16, as lib/quantized.mlir says. Factors multiply columns of the
// products and of P, so that no tile is converted again. A tile has up to 16 heads of one query: converted keys are
// operands in registers, which a GPU multiplies with few heads. Lengths, page numbers and unused rows are treated as in
// attention_decode.mlir.

tile.link "lib/attention.mlir", "lib/cache.mlir", "lib/forward.mlir", "lib/parts.mlir", "lib/quantized.mlir",
    "lib/spread.mlir", "lib/token_scales.mlir"

!q_view   = !tile.view<[?, ?, ?, D], T>
!o_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!k_view   = !tile.view<[?, ?, ?, DV], CACHE>
!k_rows   = !tile.view<[?, ?, DV], CACHE>
!rope_view = !tile.view<[?, ?, ?, ROPE], T>
!rope_rows = !tile.view<[?, ?, ROPE], T>
!factors  = !tile.view<[?, ?], f32>
!table    = !tile.view<[?, ?], i32>
!lengths  = !tile.view<[?], i32>
!o_parts   = !tile.view<[?, ?, ?, ?, DV], ACC>
!lse_parts = !tile.view<[?, ?, ?, ?], ACC>

// Columns of a quarter of a value, and those that are no values.
!q_part = !tile.tile<[BLOCK_M, DVP], T>
!q_rest = !tile.tile<[BLOCK_M, REST], T>
!q_part_acc = !tile.tile<[BLOCK_M, DVP], ACC>
!q_part_m = !tile.tile<[BLOCK_M, DVP], MT>
!k_part = !tile.tile<[BLOCK_N, DVP], MT>
!c_part = !tile.tile<[BLOCK_N, DVP], CACHE>
!k_rest = !tile.tile<[BLOCK_N, REST], T>
!keys = !tile.tile<[BLOCK_N], i32>
!by   = !tile.tile<[BLOCK_N], f32>
!s    = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p    = !tile.tile<[BLOCK_M, BLOCK_N], MT>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o    = !tile.tile<[BLOCK_M, DVP], ACC>
!o_t  = !tile.tile<[BLOCK_M, DVP], T>
!row  = !tile.tile<[BLOCK_M], ACC>
!acc  = !tile.param<ACC>
!merged  = !tile.tile<[MERGE, DVP], ACC>
!merged_row = !tile.tile<[MERGE], ACC>
!columns = !tile.tile<[DVP], ACC>

tile.program @attention_mla_decode_bytes
    params(D: int, DV: int = min(D, 512), T: type in [f16, bf16, f32, f64], CACHE: type in [e4m3, e5m2] = e4m3,
           SPANS: int in [1, 2, 4] = 4, GROUP: int,
           CAUSAL: enum in ["none", "bottom_right"] = "none", PAGE_ROWS: int in [0, 1, 8, 16, 32, 64, 128] = 0,
           SHARD: flag = false, RANKS: int = 1, RANK_KEYS: int = 1, SPLITS: int = 0,
           let WIDE: flag = and(has_roles(), bits(T) == 16),
           BLOCK_N: int in [16, 32, 64, 128] =
               select(or(WIDE, not(on_gpu())), 64, select(bits(T) == 16, 32, 16)),
           // With tgpu.transpose_few_rows, keys are rows of products, and heads are columns.
           let FEW: flag = mod(DV, 256) == 0,
           let BLOCK_M: int = select(WIDE, select(FEW, min(ceildiv(GROUP, 8) * 8, 16), 64), 16),
           let ACC: type = accumulator(T), let ROPE: int = D - DV,
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
    require(DV >= 64, DV <= 512, mod(DV, 64) == 0, DV < D, D - DV <= 256, GROUP >= 1, GROUP <= 128, SPLITS >= 0,
            dim(q, 1) == GROUP * dim(k_pages, 2), dim(k_pages, 2) == 1, mod(dim(k_pages, 1), max(PAGE_ROWS, 1)) == 0,
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), same_dims(seq_lens, q, 0),
            or(PAGE_ROWS > 0, dim(k_pages, 0) == dim(q, 0)), or(PAGE_ROWS == 0, dim(block_table, 0) == dim(q, 0)),
            or(PAGE_ROWS > 0, dim(block_table, 0) == 0),
            within(seq_lens, 0, ROOM + 1),
            within_first(block_table, 0, dim(k_pages, 0), seq_lens, max(dim(k_pages, 1), 1)), finite(scale),
            RANKS >= 1, RANK_KEYS >= 1, RANKS * RANK_KEYS <= 65536, or(SHARD, and(RANKS == 1, RANK_KEYS == 1)),
            same_dims(first_keys, seq_lens, 0), same_dims(total_lens, seq_lens, 0),
            within(first_keys, 0, 2147483647), within(total_lens, 0, 2147483647),
            same_dims(rope_pages, k_pages, 0, 1, 2), dim(k_scales, 0) == dim(k_pages, 0) * dim(k_pages, 1),
            dim(k_scales, 1) == SPANS)
    (%q: !q_view, %k_pages: !k_view, %rope_pages: !rope_view, %k_scales: !factors, %o: !o_view,
     %lse: optional !row_view, %block_table: optional !table,
     %seq_lens: !lengths, %first_keys: !lengths when (and(SHARD, CAUSAL == "bottom_right")),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %scale: !acc) {
  %o_parts = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2), PARTS, DV] : !o_parts
  %lse_parts = tile.workspace [dim(q, 0), dim(q, 1), dim(q, 2), PARTS] : !lse_parts
  tile.launch @attention_mla_decode_bytes_part(
      %q, %k_pages, %rope_pages, %k_scales, %o, %lse, %o_parts, %lse_parts, %block_table, %seq_lens, %first_keys,
      %total_lens, %scale)
      : !q_view, !k_view, !rope_view, !factors, !o_view, !row_view, !o_parts, !lse_parts, !table, !lengths, !lengths,
        !lengths, !acc
  tile.launch @attention_mla_decode_bytes_merge(%o, %lse, %o_parts, %lse_parts, %k_pages, %block_table, %seq_lens)
      when (PARTS > 1)
      : !o_view, !row_view, !o_parts, !lse_parts, !k_view, !table, !lengths
}

// The keys of sequence b, how many iterations they take, and how many of these a part has. `pairs`: the tiles of all
// sequences.
tile.function @mla_parts_of(%b: i32, %k_pages: !k_view, %block_table: !table, %seq_lens: !lengths, %most,
                            %pairs: i32) -> (i32, i32, i32) {
  %page_rows = tile.dim %k_pages, 1 : !k_view
  %keys = func.call @cached_keys(%b, %page_rows, %block_table, %seq_lens) : (i32, i32, !table, !lengths) -> i32
  %block_n = tile.param BLOCK_N : i32
  %last = tile.param BLOCK_N - 1 : i32
  %up_to_block = arith.addi %keys, %last : i32
  %blocks = arith.divui %up_to_block, %block_n : i32
  %each = func.call @blocks_of_part(%blocks, %most, %pairs) : (i32, i32, i32) -> i32
  tile.result %keys, %blocks, %each : i32, i32, i32
}

// Part of a query in the type of products, divided by a power of two.
tile.function @q_of_products(%q: !q_part, %inverse: !row) -> !q_part_m {
  %is_scaled = tile.param SCALED : i1
  %result = scf.if %is_scaled -> (!q_part_m) {
    %q_acc = tile.cast %q : !q_part -> !q_part_acc
    %inverse_each = tile.expand %inverse dim 1 : !row -> !q_part_acc
    %divided = arith.mulf %q_acc, %inverse_each : !q_part_acc
    %cast = tile.cast %divided : !q_part_acc -> !q_part_m
    scf.yield %cast : !q_part_m
  } else {
    %cast = tile.cast %q : !q_part -> !q_part_m
    scf.yield %cast : !q_part_m
  }
  tile.result %result : !q_part_m
}

// The largest magnitude of part of a query.
tile.function @largest_of(%q: !q_part) -> !row {
  %q_acc = tile.cast %q : !q_part -> !q_part_acc
  %sizes = math.absf %q_acc : !q_part_acc
  %largest = tile.reduce max %sizes dim 1 : !q_part_acc -> !row
  tile.result %largest : !row
}

// The factors of the keys from %n on of sequence b, for each quarter of the columns.
tile.function @factors_of_spans(%n, %count, %b: i32, %pages: !k_view, %block_table: !table,
                                %k_scales: !factors) -> (!by, !by, !by, !by) {
  %pool = tile.dim %pages, 0 : !k_view
  %rows = tile.dim %pages, 1 : !k_view
  %slots = func.call @slots_of_keys(%n, %count, %b, %pool, %rows, %block_table)
      : (i32, i32, i32, i32, i32, !table) -> !keys
  %at_1 = tile.param floordiv(SPANS, 4) : i32
  %at_2 = tile.param floordiv(SPANS, 2) : i32
  %at_3 = tile.param floordiv(3 * SPANS, 4) : i32
  %by_0 = tile.gather %k_scales[0, 0] dims [0] along 0 at %slots : !factors, !keys -> !by
  %by_1 = tile.gather %k_scales[0, %at_1] dims [0] along 0 at %slots : !factors, !keys -> !by
  %by_2 = tile.gather %k_scales[0, %at_2] dims [0] along 0 at %slots : !factors, !keys -> !by
  %by_3 = tile.gather %k_scales[0, %at_3] dims [0] along 0 at %slots : !factors, !keys -> !by
  tile.result %by_0, %by_1, %by_2, %by_3 : !by, !by, !by, !by
}

// A part of the keys, for one query of some heads. The only part of a sequence is its result. Each quarter of the
// columns of values has a product and a sum of its own, since it may have factors of its own.
tile.kernel @attention_mla_decode_bytes_part
    params(D: int, DV: int, T: type, CACHE: type, SPANS: int, GROUP: int,
           CAUSAL: enum in ["none", "bottom_right"], PAGE_ROWS: int,
           SHARD: flag, RANKS: int, RANK_KEYS: int, PART_KEYS: int, PART_UNIT: int, PAIR_SHARE: int, BLOCK_M: int,
           BLOCK_N: int, let DVP: int = floordiv(DV, 4), let ROPE: int = D - DV,
           let BY_TOKEN: flag = true, let SCALED: flag = T == bf16,
           let MT: type = select(SCALED, f16, T), let UNIT: int = select(bits(MT) == 16, 256, 1),
           let REST: int = max(ceildiv(D - DV, 16), 1) * 16, let TILES: int = ceildiv(GROUP, BLOCK_M),
           let ACC: type = accumulator(T))
    (%q: !q_view, %k_pages: !k_view, %rope_pages: !rope_view, %k_scales: !factors, %o: !o_view,
     %lse: optional !row_view, %o_parts: !o_parts, %lse_parts: !lse_parts, %block_table: optional !table,
     %seq_lens: !lengths, %first_keys: !lengths when (and(SHARD, CAUSAL == "bottom_right")),
     %total_lens: !lengths when (and(SHARD, CAUSAL == "bottom_right")), %scale: !acc)
    grid(%part = dim(o_parts, 3), %row = dim(q, 2) * ceildiv(dim(q, 1), BLOCK_M), %b = dim(q, 0))
    attributes {tgpu.awaits_launch, tgpu.transpose_few_rows} {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %at_1 = tile.param DVP : i32
  %at_2 = tile.param 2 * DVP : i32
  %at_3 = tile.param 3 * DVP : i32
  %values = tile.param DV : i32
  // The first head of the tile, and its query.
  %tiles = tile.param TILES : i32
  %i = arith.divsi %row, %tiles : i32
  %tile = arith.remsi %row, %tiles : i32
  %block_m = tile.param BLOCK_M : i32
  %h = arith.muli %tile, %block_m : i32
  %most = tile.dim %o_parts, 3 : !o_parts
  %sequences = tile.dim %q, 0 : !q_view
  %queries = tile.dim %q, 2 : !q_view
  %rows = arith.muli %queries, %tiles : i32
  %pairs = arith.muli %sequences, %rows : i32
  %keys, %blocks, %each = func.call @mla_parts_of(%b, %k_pages, %block_table, %seq_lens, %most, %pairs)
      : (i32, !k_view, !table, !lengths, i32, i32) -> (i32, i32, i32)
  // The last query attends all keys, and each one before it one key fewer.
  %causal = tile.param CAUSAL == "bottom_right" : i1
  %next = arith.addi %i, %c1 : i32
  %later = arith.subi %queries, %next : i32
  %not_attended = arith.select %causal, %later, %c0 : i32
  %is_cut = tile.param and(SHARD, CAUSAL == "bottom_right") : i1
  %attended = scf.if %is_cut -> (i32) {
    %total = tile.at %total_lens[%b] : !lengths
    %first_key = tile.at %first_keys[%b] : !lengths
    %position = arith.subi %total, %not_attended : i32
    %before = func.call @keys_before(%position, %first_key, %keys) : (i32, i32, i32) -> i32
    scf.yield %before : i32
  } else {
    %all_but = arith.subi %keys, %not_attended : i32
    scf.yield %all_but : i32
  }
  %block_n = tile.param BLOCK_N : i32
  %keys_each = arith.muli %each, %block_n : i32
  %blocks_before = arith.muli %part, %each : i32
  %begin = arith.muli %blocks_before, %block_n : i32
  %wanted_end = arith.addi %begin, %keys_each : i32
  %end = arith.minsi %wanted_end, %attended : i32
  %k = tile.paged %k_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !k_view, !table -> !k_rows
  %rope = tile.paged %rope_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !rope_view, !table -> !rope_rows
  // Further rows of the tile are zero, and are not stored.
  %q_0 = tile.load %q[%b, %h, %i, 0] dims [1, 3] : !q_view -> !q_part
  %q_1 = tile.load %q[%b, %h, %i, %at_1] dims [1, 3] : !q_view -> !q_part
  %q_2 = tile.load %q[%b, %h, %i, %at_2] dims [1, 3] : !q_view -> !q_part
  %q_3 = tile.load %q[%b, %h, %i, %at_3] dims [1, 3] : !q_view -> !q_part
  %q_rope = tile.load %q[%b, %h, %i, %values] dims [1, 3] : !q_view -> !q_rest
  // As @queries_of_products does, with one power of two for all latent columns.
  %size_0 = func.call @largest_of(%q_0) : (!q_part) -> !row
  %size_1 = func.call @largest_of(%q_1) : (!q_part) -> !row
  %size_2 = func.call @largest_of(%q_2) : (!q_part) -> !row
  %size_3 = func.call @largest_of(%q_3) : (!q_part) -> !row
  %size_01 = arith.maximumf %size_0, %size_1 : !row
  %size_23 = arith.maximumf %size_2, %size_3 : !row
  %largest = arith.maximumf %size_01, %size_23 : !row
  %power = tile.map @power_of_two(%largest) : (!row) -> !row
  %inverse = tile.map @inverse_power(%power) : (!row) -> !row
  %m_0 = func.call @q_of_products(%q_0, %inverse) : (!q_part, !row) -> !q_part_m
  %m_1 = func.call @q_of_products(%q_1, %inverse) : (!q_part, !row) -> !q_part_m
  %m_2 = func.call @q_of_products(%q_2, %inverse) : (!q_part, !row) -> !q_part_m
  %m_3 = func.call @q_of_products(%q_3, %inverse) : (!q_part, !row) -> !q_part_m
  %is_scaled = tile.param SCALED : i1
  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)
  %log2e = arith.constant 1.4426950408889634 : !acc
  %masked_out = tile.constant minus_inf : !s
  %scale_base2 = arith.mulf %scale, %log2e : !acc
  %scales = tile.full %scale_base2 : !s

  %max, %sum, %acc_0, %acc_1, %acc_2, %acc_3 = tile.for_blocks %n in (%begin to %end) against (%c0 to %block_m)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_0_old = %no_o : !o,
                %acc_1_old = %no_o : !o, %acc_2_old = %no_o : !o, %acc_3_old = %no_o : !o) {
    %by_0, %by_1, %by_2, %by_3 = func.call @factors_of_spans(%n, %keys, %b, %k_pages, %block_table, %k_scales)
        : (i32, i32, i32, !k_view, !table, !factors) -> (!by, !by, !by, !by)
    %c_0 = tile.load %k[%n, 0, 0] dims [0, 2] : !k_rows -> !c_part
    %k_0 = tile.cast %c_0 : !c_part -> !k_part
    %d_0 = tile.dot %m_0, %k_0 transpose_b : !q_part_m, !k_part -> !s
    %s_0 = func.call @products_by_token(%d_0, %by_0) : (!s, !by) -> !s
    %c_1 = tile.load %k[%n, 0, %at_1] dims [0, 2] : !k_rows -> !c_part
    %k_1 = tile.cast %c_1 : !c_part -> !k_part
    %d_1 = tile.dot %m_1, %k_1 transpose_b : !q_part_m, !k_part -> !s
    %s_1 = func.call @products_by_token(%d_1, %by_1) : (!s, !by) -> !s
    %c_2 = tile.load %k[%n, 0, %at_2] dims [0, 2] : !k_rows -> !c_part
    %k_2 = tile.cast %c_2 : !c_part -> !k_part
    %d_2 = tile.dot %m_2, %k_2 transpose_b : !q_part_m, !k_part -> !s
    %s_2 = func.call @products_by_token(%d_2, %by_2) : (!s, !by) -> !s
    %c_3 = tile.load %k[%n, 0, %at_3] dims [0, 2] : !k_rows -> !c_part
    %k_3 = tile.cast %c_3 : !c_part -> !k_part
    %d_3 = tile.dot %m_3, %k_3 transpose_b : !q_part_m, !k_part -> !s
    %s_3 = func.call @products_by_token(%d_3, %by_3) : (!s, !by) -> !s
    %s_01 = arith.addf %s_0, %s_1 fastmath<reassoc, contract> : !s
    %s_012 = arith.addf %s_01, %s_2 fastmath<reassoc, contract> : !s
    %s_0123 = arith.addf %s_012, %s_3 fastmath<reassoc, contract> : !s
    %rope_tile = tile.load %rope[%n, 0, 0] dims [0, 2] : !rope_rows -> !k_rest
    %s_rope = tile.dot %q_rope, %rope_tile transpose_b : !q_rest, !k_rest -> !s
    %s_latent = scf.if %is_scaled -> (!s) {
      %power_each = tile.expand %power dim 1 : !row -> !s
      %product = arith.mulf %s_0123, %power_each fastmath<reassoc, contract> : !s
      scf.yield %product : !s
    } else {
      scf.yield %s_0123 : !s
    }
    %s = arith.addf %s_latent, %s_rope fastmath<reassoc, contract> : !s
    %base2 = arith.mulf %s, %scales fastmath<contract> : !s
    %x = tile.select %keep, %base2, %masked_out : !keep, !s
    %p, %max_new, %sum_new, %rescale = func.call @softmax_of_block(%x, %max_old, %sum_old)
        : (!s, !row, !row) -> (!s, !row, !row, !row)
    // All parts of P before the first product: one barrier serves them.
    %p_0 = func.call @p_by_token(%p, %by_0) : (!s, !by) -> !s
    %p_tile_0 = tile.cast %p_0 : !s -> !p
    %p_1 = func.call @p_by_token(%p, %by_1) : (!s, !by) -> !s
    %p_tile_1 = tile.cast %p_1 : !s -> !p
    %p_2 = func.call @p_by_token(%p, %by_2) : (!s, !by) -> !s
    %p_tile_2 = tile.cast %p_2 : !s -> !p
    %p_3 = func.call @p_by_token(%p, %by_3) : (!s, !by) -> !s
    %p_tile_3 = tile.cast %p_3 : !s -> !p
    %acc_0_kept = func.call @rescaled(%rescale, %acc_0_old) : (!row, !o) -> !o
    %acc_1_kept = func.call @rescaled(%rescale, %acc_1_old) : (!row, !o) -> !o
    %acc_2_kept = func.call @rescaled(%rescale, %acc_2_old) : (!row, !o) -> !o
    %acc_3_kept = func.call @rescaled(%rescale, %acc_3_old) : (!row, !o) -> !o
    %acc_0_new = tile.dot %p_tile_0, %k_0, %acc_0_kept : !p, !k_part -> !o
    %acc_1_new = tile.dot %p_tile_1, %k_1, %acc_1_kept : !p, !k_part -> !o
    %acc_2_new = tile.dot %p_tile_2, %k_2, %acc_2_kept : !p, !k_part -> !o
    %acc_3_new = tile.dot %p_tile_3, %k_3, %acc_3_kept : !p, !k_part -> !o
    tile.yield %max_new, %sum_new, %acc_0_new, %acc_1_new, %acc_2_new, %acc_3_new : !row, !row, !o, !o, !o, !o
  }

  %normal_0 = func.call @output_of(%sum, %acc_0) : (!row, !o) -> !o
  %result_0 = func.call @without_unit(%normal_0) : (!o) -> !o
  %normal_1 = func.call @output_of(%sum, %acc_1) : (!row, !o) -> !o
  %result_1 = func.call @without_unit(%normal_1) : (!o) -> !o
  %normal_2 = func.call @output_of(%sum, %acc_2) : (!row, !o) -> !o
  %result_2 = func.call @without_unit(%normal_2) : (!o) -> !o
  %normal_3 = func.call @output_of(%sum, %acc_3) : (!row, !o) -> !o
  %result_3 = func.call @without_unit(%normal_3) : (!o) -> !o
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  // A sequence without keys has one part as well, without keys.
  %is_whole = arith.cmpi sle, %blocks, %each : i32
  scf.if %is_whole {
    %is_first = arith.cmpi eq, %part, %c0 : i32
    %stored = arith.select %is_first, %block_m, %c0 : i32
    %o_tile = tile.subview %o dim 1 from %h size %stored : !o_view
    %lse_tile = tile.subview %lse dim 1 from %h size %stored : !row_view
    %o_0 = tile.cast %result_0 : !o -> !o_t
    tile.store %o_0, %o_tile[%b, 0, %i, 0] dims [1, 3] : !o_t, !o_view
    %o_1 = tile.cast %result_1 : !o -> !o_t
    tile.store %o_1, %o_tile[%b, 0, %i, %at_1] dims [1, 3] : !o_t, !o_view
    %o_2 = tile.cast %result_2 : !o -> !o_t
    tile.store %o_2, %o_tile[%b, 0, %i, %at_2] dims [1, 3] : !o_t, !o_view
    %o_3 = tile.cast %result_3 : !o -> !o_t
    tile.store %o_3, %o_tile[%b, 0, %i, %at_3] dims [1, 3] : !o_t, !o_view
    tile.store %lse_row, %lse_tile[%b, 0, %i] dims [1] : !row, !row_view
  } else {
    %is_part = arith.cmpi sgt, %blocks, %blocks_before : i32
    %stored = arith.select %is_part, %block_m, %c0 : i32
    %o_tile = tile.subview %o_parts dim 1 from %h size %stored : !o_parts
    %lse_tile = tile.subview %lse_parts dim 1 from %h size %stored : !lse_parts
    tile.store %result_0, %o_tile[%b, 0, %i, %part, 0] dims [1, 4] : !o, !o_parts
    tile.store %result_1, %o_tile[%b, 0, %i, %part, %at_1] dims [1, 4] : !o, !o_parts
    tile.store %result_2, %o_tile[%b, 0, %i, %part, %at_2] dims [1, 4] : !o, !o_parts
    tile.store %result_3, %o_tile[%b, 0, %i, %part, %at_3] dims [1, 4] : !o, !o_parts
    tile.store %lse_row, %lse_tile[%b, 0, %i, %part] dims [1] : !row, !lse_parts
  }
}

tile.kernel @attention_mla_decode_bytes_merge
    params(D: int, DV: int, T: type, CACHE: type, GROUP: int, PAGE_ROWS: int, PART_KEYS: int, PART_UNIT: int,
           PAIR_SHARE: int, BLOCK_M: int, BLOCK_N: int, let MERGE: int = 8, let FOLDS: flag = false,
           let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o: !o_view, %lse: optional !row_view, %o_parts: !o_parts, %lse_parts: !lse_parts, %k_pages: !k_view,
     %block_table: optional !table, %seq_lens: !lengths)
    grid(%h = dim(o, 1), %i = dim(o, 2), %b = dim(o, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %most = tile.dim %o_parts, 3 : !o_parts
  %sequences = tile.dim %o, 0 : !o_view
  %queries = tile.dim %o, 2 : !o_view
  %tiles = tile.param ceildiv(GROUP, BLOCK_M) : i32
  %tiles_each = arith.muli %queries, %tiles : i32
  %pairs = arith.muli %sequences, %tiles_each : i32
  %are_few, %o_first, %lse_first = func.call @first_parts(%o_parts, %lse_parts, %b, %h, %i, %most, %pairs)
      : (!o_parts, !lse_parts, i32, i32, i32, i32, i32) -> (i1, !merged, !merged_row)
  %keys, %blocks, %each = func.call @mla_parts_of(%b, %k_pages, %block_table, %seq_lens, %most, %pairs)
      : (i32, !k_view, !table, !lengths, i32, i32) -> (i32, i32, i32)
  %max, %sum, %acc = func.call @merge_all_parts(
      %are_few, %o_first, %lse_first, %o_parts, %lse_parts, %b, %h, %i, %blocks, %each)
      : (i1, !merged, !merged_row, !o_parts, !lse_parts, i32, i32, i32, i32, i32) -> (!columns, !columns, !columns)
  %is_part = arith.cmpi sgt, %blocks, %each : i32
  %stored = arith.select %is_part, %c1, %c0 : i32
  %o_head = tile.subview %o dim 1 from %h size %stored : !o_view
  %lse_head = tile.subview %lse dim 1 from %h size %stored : !row_view
  %inverse = tile.map @reciprocal_or_zero(%sum) : (!columns) -> !columns
  %o_columns = arith.mulf %acc, %inverse : !columns
  %o_tile = tile.cast %o_columns : !columns -> !tile.tile<[DVP], T>
  tile.store %o_tile, %o_head[%b, 0, %i, 0] : !tile.tile<[DVP], T>, !o_view
  // All columns have the same LSE; the view of one head has room for one.
  %log_sum = math.log %sum : !columns
  %lse_columns = arith.addf %max, %log_sum : !columns
  tile.store %lse_columns, %lse_head[%b, 0, %i] dims [1] : !columns, !row_view
}
