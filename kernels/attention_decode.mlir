// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention of one new query of each sequence over a cache of keys and values.
//
//   O = softmax(scale * q K^T) V,   LSE = log(sum(exp(scale * q K^T)))
//
// Arguments
//   q             [B, Hq, D]           T     one query of each sequence
//   k_pages       [P, R, Hkv, D]       T     pages of R rows of keys; or P = B, and sequence b is page b
//   v_pages       [P, R, Hkv, DV]      T     pages of values
//   o             [B, Hq, DV]          T     result
//   lse           [B, Hq]              ACC   result, optional
//   block_table   [B, L]               i32   key j of sequence b is row j mod R of page block_table[b, j / R]; only
//                                            with PAGE_ROWS
//   seq_lens      [B]                  i32   keys of each sequence, at most L * R, or R
//   scale                              ACC, finite
//
// Parameters
//   D, DV, T    As in attention_forward.mlir, but T has at least 16 bits.
//   GROUP       Query heads that share a key head: Hq = GROUP * Hkv, at most 128. They are the rows of one tile.
//               Default: 1.
//   PAGE_ROWS   A divisor of R, the number of rows that one copy may take: 1, 8, 16, 32, 64 or 128. With 0, the
//               default, there is no block table.
//   SPLITS      At most this many program instances share the keys of a sequence and a key head. The number of parts
//               follows from the length of the sequence and SPLITS alone, so that the result of a sequence does not
//               depend on others in the batch. With 0, the default, SPLITS follows from the extents of the arguments:
//               few sequences have more parts.
//   BLOCK_N     Keys of an iteration.
//
// The host checks the lengths, and the page numbers of the keys within them; a device checks them on request. Without
// the check, the kernel clamps a length to the keys that the table has room for, and a page that does not exist reads
// as zeros. The kernel never reads rows beyond the end of a sequence; they may hold NaN. The order of dimensions in
// memory is arbitrary, as strides are.
//
// A sequence without keys gets O = 0 and LSE = -inf. Runs are bit-identical.
//
// Algorithm: PagedAttention (Kwon et al., 2023) and Flash-Decoding (Dao, Haziza, Massa and Sizov, 2023). One launch
// attends parts of the keys; the second merges the parts of sequences that have several.

tile.link "lib/cache.mlir"
tile.link "lib/forward.mlir"

!q_view   = !tile.view<[?, ?, D], T>
!o_view   = !tile.view<[?, ?, DV], T>
!row_view = !tile.view<[?, ?], ACC>
!k_view   = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!k_rows   = !tile.view<[?, ?, D], T>
!v_rows   = !tile.view<[?, ?, DV], T>
!table    = !tile.view<[?, ?], i32>
!lengths  = !tile.view<[?], i32>
// Results of parts, by sequence, head and part.
!o_parts   = !tile.view<[?, ?, ?, DV], ACC>
!lse_parts = !tile.view<[?, ?, ?], ACC>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!o_t = !tile.tile<[BLOCK_M, DVP], T>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

func.func private @cached_keys(i32, !k_view, !table, !lengths) -> i32
func.func private @no_keys() -> (!row, !row, !o)
func.func private @plain_round(!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row
func.func private @lowest() -> !acc

tile.program @attention_decode
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], GROUP: int = 1,
           PAGE_ROWS: int in [0, 1, 8, 16, 32, 64, 128] = 0, SPLITS: int = 0,
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let WIDE: flag = and(has_roles(), bits(T) == 16),
           BLOCK_N: int in [16, 32, 64, 128, 256] =
               select(WIDE, select(ROW_BYTES <= 256, 128, 64),
                      select(or(not(on_gpu()), ROW_BYTES <= 256), 64, select(ROW_BYTES <= 512, 32, 16))),
           let BLOCK_M: int = select(WIDE, select(GROUP <= 64, 64, 128), ceildiv(GROUP, 16) * 16),
           let ACC: type = accumulator(T),
           // Keys that a sequence may have, and that a part should have: 8,192 keys take long enough to hide the end of
           // a part behind others.
           let ROOM: int = select(PAGE_ROWS > 0, dim(block_table, 1) * dim(k_pages, 1), dim(k_pages, 1)),
           let PART_KEYS: int = select(SPLITS > 0, 1, 8192),
           let PARTS: int = min(max(ceildiv(ROOM, BLOCK_N), 1), select(SPLITS > 0, SPLITS,
               max(floordiv(multiprocessors(), max(dim(q, 0) * dim(k_pages, 2), 1)), ceildiv(ROOM, PART_KEYS)))))
    require(D <= 256, DV <= 256, GROUP >= 1, GROUP <= 128, SPLITS >= 0, dim(q, 1) == GROUP * dim(k_pages, 2),
            mod(dim(k_pages, 1), max(PAGE_ROWS, 1)) == 0, same_dims(v_pages, k_pages, 0, 1, 2), same_dims(o, q, 0, 1),
            same_dims(lse, q, 0, 1), dim(seq_lens, 0) == dim(q, 0),
            or(PAGE_ROWS > 0, dim(k_pages, 0) == dim(q, 0)),
            or(PAGE_ROWS == 0, dim(block_table, 0) == dim(q, 0)),
            within(seq_lens, 0, ROOM + 1),
            within_first(block_table, 0, dim(k_pages, 0), seq_lens, max(dim(k_pages, 1), 1)), finite(scale))
    (%q: !q_view, %k_pages: !k_view, %v_pages: !v_view, %o: !o_view, %lse: optional !row_view,
     %block_table: optional !table, %seq_lens: !lengths, %scale: !acc) {
  %o_parts = tile.workspace [dim(q, 0), dim(q, 1), PARTS, DV] : !o_parts
  %lse_parts = tile.workspace [dim(q, 0), dim(q, 1), PARTS] : !lse_parts
  tile.launch @attention_decode_part(
      %q, %k_pages, %v_pages, %o, %lse, %o_parts, %lse_parts, %block_table, %seq_lens, %scale)
      : !q_view, !k_view, !v_view, !o_view, !row_view, !o_parts, !lse_parts, !table, !lengths, !acc
  tile.launch @attention_decode_merge(%o, %lse, %o_parts, %lse_parts, %k_pages, %block_table, %seq_lens)
      when (PARTS > 1)
      : !o_view, !row_view, !o_parts, !lse_parts, !k_view, !table, !lengths
}

// The keys of sequence b, how many parts they have, and how many keys a part has: those of whole iterations.
func.func private @parts_of(%b: i32, %k_pages: !k_view, %block_table: !table, %seq_lens: !lengths, %most: i32,
                            %pairs: i32) -> (i32, i32, i32) {
  %c1 = arith.constant 1 : i32
  %keys = func.call @cached_keys(%b, %k_pages, %block_table, %seq_lens) : (i32, !k_view, !table, !lengths) -> i32
  %block_n = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %keys, %block_n : i32
  // With as many pairs of a sequence and a key head as multiprocessors, only long sequences are divided.
  %few = tile.param multiprocessors() : i32
  %long = tile.param ceildiv(PART_KEYS, BLOCK_N) : i32
  %is_many = arith.cmpi sge, %pairs, %few : i32
  %least = arith.select %is_many, %long, %c1 : i32
  %even = arith.ceildivsi %blocks, %most : i32
  %at_least = arith.maxsi %even, %least : i32
  %each = arith.maxsi %at_least, %c1 : i32
  %parts = arith.ceildivsi %blocks, %each : i32
  %keys_each = arith.muli %each, %block_n : i32
  return %keys, %parts, %keys_each : i32, i32, i32
}

// A part of the keys. The only part of a sequence is its result.
tile.kernel @attention_decode_part
    params(D: int, DV: int, T: type, GROUP: int, PAGE_ROWS: int, PART_KEYS: int, BLOCK_M: int, BLOCK_N: int,
           let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%q: !q_view, %k_pages: !k_view, %v_pages: !v_view, %o: !o_view, %lse: optional !row_view, %o_parts: !o_parts,
     %lse_parts: !lse_parts, %block_table: optional !table, %seq_lens: !lengths, %scale: !acc)
    grid(%part = dim(o_parts, 2), %hk = dim(k_pages, 2), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %most = tile.dim %o_parts, 2 : !o_parts
  %sequences = tile.dim %q, 0 : !q_view
  %key_heads = tile.dim %k_pages, 2 : !k_view
  %pairs = arith.muli %sequences, %key_heads : i32
  %keys, %parts, %keys_each = func.call @parts_of(%b, %k_pages, %block_table, %seq_lens, %most, %pairs)
      : (i32, !k_view, !table, !lengths, i32, i32) -> (i32, i32, i32)
  %begin = arith.muli %part, %keys_each : i32
  %wanted_end = arith.addi %begin, %keys_each : i32
  %end = arith.minsi %wanted_end, %keys : i32
  %k = tile.paged %k_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !k_view, !table -> !k_rows
  %v = tile.paged %v_pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !v_view, !table -> !v_rows
  // The heads of the group. Rows of the tile beyond them read as zero and are not stored; they attend as others do, so
  // that only the last keys need a mask.
  %group = tile.param GROUP : i32
  %h = arith.muli %hk, %group : i32
  %q_group = tile.subview %q dim 1 from %h size %group : !q_view
  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)
  %q_tile = tile.load %q_group[%b, 0, 0] : !q_view -> !q

  %tile_rows = tile.param BLOCK_M : i32
  %max, %sum, %acc = tile.for_blocks %n in (%begin to %end) against (%c0 to %tile_rows)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%n, %hk, 0] dims [0, 2] : !k_rows -> !k
    %v_tile = tile.load %v[%n, %hk, 0] dims [0, 2] : !v_rows -> !v
    %max_new, %sum_new, %acc_new = func.call @plain_round(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  // A sequence without keys has one part as well, without keys.
  %is_whole = arith.cmpi sle, %parts, %c1 : i32
  scf.if %is_whole {
    %is_first = arith.cmpi eq, %part, %c0 : i32
    %rows = arith.select %is_first, %group, %c0 : i32
    %o_group = tile.subview %o dim 1 from %h size %rows : !o_view
    %lse_group = tile.subview %lse dim 1 from %h size %rows : !row_view
    %o_tile = tile.cast %result : !o -> !o_t
    tile.store %o_tile, %o_group[%b, 0, 0] : !o_t, !o_view
    tile.store %lse_row, %lse_group[%b, 0] : !row, !row_view
  } else {
    %is_part = arith.cmpi sgt, %parts, %part : i32
    %rows = arith.select %is_part, %group, %c0 : i32
    %o_group = tile.subview %o_parts dim 1 from %h size %rows : !o_parts
    %lse_group = tile.subview %lse_parts dim 1 from %h size %rows : !lse_parts
    tile.store %result, %o_group[%b, 0, %part, 0] dims [1, 3] : !o, !o_parts
    tile.store %lse_row, %lse_group[%b, 0, %part] dims [1] : !row, !lse_parts
  }
}

// Results of parts, of one head, and the columns of its result. Each column has the weights of all parts, so that no
// number crosses columns.
!merged  = !tile.tile<[MERGE, DVP], ACC>
!merged_row = !tile.tile<[MERGE], ACC>
!merged_i32 = !tile.tile<[MERGE, DVP], i32>
!columns = !tile.tile<[DVP], ACC>

// The state after parts `first` .. first + MERGE - 1 of those that exist.
func.func private @merge_parts(%first: i32, %parts: i32, %lse_part: !merged_row, %o_part: !merged, %max_old: !columns,
                               %sum_old: !columns, %acc_old: !columns) -> (!columns, !columns, !columns) {
  %minus_inf = tile.constant minus_inf : !merged
  %log2e = tile.constant 1.4426950408889634 : !merged
  %number = tile.iota %first dim 0 : !merged_i32
  %limit = tile.full %parts : !merged_i32
  %exists = arith.cmpi slt, %number, %limit : !merged_i32
  %lse_each = tile.expand %lse_part dim 1 : !merged_row -> !merged
  %lse_base2 = arith.mulf %lse_each, %log2e : !merged
  %x = tile.select %exists, %lse_base2, %minus_inf : !tile.tile<[MERGE, DVP], i1>, !merged
  %largest = tile.reduce max %x dim 0 : !merged -> !columns
  %max_new = arith.maximumf %max_old, %largest : !columns
  %max_each = tile.expand %max_new dim 0 : !columns -> !merged
  %below = arith.subf %x, %max_each : !merged
  %weight = math.exp2 %below : !merged
  %fall = arith.subf %max_old, %max_new : !columns
  %rescale = math.exp2 %fall : !columns
  // What no part has written may be NaN.
  %o_known = tile.select %exists, %o_part, %weight : !tile.tile<[MERGE, DVP], i1>, !merged
  %weighted = arith.mulf %o_known, %weight : !merged
  %sum_part = tile.reduce add %weight dim 0 : !merged -> !columns
  %acc_part = tile.reduce add %weighted dim 0 : !merged -> !columns
  %sum_kept = arith.mulf %sum_old, %rescale : !columns
  %acc_kept = arith.mulf %acc_old, %rescale : !columns
  %sum_new = arith.addf %sum_kept, %sum_part : !columns
  %acc_new = arith.addf %acc_kept, %acc_part : !columns
  return %max_new, %sum_new, %acc_new : !columns, !columns, !columns
}

tile.kernel @attention_decode_merge
    params(D: int, DV: int, T: type, GROUP: int, PAGE_ROWS: int, PART_KEYS: int, BLOCK_N: int, let MERGE: int = 16,
           let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o: !o_view, %lse: optional !row_view, %o_parts: !o_parts, %lse_parts: !lse_parts, %k_pages: !k_view,
     %block_table: optional !table, %seq_lens: !lengths)
    grid(%h = dim(o, 1), %b = dim(o, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %merge = tile.param MERGE : i32
  // The first parts are on their way before their number is known.
  %lse_first = tile.load %lse_parts[%b, %h, 0] : !lse_parts -> !merged_row
  %o_first = tile.load %o_parts[%b, %h, 0, 0] : !o_parts -> !merged
  %most = tile.dim %o_parts, 2 : !o_parts
  %sequences = tile.dim %o, 0 : !o_view
  %key_heads = tile.dim %k_pages, 2 : !k_view
  %pairs = arith.muli %sequences, %key_heads : i32
  %keys, %parts, %keys_each = func.call @parts_of(%b, %k_pages, %block_table, %seq_lens, %most, %pairs)
      : (i32, !k_view, !table, !lengths, i32, i32) -> (i32, i32, i32)
  %lowest = func.call @lowest() : () -> !acc
  %no_max = tile.full %lowest : !columns
  %no_sum = tile.constant 0 : !columns
  %max_0, %sum_0, %acc_0 = func.call @merge_parts(%c0, %parts, %lse_first, %o_first, %no_max, %no_sum, %no_sum)
      : (i32, i32, !merged_row, !merged, !columns, !columns, !columns) -> (!columns, !columns, !columns)
  %max, %sum, %acc = scf.for %first = %merge to %parts step %merge
      iter_args(%max_old = %max_0, %sum_old = %sum_0, %acc_old = %acc_0) -> (!columns, !columns, !columns) : i32 {
    %lse_part = tile.load %lse_parts[%b, %h, %first] : !lse_parts -> !merged_row
    %o_part = tile.load %o_parts[%b, %h, %first, 0] : !o_parts -> !merged
    %max_new, %sum_new, %acc_new = func.call @merge_parts(
        %first, %parts, %lse_part, %o_part, %max_old, %sum_old, %acc_old)
        : (i32, i32, !merged_row, !merged, !columns, !columns, !columns) -> (!columns, !columns, !columns)
    scf.yield %max_new, %sum_new, %acc_new : !columns, !columns, !columns
  }

  %is_part = arith.cmpi sgt, %parts, %c1 : i32
  %rows = arith.select %is_part, %c1, %c0 : i32
  %o_head = tile.subview %o dim 1 from %h size %rows : !o_view
  %lse_head = tile.subview %lse dim 1 from %h size %rows : !row_view
  %inverse = tile.map @reciprocal_or_zero(%sum) : (!columns) -> !columns
  %o_columns = arith.mulf %acc, %inverse : !columns
  %o_tile = tile.cast %o_columns : !columns -> !tile.tile<[DVP], T>
  tile.store %o_tile, %o_head[%b, 0, 0] : !tile.tile<[DVP], T>, !o_view
  // All columns have the same LSE; the view of one head has room for one.
  %ln2 = arith.constant 0.6931471805599453 : !acc
  %ln2_each = tile.full %ln2 : !columns
  %max_natural = arith.mulf %max, %ln2_each : !columns
  %log_sum = math.log %sum : !columns
  %lse_columns = arith.addf %max_natural, %log_sum : !columns
  tile.store %lse_columns, %lse_head[%b, 0] dims [1] : !columns, !row_view
}
