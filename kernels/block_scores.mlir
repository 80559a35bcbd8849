// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Scores of the blocks of keys in a cache, from which those that queries attend are chosen: with LISTED,
// attention_decode.mlir and attention_forward.mlir read no others.
//
//   scores[b, h, m, n] = the largest product of means[b, h, n] and a query of block m of sequence b, of all heads that
//                        share key head h; but inf for the blocks that belong to every list, and -inf for blocks behind
//                        the last query
//
// The first block belongs to every list, since many heads attend the first keys, and so do the blocks in which the
// queries themselves are, which are the last keys of the sequence. All others that a query may attend are complete, so
// block_means.mlir has written their means.
//
// Arguments
//   q            [B, Hq, Sq, D]       T    the last queries of each sequence
//   means        [B, Hkv, M, D]       T    means of the keys of complete blocks
//   seq_lens     [B]                  i32  keys of each sequence, those of its queries included
//   scores       [B, Hkv, Mb, M]      f32  those of each block of LIST_BLOCK_M queries
//
// Parameters
//   D, T          Width and type of keys and queries: f16, bf16 or f32; D is at most 256.
//   LIST_BLOCK_N  Keys of a block. Default: 64.
//   GROUP         Query heads that share a key head, 1 (default) to 128.
//   LIST_BLOCK_M  Queries of a block, which share a list. Default: 64.
//
// The largest entries of a row of scores are its list (torch.topk). A list that is longer than the number of blocks
// that its queries may attend names others too, of which they attend none.
//
// Algorithm: MoBA (Lu et al., Mixture of Block Attention for long-context LLMs, 2025), but for the heads of a group
// together, as in Native Sparse Attention (Yuan et al., 2025): a kernel then reads a block once for all of them.

!k_view  = !tile.view<[?, ?, ?, D], T>
!lengths = !tile.view<[?], i32>
!scores  = !tile.view<[?, ?, ?, ?], f32>

!q       = !tile.tile<[BLOCK_M, DP], T>
!means   = !tile.tile<[BLOCK_N, DP], T>
!s       = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!row     = !tile.tile<[BLOCK_N], f32>
!row_i32 = !tile.tile<[BLOCK_N], i32>

tile.kernel @block_scores
    params(D: int, T: type in [f16, bf16, f32], LIST_BLOCK_N: int = 64, GROUP: int = 1, LIST_BLOCK_M: int = 64,
           let BLOCK_M: int = ceildiv(GROUP, 16) * 16, let BLOCK_N: int = 64, let DP: int = padded(D))
    require(D <= 256, GROUP >= 1, GROUP <= 128, LIST_BLOCK_M >= 1, LIST_BLOCK_N >= 1,
            dim(q, 1) == GROUP * dim(means, 1), dim(means, 0) == dim(q, 0), dim(seq_lens, 0) == dim(q, 0),
            dim(scores, 0) == dim(q, 0),
            dim(scores, 1) == dim(means, 1), dim(scores, 2) == ceildiv(dim(q, 2), LIST_BLOCK_M),
            dim(scores, 3) == dim(means, 2), within(seq_lens, 0, (dim(means, 2) + 1) * LIST_BLOCK_N))
    (%q, %means: !k_view, %seq_lens: !lengths, %scores: !scores)
    grid(%chunk = ceildiv(dim(means, 2), BLOCK_N), %hk = dim(means, 1), %x = dim(q, 0) * dim(scores, 2)) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %query_blocks = tile.dim %scores, 2 : !scores
  %b = arith.divsi %x, %query_blocks : i32
  %m = arith.remsi %x, %query_blocks : i32
  %number = tile.expr %chunk * BLOCK_N : i32
  %means_tile = tile.load %means[%b, %hk, %number, 0] : !k_view -> !means
  %group = tile.param GROUP : i32
  %h = tile.expr %hk * GROUP : i32
  // Rows of other heads are zero.
  %q_heads = tile.subview %q dim 1 from %h size %group : !k_view
  %is_head = tile.expr iota(%c0, 0) < full(GROUP) : !tile.tile<[BLOCK_M, BLOCK_N], i32>
  %no_score = tile.constant minus_inf : !row
  %all_queries = tile.dim %q, 2 : !k_view
  %first = tile.expr %m * LIST_BLOCK_M : i32
  %end = tile.expr min(%first + LIST_BLOCK_M, %all_queries) : i32
  %best = scf.for %i = %first to %end step %c1 iter_args(%best_old = %no_score) -> (!row) : i32 {
    %products = tile.expr dot(load %q_heads[%b, 0, %i, 0] dims [1, 3] : !q, %means_tile transpose_b) : !s
    %best_new = tile.expr max(%best_old, reduce max(select(%is_head, %products, minus_inf) : !s, 0)) : !row
    scf.yield %best_new : !row
  }

  // The blocks of the keys of these queries.
  %before = tile.expr %seq_lens[%b] - %all_queries : i32
  %first_key = arith.addi %before, %first : i32
  %behind_last = arith.addi %before, %end : i32
  %last_key = tile.expr %behind_last - 1 : i32
  %first_block = tile.expr max(%first_key, 0) / LIST_BLOCK_N : i32
  %limit = tile.expr ceildiv(%behind_last, LIST_BLOCK_N) : i32
  %numbers = tile.iota %number dim 0 : !row_i32
  %zeros = tile.full %c0 : !row_i32
  %first_blocks = tile.full %first_block : !row_i32
  %limits = tile.full %limit : !row_i32
  %is_taken = tile.expr or(%numbers == %zeros, %numbers >= %first_blocks) : !row_i32
  %score = tile.expr select(%numbers < %limits, select(%is_taken, neg(minus_inf), %best), minus_inf) : !row
  tile.store %score, %scores[%b, %hk, %m, %number] : !row, !scores
}
