// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention, forward, for few queries and many keys (decoding). The first kernel distributes the keys of a query over
// several program instances, the second combines their results.
//
//   partial   LSE_s = log(sum(exp(scale * Q K_s^T))),   O_s = softmax(scale * Q K_s^T) V_s
//   combine   LSE = log(sum over s of exp(LSE_s)),      O = sum over s of exp(LSE_s - LSE) O_s
//
// Arguments: q, k, v, o (of type T), lse and scale, as in attention_forward.mlir, and
//
//   num_splits   i32, at least 1: into how many parts the keys are split; a part may be empty
//
// Parameters: D, DV, T (at least 16 bits), CAUSAL, BLOCK_M and BLOCK_N, as in attention_forward.mlir. BLOCK_M and
// BLOCK_N are 16, 32, 64 or 128.
//
// All splits have the same number of whole blocks of keys, except the last ones, which may have fewer or none. Partial
// results have the type ACC. Queries without a key and NaN give the same results as in attention_forward.mlir. Runs are
// bit-identical for a given num_splits; another number sums in another order.
//
// Algorithm: Flash-Decoding (Dao, Haziza, Massa and Sizov, 2023).

tile.link "lib/attention.mlir"
tile.link "lib/forward.mlir"

!qk_view  = !tile.view<[?, ?, ?, D], T>
!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
// Partial results, by split, batch, head and query.
!o_splits   = !tile.view<[?, ?, ?, ?, DV], ACC>
!lse_splits = !tile.view<[?, ?, ?, ?], ACC>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>
!acc = !tile.param<ACC>

func.func private @key_head(i32, !qk_view, !qk_view) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @no_keys() -> (!row, !row, !o)
func.func private @plain_round(!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row

tile.program @attention_split_kv
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none",
           let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           BLOCK_M: int in [16, 32, 64, 128] = 16,
           BLOCK_N: int in [16, 32, 64, 128] =
               select(or(not(on_gpu()), ROW_BYTES <= 256), 64, select(ROW_BYTES <= 512, 32, 16)),
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256, dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0),
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1), same_dims(v, k, 1, 2),
            same_dims(o, q, 0, 1, 2), same_dims(lse, q, 0, 1, 2), num_splits >= 1, finite(scale))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view, %scale: !acc, %num_splits: i32) {
  %o_splits = tile.workspace [num_splits, dim(q, 0), dim(q, 1), dim(q, 2), DV] : !o_splits
  %lse_splits = tile.workspace [num_splits, dim(q, 0), dim(q, 1), dim(q, 2)] : !lse_splits
  tile.launch @attention_split_kv_partial(%q, %k, %v, %o_splits, %lse_splits, %scale, %num_splits)
      : !qk_view, !qk_view, !v_view, !o_splits, !lse_splits, !acc, i32
  tile.launch @attention_split_kv_combine(%o_splits, %lse_splits, %o, %lse, %num_splits)
      : !o_splits, !lse_splits, !v_view, !row_view, i32
}

// Partial results: a block of queries attends the keys of one split.
tile.kernel @attention_split_kv_partial
    params(D: int, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], BLOCK_M: int, BLOCK_N: int,
           let DP: int = padded(D), let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o_splits: !o_splits, %lse_splits: !lse_splits, %scale: !acc,
     %num_splits: i32)
    grid(%bm = ceildiv(dim(q, 2), BLOCK_M), %split = num_splits, %h = dim(q, 1), %b = dim(q, 0)) {
  %queries = tile.dim %q, 2 : !qk_view
  %keys = tile.dim %k, 2 : !qk_view
  // The first query of this instance, and the key head that it reads.
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %hk = func.call @key_head(%h, %q, %k) : (i32, !qk_view, !qk_view) -> i32
  // A split is a range of consecutive blocks. The last splits may be shorter, or empty.
  %block_n = tile.param BLOCK_N : i32
  %blocks = arith.ceildivsi %keys, %block_n : i32
  %blocks_each = arith.ceildivsi %blocks, %num_splits : i32
  %keys_each = arith.muli %blocks_each, %block_n : i32
  %begin = arith.muli %split, %keys_each : i32
  %wanted_end = arith.addi %begin, %keys_each : i32
  %end = arith.minsi %wanted_end, %keys : i32

  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32
  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)
  %q_tile = tile.load %q[%b, %h, %m, 0] : !qk_view -> !q
  %max, %sum, %acc = tile.for_blocks %n in (%begin to %end) against (%m to %queries)
      where @attends_causally(against, block, %shift : i32)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k[%b, %hk, %n, 0] : !qk_view -> !k
    %v_tile = tile.load %v[%b, %hk, %n, 0] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @plain_round(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, !acc) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  tile.store %result, %o_splits[%split, %b, %h, %m, 0] : !o, !o_splits
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  tile.store %lse_row, %lse_splits[%split, %b, %h, %m] : !row, !lse_splits
}

// The weighted mean of the partial results, by the online softmax over splits instead of keys.
tile.kernel @attention_split_kv_combine
    params(DV: int, T: type, BLOCK_M: int, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%o_splits: !o_splits, %lse_splits: !lse_splits, %o: !v_view, %lse: optional !row_view, %num_splits: i32)
    grid(%bm = ceildiv(dim(o, 2), BLOCK_M), %h = dim(o, 1), %b = dim(o, 0)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_m = tile.param BLOCK_M : i32
  %m = arith.muli %bm, %block_m : i32
  %no_max, %no_sum, %no_o = func.call @no_keys() : () -> (!row, !row, !o)

  %max, %sum, %acc = scf.for %split = %c0 to %num_splits step %c1
      iter_args(%max_old = %no_max, %sum_old = %no_sum, %acc_old = %no_o) -> (!row, !row, !o) : i32 {
    %lse_part = tile.load %lse_splits[%split, %b, %h, %m] : !lse_splits -> !row
    %o_part = tile.load %o_splits[%split, %b, %h, %m, 0] : !o_splits -> !o
    %max_new = arith.maximumf %max_old, %lse_part : !row
    %below = arith.subf %lse_part, %max_new : !row
    %weight = math.exp %below : !row
    %fall = arith.subf %max_old, %max_new : !row
    %rescale = math.exp %fall : !row
    %sum_kept = arith.mulf %sum_old, %rescale : !row
    %sum_new = arith.addf %sum_kept, %weight : !row
    %rescale_each = tile.expand %rescale dim 1 : !row -> !o
    %weight_each = tile.expand %weight dim 1 : !row -> !o
    %acc_kept = arith.mulf %acc_old, %rescale_each : !o
    %weighted = arith.mulf %o_part, %weight_each : !o
    %acc_new = arith.addf %acc_kept, %weighted : !o
    scf.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }
  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o[%b, %h, %m, 0] : !tile.tile<[BLOCK_M, DVP], T>, !v_view
  %log_sum = math.log %sum : !row
  %lse_row = arith.addf %max, %log_sum : !row
  tile.store %lse_row, %lse[%b, %h, %m] : !row, !row_view
}
