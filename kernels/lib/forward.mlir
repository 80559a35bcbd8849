// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The attention forward for one block of queries and one block of keys: online softmax in one pass over the keys
// (Milakov and Gimelshein, Online normalizer calculation for softmax, 2018). The loop over blocks of keys carries for
// each row:
//
//   max   the maximum of the scores so far, in base 2 (GPUs have an instruction for exp2); with 16-bit types it may be
//         up to 8 less, see @online_softmax, and with 8-bit types it is 8 less, see @drop
//   sum   the sum of exp2(x - max)
//   acc   the sum of exp2(x - max) V
//
//   max, sum, acc = @before_keys, @before_keys_of, @after_keys, or @no_keys
//   for each block of keys: max, sum, acc = @round_of_keys, or @p_of_products and a product, or @plain_round
//   O = @output_of(sum, acc), LSE = @lse_of_head(h, max, sum), @lse_with_sinks(sinks, max, sum), or @lse_of(max, sum)
//
// Scores in base 2 are finite up to 0.69 times the greatest finite number. With NATURAL, for modifiers that exceed it,
// scores and maxima stay natural until the maximum is subtracted, which costs a multiplication for each pair.
//
// @before_keys and @round_of_keys call the functions that other files may replace; @no_keys and @plain_round do not. A
// kernel that links this file declares T, ACC, BLOCK_M (rows), BLOCK_N (keys of an iteration), DP and DVP (padded
// widths of a query and of a value), the parameters of attention.mlir and, for @before_keys, @p_of_products and
// @lse_of_head, NATURAL; for the last also SINKS: whether a sink is linked; for @p_of_products also HEAD_ROWS (see
// @query_of_row); and for @round_of_keys and the scaling of 8-bit types, FP8: whether T has 8 bits.

tile.link "attention.mlir", "softmax.mlir"

!one_view = !tile.view<[1], f32>

// How far the carried maximum of 8-bit types, which have few small values, is below the maximum, where scores double P
// every %octave: P is at most 256 / @weight_limit, and 256 with its weight. The largest e4m3 is 448.
tile.function @drop(%octave: !acc) -> !acc = log2(256.0 / @weight_limit(1.0 : !acc)) * %octave

// The maxima of rows, less the drop with 8-bit types.
tile.function @dropped(%max: !row, %octave: !acc) -> !row
    = choose(param(bits(T) == 8), %max - full(@drop(%octave)), %max)

// The state of the rows of a head before the first key. A sink counts as a key without a value. The sum is relative to
// the maximum, so it follows the drop; as numbers, the compiler sees that it is zero without a sink.
tile.function @before_keys(%h: i32) -> (!row, !row, !o) {
  %sink = tile.expr @sink(%h) : !acc
  %sink_weight = tile.expr select(%sink == minus_inf, 0, 1) : !acc
  %lowest = tile.expr @lowest() : !acc
  %first_max = tile.expr min(max(select(NATURAL, %sink, %sink * log2e), %lowest), neg(%lowest))
  %octave = tile.expr select(NATURAL, ln2, 1) : !acc
  %first, %first_sum = tile.if param(bits(T) == 8) -> (!acc, !acc) {
    %below = tile.expr %first_max - @drop(%octave)
    tile.yield %below, %sink_weight * exp2((%first_max - %below) / %octave)
  } else {
    tile.yield %first_max, %sink_weight
  }
  tile.result full(%first), full(%first_sum), 0 : !row, !row, !o
}

// The state of rows whose O and LSE over other keys are known: O counts as the value of one key, whose score is LSE.
tile.function @after_keys(%o: !o, %lse: !row) -> (!row, !row, !o)
    = max(select(NATURAL, %lse, %lse * log2e), full(@lowest())), select(%lse == minus_inf, 0, 1), %o

// The same for rows of several heads, given the sink of each row.
tile.function @before_keys_of(%sinks: !row) -> (!row, !row, !o) {
  %first, %own = tile.expr @sinks_as_maxima(%sinks) : !row
  tile.result %first, select(%sinks == minus_inf, 0, 1), 0 : !row, !row, !o
}

// Sinks as first maxima, which are finite, and before they are made so.
tile.function @sinks_as_maxima(%sinks: !row) -> (!row, !row) {
  %lowest = tile.expr @lowest() : !acc
  %own = tile.expr select(NATURAL, %sinks, %sinks * log2e)
  tile.result min(max(%own, full(%lowest)), full(neg(%lowest))), %own
}

// Like @before_keys, without a sink.
tile.function @no_keys() -> (!row, !row, !o) = full(@lowest()), 0, 0

// From scores in base 2: P, the new maximum and sum, and the rescaled sum of P V. With 16-bit types, the carried
// maximum may lag behind by up to 8: it rises only if the true maximum exceeds it by more than that. P is then at most
// 2^8, and most iterations leave the maximum unchanged.
tile.function @online_softmax(%x: !s, %max_old, %sum_old: !row, %acc_old: !o) -> (!s, !row, !row, !o) {
  %p, %max_new, %sum_new, %rescale = tile.expr @softmax_of_block(%x, %max_old, %sum_old) : !s, !row, !row, !row
  tile.result %p, %max_new, %sum_new, @rescaled(%rescale, %acc_old) : !s, !row, !row, !o
}

// The sum of P V, each row times its factor.
tile.function @rescaled(%rescale: !row, %acc: !o) -> !o {
  // With 8-bit types, products are added apart (tile-transpose-operands).
  %for_sum = tile.expr %acc * expand(%rescale, 1) fastmath<contract>
  tile.result select(param(bits(T) == 8), %for_sum, %acc * expand(%rescale, 1))
}

// The same, with the factor from the old maximum to the new one instead of the sum of P V.
tile.function @softmax_of_block(%x: !s, %max_old, %sum_old: !row) -> (!s, !row, !row, !row) {
  %max_all = tile.expr max(%max_old, @dropped(reduce max(%x, 1), 1.0 : !acc)) : !row
  %max_lagging = tile.expr select(%max_all > %max_old + 8.0, %max_all, %max_old) : !row
  %max_new = tile.expr select(param(bits(T) == 16), %max_lagging, %max_all) : !row
  %below = tile.expr %x - expand(%max_new, 1) fastmath<reassoc, contract>
  %p = math.exp2 %below : !s
  // Rescale the sums from the old maximum to the new one, by 2^(old - new).
  %rescale = tile.expr exp2(%max_old - %max_new)
  %sum_block = tile.reduce add %p dim 1 : !s
  %sum_new = tile.expr %sum_old * %rescale + %sum_block fastmath<reassoc, contract>
  tile.result %p, %max_new, %sum_new, %rescale
}

// The same from natural scores, with natural maxima. The factor of base 2 is not combined with others, since scores may
// be too large for it.
tile.function @natural_softmax(%x: !s, %max_old, %sum_old: !row, %acc_old: !o) -> (!s, !row, !row, !o) {
  %max_all = tile.expr max(%max_old, @dropped(reduce max(%x, 1), 0.6931471805599453 : !acc)) : !row
  %max_lagging = tile.expr select(%max_all > %max_old + 5.545177444479562, %max_all, %max_old) : !row
  %max_new = tile.expr select(param(bits(T) == 16), %max_lagging, %max_all) : !row
  %p = tile.expr exp2((%x - expand(%max_new, 1)) * log2e) : !s
  %rescale = tile.expr exp2((%max_old - %max_new) * log2e)
  %sum_block = tile.reduce add %p dim 1 : !s
  %sum_new = tile.expr %sum_old * %rescale + %sum_block fastmath<reassoc, contract>
  tile.result %p, %max_new, %sum_new, %acc_old * expand(%rescale, 1)
}

// The heads and queries of rows, as @query_of_row gives them. With one row of each head, the head is a sum of
// positions, so that captures by head are loaded as tiles.
tile.function @queries_of_rows(%h: i32, %rows: !pos) -> (!pos, !pos) {
  %number = tile.expr select(param(HEAD_ROWS == 1), %rows, %rows / param(max(HEAD_ROWS, 1))) : !pos
  %query = tile.expr select(param(HEAD_ROWS == 1), 0, mod(%rows, param(max(HEAD_ROWS, 1)))) : !pos
  tile.result full(%h) + %number, %query : !pos, !pos
}

// From products %s of the queries from %m on and the keys from %n on, and factors of these: P for the pairs of
// %keep, the new maximum and sum, and the rescaled sum of P V.
tile.function @p_of_products(%s, %scales: !s, %keep: !keep, %max_old, %sum_old: !row, %acc_old: !o, %b, %h, %m,
                             %n: i32) -> (!s, !row, !row, !o)
    = @p_of_pairs(%s, %scales, %keep, %max_old, %sum_old, %acc_old, %b, %h, iota(%m, 0) : !pos, iota(%n, 1) : !pos)

// The same for queries and keys at given positions. The fastmath flags allow to combine the two factors of a score, and
// a product with its difference.
tile.function @p_of_pairs(%s, %scales: !s, %keep: !keep, %max_old, %sum_old: !row, %acc_old: !o, %b, %h: i32, %rows,
                          %cols: !pos) -> (!s, !row, !row, !o) {
  %natural = tile.expr %s * %scales fastmath<reassoc, contract>
  %heads, %queries = tile.expr @queries_of_rows(%h, %rows) : !pos
  %modified_rows = tile.expr map @score_mod(%natural, %b, %heads, %queries, %cols) : !s
  %modified_queries = tile.expr map @score_mod(%natural, %b, %h, %rows, %cols) : !s
  %modified = tile.expr select(param(HEAD_ROWS > 0), %modified_rows, %modified_queries)
  %p, %max_new, %sum_new, %acc_kept = tile.if NATURAL -> (!s, !row, !row, !o) {
    %x = tile.expr select(%keep, %modified, minus_inf)
    tile.yield @natural_softmax(%x, %max_old, %sum_old, %acc_old) : !s, !row, !row, !o
  } else {
    %x = tile.expr select(%keep, %modified * log2e, minus_inf) fastmath<reassoc, contract>
    tile.yield @online_softmax(%x, %max_old, %sum_old, %acc_old) : !s, !row, !row, !o
  }
  %p_rows = tile.expr map @weight_mod(%p, %b, %heads, %queries, %cols) : !s
  %p_weighted = tile.expr select(param(HEAD_ROWS > 0), %p_rows, map @weight_mod(%p, %b, %h, %rows, %cols))
  tile.result %p_weighted, %max_new, %sum_new, %acc_kept
}

// One iteration with this P.
tile.function @round_of_keys(%q_tile: !q, %k_tile: !k, %v_tile: !v, %keep: !keep, %max_old, %sum_old: !row,
                             %acc_old: !o, %b, %h, %m, %n: i32, %scale: !acc) -> (!row, !row, !o) {
  %scales = tile.full %scale : !s
  %s = tile.dot %q_tile, %k_tile transpose_b : !q, !k -> !s
  %p_weighted, %max_new, %sum_new, %acc_kept = tile.expr
      @p_of_products(%s, %scales, %keep, %max_old, %sum_old, %acc_old, %b, %h, %m, %n) : !s, !row, !row, !o
  %limited = tile.cast %p_weighted saturate : !s -> !p
  tile.result %max_new, %sum_new, dot(select(FP8, %limited, cast(%p_weighted)) : !p, %v_tile, %acc_kept)
}

// Like @round_of_keys, without modifiers.
tile.function @plain_round(%q_tile: !q, %k_tile: !k, %v_tile: !v, %keep: !keep, %max_old, %sum_old: !row, %acc_old: !o,
                           %scale: !acc) -> (!row, !row, !o) {
  %scales = tile.expr full(%scale * log2e) : !s
  %x = tile.expr select(%keep, dot(%q_tile, %k_tile transpose_b) * %scales, minus_inf) fastmath<contract> : !s
  %p, %max_new, %sum_new, %acc_kept = tile.expr @online_softmax(%x, %max_old, %sum_old, %acc_old) : !s, !row, !row, !o
  tile.result %max_new, %sum_new, dot(cast(%p) : !p, %v_tile, %acc_kept)
}

// O after the last key. A row without keys has the sum 0 and gets 0.
tile.function @output_of(%sum: !row, %acc: !o) -> !o = %acc * expand(map @reciprocal_or_zero(%sum), 1)

// LSE = log(2^max * sum). It is -inf for a row without keys, whose sum is 0.
tile.function @lse_of(%max, %sum: !row) -> !row = %max * ln2 + log(%sum)

// The same for a head whose state began with @before_keys. A sink that is too large for base 2 is taken as it is: it is
// the maximum if it is positive, or if the row has no key.
tile.function @lse_of_head(%h: i32, %max, %sum: !row) -> !row {
  %of_base2 = tile.expr @lse_of(%max, %sum) : !row
  %lowest = tile.expr @lowest() : !acc
  %sink = tile.expr @sink(%h) : !acc
  %sink_base2 = tile.expr %sink * log2e
  %first = tile.expr min(max(%sink_base2, %lowest), neg(%lowest))
  %is_beyond = arith.cmpf one, %first, %sink_base2 : !acc
  %is_sink = tile.expr %max == full(select(%is_beyond, %first, minus_inf)) : !row
  %of_sink = tile.expr select(%is_sink, full(%sink) + log(%sum), %of_base2) : !row
  tile.result select(NATURAL, %max + log(%sum), select(SINKS, %of_sink, %of_base2)) : !row
}

// The same for rows whose state began with @before_keys_of.
tile.function @lse_with_sinks(%sinks, %max, %sum: !row) -> !row {
  %of_base2 = tile.expr @lse_of(%max, %sum) : !row
  %first, %own = tile.expr @sinks_as_maxima(%sinks) : !row
  %is_beyond = arith.cmpf one, %first, %own : !row
  %of_sink = tile.expr select(and(%is_beyond, %max == %first), %sinks + log(%sum), %of_base2) : !row
  tile.result select(NATURAL, %max + log(%sum), select(SINKS, %of_sink, %of_base2)) : !row
}

// The factor of the scores. With 8-bit types, q and k hold values divided by their descale factors.
tile.function @scale_of_scores(%scale: !acc, %q_descale, %k_descale: !one_view) -> !acc
    = select(FP8, %scale * cast(%q_descale[0] * %k_descale[0]), %scale)

// O in units of v, which holds values divided by v_descale with 8-bit types.
tile.function @descaled(%o: !o, %v_descale: !one_view) -> !o = select(FP8, %o * full(cast(%v_descale[0])), %o)
