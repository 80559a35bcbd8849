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
//   t5_bias            [Hq, N]   f32, the table
//   t5_max_distance    i32; a value below E + 1 counts as E + 1
//   t5_bidirectional   i32. 1 (encoder): C = N / 2; keys at or behind the query use the first half of the buckets, keys
//                      ahead of it the second half. 0 (decoder with a causal mask): C = N; keys ahead use bucket 0.
//
// T5 does not scale its scores: set scale to 1.

tile.capture @t5_bias : !tile.view<[?, ?], f32>
tile.capture @t5_max_distance : i32
tile.capture @t5_bidirectional : i32 require(t5_bidirectional >= 0, t5_bidirectional <= 1)

// The bucket of a distance >= 0, among `count` buckets of one direction.
func.func private @bucket_of(%distance: i32, %count: i32, %max_distance: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %half = arith.divsi %count, %c2 : i32
  %exact = arith.maxsi %half, %c1 : i32
  %next = arith.addi %exact, %c1 : i32
  %limit = arith.maxsi %max_distance, %next : i32
  %last = arith.subi %count, %c1 : i32
  %rest = arith.subi %count, %exact : i32

  %exact_f32 = arith.sitofp %exact : i32 to f32
  %limit_f32 = arith.sitofp %limit : i32 to f32
  %rest_f32 = arith.sitofp %rest : i32 to f32
  %log_exact = math.log2 %exact_f32 : f32
  %log_limit = math.log2 %limit_f32 : f32
  %log_span = arith.subf %log_limit, %log_exact : f32
  %per_octave = arith.divf %rest_f32, %log_span : f32

  // Between the two limits the logarithm is finite, and not below 0.
  %not_near = arith.maxsi %distance, %exact : i32
  %inside = arith.minsi %not_near, %limit : i32
  %inside_f32 = arith.sitofp %inside : i32 to f32
  %log_distance = math.log2 %inside_f32 : f32
  %octaves = arith.subf %log_distance, %log_exact : f32
  %place = arith.mulf %octaves, %per_octave : f32
  // The slack places a distance that begins a bucket in that bucket, even if the logarithm is rounded down.
  %slack = arith.constant 6.103515625e-5 : f32
  %raised = arith.addf %place, %slack : f32
  %steps = arith.fptosi %raised : f32 to i32
  %beyond = arith.addi %exact, %steps : i32
  %far = arith.minsi %beyond, %last : i32
  %is_near = arith.cmpi slt, %distance, %exact : i32
  %bucket = arith.select %is_near, %distance, %far : i32
  return %bucket : i32
}

func.func private @score_mod(%s: !tile.param<ACC>, %b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC> {
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
