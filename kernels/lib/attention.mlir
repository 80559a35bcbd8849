// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Functions of attention kernels: those that other files may replace (@score_mod, @mask_mod, @weight_mod,
// @weight_limit, @sink), the masks of CAUSAL and WINDOW, and the location of heads and lists. A kernel that links this
// file declares the parameters ACC and CAUSAL; for @attends also WINDOW, and for @key_head also D and T.
//
// The option --with links a file that replaces a function: --with kernels/mods/softcap.mlir. The operands b and h are
// the number of the batch element or packed sequence and that of the query head. The operands i and j are the positions
// of the query and the key, counted from the first row of q and of k in b. Captured floats have gradients: see
// CAPTURE_GRADIENTS in attention_backward.mlir.

tile.link "types.mlir"

// Modifies the scaled score of one pair. If several files replace it, each modifies the result of the previous one.
tile.function @score_mod(%s: !acc, %b, %h, %i, %j: i32) -> !acc attributes {tile.replaceable = "compose"} = %s

// Whether query i may attend key j, in addition to CAUSAL and WINDOW. If several files replace it, all must allow the
// pair. If the mask depends on data, positions alone exclude no block, and the kernel tests each block at run time.
tile.function @mask_mod(%b, %h, %i, %j: i32) -> i1 attributes {tile.replaceable = "and"} = param(true)

// Modifies the probability of one pair as if after normalization; LSE does not change. It must be linear in p, since
// the backward also applies it to the gradient of p. If several files replace it, each modifies the result of the
// previous one.
tile.function @weight_mod(%p: !acc, %b, %h, %i, %j: i32) -> !acc attributes {tile.replaceable = "compose"} = %p

// The given number times the largest magnitude of @weight_mod for a p of 1. With 8-bit types, the forward divides
// probabilities by it before it rounds them. A file whose @weight_mod exceeds 1.75 must replace this function, too;
// otherwise values overflow. If several files replace it, each gets the result of the previous one.
tile.function @weight_limit(%limit: !acc) -> !acc attributes {tile.replaceable = "compose"} = %limit

// A logit that contributes to the sum and to LSE of every row of a head, but has no value.
tile.function @sink(%h: i32) -> !acc attributes {tile.replaceable} = minus_inf

// The rows of a tile are queries of head %h, or with HEAD_ROWS those of consecutive heads from %h on: as many rows of
// each head. The head and the query of a row.
tile.function @query_of_row(%h, %row: i32) -> (i32, i32) {
  %head = tile.expr %row / param(max(HEAD_ROWS, 1)) : i32
  %query = tile.expr mod(%row, param(max(HEAD_ROWS, 1))) : i32
  %row_h = tile.expr select(param(HEAD_ROWS > 0), %h + %head, %h) overflow<nsw> : i32
  tile.result %row_h, select(param(HEAD_ROWS > 0), %query, %row) : i32, i32
}

// The logit of @sink for the head of a row.
tile.function @sink_of_row(%h, %row: i32) -> !acc {
  %row_h, %i = tile.expr @query_of_row(%h, %row) : i32
  tile.result @sink(%row_h) : !acc
}

// The contribution of a row to the gradient of its head's sink: -p * delta, where p is the probability of the sink,
// since the sink has no value. Rounding cannot make p exceed 1. LSE is 0 for a row without keys.
tile.function @sink_adjoint(%h: i32, %delta, %lse: !acc) -> !acc = neg(exp2(min(@sink(%h) - %lse, 0) * log2e) * %delta)

// The key head of a query head. Divisors are at least 1, even if there are no heads.
tile.function @key_head(%h: i32, %q, %k: !qk_view) -> i32 = @key_head_among(%h, dim(%q, 1), max(dim(%k, 1), 1))

// The same for at least one key head.
tile.function @key_head_among(%h, %q_heads, %some_heads: i32) -> i32 = %h / max(%q_heads / %some_heads, 1)

// The key on the diagonal of the first query: 0, or Skv - Sq under bottom_right.
tile.function @diagonal_shift(%queries, %keys: i32) -> i32
    = select(param(CAUSAL == "bottom_right"), %keys - %queries, 0)

// CAUSAL, WINDOW and @mask_mod together. Specialization replaces parameters by constants, and unused masks fold away.
// `ahead` is the distance of the key from the diagonal. The shift is 0, or the number of keys minus that of queries:
// no sum overflows 32 bits for a query and a key that exist.
tile.function @attends(%b, %h, %i, %j, %shift, %left, %right: i32) -> i1 {
  %ahead = tile.expr %j - (%i + %shift) overflow<nsw>
  %causal = tile.expr or(param(CAUSAL == "none"), %ahead <= 0)
  %window = tile.expr or(param(not(WINDOW)), @inside_window(%ahead, %left, %right)) : i1
  tile.result and(and(%causal, %window), @mask_mod(%b, %h, %i, %j)) : i1
}

// Whether a key at the distance `ahead` from the diagonal lies in the window around it. A side of -1 is open.
tile.function @inside_window(%ahead, %left, %right: i32) -> i1
    = and(or(%left < 0, %ahead >= 0 - %left), or(%right < 0, %ahead <= %right))

// CAUSAL alone. Folds to true for none.
tile.function @attends_causally(%i, %j, %shift: i32) -> i1
    = or(param(CAUSAL == "none"), %j <= %i + %shift) overflow<nsw>

// The index along a dimension that has one element for each %index, or one element that all indices share (extent 1).
tile.function @index_or_zero(%index, %extent: i32) -> i32 = select(%extent == 1, 0, %index)

// Lists of blocks, of a kernel with LISTED:
//
//   kv_indices      [B or 1, Hq or 1, Mb, L]   i32. For each of the Mb blocks of LIST_BLOCK_M queries: the numbers of
//         the blocks of LIST_BLOCK_N keys that these queries attend, each at most once. Numbers outside of the keys are
//         ignored. With CACHED, the second extent may also be Hkv, for lists that the heads of a group share.
//   kv_num_blocks   [B or 1, Hq or 1, Mb]      i32, how many of the L entries count.
//
// With PACKED, the first extent is the number of sequences or 1, blocks count from the begin of a sequence, and Mb is
// arbitrary. Blocks of a kernel divide those of lists.

// The list of the block of `span` positions that contains %position: its three indices and its length. All indices
// share a dimension of extent 1.
tile.function @list_of(%b, %h, %position, %span: i32, %counts: !count_view) -> (i32, i32, i32, i32) {
  %list_b = tile.expr mod(%b, dim(%counts, 0))
  %list_h = tile.expr mod(%h, dim(%counts, 1))
  %number = tile.expr %position / %span
  tile.result %list_b, %list_h, %number, %counts[%list_b, %list_h, %number]
}
