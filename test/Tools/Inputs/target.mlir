// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fills y with numbers that depend on the target.

tile.kernel @fill
    params(TARGET: enum in ["cpu", "sm_80"] = "cpu", BLOCK: int = select(TARGET == "cpu", 16, 64))
    (%y: !tile.view<[?], i32>) grid(%b = ceildiv(dim(y, 0), BLOCK)) {
  %block = tile.param BLOCK : i32
  %i = arith.muli %b, %block : i32
  %t = tile.full %block : !tile.tile<[BLOCK], i32>
  tile.store %t, %y[%i] : !tile.tile<[BLOCK], i32>, !tile.view<[?], i32>
}

tile.program @fill_twice params(TARGET: enum in ["sm_80", "cpu"] = "sm_80") (%y: !tile.view<[?], i32>) {
  tile.launch @fill(%y) : !tile.view<[?], i32>
}
