// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The types of attention: what kernels of attention, and the files that they link, call !q, !k and so on. A file that
// defines a name itself has its own type.
//
// B, H, S, D and DV are batch, heads, rows and the widths of a query and of a value; a tile has BLOCK_M queries or
// BLOCK_N keys, and the padded widths DP and DVP.

!acc = !tile.param<ACC>

// Arrays: [B, H, S, D] and [B, H, S, DV], a number for each row, the first rows of packed sequences or their lengths,
// tables of pages, factors by sequence and head, lists of blocks and their lengths.
!qk_view = !tile.view<[?, ?, ?, D], T>
!v_view = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!cu_view = !tile.view<[?], i32>
!lengths = !tile.view<[?], i32>
!table = !tile.view<[?, ?], i32>
!factors = !tile.view<[?, ?], f32>
!list_view = !tile.view<[?, ?, ?, ?], i32>
!count_view = !tile.view<[?, ?, ?], i32>

// Tiles: operands, scores, P, the pairs that are kept and their positions, O, O as it is stored, a number for each row.
!q = !tile.tile<[BLOCK_M, DP], T>
!k = !tile.tile<[BLOCK_N, DP], T>
!v = !tile.tile<[BLOCK_N, DVP], T>
!s = !tile.tile<[BLOCK_M, BLOCK_N], ACC>
!p = !tile.tile<[BLOCK_M, BLOCK_N], T>
!keep = !tile.tile<[BLOCK_M, BLOCK_N], i1>
!pos = !tile.tile<[BLOCK_M, BLOCK_N], i32>
!o = !tile.tile<[BLOCK_M, DVP], ACC>
!o_t = !tile.tile<[BLOCK_M, DVP], T>
!row = !tile.tile<[BLOCK_M], ACC>
