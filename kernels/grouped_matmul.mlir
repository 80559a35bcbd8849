// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The product of a mixture of experts: rows that are sorted by expert, each multiplied with the matrix of its own. The
// ends of the experts' rows are known on the device alone.
//
//   c[r, :] = a[r, :] b[e]   for ends[e - 1] <= r < ends[e], with ends[-1] = 0
//
// Arguments
//   a      [M, K]      T    rows of tokens, sorted by expert
//   b      [E, K, N]   T    matrices of the experts, or [E, N, K] with TRANSPOSED
//   ends   [E]         i32  where the rows of each expert end: a cumulative sum of their numbers (torch._grouped_mm's
//                           `offs`)
//   c      [M, N]      TC   result
//
// M, N, K and E may have any value, and any expert may have no rows. Rows from the last end on are left as they are.
// Requires: `ends` does not decrease, and is from 0 to M. Strides are arbitrary. Runs are bit-identical.
//
// Parameters
//   T            Element type of the operands: f16, bf16, f32, f64, e4m3 or e5m2.
//   TC           Element type of c: f16, bf16, f32 or f64. Default: T. It has no default if T has 8 bits.
//   ACC          Type of the sums, derived: f64 for f64, else f32.
//   TRANSPOSED   The matrices have the shape [N, K], as in PyTorch's linear layers. Default: false.
//   BLOCK_M, BLOCK_N   Rows and columns of c in a program instance.
//   BLOCK_K            Columns of a in an iteration. The compiler chooses the defaults of the blocks.
//
// Blocks of rows belong to one expert each. There are at most M / BLOCK_M + E - 1 of them, and each program instance
// counts those of the experts before its own; the last instances may find no rows.

!view = !tile.view<[?, ?], T>
!b_view = !tile.view<[?, ?, ?], T>
!ends = !tile.view<[?], i32>
!a    = !tile.tile<[BLOCK_M, BLOCK_K], T>
!b    = !tile.tile<[BLOCK_K, BLOCK_N], T>
!b_t  = !tile.tile<[BLOCK_N, BLOCK_K], T>
!c    = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!acc  = !tile.param<ACC>

tile.kernel @grouped_matmul
    params(T: type in [e4m3, e5m2, f16, bf16, f32, f64], TC: type in [f16, bf16, f32, f64] = T,
           TRANSPOSED: flag = false,
           BLOCK_M: int = block(), BLOCK_N: int = block(), BLOCK_K: int = block(),
           let ACC: type = accumulator(T))
    require(select(TRANSPOSED, dim(b, 2), dim(b, 1)) == dim(a, 1), dim(c, 0) == dim(a, 0),
            select(TRANSPOSED, dim(b, 1), dim(b, 2)) == dim(c, 1), dim(ends, 0) == dim(b, 0))
    (%a: !view, %b: !b_view, %ends: !ends, %c: !tile.view<[?, ?], TC>)
    grid(%bn = ceildiv(dim(c, 1), BLOCK_N), %block = ceildiv(dim(a, 0), BLOCK_M) + max(dim(b, 0), 1) - 1) {
  %c0 = arith.constant 0 : i32
  %c1 = arith.constant 1 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %block_k = tile.param BLOCK_K : i32
  %n = arith.muli %bn, %block_n : i32
  %transposed = tile.param TRANSPOSED : i1
  %experts = tile.dim %ends, 0 : !ends

  // The expert of the block, its first row and its number of rows; no rows if the block is behind the last expert's.
  %last = arith.subi %block_m, %c1 : i32
  %expert, %row, %rows, %first_end, %blocks_end = scf.for %e = %c0 to %experts step %c1
      iter_args(%expert_old = %c0, %row_old = %c0, %rows_old = %c0, %begin = %c0, %blocks = %c0)
      -> (i32, i32, i32, i32, i32) : i32 {
    %end = tile.at %ends[%e] : !ends
    %blocks_next = tile.expr %blocks + (%end - %begin + %last) / %block_m : i32
    %is_own = tile.expr and(%block >= %blocks, %block < %blocks_next) : i1
    %row_own = tile.expr %begin + (%block - %blocks) * %block_m : i32
    %rows_own = arith.subi %end, %row_own : i32
    %expert_new = arith.select %is_own, %e, %expert_old : i32
    %row_new = arith.select %is_own, %row_own, %row_old : i32
    %rows_new = arith.select %is_own, %rows_own, %rows_old : i32
    scf.yield %expert_new, %row_new, %rows_new, %end, %blocks_next : i32, i32, i32, i32, i32
  }
  %a_own = tile.subview %a dim 0 from %row size %rows : !view
  %c_own = tile.subview %c dim 0 from %row size %rows : !tile.view<[?, ?], TC>
  %all = tile.dim %a, 1 : !view
  %depth = tile.expr select(%rows > %c0, %all, %c0) : i32

  %no_sum = tile.constant 0.0 : !c
  %sum = scf.for %k = %c0 to %depth step %block_k iter_args(%sum_old = %no_sum) -> (!c) : i32 {
    %a_tile = tile.load %a_own[0, %k] : !view -> !a
    %sum_new = scf.if %transposed -> (!c) {
      %b_tile = tile.load %b[%expert, %n, %k] : !b_view -> !b_t
      %product = tile.dot %a_tile, %b_tile, %sum_old transpose_b : !a, !b_t -> !c
      scf.yield %product : !c
    } else {
      %b_tile = tile.load %b[%expert, %k, %n] : !b_view -> !b
      %product = tile.dot %a_tile, %b_tile, %sum_old : !a, !b -> !c
      scf.yield %product : !c
    }
    scf.yield %sum_new : !c
  }
  %rounded = tile.cast %sum : !c -> !tile.tile<[BLOCK_M, BLOCK_N], TC>
  tile.store %rounded, %c_own[0, %n] : !tile.tile<[BLOCK_M, BLOCK_N], TC>, !tile.view<[?, ?], TC>
}
