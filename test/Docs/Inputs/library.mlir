// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the file is for.
// A second line.

!row = !tile.tile<[BLOCK_M], ACC>

func.func private @declared(i32, !row,
                            i32) -> i32

// What it does.
func.func private @first(%x: !row,
                         %flag: i1) -> !row attributes {tile.replaceable = "compose"} {
  %causal = tile.param CAUSAL == "NOT_A_NAME" : i1 // NOR_THIS
  %scale = func.call @silent() : () -> i32
  return %x : !row
}

func.func private @silent() -> i32 attributes {tile.replaceable} {
  %scale = tile.param SCALE : i32
  return %scale : i32
}

// A kernel, whose parameters are its own.
tile.kernel @own params(D: int, let ACC: type = accumulator(T), T: type) (%x: !tile.view<[D], T>) grid(%i = 1) {
  %scale = func.call @silent() : () -> i32
}
