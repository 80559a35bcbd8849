// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward, with the query heads of a group packed into one tile. Use it for grouped heads and few queries,
// where a tile of one head would be mostly empty.
//
//   O = softmax(scale * Q K^T) V,   LSE = log(sum(exp(scale * Q K^T)))
//
// Arguments: q, k, v, o (of type T), lse and scale, as in attention_forward.mlir.
//
// Parameters
//   D, DV, T, CAUSAL, BLOCK_N   As in attention_forward.mlir, but T has at least 16 bits.
//   GROUP     Query heads that share a key head: Hq = GROUP * Hkv.
//   QUERIES   Queries of a program instance. Default: a multiple of UNIT.
//   BLOCK_M   Rows of a tile, derived: QUERIES * GROUP, at most 256. Row r is query r / GROUP of head r mod GROUP.
//   UNIT      Derived: on a GPU the least number of queries whose rows are a multiple of 16, as matrix instructions
//             require; 1 on the CPU. UNIT * GROUP is at most 256. This limits GROUP: to 256 on the CPU; on a GPU to 15
//             if it is odd, to 30 if it is even but not a multiple of 4, to 60 if it is a multiple of 4 but not of 8,
//             and so on.
//
// Queries without a key and NaN give the same results as in attention_forward.mlir. Runs are bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023), with heads packed as in its implementation for grouped queries.

tile.link "lib/attention.mlir"
tile.link "lib/forward.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
// Tiles before the heads are packed into rows.
!q_heads = !tile.tile<[QUERIES, GROUP, DP], T>
!o_heads = !tile.tile<[QUERIES, GROUP, DVP], T>
!keep_query = !tile.tile<[QUERIES, BLOCK_N], i1>
!keep_heads = !tile.tile<[QUERIES, GROUP, BLOCK_N], i1>
!acc = !tile.param<ACC>

func.func private @diagonal_shift(i32, i32) -> i32
func.func private @no_keys() -> (!row, !row, !o)
func.func private @plain_round(!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row

tile.kernel @attention_packed_gqa
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64], GROUP: int,
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let UNIT: int = select(or(not(on_gpu()), mod(GROUP, 16) == 0), 1, select(mod(GROUP, 8) == 0, 2,
               select(mod(GROUP, 4) == 0, 4, select(mod(GROUP, 2) == 0, 8, 16)))),
           QUERIES: int = UNIT * max(1, floordiv(
               select(or(not(on_gpu()), ROW_BYTES <= 512), 64, select(ROW_BYTES <= 1024, 32, 16)),
               max(1, UNIT * GROUP))),
           BLOCK_N: int in [16, 32, 64, 128, 256] = select(not(on_gpu()), select(max(D, DV) <= 128, 128, 64),
               select(ROW_BYTES <= 256, 64, select(ROW_BYTES <= 512, 32, 16))),
           let BLOCK_M: int = QUERIES * GROUP,
           let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    require(GROUP >= 1, UNIT * GROUP <= 256, D <= 256, DV <= 256, BLOCK_M <= 256, dim(k, 0) == dim(q, 0),
            dim(v, 0) == dim(q, 0), dim(q, 1) == GROUP * dim(k, 1), same_dims(v, k, 1, 2), same_dims(o, q, 0, 1, 2),
            same_dims(lse, q, 0, 1, 2), finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view, %scale: !acc)
    grid(%bm = ceildiv(dim(q, 2), QUERIES), %hk = dim(k, 1), %b = dim(q, 0)) {
  %c0 = arith.constant 0 : i32
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  // The first query of this instance, and the first head of its group.
  %queries_each = tile.param QUERIES : i32
  %m = arith.muli %bm, %queries_each : i32
  %group = tile.param GROUP : i32
  %h = arith.muli %hk, %group : i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  // The query is the outer dimension of the packed rows: the rows of a query are adjacent, and the causal mask of a
  // tile stays triangular.
  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)
  %q_heads = tile.load %q[%b, %h, %m, 0] dims [2, 1, 3] : !qk_view -> !q_heads
  %q_tile = tile.reshape %q_heads : !q_heads -> !q

  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries)
      where @attends_causally(against, block, %shift : i32)
      keep %keep_query : !keep_query
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    // All heads of a query attend the same keys.
    %keep_heads = tile.expand %keep_query dim 1 : !keep_query -> !keep_heads
    %keep = tile.reshape %keep_heads : !keep_heads -> !keep
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @plain_round(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  %o_heads = tile.reshape %o_tile : !tile.tile<[BLOCK_M, DVP], T> -> !o_heads
  tile.store %o_heads, %o[%b, %h, %m, 0] dims [2, 1, 3] : !o_heads, !v_view
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  %lse_heads = tile.reshape %lse_row : !row -> !tile.tile<[QUERIES, GROUP], ACC>
  tile.store %lse_heads, %lse[%b, %h, %m] dims [2, 1] : !tile.tile<[QUERIES, GROUP], ACC>, !row_view
}
