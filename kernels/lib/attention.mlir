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
  %several = tile.param HEAD_ROWS > 0 : i1
  %each = tile.param max(HEAD_ROWS, 1) : i32
  %head = arith.divsi %row, %each : i32
  %query = arith.remsi %row, %each : i32
  %its_h = arith.addi %h, %head overflow<nsw> : i32
  %row_h = arith.select %several, %its_h, %h : i32
  %row_i = arith.select %several, %query, %row : i32
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
  %zero = arith.constant 0.0 : !acc
  %log2e = arith.constant 1.4426950408889634 : !acc
  %sink = func.call @sink(%h) : (i32) -> !acc
  %below = arith.subf %sink, %lse : !acc
  %not_above = arith.minimumf %below, %zero : !acc
  %x = arith.mulf %not_above, %log2e : !acc
  %its_share = math.exp2 %x : !acc
  %product = arith.mulf %its_share, %delta : !acc
  %adjoint = arith.negf %product : !acc
  return %adjoint : !acc
}

// The key head of a query head. Divisors are at least 1, even if there are no heads.
func.func private @key_head(%h: i32, %q: !qk_view, %k: !qk_view) -> i32 {
  %c1 = arith.constant 1 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view
  %some_heads = arith.maxsi %k_heads, %c1 : i32
  %hk = func.call @key_head_among(%h, %q_heads, %some_heads) : (i32, i32, i32) -> i32
  return %hk : i32
}

// The same for at least one key head.
func.func private @key_head_among(%h: i32, %q_heads: i32, %some_heads: i32) -> i32 {
  %c1 = arith.constant 1 : i32
  %heads_each = arith.divsi %q_heads, %some_heads : i32
  %group = arith.maxsi %heads_each, %c1 : i32
  %hk = arith.divsi %h, %group : i32
  return %hk : i32
}

// The key on the diagonal of the first query: 0, or Skv - Sq under bottom_right.
func.func private @diagonal_shift(%queries: i32, %keys: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %bottom_right = tile.param CAUSAL == "bottom_right" : i1
  %surplus = arith.subi %keys, %queries : i32
  %shift = arith.select %bottom_right, %surplus, %c0 : i32
  return %shift : i32
}

// CAUSAL, WINDOW and @mask_mod together. Specialization replaces parameters by constants, and unused masks fold away.
// `ahead` is the distance of the key from the diagonal. The shift is 0, or the number of keys minus that of queries:
// no sum overflows 32 bits for a query and a key that exist.
func.func private @attends(%b: i32, %h: i32, %i: i32, %j: i32, %shift: i32, %left: i32, %right: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %diagonal = arith.addi %i, %shift overflow<nsw> : i32
  %ahead = arith.subi %j, %diagonal overflow<nsw> : i32

  %any_order = tile.param CAUSAL == "none" : i1
  %not_ahead = arith.cmpi sle, %ahead, %c0 : i32
  %causal = arith.ori %any_order, %not_ahead : i1

  %no_window = tile.param not(WINDOW) : i1
  %inside = func.call @inside_window(%ahead, %left, %right) : (i32, i32, i32) -> i1
  %window = arith.ori %no_window, %inside : i1

  %allowed = func.call @mask_mod(%b, %h, %i, %j) : (i32, i32, i32, i32) -> i1
  %position = arith.andi %causal, %window : i1
  %keep = arith.andi %position, %allowed : i1
  return %keep : i1
}

// Whether a key at the distance `ahead` from the diagonal lies in the window around it. A side of -1 is open.
func.func private @inside_window(%ahead: i32, %left: i32, %right: i32) -> i1 {
  %c0 = arith.constant 0 : i32
  %left_open = arith.cmpi slt, %left, %c0 : i32
  %minus_left = arith.subi %c0, %left : i32
  %near_left = arith.cmpi sge, %ahead, %minus_left : i32
  %left_ok = arith.ori %left_open, %near_left : i1
  %right_open = arith.cmpi slt, %right, %c0 : i32
  %near_right = arith.cmpi sle, %ahead, %right : i32
  %right_ok = arith.ori %right_open, %near_right : i1
  %inside = arith.andi %left_ok, %right_ok : i1
  return %inside : i1
}

// CAUSAL alone. Folds to true for none.
func.func private @attends_causally(%i: i32, %j: i32, %shift: i32) -> i1 {
  %any_order = tile.param CAUSAL == "none" : i1
  %last = arith.addi %i, %shift overflow<nsw> : i32
  %not_ahead = arith.cmpi sle, %j, %last : i32
  %keep = arith.ori %any_order, %not_ahead : i1
  return %keep : i1
}

// The index along a dimension that has one element for each %index, or one element that all indices share (extent 1).
func.func private @index_or_zero(%index: i32, %extent: i32) -> i32 {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %is_same = arith.cmpi eq, %extent, %c1 : i32
  %result = arith.select %is_same, %c0, %index : i32
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
