// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout of probabilities: a pair is dropped with probability p, and the others are multiplied by
// 1 / (1 - p). LSE is that of attention without dropout.
//
//   dropout          f32, the probability p of dropping a pair, 0 <= p < 1
//   dropout_seed     [1]   i64
//   dropout_offset   [1]   i64, in memory, so that a recorded launch draws new numbers when replayed
//
// A pair is dropped where the 32 bits of Philox4x32-10 at the counter (j, i, h) are below
// floor(p * 2^32) (tile.random, with the offset plus b * 2^32). They depend on the logical position alone, so the
// backward finds the same with other tiles, and transposed.
//
// The generator: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC11).
//
// Link it to a kernel that has @weight_mod: tilewright-run --with kernels/mods/dropout.mlir

tile.capture @dropout : f32 require(dropout >= 0, dropout < 1)
tile.capture @dropout_seed : !tile.view<[1], i64>
tile.capture @dropout_offset : !tile.view<[1], i64>

func.func private @weight_mod(%b: i32, %h: i32, %i: i32, %j: i32) -> !tile.param<ACC> {
  %seed = tile.at @dropout_seed[0] : i64
  %offset = tile.at @dropout_offset[0] : i64
  %c32 = arith.constant 32 : i64
  %batch = arith.extsi %b : i32 to i64
  %high = arith.shli %batch, %c32 : i64
  %stream = arith.addi %offset, %high : i64
  %bits = tile.random %seed, %stream at (%j, %i, %h) : i32

  %p = tile.at @dropout : f32
  %two_32 = arith.constant 4294967296.0 : f32
  %threshold_f32 = arith.mulf %p, %two_32 : f32
  %threshold_i64 = arith.fptosi %threshold_f32 : f32 to i64
  %threshold = arith.trunci %threshold_i64 : i64 to i32
  %dropped = arith.cmpi ult, %bits, %threshold : i32

  %zero = arith.constant 0.0 : !tile.param<ACC>
  %one = arith.constant 1.0 : !tile.param<ACC>
  %p_acc = tile.cast %p : f32 -> !tile.param<ACC>
  %kept = arith.subf %one, %p_acc : !tile.param<ACC>
  %scale = arith.divf %one, %kept : !tile.param<ACC>
  %factor = arith.select %dropped, %zero, %scale : !tile.param<ACC>
  return %factor : !tile.param<ACC>
}
