// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Document mask: several documents packed into one sequence do not see each other. Keeps the pairs
// of one document, document(b, i) == document(b, j). Add CAUSAL = top_left for a language model.
//
//   document   [B, S]   i32, the number of the document at each position; for Sq = Skv = S
//
// The mask depends on data, so no block can be ruled out from the positions alone.
//
// Link it to a kernel that has @mask_mod: tilewright-run --with kernels/mods/document.mlir

tile.capture @document : !tile.view<[?, ?], i32>

func.func private @mask_mod(%b: i32, %h: i32, %i: i32, %j: i32) -> i1 {
  %of_query = tile.at @document[%b, %i] : i32
  %of_key = tile.at @document[%b, %j] : i32
  %same = arith.cmpi eq, %of_query, %of_key : i32
  return %same : i1
}
