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
func.func private @bucket_of(%distance: i32, %count: i32, %max_distance: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %half = arith.divsi %count, %c2 : i32
  %exact = arith.maxsi %half, %c1 : i32
  %next = arith.addi %exact, %c1 : i32
  %limit = arith.maxsi %max_distance, %next : i32
  %last = arith.subi %count, %c1 : i32
  %rest = arith.subi %count, %exact : i32
  %before_rest = arith.subi %rest, %c1 : i32
  %most = arith.maxsi %before_rest, %c0 : i32

  %exact_f64 = arith.sitofp %exact : i32 to f64
  %limit_f64 = arith.sitofp %limit : i32 to f64
  %rest_f64 = arith.sitofp %rest : i32 to f64
  %ratio = arith.divf %limit_f64, %exact_f64 : f64
  %octaves_f64 = math.log2 %ratio : f64
  %each = arith.divf %octaves_f64, %rest_f64 : f64
  %factor_0 = math.exp2 %each : f64
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
  %not_near = arith.maxsi %distance, %exact : i32
  %inside = arith.minsi %not_near, %limit : i32
  %inside_f32 = arith.sitofp %inside : i32 to f32
  %exact_f32 = arith.sitofp %exact : i32 to f32
  %rest_f32 = arith.sitofp %rest : i32 to f32
  %octaves_f32 = arith.truncf %octaves_f64 : f64 to f32
  %per_octave = arith.divf %rest_f32, %octaves_f32 : f32
  %log_exact = math.log2 %exact_f32 : f32
  %log_distance = math.log2 %inside_f32 : f32
  %octaves = arith.subf %log_distance, %log_exact : f32
  %place = arith.mulf %octaves, %per_octave : f32
  %middle = arith.constant 0.5 : f32
  %raised = arith.addf %place, %middle : f32
  %rounded = arith.fptosi %raised : f32 to i32
  %above = arith.maxsi %rounded, %c0 : i32
  %k = arith.minsi %above, %most : i32

  %one = arith.constant 1.0 : f64
  %bit_0 = arith.constant 1 : i32
  %own_0 = arith.andi %k, %bit_0 : i32
  %has_0 = arith.cmpi ne, %own_0, %c0 : i32
  %by_0 = arith.select %has_0, %factor_0, %one : f64
  %begin_0 = arith.mulf %exact_f64, %by_0 : f64
  %bit_1 = arith.constant 2 : i32
  %own_1 = arith.andi %k, %bit_1 : i32
  %has_1 = arith.cmpi ne, %own_1, %c0 : i32
  %by_1 = arith.select %has_1, %factor_1, %one : f64
  %begin_1 = arith.mulf %begin_0, %by_1 : f64
  %bit_2 = arith.constant 4 : i32
  %own_2 = arith.andi %k, %bit_2 : i32
  %has_2 = arith.cmpi ne, %own_2, %c0 : i32
  %by_2 = arith.select %has_2, %factor_2, %one : f64
  %begin_2 = arith.mulf %begin_1, %by_2 : f64
  %bit_3 = arith.constant 8 : i32
  %own_3 = arith.andi %k, %bit_3 : i32
  %has_3 = arith.cmpi ne, %own_3, %c0 : i32
  %by_3 = arith.select %has_3, %factor_3, %one : f64
  %begin_3 = arith.mulf %begin_2, %by_3 : f64
  %bit_4 = arith.constant 16 : i32
  %own_4 = arith.andi %k, %bit_4 : i32
  %has_4 = arith.cmpi ne, %own_4, %c0 : i32
  %by_4 = arith.select %has_4, %factor_4, %one : f64
  %begin_4 = arith.mulf %begin_3, %by_4 : f64
  %bit_5 = arith.constant 32 : i32
  %own_5 = arith.andi %k, %bit_5 : i32
  %has_5 = arith.cmpi ne, %own_5, %c0 : i32
  %by_5 = arith.select %has_5, %factor_5, %one : f64
  %begin_5 = arith.mulf %begin_4, %by_5 : f64
  %bit_6 = arith.constant 64 : i32
  %own_6 = arith.andi %k, %bit_6 : i32
  %has_6 = arith.cmpi ne, %own_6, %c0 : i32
  %by_6 = arith.select %has_6, %factor_6, %one : f64
  %begin_6 = arith.mulf %begin_5, %by_6 : f64
  %bit_7 = arith.constant 128 : i32
  %own_7 = arith.andi %k, %bit_7 : i32
  %has_7 = arith.cmpi ne, %own_7, %c0 : i32
  %by_7 = arith.select %has_7, %factor_7, %one : f64
  %begin_7 = arith.mulf %begin_6, %by_7 : f64
  %bit_8 = arith.constant 256 : i32
  %own_8 = arith.andi %k, %bit_8 : i32
  %has_8 = arith.cmpi ne, %own_8, %c0 : i32
  %by_8 = arith.select %has_8, %factor_8, %one : f64
  %begin_8 = arith.mulf %begin_7, %by_8 : f64
  %bit_9 = arith.constant 512 : i32
  %own_9 = arith.andi %k, %bit_9 : i32
  %has_9 = arith.cmpi ne, %own_9, %c0 : i32
  %by_9 = arith.select %has_9, %factor_9, %one : f64
  %begin_9 = arith.mulf %begin_8, %by_9 : f64
  // The slack is for a begin that is a whole number: 1 - 2^-40.
  %slack = arith.constant 0.99999999999909050 : f64
  %begin = arith.mulf %begin_9, %slack : f64
  %inside_f64 = arith.sitofp %inside : i32 to f64
  %is_reached = arith.cmpf oge, %inside_f64, %begin : f64
  %before = arith.subi %k, %c1 : i32
  %steps = arith.select %is_reached, %k, %before : i32
  %beyond = arith.addi %exact, %steps : i32
  %far = arith.minsi %beyond, %last : i32
  %is_near = arith.cmpi slt, %distance, %exact : i32
  %bucket = arith.select %is_near, %distance, %far : i32
  return %bucket : i32
}

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC>
    attributes {tile.unbounded} {
  %c0 = arith.constant 0 : i32
  %c2 = arith.constant 2 : i32
  %buckets = tile.dim @t5_bias, 1
  %max_distance = tile.at @t5_max_distance : i32
  %bidirectional = tile.at @t5_bidirectional : i32
  %is_both = arith.cmpi ne, %bidirectional, %c0 : i32
  %half = arith.divsi %buckets, %c2 : i32
  %count = arith.select %is_both, %half, %buckets : i32

  %ahead = arith.subi %j, %i : i32
  %behind = arith.subi %i, %j : i32
  %is_ahead = arith.cmpi sgt, %ahead, %c0 : i32
  %has_second = arith.andi %is_both, %is_ahead : i1
  %first = arith.select %has_second, %count, %c0 : i32
  %either = arith.maxsi %ahead, %behind : i32
  %not_ahead = arith.maxsi %behind, %c0 : i32
  %distance = arith.select %is_both, %either, %not_ahead : i32

  %of_distance = func.call @bucket_of(%distance, %count, %max_distance) : (i32, i32, i32) -> i32
  %bucket = arith.addi %first, %of_distance : i32
  %bias_f32 = tile.at @t5_bias[%h, %bucket] : f32
  %bias = tile.cast %bias_f32 : f32 -> !tile.param<ACC>
  %biased = arith.addf %s, %bias : !tile.param<ACC>
  return %biased : !tile.param<ACC>
}
