// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys and values of sequences in a cache: pages [P, R, heads, width], and a table whose row b lists the pages of
// sequence b (PAGE_ROWS > 0); or one page for each sequence. Arguments and parameters of kernels for caches:
//
//   seq_lens        [sequences]      i32, the keys of each sequence, those of its queries included: at most L * R, or R
//         without a table. The sequences are the B elements of a batch, or those of PACKED.
//   block_table     [sequences, L]   i32. Key j of sequence b is row j mod R of page block_table[b, j / R]. Without
//         PAGE_ROWS, P is the number of sequences, and sequence b is page b.
//   leftpad         [sequences]      i32. So many of the first keys of each sequence are padding, which no query
//         attends. Positions and lengths count it. It is not read, but with PAGE_ROWS for the block of keys in which it
//         ends: there, it must be finite in the values.
//   k_factors, v_factors   [sequences, Hkv]  f32. The cache holds values divided by these factors, of each sequence and
//         key head.
//   k_scales, v_scales     [P * R, Hkv]      f32. The same of each key and value: row j of page p has factors in row
//         p * R + j. Others are not read.
//
//   PAGE_ROWS A divisor of R, the number of rows that one copy may take: 1, 8, 16, 32, 64 or 128. With 0, the default,
//             there is no block table.
//   LEFTPAD   The first keys of sequences are padding: leftpad. Default: false.
//   CACHE     The type of keys and values: T (default), e4m3, e5m2 or i8. Every value of these is one of T.
//   DESCALE   Keys and values have factors of heads. Default: whether CACHE has 8 bits, and T more, without BY_TOKEN.
//   BY_TOKEN  Each key and value has a factor, up to 1 for values if T is f16. Default: false.
//
// The host checks the lengths, and the page numbers of the keys within them; a device checks them on request. Without
// the check, a kernel clamps a length to the keys that the table has room for, and a page that does not exist reads as
// zeros. A kernel never reads rows beyond the end of a sequence; they may hold NaN. Lengths and page numbers are read
// on the device, so that they may change between replays of a graph.
//
// In this file, b is the number of a sequence: an element of a dense batch, or a packed sequence. A kernel that links
// this file declares PAGE_ROWS, LEFTPAD, CACHE, and what the types of views name. The functions behind @attends_of_row
// are for a kernel that takes arrays [B, heads, rows, width] as well, and declares CACHED: whether keys and values are
// in a cache; also ABOVE, LISTED, DESCALE, BLOCK_N, DP, DVP, and the parameters of batch.mlir.

tile.link "attention.mlir", "batch.mlir"

!k_cache = !tile.view<[?, ?, ?, D], CACHE>
!v_cache = !tile.view<[?, ?, ?, DV], CACHE>
!k_rows = !tile.view<[?, ?, D], CACHE>
!v_rows = !tile.view<[?, ?, DV], CACHE>
!k_stored = !tile.tile<[BLOCK_N, DP], CACHE>
!v_stored = !tile.tile<[BLOCK_N, DVP], CACHE>

// How many keys sequence b has: at most as many as the table has room for, or 32 bits hold. Pages have `rows` rows.
tile.function @cached_keys(%b, %rows: i32, %block_table: !table, %seq_lens: !lengths) -> i32 {
  %room = tile.expr choose(param(PAGE_ROWS > 0), min(dim(%block_table, 1), 2147483647 / max(%rows, 1)) * %rows, %rows)
      : i32
  tile.result min(max(%seq_lens[%b], 0), %room) : i32
}

// The key that the first iteration of a loop over the keys of b may begin with, and how many of the first keys are
// padding, at most all. Copies take whole parts of pages; without pages, the loop begins behind the padding.
tile.function @padding_of(%b: i32, %leftpad: !lengths, %keys: i32) -> (i32, i32) {
  %padding = tile.expr select(LEFTPAD, min(max(%leftpad[%b], 0), %keys), 0) : i32
  tile.result select(param(PAGE_ROWS > 0), 0, %padding), %padding : i32, i32
}

// @attends, of keys behind the padding, among those from the origin of @padding_of on.
tile.function @attends_behind(%padding, %b, %h, %i, %j, %shift, %left, %right: i32) -> i1 {
  %is_key = tile.expr or(param(or(not(LEFTPAD), PAGE_ROWS == 0)), %j >= %padding) : i32
  tile.result and(@attends(%b, %h, %i, %j, %shift, %left, %right), %is_key) : i1
}

// The same for a row of a tile.
tile.function @attends_of_row(%padding, %b, %h, %row, %j, %shift, %left, %right: i32) -> i1 {
  %row_h, %i = tile.expr @query_of_row(%h, %row) : i32
  tile.result @attends_behind(%padding, %b, %row_h, %i, %j, %shift, %left, %right) : i1
}

// The numbers of queries and keys of packed sequence b, or none where it has at most ABOVE queries. Rows of no sequence
// stay.
tile.function @unless_few(%b: i32, %cu: !lengths, %queries, %keys: i32) -> (i32, i32) {
  %own_queries, %own_keys = tile.if param(ABOVE > 0) -> (i32, i32) {
    %are_few = tile.expr %queries <= ABOVE
    %sequences = tile.expr dim(%cu, 0) - 1
    %is_sequence = arith.cmpi ult, %b, %sequences : i32
    %left_out = arith.andi %are_few, %is_sequence : i1
    tile.yield select(%left_out, 0, %queries), select(%left_out, 0, %keys)
  } else {
    tile.yield %queries, %keys
  }
  tile.result %own_queries, %own_keys
}

// The first key of b among all keys of arrays in one piece, and the number of its keys. Before the first sequence and
// behind the last there are none.
tile.function @keys_of(%b: i32, %cu: !lengths, %all: i32, %pages: !k_cache, %block_table: !table,
                       %seq_lens: !lengths) -> (i32, i32)
    = choose(CACHED, (0, @cached_keys(%b, dim(%pages, 1), %block_table, %seq_lens)), @rows_of(%b, %cu, %all))

// The key head of a query head, where heads are a dimension of pages or of elements of a batch.
tile.function @head_of_keys(%h: i32, %q: !qk_view, %k: !k_cache) -> i32
    = @key_head_among(%h, dim(%q, 1), max(choose(CACHED, dim(%k, 2), dim(%k, 1)), 1))

// The number by which @list_of finds the list of a query head and its key head. In a cache, the heads of a group may
// share a list.
tile.function @head_of_list(%h, %hk: i32, %q: !qk_view, %counts: !count_view) -> i32
    = choose(param(and(CACHED, LISTED)), select(dim(%counts, 1) == dim(%q, 1), %h, %hk), %h)

// With DESCALE, the factor of the scores times that of the keys of sequence b and head hk. A row of no sequence attends
// no key.
tile.function @scale_by_factor(%scale: !acc, %factors: !factors, %b, %hk: i32) -> !acc
    = select(DESCALE, %scale * cast(%factors[%b, %hk] : f32), %scale)

// The same for results.
tile.function @values_by_factor(%o: !o, %factors: !factors, %b, %hk: i32) -> !o
    = select(DESCALE, %o * full(cast(%factors[%b, %hk])), %o)

// The rows of sequence b in the cache, as a view [keys, heads, width].
tile.function @cached_rows_of_keys(%pages: !k_cache, %b: i32, %block_table: !table, %keys: i32) -> !k_rows {
  %rows = tile.paged %pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !k_cache, !table -> !k_rows
  func.return %rows : !k_rows
}

// The same for values.
tile.function @cached_rows_of_values(%pages: !v_cache, %b: i32, %block_table: !table, %keys: i32) -> !v_rows {
  %rows = tile.paged %pages page %b by %block_table[%b] each PAGE_ROWS when (PAGE_ROWS > 0) size %keys
      : !v_cache, !table -> !v_rows
  func.return %rows : !v_rows
}

// BLOCK_N keys of head hk from row n on: of the cache, or of element a of arrays in one piece.
tile.function @block_of_keys(%part: !k_cache, %cached_rows: !k_rows, %a, %hk, %n: i32) -> !k
    = choose(CACHED, cast(load %cached_rows[%n, %hk, 0] dims [0, 2] : !k_stored),
             cast(load %part[%a, %hk, %n, 0] : !k_stored))

// The same for values.
tile.function @block_of_values(%part: !v_cache, %cached_rows: !v_rows, %a, %hk, %n: i32) -> !v
    = choose(CACHED, cast(load %cached_rows[%n, %hk, 0] dims [0, 2] : !v_stored),
             cast(load %part[%a, %hk, %n, 0] : !v_stored))
