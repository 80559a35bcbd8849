// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes new keys and values to a cache, in pages or not, from which attention_decode reads them. May rotate keys, and
// queries, by their positions (rotary embedding).
//
// Arguments
//   k             [N, Hkv, D]          T     new keys
//   v             [N, Hkv, DV]         T     new values; optional, together with v_pages
//   k_pages       [P, R, Hkv, D]       CACHE pages of R rows of keys; result
//   v_pages       [P, R, Hkv, DV]      CACHE pages of values; result
//   k_descale, v_descale  [Hkv]        f32   with a CACHE of 8 bits: keys and values are divided by the factor of their
//                                            head, then rounded; what exceeds the type becomes its largest number.
//                                            Not with BY_TOKEN
//   k_scales, v_scales    [P * R, Hkv] f32   with BY_TOKEN, result: the factor of each key or value of a head, its
//                                            largest magnitude divided by the largest number of CACHE, or 1 for zeros;
//                                            of row j of page p in row p * R + j
//   slots         [N]                  i32   with PLACES = "slots": key n is row slots[n] mod R of page slots[n] / R
//   seq_lens      [B]                  i32   without slots: keys of each sequence before the new ones
//   block_table   [B, L]               i32   with PLACES = "table": key p of sequence b is row p mod R of page
//                                            block_table[b, p / R]; with "sequences" it is row p of page b
//   cu_seqlens    [B + 1]              i32   with PACKED: new keys cu_seqlens[b] to cu_seqlens[b + 1] - 1 follow the
//                                            keys of sequence b; without, each sequence has N / B
//   total_lens    [B]                  i32   without slots, result, optional: keys of each sequence, with the new ones
//                                            for which it has room
//   positions     [N]                  i32   with POSITIONS: where each key is in its sequence, for the rotation
//   cos, sin      [M, ROTARY / 2]      TR    with ROTARY: of each position
//   q             [NQ, Hq, D]          T     with ROTARY, optional: queries
//   q_out         [NQ, Hq, D]          T     result: the rotated queries; other memory than q
//
// Parameters
//   D, DV, T      As in attention_decode; D and DV at most 1024.
//   CACHE         The type of the pages: T (default), e4m3, e5m2 or i8, of which -128 to 127 are used.
//   BY_TOKEN      With a CACHE of 8 bits: each key and value of a head has a factor of its own. Default: false.
//   PLACES        What says where a key goes: "slots", "table" or "sequences".
//   INDICES       i32, or i64: then slots_i64 and positions_i64 take the place of slots and positions.
//   PACKED        Whether there is cu_seqlens. Default: false.
//   POSITIONS     Whether there is positions. Without it, the keys of sequence b have positions from seq_lens[b] on,
//                 and its NQ / B queries as well; with PACKED or slots, query n has the position of key n.
//   ROTARY        How many columns are rotated, a multiple of 16; 0, the default: none.
//   PAIRS         Whether columns 2 i and 2 i + 1 are a pair (GPT-J); without, i and i + ROTARY / 2 are (GPT-NeoX).
//   Q_FIRST       Whether all queries of a sequence have the position of its first new key.
//   TR            Type of cos and sin. Default: T.
//   BLOCK_H       Heads of a program instance. Default: those that fill 2 KB.
//
// Of a pair (x1, x2), the results are x1 cos - x2 sin and x2 cos + x1 sin.
//
// The computation is in f32 (f64 for f64), and results are rounded once, to T; for a cache of 8 bits the quotients are
// then rounded. With a cache of T, keys that are not rotated, values, and
// columns from ROTARY on keep their bits.
//
// A key without a place is skipped: its slot is negative or beyond the pages, its position beyond its sequence's row
// of the table, or its page does not exist. Nothing else of the cache is written or read. No two keys may have the
// same place. The host checks slots, of which -1 is allowed, lengths, offsets and positions; a device checks them on
// request. The pages of new keys are not checked. A position beyond cos reads zeros there.
//
// The order of dimensions in memory is arbitrary, as strides are. The grid follows from extents alone. Runs are
// bit-identical.
//
// Rotary embedding: Su et al., RoFormer, 2021.

!rows    = !tile.view<[?, ?, D], T>
!v_rows  = !tile.view<[?, ?, DV], T>
!k_pages = !tile.view<[?, ?, ?, D], CACHE>
!v_pages = !tile.view<[?, ?, ?, DV], CACHE>
!factors = !tile.view<[?], f32>
!table   = !tile.view<[?, ?], i32>
!numbers = !tile.view<[?], i32>
!wide    = !tile.view<[?], i64>
!angles  = !tile.view<[?, HALF], TR>

!k    = !tile.tile<[BLOCK_H, DP], T>
!v    = !tile.tile<[BLOCK_H, DVP], T>
!rest = !tile.tile<[BLOCK_H, REST], T>
// With halves, one half of the columns that are rotated.
!half    = !tile.tile<[BLOCK_H, HALF], ACC>
!half_t  = !tile.tile<[BLOCK_H, HALF], T>
!angle   = !tile.tile<[HALF], ACC>
!angle_t = !tile.tile<[HALF], TR>
// With pairs, all of them.
!both    = !tile.tile<[BLOCK_H, TWICE], ACC>
!both_t  = !tile.tile<[BLOCK_H, TWICE], T>
!each    = !tile.tile<[TWICE], ACC>
!each_t  = !tile.tile<[TWICE], TR>
!column  = !tile.tile<[TWICE], i32>
// What is stored, and a factor for each head.
!element  = !tile.param<T>
!stored   = !tile.param<CACHE>
!acc      = !tile.param<ACC>
!by       = !tile.tile<[BLOCK_H], f32>
!largest  = !tile.tile<[BLOCK_H], ACC>
!scales   = !tile.view<[?, ?], f32>
!k_acc    = !tile.tile<[BLOCK_H, DP], ACC>
!v_acc    = !tile.tile<[BLOCK_H, DVP], ACC>
!rest_acc = !tile.tile<[BLOCK_H, REST], ACC>
!k_by     = !tile.tile<[BLOCK_H, DP], f32>
!v_by     = !tile.tile<[BLOCK_H, DVP], f32>
!rest_by  = !tile.tile<[BLOCK_H, REST], f32>
!half_by  = !tile.tile<[BLOCK_H, HALF], f32>
!both_by  = !tile.tile<[BLOCK_H, TWICE], f32>
!k_stored    = !tile.tile<[BLOCK_H, DP], CACHE>
!v_stored    = !tile.tile<[BLOCK_H, DVP], CACHE>
!rest_stored = !tile.tile<[BLOCK_H, REST], CACHE>
!half_stored = !tile.tile<[BLOCK_H, HALF], CACHE>
!both_stored = !tile.tile<[BLOCK_H, TWICE], CACHE>

// An element of the cache, divided by the factor of its head if it has 8 bits.
tile.function @stored(%x: !element, %by: f32) -> !stored {
  %divided = tile.param BYTES : i1
  %result = scf.if %divided -> (!stored) {
    %limit = tile.param LIMIT : i32
    %most = arith.sitofp %limit : i32 to !acc
    %least = arith.negf %most : !acc
    %quotient = tile.expr cast(%x) / cast(%by) : !acc
    %inside = tile.expr max(min(%quotient, %most), %least) : !acc
    %is_integer = tile.param CACHE == i8 : i1
    %rounded = scf.if %is_integer -> (!stored) {
      %nearest = tile.cast %quotient saturate : !acc -> !stored
      scf.yield %nearest : !stored
    } else {
      %float = tile.cast %inside : !acc -> !stored
      scf.yield %float : !stored
    }
    scf.yield %rounded : !stored
  } else {
    %same = tile.cast %x : !element -> !stored
    scf.yield %same : !stored
  }
  tile.result %result : !stored
}

// The factor of a row of this largest magnitude.
tile.function @factor_of(%largest: !acc) -> f32 {
  %zero = arith.constant 0.0 : !acc
  %one = arith.constant 1.0 : f32
  %limit = tile.param LIMIT : i32
  %most = arith.sitofp %limit : i32 to !acc
  %own = tile.expr cast(%largest / %most) : f32
  %none = arith.constant 0.0 : f32
  tile.result select(%own == %none, %one, %own) : f32
}

// The factors of heads: those that are given, or with BY_TOKEN those of rows of these largest magnitudes.
tile.function @factors_of_rows(%given: !by, %largest: !largest) -> !by
    = choose(BY_TOKEN, map @factor_of(%largest), %given)

// With BY_TOKEN, the largest magnitudes of the columns of keys that are not rotated; else zeros.
tile.function @largest_of_rest(%k: !rows, %n, %h: i32) -> !largest
    = choose(param(and(BY_TOKEN, D > ROTARY)), reduce max(abs(cast(load %k[%n, %h, ROTARY] : !rest)) : !rest_acc, 1),
      0.0)

// With BY_TOKEN, writes the factors of a row of a page; none for a page or row that does not exist, whose slot would be
// that of another row.
tile.function @store_factors(%by: !by, %scales: !scales, %pages, %rows, %page, %row, %h: i32) {
  %by_token = tile.param BY_TOKEN : i1
  scf.if %by_token {
    %none = arith.constant -1 : i32
    %is_page = arith.cmpi ult, %page, %pages : i32
    %is_row = arith.cmpi ult, %row, %rows : i32
    %exists = arith.andi %is_page, %is_row : i1
    %slot = tile.expr select(%exists, %page * %rows + %row, %none) : i32
    tile.store %by, %scales[%slot, %h] dims [1] : !by, !scales
  }
}

// A number below 2^31, or -1 for any other.
tile.function @narrow(%x: i64) -> i32 {
  %bound = arith.constant 2147483648 : i64
  %fits = arith.cmpi ult, %x, %bound : i64
  %low = arith.trunci %x : i64 to i32
  tile.result select(%fits, %low, -1) : i32
}

// The last b with cu_seqlens[b] <= n, by bisection, and how many keys before n are at or behind cu_seqlens[b].
tile.function @sequence_of(%n: i32, %cu_seqlens: !numbers) -> (i32, i32) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %none = arith.constant -1 : i32
  %boundaries = tile.dim %cu_seqlens, 0 : !numbers
  %steps = tile.expr select(%boundaries < 32, 5, select(%boundaries < 65536, 16, 31)) : i32
  %b, %behind = scf.for %step = %c0 to %steps step %c1
      iter_args(%low = %none, %high = %boundaries) -> (i32, i32) : i32 {
    %distance = arith.subi %high, %low : i32
    %way = arith.shrui %distance, %c1 : i32
    %middle = arith.addi %low, %way : i32
    %first = tile.at %cu_seqlens[%middle] : !numbers
    %is_before = arith.cmpi sle, %first, %n : i32
    %new_low = arith.select %is_before, %middle, %low : i32
    %new_high = arith.select %is_before, %high, %middle : i32
    scf.yield %new_low, %new_high : i32, i32
  }
  tile.result %b, %n - %cu_seqlens[%b] : i32, i32
}

// Of row n of `rows` ones, as many for each sequence: the number of the sequence, and that of the row within it.
tile.function @row_of_sequence(%n, %rows: i32, %seq_lens: !numbers) -> (i32, i32) {
  %at_least_one = tile.expr max(dim(%seq_lens, 0), 1) : i32
  %share = arith.divui %rows, %at_least_one : i32
  %each = tile.expr max(%share, 1) : i32
  %b = arith.divui %n, %each : i32
  tile.result %b, %n - %b * %each : i32, i32
}

// Row `number` of pages of `rows` rows: the number of its page, and of the row in that. A negative number gives a page
// of at least 2^31 / rows, which no pool or table has.
tile.function @place_of(%number, %rows: i32) -> (i32, i32) {
  %at_least_one = tile.expr max(%rows, 1) : i32
  %page = arith.divui %number, %at_least_one : i32
  tile.result %page, %number - %page * %at_least_one : i32, i32
}

// The halves of rows at position p.
tile.function @rotate_halves(%x: !rows, %n, %h, %p: i32, %cos, %sin: !angles) -> (!half_t, !half_t) {
  %half = tile.param HALF : i32
  %x1_t = tile.load %x[%n, %h, 0] : !rows -> !half_t
  %x2_t = tile.load %x[%n, %h, %half] : !rows -> !half_t
  %cos_t = tile.load %cos[%p, 0] : !angles -> !angle_t
  %sin_t = tile.load %sin[%p, 0] : !angles -> !angle_t
  %x1 = tile.cast %x1_t : !half_t -> !half
  %x2 = tile.cast %x2_t : !half_t -> !half
  %cos_row = tile.cast %cos_t : !angle_t -> !angle
  %sin_row = tile.cast %sin_t : !angle_t -> !angle
  %c = tile.expand %cos_row dim 0 : !angle -> !half
  %s = tile.expand %sin_row dim 0 : !angle -> !half
  %x1_c = arith.mulf %x1, %c : !half
  %x2_s = arith.mulf %x2, %s : !half
  %x2_c = arith.mulf %x2, %c : !half
  %x1_s = arith.mulf %x1, %s : !half
  %y1 = arith.subf %x1_c, %x2_s : !half
  %y2 = arith.addf %x2_c, %x1_s : !half
  tile.result cast(%y1), cast(%y2) : !half_t, !half_t
}

// Rows at position p, of pairs of columns. Each column is read together with the other one of its pair.
tile.function @rotate_pairs(%x: !rows, %n, %h, %p: i32, %cos, %sin: !angles) -> !both_t {
  %c0 = arith.constant 0 : i32
  %one = tile.constant 1 : !column
  %i = tile.iota %c0 dim 0 : !column
  %odd = tile.expr bitand(%i, 1) : !column
  %is_odd = tile.expr ne(%odd, 0) : !column
  // Computed from %odd, indices have the layout of the columns for which %is_odd chooses.
  %first = arith.subi %i, %odd : !column
  %pair = arith.shrui %first, %one : !column
  %other = tile.expr %first + (1 - %odd) : !column
  %x_t = tile.load %x[%n, %h, 0] : !rows -> !both_t
  %other_t = tile.gather %x[%n, %h, 0] along 2 at %other : !rows, !column -> !both_t
  %cos_t = tile.gather %cos[%p, 0] along 1 at %pair : !angles, !column -> !each_t
  %sin_t = tile.gather %sin[%p, 0] along 1 at %pair : !angles, !column -> !each_t
  %x_acc = tile.cast %x_t : !both_t -> !both
  %other_acc = tile.cast %other_t : !both_t -> !both
  %cos_row = tile.cast %cos_t : !each_t -> !each
  %sin_row = tile.cast %sin_t : !each_t -> !each
  %signed_sin = tile.expr select(%is_odd, %sin_row, neg(%sin_row)) : !each
  %c = tile.expand %cos_row dim 0 : !each -> !both
  %s = tile.expand %signed_sin dim 0 : !each -> !both
  tile.result cast(%x_acc * %c + %other_acc * %s) : !both_t
}

tile.kernel @attention_append
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CACHE: type in [f16, bf16, f32, f64, e4m3, e5m2, i8] = T,
           BY_TOKEN: flag = false, let BYTES: flag = bits(CACHE) == 8, let DESCALE: flag = and(BYTES, not(BY_TOKEN)),
           let LIMIT: int = select(CACHE == e4m3, 448, select(CACHE == i8, 127, 57344)),
           PLACES: enum in ["slots", "table", "sequences"] = "slots", INDICES: enum in ["i32", "i64"] = "i32",
           PACKED, POSITIONS: flag = false, ROTARY: int = 0, PAIRS, Q_FIRST: flag = false,
           TR: type in [f16, bf16, f32, f64] = T, let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           BLOCK_H: int in [1, 2, 4, 8, 16, 32, 64] =
               select(ROW_BYTES <= 32, 64, select(ROW_BYTES <= 64, 32, select(ROW_BYTES <= 128, 16,
               select(ROW_BYTES <= 256, 8, select(ROW_BYTES <= 512, 4, select(ROW_BYTES <= 1024, 2, 1)))))),
           let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T),
           let HALF: int = max(floordiv(ROTARY, 2), 8), let TWICE: int = 2 * HALF,
           let REST: int = max(padded(D - ROTARY), 8),
           let BY_SEQUENCE: flag = not(or(PLACES == "slots", or(PACKED, POSITIONS))),
           let SLOTS: flag = PLACES == "slots", let TABLE: flag = PLACES == "table",
           let WIDE: flag = INDICES == "i64")
    require(or(BYTES, CACHE == T), or(BYTES, not(BY_TOKEN)), D >= 1, DV >= 1, D <= 1024, DV <= 1024,
            ROTARY >= 0, ROTARY <= D,
            mod(ROTARY, 16) == 0,
            or(not(SLOTS), not(PACKED)), or(not(SLOTS), or(ROTARY == 0, POSITIONS)), or(not(POSITIONS), ROTARY > 0),
            or(not(Q_FIRST), BY_SEQUENCE),
            dim(v, 0) == dim(k, 0), dim(v, 1) == dim(k, 1), dim(k_pages, 2) == dim(k, 1),
            dim(k_descale, 0) == dim(k, 1), dim(v_descale, 0) == dim(k, 1),
            dim(k_scales, 0) == dim(k_pages, 0) * dim(k_pages, 1), dim(k_scales, 1) == dim(k, 1),
            dim(v_scales, 0) == dim(k_pages, 0) * dim(k_pages, 1), dim(v_scales, 1) == dim(k, 1),
            same_dims(v_pages, k_pages, 0, 1, 2), dim(k_pages, 0) * dim(k_pages, 1) < 2147483648,
            dim(block_table, 1) * dim(k_pages, 1) < 2147483648,
            dim(slots, 0) == dim(k, 0), dim(slots_i64, 0) == dim(k, 0),
            dim(block_table, 0) == dim(seq_lens, 0), or(ne(PLACES, "sequences"), dim(k_pages, 0) == dim(seq_lens, 0)),
            dim(cu_seqlens, 0) == dim(seq_lens, 0) + 1, dim(total_lens, 0) == dim(seq_lens, 0),
            or(not(SLOTS), dim(total_lens, 0) == 0), or(ROTARY > 0, dim(q, 0) == 0),
            or(PACKED, mod(dim(k, 0), max(dim(seq_lens, 0), 1)) == 0),
            or(PACKED, or(dim(seq_lens, 0) > 0, dim(k, 0) == 0)),
            dim(positions, 0) == dim(k, 0), dim(positions_i64, 0) == dim(k, 0),
            same_dims(sin, cos, 0), same_dims(q_out, q, 0, 1), or(BY_SEQUENCE, dim(q, 0) == dim(k, 0)),
            or(not(BY_SEQUENCE), mod(dim(q, 0), max(dim(seq_lens, 0), 1)) == 0),
            within(slots, -1, dim(k_pages, 0) * dim(k_pages, 1)),
            within(slots_i64, -1, dim(k_pages, 0) * dim(k_pages, 1)),
            within(seq_lens, 0, select(TABLE, dim(block_table, 1) * dim(k_pages, 1), dim(k_pages, 1)) + 1),
            ascending(cu_seqlens), within(cu_seqlens, 0, dim(k, 0) + 1), within(positions, 0, dim(cos, 0)),
            within(positions_i64, 0, dim(cos, 0)))
    (%k: !rows, %v: optional !v_rows, %k_pages: !k_pages, %v_pages: optional !v_pages,
     %k_descale, %v_descale: !factors when (DESCALE), %k_scales, %v_scales: !scales when (BY_TOKEN),
     %slots: !numbers when (and(SLOTS, not(WIDE))), %slots_i64: !wide when (and(SLOTS, WIDE)),
     %seq_lens: !numbers when (not(SLOTS)), %block_table: !table when (TABLE), %cu_seqlens: !numbers when (PACKED),
     %total_lens: optional !numbers,
     %positions: !numbers when (and(POSITIONS, not(WIDE))), %positions_i64: !wide when (and(POSITIONS, WIDE)),
     %cos, %sin: !angles when (ROTARY > 0), %q, %q_out: optional !rows)
    grid(%bh = max(ceildiv(dim(k, 1), BLOCK_H), ceildiv(dim(q, 1), BLOCK_H)),
         %n = max(dim(k, 0), max(dim(q, 0), dim(total_lens, 0))))
    attributes {tgpu.allows_run, tgpu.awaits_launch} {
  %c0 = arith.constant 0 : i32
  %h = tile.expr %bh * BLOCK_H : i32
  // On their way before the place of the key is known. Keys that are rotated are loaded again, in other tiles.
  %k_tile = tile.load %k[%n, %h, 0] : !rows -> !k
  %v_tile = tile.load %v[%n, %h, 0] : !v_rows -> !v
  %has_factors = tile.param DESCALE : i1
  %k_heads_by, %v_heads_by = scf.if %has_factors -> (!by, !by) {
    %k_given = tile.load %k_descale[%h] : !factors -> !by
    %v_given = tile.load %v_descale[%h] : !factors -> !by
    scf.yield %k_given, %v_given : !by, !by
  } else {
    %ones = tile.constant 1.0 : !by
    scf.yield %ones, %ones : !by, !by
  }

  %k_largest = tile.expr reduce max(abs(cast(%k_tile)) : !k_acc, 1) : !largest
  %v_by = tile.expr @factors_of_rows(%v_heads_by, reduce max(abs(cast(%v_tile)) : !v_acc, 1) : !largest) : !by

  %by_slot = tile.param SLOTS : i1
  %by_table = tile.param TABLE : i1
  %packed = tile.param PACKED : i1
  %wide = tile.param WIDE : i1
  %rows = tile.dim %k_pages, 1 : !k_pages
  %keys = tile.dim %k, 0 : !rows
  // Page -1 lies outside of the pool, and a store there does nothing. %number is the position of key n.
  %page, %row, %number = scf.if %by_slot -> (i32, i32, i32) {
    %slot = scf.if %wide -> (i32) {
      %given = tile.at %slots_i64[%n] : !wide
      %narrow = tile.expr @narrow(%given) : i32
      scf.yield %narrow : i32
    } else {
      %given = tile.at %slots[%n] : !numbers
      scf.yield %given : i32
    }
    %of_slot, %row_of_slot = tile.expr @place_of(%slot, %rows) : i32
    scf.yield %of_slot, %row_of_slot, %c0 : i32, i32, i32
  } else {
    %b, %i = tile.expr choose(PACKED, @sequence_of(%n, %cu_seqlens), @row_of_sequence(%n, %keys, %seq_lens)) : i32
    %before = tile.at %seq_lens[%b] : !numbers
    %p = arith.addi %before, %i : i32
    %sequences = tile.dim %seq_lens, 0 : !numbers
    %is_sequence = arith.cmpi ult, %b, %sequences : i32
    %page_of_b, %row_of_p = scf.if %by_table -> (i32, i32) {
      %column, %row_in_page = tile.expr @place_of(%p, %rows) : i32
      %listed = tile.at %block_table[%b, %column] : !table
      %columns = tile.dim %block_table, 1 : !table
      %has_entry = arith.cmpi ult, %column, %columns : i32
      %entry = tile.expr select(%has_entry, %listed, -1) : i32
      scf.yield %entry, %row_in_page : i32, i32
    } else {
      scf.yield %b, %p : i32, i32
    }
    %own = tile.expr select(%is_sequence, %page_of_b, -1) : i32
    scf.yield %own, %row_of_p, %p : i32, i32, i32
  }
  %to = tile.expr select(%n < %keys, %page, -1) : i32

  %pages = tile.dim %k_pages, 0 : !k_pages
  %rotates = tile.param ROTARY > 0 : i1
  scf.if %rotates {
    %rest_largest = tile.expr @largest_of_rest(%k, %n, %h) : !largest
    %has_positions = tile.param POSITIONS : i1
    %by_sequence = tile.param BY_SEQUENCE : i1
    %p = scf.if %has_positions -> (i32) {
      %position = scf.if %wide -> (i32) {
        %given = tile.at %positions_i64[%n] : !wide
        %narrow = tile.expr @narrow(%given) : i32
        scf.yield %narrow : i32
      } else {
        %given = tile.at %positions[%n] : !numbers
        scf.yield %given : i32
      }
      scf.yield %position : i32
    } else {
      scf.yield %number : i32
    }
    %p_q = scf.if %by_sequence -> (i32) {
      %b, %i = tile.expr @row_of_sequence(%n, dim(%q, 0), %seq_lens) : i32
      %before = tile.at %seq_lens[%b] : !numbers
      %position = tile.expr %before + select(Q_FIRST, 0, %i) : i32
      scf.yield %position : i32
    } else {
      scf.yield %p : i32
    }
    %half = tile.param HALF : i32
    %pairs = tile.param PAIRS : i1
    %k_by = scf.if %pairs -> (!by) {
      %k_both = tile.expr @rotate_pairs(%k, %n, %h, %p, %cos, %sin) : !both_t
      %q_both = tile.expr @rotate_pairs(%q, %n, %h, %p_q, %cos, %sin) : !both_t
      %largest = tile.expr max(reduce max(abs(cast(%k_both)) : !both, 1), %rest_largest) : !largest
      %own_by = tile.expr @factors_of_rows(%k_heads_by, %largest) : !by
      %k_both_stored = tile.expr map @stored(%k_both, expand(%own_by, 1) : !both_by) : !both_stored
      tile.store %k_both_stored, %k_pages[%to, %row, %h, 0] : !both_stored, !k_pages
      tile.store %q_both, %q_out[%n, %h, 0] : !both_t, !rows
      scf.yield %own_by : !by
    } else {
      %k1, %k2 = tile.expr @rotate_halves(%k, %n, %h, %p, %cos, %sin) : !half_t
      %q1, %q2 = tile.expr @rotate_halves(%q, %n, %h, %p_q, %cos, %sin) : !half_t
      %k1_acc = tile.cast %k1 : !half_t -> !half
      %k2_acc = tile.cast %k2 : !half_t -> !half
      %largest = tile.expr max(reduce max(max(abs(%k1_acc), abs(%k2_acc)), 1), %rest_largest) : !largest
      %own_by = tile.expr @factors_of_rows(%k_heads_by, %largest) : !by
      %half_by = tile.expand %own_by dim 1 : !by -> !half_by
      %k1_stored = tile.expr map @stored(%k1, %half_by) : !half_stored
      %k2_stored = tile.expr map @stored(%k2, %half_by) : !half_stored
      tile.store %k1_stored, %k_pages[%to, %row, %h, 0] : !half_stored, !k_pages
      tile.store %k2_stored, %k_pages[%to, %row, %h, %half] : !half_stored, !k_pages
      tile.store %q1, %q_out[%n, %h, 0] : !half_t, !rows
      tile.store %q2, %q_out[%n, %h, %half] : !half_t, !rows
      scf.yield %own_by : !by
    }
    func.call @store_factors(%k_by, %k_scales, %pages, %rows, %to, %row, %h)
        : (!by, !scales, i32, i32, i32, i32, i32) -> ()
    %has_rest = tile.param D > ROTARY : i1
    scf.if %has_rest {
      %rotary = tile.param ROTARY : i32
      %k_rest = tile.load %k[%n, %h, %rotary] : !rows -> !rest
      %q_rest = tile.load %q[%n, %h, %rotary] : !rows -> !rest
      %k_rest_stored = tile.expr map @stored(%k_rest, expand(%k_by, 1) : !rest_by) : !rest_stored
      tile.store %k_rest_stored, %k_pages[%to, %row, %h, %rotary] : !rest_stored, !k_pages
      tile.store %q_rest, %q_out[%n, %h, %rotary] : !rest, !rows
    }
  } else {
    %own_by = tile.expr @factors_of_rows(%k_heads_by, %k_largest) : !by
    func.call @store_factors(%own_by, %k_scales, %pages, %rows, %to, %row, %h)
        : (!by, !scales, i32, i32, i32, i32, i32) -> ()
    %k_stored = tile.expr map @stored(%k_tile, expand(%own_by, 1) : !k_by) : !k_stored
    tile.store %k_stored, %k_pages[%to, %row, %h, 0] : !k_stored, !k_pages
  }
  %v_stored = tile.expr map @stored(%v_tile, expand(%v_by, 1) : !v_by) : !v_stored
  tile.store %v_stored, %v_pages[%to, %row, %h, 0] : !v_stored, !v_pages
  func.call @store_factors(%v_by, %v_scales, %pages, %rows, %to, %row, %h)
      : (!by, !scales, i32, i32, i32, i32, i32) -> ()

  // Instance b writes the length of sequence b, which may have no new keys.
  scf.if %by_slot {
  } else {
    %lengths = tile.dim %total_lens, 0 : !numbers
    %writes = tile.expr and(%n < %lengths, %bh == 0) : i32
    scf.if %writes {
      %before = tile.at %seq_lens[%n] : !numbers
      %new = scf.if %packed -> (i32) {
        %next = tile.expr %n + 1 : i32
        %begin = tile.at %cu_seqlens[%n] : !numbers
        %count = tile.expr %cu_seqlens[%next] - %begin : i32
        scf.yield %count : i32
      } else {
        %each = arith.divui %keys, %lengths : i32
        scf.yield %each : i32
      }
      %room = scf.if %by_table -> (i32) {
        %columns = tile.dim %block_table, 1 : !table
        %all = arith.muli %columns, %rows : i32
        scf.yield %all : i32
      } else {
        scf.yield %rows : i32
      }
      %sum_tile = tile.expr full(%before + min(%new, %room - %before)) : !tile.tile<[1], i32>
      tile.store %sum_tile, %total_lens[%n] : !tile.tile<[1], i32>, !numbers
    }
  }
}
