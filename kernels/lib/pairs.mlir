// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The gradients of an attention whose weights W are a function of scores S = Q K^T, where O = W V:
//
//   dV = W^T dO      dS = the gradient of scale * S, of dW = dO V^T      dK = scale * dS^T Q      dQ = scale * dS K
//
// A program calls @pairs, or @pair_rows and then @pair_products. These own all kernels, workspaces and launches. The
// file of the program defines what is special about its weights, by functions of tiles for a block of queries and a
// block of keys. A kernel whose instances own keys computes all tiles as keys x queries, one whose instances own
// queries as queries x keys; OWN and OTHER are the two extents, and a function is the same text for both:
//
//   @pair_weights    of S without scale: W, 0 where the pair is masked, rounded to T, and what @pair_gradients takes of
//                    it, as HELD: rounded to T where registers are few (EARLY), and of type ACC elsewhere
//   @pair_gradients  of this and dW: the gradient of scale * S. It may also read all that @pair_weights reads, and
//                    compute values again that it computed: they are the same values. By default HELD * (dW -
//                    other_row), as for every softmax, and without ROWS for every function of S alone.
//   @pair_captures   with CAPTURE_GRADIENTS: adds gradients of captures, once for each pair. By default there are none.
//   @row_values      with ROWS: two numbers for each query, such as LSE and delta, of dO, O, LSE and dLSE, as far as
//                    the program has them. %row and %other_row are these, expanded to all keys; 0 without ROWS.
//
// %extra is 0 for each query, or with FACTORS what the program has written to %extras, if %found is not 0. %b is the
// number of the batch element or packed sequence, %h that of the query head, %x that of the map, %i and %j are
// positions: with SHARD those in the whole (lib/shard.mlir).
//
// With MAPS greater than 1, several maps of weights share the values of a head: heads MAPS * h + x of q and k, and of
// dq and dk, are those of map x of head h of v and do. %dv has a part for each map, as k has; dV is their sum.
//
// A program that calls these declares D, DV, T, ACC, CAUSAL, WINDOW and DETERMINISTIC; TO, SHARD, PACKED, LISTED,
// LIST_BLOCK_M, LIST_BLOCK_N and CAPTURE_GRADIENTS as attention_backward.mlir, or gives T, false and 0; and MAPS, ROWS,
// FACTORS and HEAVY: with it, functions take so many registers that a kernel cannot add in order besides. SHARD is for
// programs with one map.
//
// Parameters that it gets:
//
//   SPLIT       On: dQ has a kernel of its own without additions to memory; dK and dV share another, or have one each.
//               Faster for wide heads on a GPU, since a thread holds only one sum. Default: on for 16-bit types on a
//               GPU if D or DV exceeds 128.
//   PAIRED      With SPLIT. On: one kernel computes dK and dV (seven products for each pair). Off: each has a kernel
//               (eight products). Default: on for sm_90a, unless a mask is linked (it may require a vote, which two
//               roles cannot take together) or CAPTURE_GRADIENTS is on. If you choose the block sizes, two roles allow
//               at most 64 keys, and 64 queries, or 96 if heads have at most 192 columns; else turn PAIRED off.
//   BLOCK_M, BLOCK_N          Queries and keys of a block of @pairs_of_keys. BLOCK_N divides LIST_BLOCK_N.
//   DQ_BLOCK_M, DQ_BLOCK_N    The same for @pairs_of_queries. DQ_BLOCK_M divides LIST_BLOCK_M.
//   DV_BLOCK_M, DELTA_BLOCK_M Queries of a block of the kernels for dV alone and for rows
//
// Kernels
//   rows_of_pairs     With ROWS: the numbers of each query, and the zeros to which dQ is added. With FACTORS, %found,
//                     which is 0 before, gets the number of instances that have a row of large LSE.
//   pairs_of_keys     A block of keys with all queries of its heads: dK, dV, and additions to the sum of dQ. If it adds
//                     in order, it also does what convert_pairs does. With SPLIT, for dK and dV (PAIRED) or one.
//   convert_pairs     dQ from its sum.
//   pairs_of_queries  Instead of convert_pairs, with SPLIT, or with DETERMINISTIC where no addition is possible in
//                     order: a block of queries with its keys.
//   turn_lists        With LISTED: transposes the lists for @pairs_of_keys.
//   order_blocks      With PACKED, if additions are in order under a causal mask: the order in which the blocks of keys
//                     of the last heads start.
//
// With PACKED, the rows of each sequence in a workspace begin at a multiple of PAD. If a sequence ends within a block
// of queries, the rest of the block is padding of this sequence, where rows are 0.
//
// Algorithm: FlashAttention-2 (Dao, 2023). Instances that own keys compute S^T instead of S: W^T and dS^T then have the
// layout in which the products for dV and dK read them.

tile.link "attention.mlir", "batch.mlir", "pair_types.mlir", "shard.mlir", "softmax.mlir"

// K, padded to whole warpgroups of columns, and dQ^T, which has these columns as rows.
!wide_k = !tile.tile<[OWN, DW], T>
!dqt = !tile.tile<[DW, OTHER], ACC>
!one = !tile.tile<[1], i32>

// Of the program's file.
func.func private @pair_weights(
    !pair, !pair, !pair, !pair_keep, i32, i32, i32, !pair_pos, !pair_pos, !acc) -> (!weight, !held)

//===----------------------------------------------------------------------===//
// Programs
//===----------------------------------------------------------------------===//

// For dense arrays, all weights of which follow from S and rows.
tile.program @pairs
    params(D, DV: int, T: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW, DETERMINISTIC: flag,
           MAPS: int, ROWS: flag, let TO: type = T,
           let SHARD, PACKED, LISTED, CAPTURE_GRADIENTS, FACTORS, HEAVY: flag = false,
           let LIST_BLOCK_M, LIST_BLOCK_N: int = 0, let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v: !v_view, %o: !v_view when (ROWS), %other_o: !v_view when (MAPS > 1), %do: !v_view,
     %lse: !row_view when (ROWS), %dq, %dk: !qk_view, %dv: !v_view, %scale: !acc, %window_left, %window_right: i32) {
  // Without SHARD, no kernel has an argument for a place: what is passed does not matter.
  %rows, %other_rows, %extras, %found, %sums = tile.call @pair_rows(first_head = %window_left)
      -> !row_view, !row_view, !row_view, !found_view, !sum_view
  tile.call @pair_products(rows = %rows, other_rows = %other_rows, extras = %extras, found = %found, sums = %sums,
                           first_row = %window_left, first_key = %window_left, diagonal = %window_left,
                           first_head = %window_left, first_batch = %window_left)
}

// The numbers of rows, %extras of 0, with FACTORS in %found whether rows have a large LSE (lib/softmax.mlir; 0: none),
// and the workspace of sums. A launch between this and @pair_products may change these rows, also in %extras.
tile.program @pair_rows
    params(D, DV: int, T: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"], PACKED, LISTED: flag,
           LIST_BLOCK_M, LIST_BLOCK_N: int, DETERMINISTIC, CAPTURE_GRADIENTS: flag, MAPS: int, ROWS, FACTORS: flag,
           // Keys are never in a cache. Files that replace functions read the parameter.
           let CACHED: flag = false, let ROW_BYTES: int = ceildiv(max(D, DV) * bits(T), 8),
           let HOPPER: flag = and(has_roles(), bits(T) == 16),
           SPLIT: flag = and(and(on_gpu(), bits(T) == 16), ROW_BYTES > 256),
           PAIRED: flag = and(and(SPLIT, HOPPER), not(or(CAPTURE_GRADIENTS, replaced("mask_mod")))),
           let DQ_KERNEL: flag = or(SPLIT, and(DETERMINISTIC, not(adds_in_order()))),
           BLOCK_M: int = block_in(LIST_BLOCK_M), BLOCK_N: int = block_in(LIST_BLOCK_N),
           // Row granularity of the workspaces.
           let PAD: int = ceildiv(select(ROW_BYTES <= 128, 128, 64), BLOCK_M) * BLOCK_M,
           DELTA_BLOCK_M: int = block_in(select(PACKED, PAD, 0)), let ACC: type = accumulator(T),
           // With PACKED, as lib/batch.mlir says.
           let PADDED_ROWS: int = floordiv(dim(q, 2) + dim(cu_seqlens_q, 0) * (PAD - 1), PAD) * PAD,
           // Rows have a multiple of 16 bytes, as tensor maps require.
           let ROW_EXTENT: int = select(PACKED, PADDED_ROWS, ceildiv(dim(q, 2), 4) * 4))
    require(MAPS * dim(do, 1) == dim(q, 1), dim(do, 0) == dim(q, 0), dim(do, 2) == dim(q, 2), same_dims(o, do, 0, 1, 2),
            same_dims(other_o, do, 0, 1, 2), same_dims(lse, q, 0, 1, 2), same_dims(dlse, q, 0, 1, 2),
            or(not(PACKED), dim(q, 0) == 1), ascending(cu_seqlens_q), within(cu_seqlens_q, 0, dim(q, 2) + 1))
    (%q: !qk_view, %o: !v_view when (ROWS), %other_o: !v_view when (MAPS > 1), %do: !v_view,
     %lse: !row_view when (ROWS), %dlse: optional !row_view, %cu_seqlens_q: !cu_view when (PACKED),
     %first_head: i32 when (SHARD))
    attributes {removed = {APART = "the option --sums=apart or --sums=whole",
                           ORDERED = "the option --sums=ordered or --sums=unordered",
                           ORDERED_UP_TO = "the option --sums=ordered or --sums=unordered",
                           ORDERED_FROM = "the option --sums=ordered or --sums=unordered"}} {
  %rows = tile.workspace [select(ROWS, dim(q, 0), 0), dim(q, 1), ROW_EXTENT] : !row_view
  %other_rows = tile.workspace [select(ROWS, dim(q, 0), 0), dim(q, 1), ROW_EXTENT] : !row_view
  %extras = tile.workspace [select(FACTORS, dim(q, 0), 0), dim(q, 1), ROW_EXTENT] : !row_view
  %found = tile.workspace [select(FACTORS, 1, 0)] fill 0 : !found_view
  // Empty if dQ has a kernel of its own.
  %sums = tile.workspace [select(DQ_KERNEL, 0, dim(q, 0)), dim(q, 1), select(PACKED, PADDED_ROWS, dim(q, 2)), D]
      : !sum_view
  tile.launch @rows_of_pairs(rows = %rows, other_rows = %other_rows, extras = %extras, found = %found, sums = %sums)
      with (OWN = DELTA_BLOCK_M, WITH_DQ = not(or(DQ_KERNEL, DETERMINISTIC))) when (ROWS)
  tile.return %rows, %other_rows, %extras, %found, %sums : !row_view, !row_view, !row_view, !found_view, !sum_view
}

// dQ, dK and dV from what @pair_rows returns.
tile.program @pair_products
    params(D, DV: int, T, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW, PACKED, LISTED: flag, LIST_BLOCK_M, LIST_BLOCK_N: int, DETERMINISTIC, CAPTURE_GRADIENTS: flag,
           MAPS: int, ROWS, FACTORS, HEAVY, SPLIT, PAIRED, DQ_KERNEL: flag, BLOCK_M, BLOCK_N, PAD: int,
           DQ_BLOCK_M: int = block_in(LIST_BLOCK_M), DQ_BLOCK_N: int = block_in(LIST_BLOCK_N),
           DV_BLOCK_M: int = block_in(LIST_BLOCK_M), let ACC: type = accumulator(T))
    require(D <= 512, DV <= 512, floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(k, 0) == dim(q, 0), dim(v, 0) == dim(q, 0), MAPS * dim(v, 1) == dim(k, 1), dim(v, 2) == dim(k, 2),
            same_dims(dq, q, 0, 1, 2), same_dims(dk, k, 0, 1, 2), same_dims(dv, k, 0, 1, 2),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0), ascending(cu_seqlens_k),
            within(cu_seqlens_k, 0, dim(k, 2) + 1), same_dims(kv_indices, kv_num_blocks, 0, 1, 2),
            or(not(LISTED), and(mod(max(LIST_BLOCK_M, 1), DQ_BLOCK_M) == 0, mod(max(LIST_BLOCK_N, 1), BLOCK_N) == 0)),
            or(dim(kv_num_blocks, 0) == 1, or(PACKED, dim(kv_num_blocks, 0) == dim(q, 0))), finite(scale),
            or(dim(kv_num_blocks, 1) == 1, dim(kv_num_blocks, 1) == dim(q, 1)),
            select(WINDOW, window_left >= -1, window_left == -1),
            or(PACKED, dim(kv_num_blocks, 2) == ceildiv(dim(q, 2), LIST_BLOCK_M)),
            select(WINDOW, window_right >= -1, window_right == -1))
    (%q, %k: !qk_view, %v, %do: !v_view, %rows, %other_rows: !row_view, %extras: !row_view, %found: !found_view,
     %sums: !sum_view,
     %dq, %dk: !dqk_view, %dv: !dv_view, %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED), %scale: !acc,
     %window_left, %window_right: i32, %first_row, %first_key, %diagonal, %first_head, %first_batch: i32 when (SHARD)) {
  %q_indices = tile.workspace [dim(kv_num_blocks, 0), dim(kv_num_blocks, 1), ceildiv(dim(k, 2), LIST_BLOCK_N),
                               dim(kv_num_blocks, 2)] : !list_view
  %q_num_blocks = tile.workspace [dim(kv_num_blocks, 0), dim(kv_num_blocks, 1), ceildiv(dim(k, 2), LIST_BLOCK_N)]
      : !count_view
  // The blocks of keys of all packed sequences, in the order in which those of the last heads start.
  %order = tile.workspace [(ceildiv(dim(k, 2), BLOCK_N) + dim(cu_seqlens_k, 0)) * min(dim(k, 2), 1)] : !cu_view

  tile.launch @turn_lists(turned = %q_indices, lengths = %q_num_blocks) when (LISTED)
  tile.launch @order_blocks(order = %order) when (PACKED)
  tile.launch @pairs_of_keys(order = %order, q_indices = %q_indices, q_num_blocks = %q_num_blocks)
      with (OWN = BLOCK_N, OTHER = BLOCK_M, WITH_DV = or(not(SPLIT), PAIRED), WITH_DQ = not(DQ_KERNEL))
  // A block of DV_BLOCK_M queries may extend into the workspace rows of the next sequence. The mask excludes them.
  tile.launch @pairs_of_keys(order = %order, q_indices = %q_indices, q_num_blocks = %q_num_blocks)
      with (OWN = BLOCK_N, OTHER = DV_BLOCK_M, WITH_DK = false, WITH_DQ = false, CAPTURE_GRADIENTS = false)
      when (and(SPLIT, not(PAIRED)))
  tile.launch @convert_pairs() with (OTHER = BLOCK_M) when (not(DQ_KERNEL))
  tile.launch @pairs_of_queries() with (OWN = DQ_BLOCK_M, OTHER = DQ_BLOCK_N) when (DQ_KERNEL)
}

// dV of its parts, with MAPS greater than 1.
tile.program @sum_of_parts params(DV: int, T: type, MAPS: int) (%parts, %dv: !v_view) {
  tile.launch @sum_parts() with (OWN = 32)
}

//===----------------------------------------------------------------------===//
// Kernels
//===----------------------------------------------------------------------===//

// Two numbers for each query, %extras of 0, and the zeros to which dQ is added; %sums may have no elements. The padding
// rows of packed sequences in a workspace get zeros.
tile.kernel @rows_of_pairs
    params(D, DV: int, T: type, OWN: int, PACKED: flag, PAD: int, DETERMINISTIC, WITH_DQ, CAPTURE_GRADIENTS: flag,
           MAPS: int, ROWS, FACTORS, SHARD: flag, let DP: int = padded(D), let DVP: int = padded(DV),
           let ACC: type = accumulator(T))
    (%o: !v_view when (ROWS), %other_o: !v_view when (MAPS > 1), %do: !v_view, %lse: !row_view when (ROWS),
     %dlse: optional !row_view, %cu_seqlens_q: !cu_view when (PACKED), %rows, %other_rows: !row_view,
     %extras: !row_view when (FACTORS), %found: !found_view when (FACTORS),
     %sums: !sum_view when (WITH_DQ), %first_head: i32 when (SHARD))
    grid(%bm = select(PACKED, floordiv((ceildiv(dim(do, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, OWN),
                      ceildiv(dim(do, 2), OWN)),
         %map = dim(do, 1) * MAPS, %a = select(PACKED, 1, dim(do, 0))) {
  %workspace_m = tile.expr %bm * OWN : i32
  %h = tile.expr %map / MAPS : i32
  %at_h = tile.expr %h + select(SHARD, %first_head, 0) overflow<nsw> : i32
  %x = tile.expr mod(%map, MAPS) : i32
  %all_queries = tile.dim %do, 2 : !v_view
  %sequence, %m, %begin, %queries = tile.expr @row_of_workspace(%workspace_m, %cu_seqlens_q, %all_queries) : i32
  // Rows of no sequence are not read: what they hold may be anything, and a block of queries may extend into theirs.
  %own_begin, %read = tile.expr @rows_of(%sequence, %cu_seqlens_q, %all_queries) : i32
  %o_part, %other_part, %do_part, %lse_part, %dlse_part = tile.subview %o, %other_o, %do, %lse, %dlse
      dim 2 from %own_begin size %read when (PACKED)
  %o_tile = tile.load %o_part[%a, %h, %m, 0] : !v_view -> !own_v
  %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !own_v
  %dlse_row = tile.load %dlse_part[%a, %map, %m] : !row_view -> !own_row
  %lse_row = tile.load %lse_part[%a, %map, %m] : !row_view -> !own_row
  %other_tile = tile.load %other_part[%a, %h, %m, 0] : !v_view -> !own_v
  %o_acc = tile.cast %o_tile : !own_v -> !sum_v
  %row, %other_row = tile.expr @row_values(cast(%do_tile) : !sum_v, %o_acc, cast(%other_tile) : !sum_v, %lse_row,
      %dlse_row, %at_h, %x) : !own_row, !own_row
  tile.if WITH_DQ {
    tile.store 0, %sums[%a, %map, %workspace_m, 0] : !sum_k
  }
  tile.store %other_row, %other_rows[%a, %map, %workspace_m] : !own_row
  tile.store %row, %rows[%a, %map, %workspace_m] : !own_row
  tile.if FACTORS {
    tile.store 0, %extras[%a, %map, %workspace_m] : !own_row
    %large = tile.expr select(map @is_large(%lse_row), 1, 0) : !own_numbers
    %in_one = tile.reshape %large : !own_numbers -> !own_numbers_in_one
    %has_large = tile.reduce max %in_one dim 1 : !own_numbers_in_one
    tile.atomic_add %has_large, %found[0] : !one, !found_view
  }
}

// Without ROWS, nothing calls it.
tile.function @row_values(%do, %o, %other_o: !sum_v, %lse, %dlse: !own_row, %h,
                          %x: i32) -> (!own_row, !own_row) attributes {tile.replaceable} = %lse, %dlse

// The gradient of the scaled scores, of dW and what @pair_weights held: here of weights whose slopes it held.
tile.function @pair_gradients(%held: !held, %dw, %other_row, %s, %row, %extra: !pair, %keep: !pair_keep, %b, %h,
                              %x: i32, %i, %j: !pair_pos, %scale: !acc) -> !pair attributes {tile.replaceable} {
  %of_slopes = tile.expr select(ROWS, %dw - %other_row, %dw) fastmath<contract> : !pair
  tile.result cast(%held) * %of_slopes : !pair
}

// Adds to the gradients of captures, of which there are none here.
tile.function @pair_captures(%dw, %other_row, %s, %row, %extra: !pair, %keep: !pair_keep, %b, %h, %x: i32, %i,
                             %j: !pair_pos, %scale: !acc) attributes {tile.replaceable} {
}

// A block of keys with the queries of all heads of its group.
tile.kernel @pairs_of_keys
    params(D, DV: int, T, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW, PACKED, LISTED: flag, LIST_BLOCK_M, LIST_BLOCK_N, PAD: int,
           DETERMINISTIC, CAPTURE_GRADIENTS, HEAVY: flag, MAPS: int, ROWS, FACTORS: flag, OWN, OTHER: int,
           WITH_DK, WITH_DV, WITH_DQ: flag = true, IN_ORDER: flag = false,
           let MAY_ORDER: flag = not(or(or(LISTED, CAPTURE_GRADIENTS), or(replaced("mask_mod"), HEAVY))),
           let HELD: type = T, let EARLY: flag = true, let DP: int = padded_for("gradient_rows", D, DV, T),
           let DVP: int = padded_for("gradients", DV, D, T),
           let DW: int = select(IN_ORDER, padded_for("ordered_rows", D, DV, T),
                                select(and(WITH_DQ, ne(mod(OTHER, 128), 0)), padded_for("shared_rows", D, DV, T),
                                       padded_for("transposed_rows", D, DV, T))), let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %rows: !row_view when (ROWS), %extras: !row_view when (FACTORS),
     %found: !found_view when (FACTORS),
     %other_rows: !row_view when (ROWS), %sums: !sum_view, %dk: !dqk_view, %dv: !dv_view,
     %order: !cu_view when (IN_ORDER), %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED),
     %q_indices: !list_view when (LISTED), %q_num_blocks: !count_view when (LISTED), %scale: !acc,
     %window_left, %window_right: i32, %first_row, %first_key, %diagonal, %first_head, %first_batch: i32 when (SHARD))
    grid(%bn = select(PACKED, (ceildiv(dim(k, 2), OWN) + dim(cu_seqlens_k, 0)) * min(dim(k, 2), 1),
                      ceildiv(dim(k, 2), OWN)),
         %map = dim(k, 1), %e = select(PACKED, 1, dim(k, 0))) {
  %c0 = arith.constant 0 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %shared_by = tile.expr dim(%q, 1) / dim(%k, 1) : i32
  %hk = tile.expr %map / MAPS : i32
  %x = tile.expr mod(%map, MAPS) : i32
  %before = tile.expr (%map - %hk) * %shared_by : i32
  %block = tile.any_order %bn listed %order : !cu_view when (PACKED)
  // The rows of this instance: %b is the batch element or packed sequence, %a its index in the arrays, and %given the
  // number of the block of keys in it. The last block of a packed sequence may have no keys.
  %b, %a, %k_begin, %keys, %given = tile.expr @block(%e, %block, OWN : i32, %cu_seqlens_k, %all_keys) : i32
  %blocks = tile.expr ceildiv(%keys, OWN) : i32
  %number = tile.any_order %given of %blocks
  %n = tile.expr %number * OWN : i32
  %q_begin, %queries = tile.expr @rows_of(%b, %cu_seqlens_q, %all_queries) : i32
  %q_part, %do_part = tile.subview %q, %do dim 2 from %q_begin size %queries when (PACKED)
  %k_part, %v_part, %dk_part, %dv_part = tile.subview %k, %v, %dk, %dv dim 2 from %k_begin size %keys when (PACKED)
  // Places in the whole: zeros without SHARD.
  %row_0 = tile.expr select(SHARD, %first_row, 0) : i32
  %key_0 = tile.expr select(SHARD, %first_key, 0) : i32
  %shift = tile.expr select(param(and(SHARD, not(PACKED))), %diagonal, @diagonal_shift(%queries, %keys)) : i32
  %head_0 = tile.expr select(SHARD, %first_head, 0) : i32
  %at_b = tile.expr %b + select(SHARD, %first_batch, 0) overflow<nsw> : i32
  %at_n = arith.addi %n, %key_0 overflow<nsw> : i32
  %workspace_begin = tile.expr @workspace_begin(%b, %q_begin) : i32
  // Gradients of captures take so many registers that two versions of the loop spill.
  %has_none = tile.expr and(param(not(CAPTURE_GRADIENTS)), %found[0] < 1)
  %no_dk = tile.constant 0 : !sum_k
  %no_dv = tile.constant 0 : !sum_v
  %k_tile = tile.load %k_part[%a, %map, %n, 0] : !qk_view -> !own_k
  %k_wide = tile.load %k_part[%a, %map, %n, 0] : !qk_view -> !wide_k
  %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !own_v
  %dk_all, %dv_all = tile.accumulate %term of %map each %shared_by
      even when (and(CAUSAL == "none", not(or(PACKED, LISTED)))) apart when (not(or(IN_ORDER, DETERMINISTIC)))
      iter_args(%dk_heads = %no_dk : !sum_k, %dv_heads = %no_dv : !sum_v) {
    %h = arith.subi %term, %before : i32
    %at_h = arith.addi %h, %head_0 overflow<nsw> : i32
    %q_map = tile.expr select(param(MAPS == 1), %term, %h * MAPS + %x) : i32
    %list_b, %list_h, %list_n, %count = tile.expr @list_of(%b, %h, %n, LIST_BLOCK_N : i32, %q_num_blocks) : i32
    %dk_head, %dv_head = tile.for_blocks %m in (%c0 to %queries
            listed %q_indices[%list_b, %list_h, %list_n] count %count each LIST_BLOCK_M when (LISTED) : !list_view)
        against (%n to %keys)
        where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, block, against, %shift, %window_left, %window_right)
        keep %keep : !pair_keep
        iter_args(%dk_old = %dk_heads : !sum_k, %dv_old = %dv_heads : !sum_v) {
      %at_m = arith.addi %m, %row_0 overflow<nsw> : i32
      %i = tile.iota %at_m dim 1 : !pair_pos
      %j = tile.iota %at_n dim 0 : !pair_pos
      %q_tile = tile.load %q_part[%a, %q_map, %m, 0] : !qk_view -> !other_k
      %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !other_v
      %s = tile.dot %k_tile, %q_tile transpose_b : !own_k, !other_k -> !pair
      %workspace_m = arith.addi %workspace_begin, %m : i32
      %row = tile.load %rows[%a, %q_map, %workspace_m] : !row_view -> !other_row
      %row_each = tile.expand %row dim 0 : !other_row -> !pair
      %extra_each = tile.if %has_none -> (!pair) {
        tile.yield 0 : !pair
      } else {
        tile.yield expand(load %extras[%a, %q_map, %workspace_m], 0) : !pair
      }
      %w, %held = tile.expr @pair_weights(%s, %row_each, %extra_each, %keep, %at_b, %at_h, %x, %i, %j, %scale)
          : !weight, !held
      %dw = tile.dot %v_tile, %do_tile transpose_b : !own_v, !other_v -> !pair
      %other_each = tile.expr expand(load %other_rows[%a, %q_map, %workspace_m], 0) : !pair
      %ds = tile.expr @pair_gradients(%held, %dw, %other_each, %s, %row_each, %extra_each, %keep, %at_b, %at_h, %x, %i,
          %j, %scale) : !pair
      %ds_rounded = tile.cast %ds : !pair -> !weight
      // Branches, since the choice of blocks counts what stands outside of them.
      %dv_new = tile.expr choose(WITH_DV, dot(%w, %do_tile, %dv_old), %dv_old)
      %dk_new = tile.expr choose(WITH_DK, dot(%ds_rounded, %q_tile, %dk_old), %dk_old)
      // dQ is transposed as well, so that adjacent threads add to adjacent elements.
      %dq_term = tile.dot %k_wide, %ds_rounded transpose_a : !wide_k, !weight -> !dqt
      tile.if CAPTURE_GRADIENTS {
        func.call @pair_captures(%dw, %other_each, %s, %row_each, %extra_each, %keep, %at_b, %at_h, %x, %i, %j, %scale)
            : (!pair, !pair, !pair, !pair, !pair, !pair_keep, i32, i32, i32, !pair_pos, !pair_pos, !acc) -> ()
      }
      tile.if WITH_DQ {
        %rows_end = tile.expr min(%m + OTHER, %queries) overflow<nsw> : i32
        %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %rows_end)
            where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, against, block, %shift, %window_left, %window_right)
        tile.contribute %dq_term, %sums[%a, %q_map, %workspace_m, 0] dims [3, 2]
            from %n of %first to %end each OWN in order if IN_ORDER when (MAY_ORDER)
            deterministic when (DETERMINISTIC) staggered when (not(CAUSAL == "none")) banded when (WINDOW)
            packed when (PACKED) rows (dim(q, 2)) sequences (dim(cu_seqlens_k, 0) - 1) : !dqt, !sum_view
      }
      tile.yield %dk_new, %dv_new : !sum_k, !sum_v
    }
    tile.yield %dk_head, %dv_head : !sum_k, !sum_v
  }
  tile.if WITH_DK {
    tile.store cast(%dk_all * full(%scale)), %dk_part[%a, %map, %n, 0] : !own_dk
  }
  tile.if WITH_DV {
    tile.store cast(%dv_all), %dv_part[%a, %map, %n, 0] : !own_dv
  }
}

// dQ of its sum. Blocks have the parameter of those that @pairs_of_keys adds.
tile.kernel @convert_pairs
    params(D: int, T, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW, PACKED: flag,
           PAD, MAPS, OTHER: int, let DP: int = padded(D), let ACC: type = accumulator(T))
    (%sums: !sum_view, %k: !qk_view, %dq: !dqk_view, %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED), %scale: !acc,
     %window_left, %window_right: i32, %first_row, %first_key, %diagonal, %first_head, %first_batch: i32 when (SHARD))
    grid(%bm = select(PACKED, floordiv((ceildiv(dim(dq, 2), PAD) + dim(cu_seqlens_q, 0)) * PAD, OTHER),
                      ceildiv(dim(dq, 2), OTHER)),
         %map = dim(dq, 1), %a = dim(dq, 0)) {
  %c0 = arith.constant 0 : i32
  %h = tile.expr %map / MAPS : i32
  %workspace_m = tile.expr %bm * OTHER : i32
  %sequence, %m, %begin, %queries = tile.expr @row_of_workspace(%workspace_m, %cu_seqlens_q, dim(%dq, 2)) : i32
  %b = tile.expr select(PACKED, %sequence, %a) : i32
  %k_begin, %keys = tile.expr @rows_of(%b, %cu_seqlens_k, dim(%k, 2)) : i32
  %part = tile.subview %dq dim 2 from %begin size %queries when (PACKED) : !dqk_view
  // Places in the whole: zeros without SHARD.
  %row_0 = tile.expr select(SHARD, %first_row, 0) : i32
  %key_0 = tile.expr select(SHARD, %first_key, 0) : i32
  %shift = tile.expr select(param(and(SHARD, not(PACKED))), %diagonal, @diagonal_shift(%queries, %keys)) : i32
  %at_b = tile.expr %b + select(SHARD, %first_batch, 0) overflow<nsw> : i32
  %at_h = tile.expr %h + select(SHARD, %first_head, 0) overflow<nsw> : i32
  %rows_end = tile.expr min(%m + OTHER, %queries) : i32
  %first, %end = tile.kept_range in (%c0 to %keys) against (%m to %rows_end)
      where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, against, block, %shift, %window_left, %window_right)
  %sum = tile.complete %sums[%a, %map, %workspace_m, 0] of %first to %end : !sum_view -> !other_sum
  tile.store cast(%sum * full(%scale)), %part[%a, %map, %m, 0] : !other_dk
}

// A block of queries with the keys that it attends: dQ without additions to memory.
tile.kernel @pairs_of_queries
    params(D, DV: int, T, TO: type, SHARD: flag, CAUSAL: enum in ["none", "top_left", "bottom_right"],
           WINDOW, PACKED, LISTED: flag, LIST_BLOCK_M, LIST_BLOCK_N, PAD: int, DETERMINISTIC: flag, MAPS: int,
           ROWS, FACTORS: flag, OWN, OTHER: int, let BLOCK_M: int = OWN, let HELD: type = accumulator(T),
           let EARLY: flag = false, let DP: int = padded_for("gradients", D, DV, T),
           let DVP: int = padded_for("gradients", DV, D, T), let ACC: type = accumulator(T))
    (%q, %k: !qk_view, %v, %do: !v_view, %rows: !row_view when (ROWS), %extras: !row_view when (FACTORS),
     %found: !found_view when (FACTORS),
     %other_rows: !row_view when (ROWS), %dq: !dqk_view, %cu_seqlens_q, %cu_seqlens_k: !cu_view when (PACKED),
     %kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED), %scale: !acc,
     %window_left, %window_right: i32, %first_row, %first_key, %diagonal, %first_head, %first_batch: i32 when (SHARD))
    grid(%bm = select(PACKED, (ceildiv(dim(q, 2), OWN) + dim(cu_seqlens_q, 0)) * min(dim(q, 2), 1),
                      ceildiv(dim(q, 2), OWN)),
         %map = dim(q, 1), %e = select(PACKED, 1, dim(q, 0))) {
  %c0 = arith.constant 0 : i32
  %all_queries = tile.dim %q, 2 : !qk_view
  %all_keys = tile.dim %k, 2 : !qk_view
  %h = tile.expr %map / MAPS : i32
  %x = tile.expr mod(%map, MAPS) : i32
  %hk = tile.expr @key_head(%h, %q, %k) : i32
  %k_map = tile.expr %hk * MAPS + %x : i32
  // The rows of this instance: %b is the batch element or packed sequence, %a its index in the arrays, and %m the first
  // query, relative to the sequence.
  %b, %a, %q_begin, %queries, %m = tile.expr @longest_block(%e, %bm, %cu_seqlens_q, %all_queries) : i32
  %k_begin, %keys = tile.expr @rows_of(%b, %cu_seqlens_k, %all_keys) : i32
  %q_part, %do_part, %dq_part = tile.subview %q, %do, %dq dim 2 from %q_begin size %queries when (PACKED)
  %k_part, %v_part = tile.subview %k, %v dim 2 from %k_begin size %keys when (PACKED)
  // Places in the whole: zeros without SHARD.
  %row_0 = tile.expr select(SHARD, %first_row, 0) : i32
  %key_0 = tile.expr select(SHARD, %first_key, 0) : i32
  %shift = tile.expr select(param(and(SHARD, not(PACKED))), %diagonal, @diagonal_shift(%queries, %keys)) : i32
  %at_b = tile.expr %b + select(SHARD, %first_batch, 0) overflow<nsw> : i32
  %at_h = tile.expr %h + select(SHARD, %first_head, 0) overflow<nsw> : i32
  %at_m = arith.addi %m, %row_0 overflow<nsw> : i32
  %workspace_m = tile.expr @workspace_begin(%b, %q_begin) + %m : i32
  %list_b, %list_h, %list_m, %count = tile.expr @list_of(%b, %h, %m, LIST_BLOCK_M : i32, %kv_num_blocks) : i32
  %no_dq = tile.constant 0 : !sum_k
  %q_tile = tile.load %q_part[%a, %map, %m, 0] : !qk_view -> !own_k
  %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !own_v
  %row = tile.load %rows[%a, %map, %workspace_m] : !row_view -> !own_row
  %other_row = tile.load %other_rows[%a, %map, %workspace_m] : !row_view -> !own_row
  %has_none = tile.expr %found[0] < 1
  %dq_all = tile.for_blocks %n in (%c0 to %keys
          listed %kv_indices[%list_b, %list_h, %list_m] count %count each LIST_BLOCK_N when (LISTED) : !list_view)
      against (%m to %queries)
      where @attends_in_whole(%row_0, %key_0, %at_b, %at_h, against, block, %shift, %window_left, %window_right)
      keep %keep : !pair_keep
      iter_args(%dq_old = %no_dq : !sum_k) {
    %k_tile = tile.load %k_part[%a, %k_map, %n, 0] : !qk_view -> !other_k
    %v_tile = tile.load %v_part[%a, %hk, %n, 0] : !v_view -> !other_v
    %at_n = arith.addi %n, %key_0 overflow<nsw> : i32
    %i = tile.iota %at_m dim 0 : !pair_pos
    %j = tile.iota %at_n dim 1 : !pair_pos
    %row_each = tile.expand %row dim 1 : !own_row -> !pair
    %other_each = tile.expand %other_row dim 1 : !own_row -> !pair
    %extra_each = tile.if %has_none -> (!pair) {
      tile.yield 0 : !pair
    } else {
      tile.yield expand(load %extras[%a, %map, %workspace_m], 1) : !pair
    }
    %s = tile.dot %q_tile, %k_tile transpose_b : !own_k, !other_k -> !pair
    %w, %held = tile.expr @pair_weights(%s, %row_each, %extra_each, %keep, %at_b, %at_h, %x, %i, %j, %scale)
        : !weight, !held
    %dw = tile.dot %do_tile, %v_tile transpose_b : !own_v, !other_v -> !pair
    %ds = tile.expr @pair_gradients(%held, %dw, %other_each, %s, %row_each, %extra_each, %keep, %at_b, %at_h, %x, %i,
        %j, %scale) : !pair
    tile.yield dot(cast(%ds) : !weight, %k_tile, %dq_old)
  }
  tile.store cast(%dq_all * full(%scale)), %dq_part[%a, %map, %m, 0] : !own_dk
}

// dV of OWN keys, the sum of the parts of all maps.
tile.kernel @sum_parts
    params(DV: int, T: type, MAPS, OWN: int, let DVP: int = padded(DV), let ACC: type = accumulator(T))
    (%parts, %dv: !v_view) grid(%bn = ceildiv(dim(dv, 2), OWN), %h = dim(dv, 1), %b = dim(dv, 0)) {
  %n = tile.expr %bn * OWN : i32
  %first = tile.expr %h * MAPS : i32
  %sum = tile.for %x in (0 to MAPS) iter_args(%before = 0 : !sum_v) {
    tile.yield %before + cast(load %parts[%b, %first + %x, %n, 0] : !own_v)
  } {tile.unroll}
  tile.store cast(%sum), %dv[%b, %h, %n, 0] : !own_v
}

// Writes for each block of keys the blocks of queries that list it, in ascending order, and their number.
tile.kernel @turn_lists params(LISTED: flag)
    (%kv_indices: !list_view when (LISTED), %kv_num_blocks: !count_view when (LISTED), %turned: !list_view,
     %lengths: !count_view)
    grid(%n = dim(turned, 2), %h = dim(turned, 1), %b = dim(turned, 0)) {
  %length = tile.for %m in (0 to dim(%kv_num_blocks, 2)) iter_args(%place = 0 : i32) {
    %count = tile.expr min(%kv_num_blocks[%b, %h, %m], dim(%kv_indices, 3))
    %found = tile.for %x in (0 to %count) iter_args(%before = 0 : i32) {
      tile.yield select(%kv_indices[%b, %h, %m, %x] == %n, 1, %before)
    }
    tile.if %found == 1 {
      tile.store full(%m), %turned[%b, %h, %n, %place] : !one
    }
    tile.yield %place + %found
  }
  tile.store full(%length), %lengths[%b, %h, %n] : !one
}

// With PACKED: the blocks of keys of all sequences, those with the most blocks behind them in their sequence first, and
// among equals those of earlier sequences; blocks without rows last. %order[x] is the number that lib/batch.mlir gives
// the block at place x.
tile.kernel @order_blocks
    params(D: int, T: type, PACKED: flag, BLOCK_N: int)
    (%k: !qk_view, %cu_seqlens_k: !cu_view when (PACKED), %order: !cu_view)
    grid(%i = dim(order, 0)) {
  %total = tile.dim %k, 2 : !qk_view
  %b, %begin, %rows, %number = tile.expr @block_of_sequence(%i, BLOCK_N : i32, %cu_seqlens_k, %total) : i32
  %rest = tile.expr ceildiv(%rows, BLOCK_N) - %number : i32
  %sequences = tile.expr dim(%cu_seqlens_k, 0) - 1 : i32
  // Blocks with more behind them, earlier blocks with as many, and all blocks of the sequences up to this one.
  %longer, %equal, %up_to_own, %all = tile.for %s in (0 to %sequences)
      iter_args(%longer_0 = 0 : i32, %equal_0 = 0 : i32, %up_to_own_0 = 0 : i32, %all_0 = 0 : i32) {
    %s_begin, %s_rows = tile.expr @rows_of(%s, %cu_seqlens_k, %total) : i32
    %blocks = tile.expr ceildiv(%s_rows, BLOCK_N)
    %longer_1 = tile.expr %longer_0 + max(%blocks - %rest, 0)
    %precedes = tile.expr and(%s < %b, %blocks >= %rest)
    %one = arith.extui %precedes : i1 to i32
    tile.yield %longer_1, %equal_0 + %one, %up_to_own_0 + select(%s > %b, 0, %blocks), %all_0 + %blocks
  }
  %place = tile.expr %longer + %equal
  %empty_place = tile.expr %all + (%i - %up_to_own)
  // Rows of no sequence count as none.
  %own_place = tile.expr select(and(and(%b >= 0, %b < %sequences), %rest > 0), %place, %empty_place)
  tile.store full(%i), %order[%own_place] : !one
}
