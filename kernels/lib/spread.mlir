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

tile.link "attention.mlir", "cache.mlir"

// The position of key 0 of sequence b.
tile.function @first_key_of(%b: i32, %first_keys: !lengths) -> i32 = select(SHARD, %first_keys[%b], 0)

// The position of key c, where that of key 0 is `first`.
tile.function @key_in_whole(%c, %first: i32) -> i32 {
  %distance = tile.expr choose(param(RANK_KEYS == 1), %c * RANKS,
      %c / RANK_KEYS * param(RANKS * RANK_KEYS) + mod(%c, RANK_KEYS)) overflow<nsw>
  %own = tile.expr choose(param(RANKS > 1), %distance, %c)
  tile.result choose(SHARD, %own + %first, %c) overflow<nsw>
}

// @diagonal_shift of the whole sequence, of which `keys` keys are in the cache.
tile.function @shift_in_whole(%b, %queries, %keys: i32, %total_lens: !lengths) -> i32
    = @diagonal_shift(%queries, choose(param(and(SHARD, CAUSAL == "bottom_right")), %total_lens[%b], %keys))

// A key of the cache before which no key is at or behind `position`, which may be negative.
tile.function @key_not_behind(%position, %first: i32) -> i32 {
  %key = tile.if SHARD -> (i32) {
    %ranks = tile.param RANKS : i32
    %not_negative = tile.expr max(%position - %first, 0)
    %own = arith.divui %not_negative, %ranks : i32
    tile.yield %own
  } else {
    tile.yield %position
  }
  tile.result %key
}

// How many of `keys` keys of a shard are before `position`.
tile.function @keys_before(%position, %first, %keys: i32) -> i32 {
  %each = tile.param RANK_KEYS : i32
  %all = tile.param RANKS * RANK_KEYS : i32
  %not_negative = tile.expr max(%position - %first, 0)
  %rounds = arith.divui %not_negative, %all : i32
  tile.result min(%rounds * %each + min(%not_negative - %rounds * %all, %each), %keys) : i32
}

// @attends_of_row, of a key of the cache. `offset` is the padding, or with SHARD the position of key 0.
tile.function @attends_of_cached(%offset, %b, %h, %row, %c, %shift, %left, %right: i32) -> i1
    = @attends_of_row(%offset, %b, %h, %row, @key_in_whole(%c, %offset) : i32, %shift, %left, %right)
