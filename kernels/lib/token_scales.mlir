// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Factors of each key and each value of a cache of 8 bits: f32 [P * R, Hkv], where row j of page p has slot p * R + j.
// The factors of keys multiply columns of the scores, and those of values columns of P before it is rounded, so that no
// tile of keys or values is converted twice.
//
// P is at most 2^8, and as an operand of 16 bits it is f16: values times UNIT, 2^8, have room for factors from 2^-22 to
// 2^0 without a loss, and the result is divided by UNIT. Other types have a UNIT of 1.
//
// A kernel that links this file declares BY_TOKEN, PAGE_ROWS, BLOCK_M, BLOCK_N, DVP, ACC and UNIT, and what the types
// of views name; for @round_of_tokens also the parameters of @round_of_keys.

tile.link "cache.mlir", "forward.mlir"

!keys = !tile.tile<[BLOCK_N], i32>
!by = !tile.tile<[BLOCK_N], f32>
!column = !tile.tile<[BLOCK_N], ACC>

// The slots of the keys from %n on of sequence b, which has `count` keys, in so many pages of so many rows; -1 behind
// them.
tile.function @slots_of_keys(%n, %count, %b, %pool, %given_rows: i32, %block_table: !table) -> !keys {
  %rows = tile.expr max(%given_rows, 1)
  %rows_each = tile.full %rows : !keys
  %numbers = tile.iota %n dim 0 : !keys
  %slots = tile.if param(PAGE_ROWS > 0) -> (!keys) {
    %columns = arith.divui %numbers, %rows_each : !keys
    %inside = tile.expr %numbers - %columns * %rows_each
    %page = tile.gather %block_table[%b, 0] dims [1] along 1 at %columns : !table, !keys -> !keys
    %all_pages = tile.full %pool : !keys
    %is_page = arith.cmpi ult, %page, %all_pages : !keys
    tile.yield select(%is_page, %page * %rows_each + %inside, -1)
  } else {
    tile.yield full(%b * %rows) + %numbers
  }
  tile.result select(%numbers < full(%count), %slots, -1)
}

// The factors of the keys and of the values of head hk from %n on, or ones without BY_TOKEN. They are read before the
// keys, so that both are on their way at the same time.
tile.function @factors_of_tokens(%n, %count, %b, %hk: i32, %pages: !k_cache, %block_table: !table, %k_scales,
                                 %v_scales: !factors) -> (!by, !by) {
  %k_by, %v_by = tile.if BY_TOKEN -> (!by, !by) {
    %slots = tile.expr @slots_of_keys(%n, %count, %b, dim(%pages, 0), dim(%pages, 1), %block_table) : !keys
    %k_given = tile.gather %k_scales[0, %hk] dims [0] along 0 at %slots : !factors, !keys -> !by
    %v_given = tile.gather %v_scales[0, %hk] dims [0] along 0 at %slots : !factors, !keys -> !by
    tile.yield %k_given, %v_given
  } else {
    tile.yield 1, 1 : !by, !by
  }
  tile.result %k_by, %v_by
}

// With BY_TOKEN, products with keys, times the factors of these.
tile.function @products_by_token(%products: !s, %by: !by) -> !s
    = choose(BY_TOKEN, %products * expand(cast(%by), 0), %products) fastmath<reassoc, contract>

// With BY_TOKEN, P times the factors of values and UNIT.
tile.function @p_by_token(%p: !s, %by: !by) -> !s {
  %unit_number = tile.param UNIT : i32
  %unit = arith.sitofp %unit_number : i32 to !acc
  tile.result choose(BY_TOKEN, %p * expand(cast(%by) * full(%unit), 0), %p)
}

// With BY_TOKEN, the result without UNIT.
tile.function @without_unit(%o: !o) -> !o {
  %unit_number = tile.param UNIT : i32
  %unit = arith.sitofp %unit_number : i32 to !acc
  tile.result choose(BY_TOKEN, %o * full(1 / %unit), %o)
}

// @round_of_keys, with the factors of the keys and values.
tile.function @round_of_tokens(%q_tile: !q, %k_tile: !k, %v_tile: !v, %keep: !keep, %max_old, %sum_old: !row,
                               %acc_old: !o, %b, %h, %m, %n: i32, %scale: !acc, %k_by, %v_by: !by) -> (!row, !row, !o) {
  %scales = tile.full %scale : !s
  %s_own = tile.expr @products_by_token(dot(%q_tile, %k_tile transpose_b) : !s, %k_by) : !s
  %p, %max_new, %sum_new, %acc_kept = tile.expr
      @p_of_products(%s_own, %scales, %keep, %max_old, %sum_old, %acc_old, %b, %h, %m, %n) : !s, !row, !row, !o
  tile.result %max_new, %sum_new, dot(cast(@p_by_token(%p, %v_by) : !s) : !p, %v_tile, %acc_kept) : !row, !row, !o
}
