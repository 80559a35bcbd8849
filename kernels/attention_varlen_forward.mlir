// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attention over packed sequences of different lengths, forward. Sequence b holds the queries
// cu_seqlens_q[b] .. cu_seqlens_q[b + 1] - 1 of q, and the keys of the same rule; within it this is
// attention_forward.mlir: formulas, masks and positions are those of the sequence, from 0.
//
//   q   [Tq, Hq,  D]   T        k [Tk, Hkv, D]   T        v [Tk, Hkv, DV]   T
//   o   [Tq, Hq,  DV]  T        lse [Hq, Tq]   ACC, optional
//   cu_seqlens_q, cu_seqlens_k   [B + 1]  i32, ascending, the first 0, the last Tq (Tk). Checked in
//                                host memory, on a device where asked for. Unchecked, each is taken for
//                                the nearest of 0 to Tq (Tk), a sequence that ends before it begins for
//                                empty; where they do not ascend, it is open which rows are written
//   max_seqlen_q   i32, not needed: callers may give the length of the longest sequence
//   scale, window_left, window_right and the parameters: as in attention_forward.mlir
//
// Sequences may be empty. A query that attends no key gets O = 0 and LSE = -inf. Runs are
// bit-identical.
//
// Algorithm: FlashAttention-2 (Dao, 2023), over subviews.

tile.link "lib/attention.mlir"
tile.link "lib/forward.mlir"
tile.link "lib/online_softmax.mlir"
tile.link "lib/packed.mlir"

!qk_view  = !tile.view<[?, ?, D], T>
!v_view   = !tile.view<[?, ?, DV], T>
!row_view = !tile.view<[?, ?], ACC>
!cu_view  = !tile.view<[?], i32>

!q   = !tile.tile<[BLOCK_M, DP], T>
!k   = !tile.tile<[BLOCK_N, DP], T>
!v   = !tile.tile<[BLOCK_N, DVP], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!o   = !tile.tile<[BLOCK_M, DVP], ACC>
!row = !tile.tile<[BLOCK_M], ACC>

func.func private @key_head(i32, i32, i32) -> i32
func.func private @diagonal_shift(i32, i32) -> i32
func.func private @before_keys(i32) -> (!row, !row, !o)
func.func private @round_of_keys(!q, !k, !v, !keep, !row, !row, !o, i32, i32, i32, i32, f32)
    -> (!row, !row, !o)
func.func private @output_of(!row, !o) -> !o
func.func private @lse_of(!row, !row) -> !row
func.func private @sequence_of_longest(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)

tile.kernel @attention_varlen_forward
    params(D: int, DV: int = D, T: type in [f16, bf16, f32, f64],
           CAUSAL: enum in ["none", "top_left", "bottom_right"] = "none", WINDOW: flag = false,
           BLOCK_M: int = block(), BLOCK_N: int = block(),
           let DP: int = ceildiv(D, 16) * 16, let DVP: int = ceildiv(DV, 16) * 16,
           let ACC: type = accumulator(T))
    require(D <= 256, DV <= 256,
            floordiv(dim(q, 1), max(dim(k, 1), 1)) * dim(k, 1) == dim(q, 1),
            dim(v, 0) == dim(k, 0), dim(v, 1) == dim(k, 1),
            dim(o, 0) == dim(q, 0), dim(o, 1) == dim(q, 1),
            dim(lse, 0) == dim(q, 1), dim(lse, 1) == dim(q, 0),
            dim(cu_seqlens_k, 0) == dim(cu_seqlens_q, 0),
            ascending(cu_seqlens_q), within(cu_seqlens_q, 0, dim(q, 0) + 1),
            ascending(cu_seqlens_k), within(cu_seqlens_k, 0, dim(k, 0) + 1),
            finite(scale),
            or(WINDOW, window_left == -1), or(WINDOW, window_right == -1))
    (%q: !qk_view, %k: !qk_view, %v: !v_view, %o: !v_view, %lse: optional !row_view,
     %cu_seqlens_q: !cu_view, %cu_seqlens_k: !cu_view, %max_seqlen_q: i32 = 0,
     %scale: f32, %window_left: i32 = -1, %window_right: i32 = -1)
    grid(%t = (ceildiv(dim(q, 0), BLOCK_M) + dim(cu_seqlens_q, 0) - 1) * min(dim(q, 0), 1), %h = dim(q, 1)) {
  %c0 = arith.constant 0 : i32
  %q_heads = tile.dim %q, 1 : !qk_view
  %k_heads = tile.dim %k, 1 : !qk_view

  // The sequence of this instance, whose rows bound what is loaded and stored, and its first query,
  // counted there.
  %block_m = tile.param BLOCK_M : i32
  %tq = tile.dim %q, 0 : !qk_view
  %tk = tile.dim %k, 0 : !qk_view
  %b, %q_begin, %queries, %m = func.call @sequence_of_longest(%t, %block_m, %cu_seqlens_q, %tq)
      : (i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
  %k_begin, %keys = func.call @rows_of(%b, %cu_seqlens_k, %tk)
      : (i32, !cu_view, i32) -> (i32, i32)
  %q_seq = tile.subview %q dim 0 from %q_begin size %queries : !qk_view
  %k_seq = tile.subview %k dim 0 from %k_begin size %keys : !qk_view
  %v_seq = tile.subview %v dim 0 from %k_begin size %keys : !v_view
  %o_seq = tile.subview %o dim 0 from %q_begin size %queries : !v_view
  %lse_seq = tile.subview %lse dim 1 from %q_begin size %queries : !row_view

  %hk = func.call @key_head(%h, %q_heads, %k_heads) : (i32, i32, i32) -> i32
  %shift = func.call @diagonal_shift(%queries, %keys) : (i32, i32) -> i32

  %no_max, %no_sum, %no_o = func.call @before_keys(%h) : (i32) -> (!row, !row, !o)
  %q_tile = tile.load %q_seq[%m, %h, 0] dims [0, 2] : !qk_view -> !q

  %max, %sum, %acc = tile.for_blocks %n in (%c0 to %keys) against (%m to %queries) descending
      where @attends(%b, %h, against, block, %shift, %window_left, %window_right
                     : i32, i32, i32, i32, i32)
      keep %keep : !keep
      iter_args(%max_old = %no_max : !row, %sum_old = %no_sum : !row, %acc_old = %no_o : !o) {
    %k_tile = tile.load %k_seq[%n, %hk, 0] dims [0, 2] : !qk_view -> !k
    %v_tile = tile.load %v_seq[%n, %hk, 0] dims [0, 2] : !v_view -> !v
    %max_new, %sum_new, %acc_new = func.call @round_of_keys(
        %q_tile, %k_tile, %v_tile, %keep, %max_old, %sum_old, %acc_old, %b, %h, %m, %n, %scale)
        : (!q, !k, !v, !keep, !row, !row, !o, i32, i32, i32, i32, f32) -> (!row, !row, !o)
    tile.yield %max_new, %sum_new, %acc_new : !row, !row, !o
  }

  %result = func.call @output_of(%sum, %acc) : (!row, !o) -> !o
  %o_tile = tile.cast %result : !o -> !tile.tile<[BLOCK_M, DVP], T>
  tile.store %o_tile, %o_seq[%m, %h, 0] dims [0, 2]
      : !tile.tile<[BLOCK_M, DVP], T>, !v_view
  %lse_row = func.call @lse_of(%max, %sum) : (!row, !row) -> !row
  tile.store %lse_row, %lse_seq[%h, %m] : !row, !row_view
}
