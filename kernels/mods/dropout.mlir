// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Dropout of probabilities: drops each pair with probability p, and multiplies the others by 1 / (1 - p). p has a
// resolution of 2^-16. LSE is that of attention without dropout.
//
//   dropout          f32, the probability p of dropping a pair, 0 <= p < 1
//   dropout_seed     [1]   i64
//   dropout_offset   [1]   i64, in memory: a recorded launch (CUDA graph) draws new numbers when it is replayed
//
// Each pair has a random number of 16 bits. With t = floor(p * 2^16), a pair is dropped if its number is below t; other
// pairs are multiplied by 2^16 / (2^16 - t), so the mean of the factor is 1. The numbers come from Philox4x32-7
// (tile.random, with the offset plus b * 2^32) and depend only on the logical position: a backward with other tiles, or
// with transposed ones, computes the same numbers. Eight pairs share a call of the generator. They differ in bits 0 and
// 3 of the key and bit 3 of the query, like the elements of a matrix product that one GPU thread holds.
//
// Generator: Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC11).

tile.capture @dropout : f32 require(dropout >= 0, dropout < 1)
tile.capture @dropout_seed : !tile.view<[1], i64>
tile.capture @dropout_offset : !tile.view<[1], i64>

// 2^16 / (2^16 - t), and t.
tile.function @dropout_factor() -> (!tile.param<ACC>, i32) {
  %steps = tile.expr @dropout * 65536.0 : f32
  %t_i32 = arith.fptosi %steps : f32 to i32
  %t = arith.sitofp %t_i32 : i32 to !tile.param<ACC>
  tile.result 65536.0 / (65536.0 - %t), %t_i32 : !tile.param<ACC>, i32
}

tile.function @weight_limit(%limit: !tile.param<ACC>) -> !tile.param<ACC> {
  %factor, %t = tile.expr @dropout_factor() : !tile.param<ACC>, i32
  tile.result %limit * %factor
}

tile.function @weight_mod(%prob: !tile.param<ACC>, %b, %h, %i, %j: i32) -> !tile.param<ACC> {
  %seed = tile.at @dropout_seed[0] : i64
  %offset = tile.at @dropout_offset[0] : i64
  %c32 = arith.constant 32 : i64
  %batch = arith.extsi %b : i32 to i64
  %high = arith.shli %batch, %c32 : i64
  %stream = arith.addi %offset, %high : i64

  // %n: the low three bits, from high to low bit 3 of i, bit 3 of j and bit 0 of j, select a number within a call. The
  // other bits of j, above them, and the other bits of i select the call.
  %c1 = arith.constant 1 : i32
  %c2 = arith.constant 2 : i32
  %i_3 = tile.expr bitand(%i, 8)
  %i_others = tile.expr bitand(%i, -9)
  %j_0 = tile.expr bitand(%j, 1)
  %j_1_2 = tile.expr bitand(%j, 6)
  %j_3 = tile.expr bitand(%j, 8)
  %j_upper = tile.expr bitand(%j, -16)
  %n_2 = arith.shrui %i_3, %c1 : i32
  %n_1 = arith.shrui %j_3, %c2 : i32
  %n_4_3 = arith.shli %j_1_2, %c2 : i32
  %n_upper = arith.shli %j_upper, %c1 : i32
  %n_1_0 = arith.ori %n_1, %j_0 : i32
  %n_2_0 = arith.ori %n_2, %n_1_0 : i32
  %n_4_0 = arith.ori %n_4_3, %n_2_0 : i32
  %n = arith.ori %n_upper, %n_4_0 : i32
  %bits = tile.random %seed, %stream at (%n, %i_others, %h) bits 16 rounds 7 : i32

  %factor, %t_i32 = tile.expr @dropout_factor() : !tile.param<ACC>, i32
  %c16 = arith.constant 16 : i32
  %threshold = arith.shli %t_i32, %c16 : i32
  %dropped = arith.cmpi ult, %bits, %threshold : i32

  tile.result select(%dropped, 0, %prob) * %factor fastmath<reassoc, contract>
}
