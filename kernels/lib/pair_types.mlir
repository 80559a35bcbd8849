// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The types of backwards (lib/pairs.mlir). An instance owns OWN rows, keys or queries, and visits OTHER rows.

tile.link "types.mlir"

// Arrays: gradients, and their sums.
!dqk_view = !tile.view<[?, ?, ?, D], TO>
!dv_view = !tile.view<[?, ?, ?, DV], TO>
!sum_view = !tile.view<[?, ?, ?, D], ACC>
!found_view = !tile.view<[?], i32>

// Tiles of pairs.
!pair = !tile.tile<[OWN, OTHER], ACC>
!weight = !tile.tile<[OWN, OTHER], T>
!held = !tile.tile<[OWN, OTHER], HELD>
!pair_keep = !tile.tile<[OWN, OTHER], i1>
!pair_pos = !tile.tile<[OWN, OTHER], i32>

// Tiles of rows that an instance owns, and of others, with the widths of keys and values.
!own_k = !tile.tile<[OWN, DP], T>
!own_v = !tile.tile<[OWN, DVP], T>
!other_k = !tile.tile<[OTHER, DP], T>
!other_v = !tile.tile<[OTHER, DVP], T>
!own_dk = !tile.tile<[OWN, DP], TO>
!own_dv = !tile.tile<[OWN, DVP], TO>
!other_dk = !tile.tile<[OTHER, DP], TO>
!sum_k = !tile.tile<[OWN, DP], ACC>
!sum_v = !tile.tile<[OWN, DVP], ACC>
!other_sum = !tile.tile<[OTHER, DP], ACC>
!own_row = !tile.tile<[OWN], ACC>
!other_row = !tile.tile<[OTHER], ACC>
!own_numbers = !tile.tile<[OWN], i32>
!own_numbers_in_one = !tile.tile<[1, OWN], i32>
