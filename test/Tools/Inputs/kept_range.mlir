// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The limits of the keys that some query attends, for each row of numbers.

tile.link "attention.mlir"

!v = !tile.view<[?, ?], i32>

func.func private @attends(i32, i32, i32, i32, i32, i32, i32) -> i1

tile.kernel @limits
    params(ACC: type, CAUSAL: enum in ["none", "top_left", "bottom_right"], WINDOW: flag)
    (%cases: !v, %limits: !v) grid(%g = dim(cases, 0)) {
  %lower = tile.at %cases[%g, 0] : !v
  %keys = tile.at %cases[%g, 1] : !v
  %m = tile.at %cases[%g, 2] : !v
  %m_end = tile.at %cases[%g, 3] : !v
  %shift = tile.at %cases[%g, 4] : !v
  %left = tile.at %cases[%g, 5] : !v
  %right = tile.at %cases[%g, 6] : !v
  %first, %end = tile.kept_range in (%lower to %keys) against (%m to %m_end)
      where @attends(%g, %g, against, block, %shift, %left, %right : i32, i32, i32, i32, i32)
  // From a constant bound.
  %c0 = arith.constant 0 : i32
  %first_0, %end_0 = tile.kept_range in (%c0 to %keys) against (%m to %m_end)
      where @attends(%g, %g, against, block, %shift, %left, %right : i32, i32, i32, i32, i32)
  %a = tile.full %first : tensor<1x1xi32>
  tile.store %a, %limits[%g, 0] : tensor<1x1xi32>, !v
  %b = tile.full %end : tensor<1x1xi32>
  tile.store %b, %limits[%g, 1] : tensor<1x1xi32>, !v
  %c = tile.full %first_0 : tensor<1x1xi32>
  tile.store %c, %limits[%g, 2] : tensor<1x1xi32>, !v
  %d = tile.full %end_0 : tensor<1x1xi32>
  tile.store %d, %limits[%g, 3] : tensor<1x1xi32>, !v
}
