// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The row sums of a contrastive loss: lse[i] = log(sum over j of exp(scale * a_i . b_j)); logits are never stored.
//
//   a [B, M, D], b [B, N, D]  T       lse [B, M]  f32  result

!rows_view = !tile.view<[?, ?, D], T>
!lse_view = !tile.view<[?, ?], f32>
!a = !tile.tile<[BLOCK_M, D], T>
!b = !tile.tile<[BLOCK_N, D], T>
!s = !tile.tile<[BLOCK_M, BLOCK_N], f32>
!row = !tile.tile<[BLOCK_M], f32>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>

tile.kernel @contrastive_rows params(D: int, T: type in [f16, bf16], BLOCK_M: int = block(), BLOCK_N: int = block())
    require(dim(b, 0) == dim(a, 0), dim(lse, 0) == dim(a, 0), dim(lse, 1) == dim(a, 1), dim(b, 1) > 0)
    (%a: !rows_view, %b: !rows_view, %lse: !lse_view, %scale: f32)
    grid(%bm = ceildiv(dim(a, 1), BLOCK_M), %e = dim(a, 0)) {
  %c0 = arith.constant 0 : i32
  %block_m = tile.param BLOCK_M : i32
  %block_n = tile.param BLOCK_N : i32
  %m = arith.muli %bm, %block_m : i32
  %columns = tile.dim %b, 1 : !rows_view
  %log2e = arith.constant 1.4426950408889634 : f32
  %ln2 = arith.constant 0.6931471805599453 : f32
  %scale2 = arith.mulf %scale, %log2e : f32
  %scales = tile.full %scale2 : !s
  %least = arith.constant -3.0e+38 : f32
  %zero = arith.constant 0.0 : f32
  %no_max = tile.full %least : !row
  %no_sum = tile.full %zero : !row
  %a_tile = tile.load %a[%e, %m, 0] : !rows_view -> !a
  %outside = tile.constant minus_inf : !s
  %limits = tile.full %columns : !pos
  %max, %sum = scf.for %n = %c0 to %columns step %block_n
      iter_args(%max_old = %no_max, %sum_old = %no_sum) -> (!row, !row) : i32 {
    %b_tile = tile.load %b[%e, %n, 0] : !rows_view -> !b
    %dot = tile.dot %a_tile, %b_tile transpose_b : !a, !b -> !s
    %j = tile.iota %n dim 1 : !pos
    %inside = arith.cmpi slt, %j, %limits : !pos
    %scaled = arith.mulf %dot, %scales : !s
    %logits = tile.select %inside, %scaled, %outside : !keep, !s
    %block_max = tile.reduce max %logits dim 1 : !s -> !row
    %max_new = arith.maximumf %max_old, %block_max : !row
    %max_each = tile.expand %max_new dim 1 : !row -> !s
    %below = arith.subf %logits, %max_each : !s
    %e2 = math.exp2 %below : !s
    %block_sum = tile.reduce add %e2 dim 1 : !s -> !row
    %fall = arith.subf %max_old, %max_new : !row
    %factor = math.exp2 %fall : !row
    %kept = arith.mulf %sum_old, %factor : !row
    %sum_new = arith.addf %kept, %block_sum : !row
    scf.yield %max_new, %sum_new : !row, !row
  }
  %log = math.log2 %sum : !row
  %all = arith.addf %max, %log : !row
  %ln2s = tile.full %ln2 : !row
  %natural = arith.mulf %all, %ln2s : !row
  tile.store %natural, %lse[%e, %m] : !row, !lse_view
}
