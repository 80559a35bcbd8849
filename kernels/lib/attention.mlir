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

!qk_view = !tile.view<[?, ?, ?, D], T>
!acc = !tile.param<ACC>
!count_view = !tile.view<[?, ?, ?], i32>

// Modifies the scaled score of one pair. If several files replace it, each modifies the result of the previous one.
func.func private @score_mod(%s: !acc, %b: i32, %h: i32, %i: i32, %j: i32) -> !acc
    attributes {tile.replaceable = "compose"} {
  return %s : !acc
}

// Whether query i may attend key j, in addition to CAUSAL and WINDOW. If several files replace it, all must allow the
// pair. If the mask depends on data, positions alone exclude no block, and the kernel tests each block at run time.
func.func private @mask_mod(%b: i32, %h: i32, %i: i32, %j: i32) -> i1 attributes {tile.replaceable = "and"} {
  %true = arith.constant true
  return %true : i1
}

// Modifies the probability of one pair as if after normalization; LSE does not change. It must be linear in p, since
// the backward also applies it to the gradient of p. If several files replace it, each modifies the result of the
// previous one.
func.func private @weight_mod(%p: !acc, %b: i32, %h: i32, %i: i32, %j: i32) -> !acc
    attributes {tile.replaceable = "compose"} {
  return %p : !acc
}

// The given number times the largest magnitude of @weight_mod for a p of 1. With 8-bit types, the forward divides
// probabilities by it before it rounds them. A file whose @weight_mod exceeds 1.75 must replace this function, too;
// otherwise values overflow. If several files replace it, each gets the result of the previous one.
func.func private @weight_limit(%limit: !acc) -> !acc attributes {tile.replaceable = "compose"} {
  return %limit : !acc
}

// A logit that contributes to the sum and to LSE of every row of a head, but has no value.
func.func private @sink(%h: i32) -> !acc attributes {tile.replaceable} {
  %minus_inf = tile.constant minus_inf : !acc
  return %minus_inf : !acc
}

// The rows of a tile are queries of head %h, or with HEAD_ROWS those of consecutive heads from %h on: as many rows of
// each head. The head and the query of a row.
func.func private @query_of_row(%h: i32, %row: i32) -> (i32, i32) {
  %head = tile.expr %row / param(max(HEAD_ROWS, 1)) : i32
  %query = tile.expr mod(%row, param(max(HEAD_ROWS, 1))) : i32
  %row_h = tile.expr select(param(HEAD_ROWS > 0), %h + %head, %h) overflow<nsw> : i32
  %row_i = tile.expr select(param(HEAD_ROWS > 0), %query, %row) : i32
  return %row_h, %row_i : i32, i32
}

// The logit of @sink for the head of a row.
func.func private @sink_of_row(%h: i32, %row: i32) -> !acc {
  %row_h, %i = func.call @query_of_row(%h, %row) : (i32, i32) -> (i32, i32)
  %sink = func.call @sink(%row_h) : (i32) -> !acc
  return %sink : !acc
}

// The contribution of a row to the gradient of its head's sink: -p * delta, where p is the probability of the sink,
// since the sink has no value. Rounding cannot make p exceed 1. LSE is 0 for a row without keys.
func.func private @sink_adjoint(%h: i32, %delta: !acc, %lse: !acc) -> !acc {
  %sink = func.call @sink(%h) : (i32) -> !acc
  %adjoint = tile.expr neg(exp2(min(%sink - %lse, 0) * log2e) * %delta) : !acc
  return %adjoint : !acc
}

// The key head of a query head. Divisors are at least 1, even if there are no heads.
func.func private @key_head(%h: i32, %q: !qk_view, %k: !qk_view) -> i32 {
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %some_heads = tile.expr max(%k_heads, 1) : i32
  %hk = func.call @key_head_among(%h, %q_heads, %some_heads) : (i32, i32, i32) -> i32
  return %hk : i32
}

// The same for at least one key head.
func.func private @key_head_among(%h: i32, %q_heads: i32, %some_heads: i32) -> i32 {
  %hk = tile.expr %h / max(%q_heads / %some_heads, 1) : i32
  return %hk : i32
}

// The key on the diagonal of the first query: 0, or Skv - Sq under bottom_right.
func.func private @diagonal_shift(%queries: i32, %keys: i32) -> i32 {
  %shift = tile.expr select(param(CAUSAL == "bottom_right"), %keys - %queries, 0) : i32
  return %shift : i32
}

// CAUSAL, WINDOW and @mask_mod together. Specialization replaces parameters by constants, and unused masks fold away.
// `ahead` is the distance of the key from the diagonal. The shift is 0, or the number of keys minus that of queries:
// no sum overflows 32 bits for a query and a key that exist.
func.func private @attends(%b: i32, %h: i32, %i: i32, %j: i32, %shift: i32, %left: i32, %right: i32) -> i1 {
  %ahead = tile.expr %j - (%i + %shift) overflow<nsw> : i32

  %causal = tile.expr or(param(CAUSAL == "none"), %ahead <= 0) : i32

  %inside = func.call @inside_window(%ahead, %left, %right) : (i32, i32, i32) -> i1
  %window = tile.expr or(param(not(WINDOW)), %inside) : i1

  %allowed = func.call @mask_mod(%b, %h, %i, %j) : (i32, i32, i32, i32) -> i1
  %keep = tile.expr and(and(%causal, %window), %allowed) : i1
  return %keep : i1
}

// Whether a key at the distance `ahead` from the diagonal lies in the window around it. A side of -1 is open.
func.func private @inside_window(%ahead: i32, %left: i32, %right: i32) -> i1 {
  %left_ok = tile.expr or(%left < 0, %ahead >= 0 - %left) : i32
  %inside = tile.expr and(%left_ok, or(%right < 0, %ahead <= %right)) : i32
  return %inside : i1
}

// CAUSAL alone. Folds to true for none.
func.func private @attends_causally(%i: i32, %j: i32, %shift: i32) -> i1 {
  %not_ahead = tile.expr %j <= %i + %shift overflow<nsw> : i32
  %keep = tile.expr or(param(CAUSAL == "none"), %not_ahead) : i1
  return %keep : i1
}

// The index along a dimension that has one element for each %index, or one element that all indices share (extent 1).
func.func private @index_or_zero(%index: i32, %extent: i32) -> i32 {
  %result = tile.expr select(%extent == 1, 0, %index) : i32
  return %result : i32
}

// The list of the block of `span` positions that contains %position: its three indices and its length. All indices
// share a dimension of extent 1.
func.func private @list_of(%b: i32, %h: i32, %position: i32, %span: i32, %counts: !count_view) -> (i32, i32, i32, i32) {
  %batches = tile.dim %counts, 0 : !count_view
  %heads = tile.dim %counts, 1 : !count_view
  %list_b = arith.remsi %b, %batches : i32
  %list_h = arith.remsi %h, %heads : i32
  %number = arith.divsi %position, %span : i32
  %count = tile.at %counts[%list_b, %list_h, %number] : !count_view
  return %list_b, %list_h, %number, %count : i32, i32, i32, i32
}
