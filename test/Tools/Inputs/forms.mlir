// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A program whose launches, workspaces and constraints depend on the target.

!v = !tile.view<[?], f32>
tile.program @p params(SIZE: int = 4, TARGET: enum in ["cpu", "sm_80", "sm_90a"] = "cpu")
    require(dim(x, 0) >= 2, or(TARGET == "sm_90a", dim(x, 0) <= 100)) (%x: !v) {
  %scratch = tile.workspace [dim(x, 0)] : !v
  tile.launch @k(%scratch) when (TARGET == "sm_80") : !v
  tile.launch @k(%x) : !v
}
tile.kernel @k params(SIZE: int) (%x: !v) grid(%i = ceildiv(dim(x, 0), SIZE)) {
  %size = tile.param SIZE : i32
  %first = arith.muli %i, %size : i32
  %t = tile.load %x[%first] : !v -> !tile.tile<[SIZE], f32>
  tile.store %t, %x[%first] : !tile.tile<[SIZE], f32>, !v
}
