// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The first launch of a backward of attention: what each row needs besides Q, K, V and dO. A program
// that links the kernel declares DV, T and BLOCK_M (or binds it in the launch), PACKED and PAD for packed
// sequences, and CAPTURE_GRADIENTS and DETERMINISTIC if it sums the gradient of a sink; a kernel that
// links the function, DVP and ACC as well.

tile.link "attention.mlir"
tile.link "batch.mlir"
tile.link "softmax.mlir"

!v_view   = !tile.view<[?, ?, ?, DV], T>
!row_view = !tile.view<[?, ?, ?], ACC>
!cu_view  = !tile.view<[?], i32>
!o   = !tile.tile<[BLOCK_M, DVP], T>
!row = !tile.tile<[BLOCK_M], ACC>

func.func private @row_of_workspace(i32, !cu_view, i32) -> (i32, i32, i32)
func.func private @part_of_values(!v_view, i32, i32) -> !v_view
func.func private @part_of_sums(!row_view, i32, i32) -> !row_view

// delta = rowsum(dO * O) - dLSE, and LSE in base 2, of some rows of a head.
func.func private @delta_of_rows(%o_tile: !o, %do_tile: !o, %lse_row: !row, %dlse_row: !row, %h: i32)
    -> (!row, !row) {
  %o_acc = tile.cast %o_tile : !o -> !tile.tile<[BLOCK_M, DVP], ACC>
  %do_acc = tile.cast %do_tile : !o -> !tile.tile<[BLOCK_M, DVP], ACC>
  %product = arith.mulf %o_acc, %do_acc : !tile.tile<[BLOCK_M, DVP], ACC>
  %sum = tile.reduce add %product dim 1 : !tile.tile<[BLOCK_M, DVP], ACC> -> !row
  %delta = arith.subf %sum, %dlse_row : !row
  %lse_base2 = tile.map @base2_or_zero(%lse_row) : (!row) -> !row

  %dsink = tile.map @sink_adjoint(%h, %delta, %lse_base2) : (i32, !row, !row) -> !row
  %sums = tile.param and(CAPTURE_GRADIENTS, not(DETERMINISTIC)) : i1
  scf.if %sums {
    tile.add_gradients @sink(%h) seed %dsink : !row : (i32)
  }
  %exact_sums = tile.param and(CAPTURE_GRADIENTS, DETERMINISTIC) : i1
  scf.if %exact_sums {
    tile.add_gradients @sink(%h) seed %dsink : !row exact : (i32)
  }
  return %delta, %lse_base2 : !row, !row
}

// Of all rows; of packed sequences also of the rows behind each in a workspace, which get zeros.
tile.kernel @attention_backward_delta
    params(DV: int, T: type, BLOCK_M: int, PACKED: flag = false, PAD: int = BLOCK_M,
           DETERMINISTIC: flag = false, CAPTURE_GRADIENTS: flag = false,
           let DVP: int = ceildiv(DV, 8) * 8, let ACC: type = accumulator(T))
    (%o: !v_view, %do: !v_view, %lse: !row_view, %dlse: optional !row_view,
     %cu_seqlens_q: !cu_view when (PACKED), %delta: !row_view, %lse_base2: !row_view)
    grid(%bm = select(PACKED, floordiv(dim(delta, 2), BLOCK_M), ceildiv(dim(o, 2), BLOCK_M)),
         %h = dim(o, 1), %a = select(PACKED, 1, dim(o, 0))) {
  %block_m = tile.param BLOCK_M : i32
  %workspace_m = arith.muli %bm, %block_m : i32
  %all_queries = tile.dim %o, 2 : !v_view
  %m, %begin, %queries = func.call @row_of_workspace(%workspace_m, %cu_seqlens_q, %all_queries)
      : (i32, !cu_view, i32) -> (i32, i32, i32)
  %o_part = func.call @part_of_values(%o, %begin, %queries) : (!v_view, i32, i32) -> !v_view
  %do_part = func.call @part_of_values(%do, %begin, %queries) : (!v_view, i32, i32) -> !v_view
  %lse_part = func.call @part_of_sums(%lse, %begin, %queries) : (!row_view, i32, i32) -> !row_view
  %dlse_part = func.call @part_of_sums(%dlse, %begin, %queries) : (!row_view, i32, i32) -> !row_view

  %o_tile = tile.load %o_part[%a, %h, %m, 0] : !v_view -> !o
  %do_tile = tile.load %do_part[%a, %h, %m, 0] : !v_view -> !o
  %dlse_row = tile.load %dlse_part[%a, %h, %m] : !row_view -> !row
  %lse_row = tile.load %lse_part[%a, %h, %m] : !row_view -> !row
  %result, %base2_row = func.call @delta_of_rows(%o_tile, %do_tile, %lse_row, %dlse_row, %h)
      : (!o, !o, !row, !row, i32) -> (!row, !row)
  tile.store %result, %delta[%a, %h, %workspace_m] : !row, !row_view
  tile.store %base2_row, %lse_base2[%a, %h, %workspace_m] : !row, !row_view
}
