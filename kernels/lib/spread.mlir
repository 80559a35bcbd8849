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

// The position of key 0 of sequence b.
func.func private @first_key_of(%b: i32, %first_keys: !lengths) -> i32 {
  %c0 = arith.constant 0 : i32
  tile.result select(SHARD, %first_keys[%b], %c0) : i32
}

// The position of key c, where that of key 0 is `first`.
func.func private @key_in_whole(%c: i32, %first: i32) -> i32 {
  %is_shard = tile.param SHARD : i1
  %position = scf.if %is_shard -> (i32) {
    %is_spread = tile.param RANKS > 1 : i1
    %own = scf.if %is_spread -> (i32) {
      %alone = tile.param RANK_KEYS == 1 : i1
      %distance = scf.if %alone -> (i32) {
        %step = tile.expr %c * RANKS overflow<nsw> : i32
        scf.yield %step : i32
      } else {
        %each = tile.param RANK_KEYS : i32
        %all = tile.param RANKS * RANK_KEYS : i32
        %number = arith.divsi %c, %each : i32
        %inside = arith.remsi %c, %each : i32
        %sum = tile.expr %number * %all + %inside overflow<nsw> : i32
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
  tile.result @diagonal_shift(%queries, %all) : i32
}

// A key of the cache before which no key is at or behind `position`, which may be negative.
func.func private @key_not_behind(%position: i32, %first: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %is_shard = tile.param SHARD : i1
  %key = scf.if %is_shard -> (i32) {
    %ranks = tile.param RANKS : i32
    %not_negative = tile.expr max(%position - %first, %c0) : i32
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
  %not_negative = tile.expr max(%position - %first, %c0) : i32
  %rounds = arith.divui %not_negative, %all : i32
  tile.result min(%rounds * %each + min(%not_negative - %rounds * %all, %each), %keys) : i32
}

// @attends_of_row, of a key of the cache. `offset` is the padding, or with SHARD the position of key 0.
func.func private @attends_of_cached(%offset: i32, %b: i32, %h: i32, %row: i32, %c: i32, %shift: i32, %left: i32,
                                     %right: i32) -> i1 {
  tile.result @attends_of_row(%offset, %b, %h, %row, @key_in_whole(%c, %offset) : i32, %shift, %left, %right) : i1
}
