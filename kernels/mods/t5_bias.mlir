// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Relative position bias in buckets (Raffel et al., T5, 2020): s + table(h, bucket(j - i)), a learned number for each
// head and each bucket of distances. A direction has C buckets. The first E = C / 2 hold one distance each. The widths
// of the others grow by a constant factor up to the maximum distance; the last one also holds all greater distances:
//
//   bucket(d) = d                                                                      if d < E
//               min(C - 1, E + floor(log(d / E) / log(max_distance / E) * (C - E)))    else
//
//   t5_bias            [Hq, N]   f32, the table; N < 2048
//   t5_max_distance    i32; a value below E + 1 counts as E + 1
//   t5_bidirectional   i32. 1 (encoder): C = N / 2; keys at or behind the query use the first half of the buckets, keys
//                      ahead of it the second half. 0 (decoder with a causal mask): C = N; keys ahead use bucket 0.
//
// T5 does not scale its scores: set scale to 1.

tile.capture @t5_bias : !tile.view<[?, ?], f32> require(
    or(SHARD, dim(t5_bias, 0) == dim(q, 1)), dim(t5_bias, 1) >= t5_bidirectional + 1, dim(t5_bias, 1) < 2048)
tile.capture @t5_max_distance : i32
tile.capture @t5_bidirectional : i32 require(t5_bidirectional >= 0, t5_bidirectional <= 1)

// The bucket of a distance >= 0, among `count` buckets of one direction. A logarithm in f32 gives the nearest begin of
// a bucket, k buckets behind the first of these: the distance E (limit / E)^(k / rest). Whether that is reached is
// decided in f64, where the factors (limit / E)^(2^bit / rest) are the same for all pairs, and k selects among them.
tile.function @bucket_of(%distance, %count, %max_distance: i32) -> i32 {
  %exact = tile.expr max(%count / 2, 1) : i32
  %limit = tile.expr max(%max_distance, %exact + 1) : i32
  %last = tile.expr %count - 1 : i32
  %rest = arith.subi %count, %exact : i32
  %most = tile.expr max(%rest - 1, 0) : i32

  %exact_f64 = arith.sitofp %exact : i32 to f64
  %limit_f64 = arith.sitofp %limit : i32 to f64
  %rest_f64 = arith.sitofp %rest : i32 to f64
  %octaves_f64 = tile.expr log2(%limit_f64 / %exact_f64) : f64
  %factor_0 = tile.expr exp2(%octaves_f64 / %rest_f64) : f64
  %factor_1 = arith.mulf %factor_0, %factor_0 : f64
  %factor_2 = arith.mulf %factor_1, %factor_1 : f64
  %factor_3 = arith.mulf %factor_2, %factor_2 : f64
  %factor_4 = arith.mulf %factor_3, %factor_3 : f64
  %factor_5 = arith.mulf %factor_4, %factor_4 : f64
  %factor_6 = arith.mulf %factor_5, %factor_5 : f64
  %factor_7 = arith.mulf %factor_6, %factor_6 : f64
  %factor_8 = arith.mulf %factor_7, %factor_7 : f64
  %factor_9 = arith.mulf %factor_8, %factor_8 : f64

  // Between the two limits the logarithm is finite, and not below 0.
  %inside = tile.expr min(max(%distance, %exact), %limit) : i32
  %inside_f32 = arith.sitofp %inside : i32 to f32
  %exact_f32 = arith.sitofp %exact : i32 to f32
  %rest_f32 = arith.sitofp %rest : i32 to f32
  %octaves_f32 = arith.truncf %octaves_f64 : f64 to f32
  %per_octave = arith.divf %rest_f32, %octaves_f32 : f32
  %log_exact = math.log2 %exact_f32 : f32
  %raised = tile.expr (log2(%inside_f32) - %log_exact) * %per_octave + 0.5 : f32
  %rounded = arith.fptosi %raised : f32 to i32
  %k = tile.expr min(max(%rounded, 0), %most) : i32

  %begin_0 = tile.expr %exact_f64 * select(ne(bitand(%k, 1), 0), %factor_0, 1) : f64
  %begin_1 = tile.expr %begin_0 * select(ne(bitand(%k, 2), 0), %factor_1, 1) : f64
  %begin_2 = tile.expr %begin_1 * select(ne(bitand(%k, 4), 0), %factor_2, 1) : f64
  %begin_3 = tile.expr %begin_2 * select(ne(bitand(%k, 8), 0), %factor_3, 1) : f64
  %begin_4 = tile.expr %begin_3 * select(ne(bitand(%k, 16), 0), %factor_4, 1) : f64
  %begin_5 = tile.expr %begin_4 * select(ne(bitand(%k, 32), 0), %factor_5, 1) : f64
  %begin_6 = tile.expr %begin_5 * select(ne(bitand(%k, 64), 0), %factor_6, 1) : f64
  %begin_7 = tile.expr %begin_6 * select(ne(bitand(%k, 128), 0), %factor_7, 1) : f64
  %begin_8 = tile.expr %begin_7 * select(ne(bitand(%k, 256), 0), %factor_8, 1) : f64
  // The slack is for a begin that is a whole number: 1 - 2^-40.
  %begin = tile.expr %begin_8 * select(ne(bitand(%k, 512), 0), %factor_9, 1) * 0.99999999999909050 : f64
  %inside_f64 = arith.sitofp %inside : i32 to f64
  %far = tile.expr min(%exact + select(%inside_f64 >= %begin, %k, %k - 1), %last) : i32
  tile.result select(%distance < %exact, %distance, %far) : i32
}

tile.function @score_mod(%s: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> attributes {tile.unbounded} {
  %buckets = tile.dim @t5_bias, 1
  %max_distance = tile.at @t5_max_distance : i32
  %is_both = tile.expr ne(@t5_bidirectional, 0) : i32
  %count = tile.expr select(%is_both, %buckets / 2, %buckets) : i32
  %ahead = arith.subi %j, %i : i32
  %behind = arith.subi %i, %j : i32
  %first = tile.expr select(and(%is_both, %ahead > 0), %count, 0) : i32
  %distance = tile.expr select(%is_both, max(%ahead, %behind), max(%behind, 0)) : i32
  %bucket = tile.expr %first + @bucket_of(%distance, %count, %max_distance) : i32
  tile.result %s + cast(@t5_bias[%h, %bucket] : f32) : !tile.param<ACC>
}
