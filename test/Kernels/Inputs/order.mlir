// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// @order_blocks alone, beside a copy of kernels/lib.

tile.link "lib/batch.mlir"
tile.link "lib/pairs.mlir"

!cu_view  = !tile.view<[?], i32>
!key_view = !tile.view<[?, ?, ?, D], T>

func.func private @block_of_sequence(i32, i32, !cu_view, i32) -> (i32, i32, i32, i32)
func.func private @rows_of(i32, !cu_view, i32) -> (i32, i32)

tile.program @order
    params(D: int = 8, T: type = f32, PACKED: flag = true, BLOCK_N: int)
    (%k: !key_view, %cu_seqlens_k: !cu_view when (PACKED), %order: !cu_view) {
  tile.launch @order_blocks(%k, %cu_seqlens_k, %order) : !key_view, !cu_view, !cu_view
}
