// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Keys of a cache that are a part of the keys of longer sequences, whose other parts are on other devices or in other
// launches. With SHARD, masks and modifiers get the positions of keys in the whole sequence:
//
//   first_keys  [B]   the position of key 0 of the cache
//   total_lens  [B]   the number of keys of the whole sequence, from which @diagonal_shift counts
//
// Key c of the cache is at first_keys[b] + (c / RANK_KEYS) * RANKS * RANK_KEYS + c mod RANK_KEYS: RANK_KEYS consecutive
// keys are on one of RANKS devices, the next ones on the next. With one rank, keys are consecutive.
//
// A kernel that links this file declares SHARD, RANKS, RANK_KEYS and CAUSAL, and for @attends_of_cached
// the parameters of cache.mlir.

tile.link "attention.mlir"
tile.link "cache.mlir"

!lengths = !tile.view<[?], i32>

// The position of key 0 of sequence b.
func.func private @first_key_of(%b: i32, %first_keys: !lengths) -> i32 {
  %c0 = arith.constant 0 : i32
  %is_shard = tile.param SHARD : i1
  %given = tile.at %first_keys[%b] : !lengths
  %first = arith.select %is_shard, %given, %c0 : i32
  return %first : i32
}

// The position of key c, where that of key 0 is `first`.
func.func private @key_in_whole(%c: i32, %first: i32) -> i32 {
  %is_shard = tile.param SHARD : i1
  %position = scf.if %is_shard -> (i32) {
    %is_spread = tile.param RANKS > 1 : i1
    %own = scf.if %is_spread -> (i32) {
      %alone = tile.param RANK_KEYS == 1 : i1
      %distance = scf.if %alone -> (i32) {
        %ranks = tile.param RANKS : i32
        %step = arith.muli %c, %ranks overflow<nsw> : i32
        scf.yield %step : i32
      } else {
        %each = tile.param RANK_KEYS : i32
        %all = tile.param RANKS * RANK_KEYS : i32
        %number = arith.divsi %c, %each : i32
        %inside = arith.remsi %c, %each : i32
        %before = arith.muli %number, %all overflow<nsw> : i32
        %sum = arith.addi %before, %inside overflow<nsw> : i32
        scf.yield %sum : i32
      }
      scf.yield %distance : i32
    } else {
      scf.yield %c : i32
    }
    %place = arith.addi %own, %first overflow<nsw> : i32
    scf.yield %place : i32
  } else {
    scf.yield %c : i32
  }
  return %position : i32
}

// @diagonal_shift of the whole sequence, of which `keys` keys are in the cache.
func.func private @shift_in_whole(%b: i32, %queries: i32, %keys: i32, %total_lens: !lengths) -> i32 {
  %is_given = tile.param and(SHARD, CAUSAL == "bottom_right") : i1
  %all = scf.if %is_given -> (i32) {
    %given = tile.at %total_lens[%b] : !lengths
    scf.yield %given : i32
  } else {
    scf.yield %keys : i32
  }
  %shift = func.call @diagonal_shift(%queries, %all) : (i32, i32) -> i32
  return %shift : i32
}

// A key of the cache before which no key is at or behind `position`, which may be negative.
func.func private @key_not_behind(%position: i32, %first: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %is_shard = tile.param SHARD : i1
  %key = scf.if %is_shard -> (i32) {
    %ranks = tile.param RANKS : i32
    %distance = arith.subi %position, %first : i32
    %not_negative = arith.maxsi %distance, %c0 : i32
    %own = arith.divui %not_negative, %ranks : i32
    scf.yield %own : i32
  } else {
    scf.yield %position : i32
  }
  return %key : i32
}

// How many of `keys` keys of a shard are before `position`.
func.func private @keys_before(%position: i32, %first: i32, %keys: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %each = tile.param RANK_KEYS : i32
  %all = tile.param RANKS * RANK_KEYS : i32
  %distance = arith.subi %position, %first : i32
  %not_negative = arith.maxsi %distance, %c0 : i32
  %rounds = arith.divui %not_negative, %all : i32
  %of_rounds = arith.muli %rounds, %each : i32
  %before = arith.muli %rounds, %all : i32
  %rest = arith.subi %not_negative, %before : i32
  %own = arith.minsi %rest, %each : i32
  %sum = arith.addi %of_rounds, %own : i32
  %count = arith.minsi %sum, %keys : i32
  return %count : i32
}

// @attends_of_row, of a key of the cache. `offset` is the padding, or with SHARD the position of key 0.
func.func private @attends_of_cached(%offset: i32, %b: i32, %h: i32, %row: i32, %c: i32, %shift: i32, %left: i32,
                                     %right: i32) -> i1 {
  %j = func.call @key_in_whole(%c, %offset) : (i32, i32) -> i32
  %keep = func.call @attends_of_row(%offset, %b, %h, %row, %j, %shift, %left, %right)
      : (i32, i32, i32, i32, i32, i32, i32, i32) -> i1
  return %keep : i1
}
