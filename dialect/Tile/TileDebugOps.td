// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that help to find faults of a kernel while it runs.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEDEBUGOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEDEBUGOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_PrintOp : Tile_Op<"print", [MemoryEffects<[MemWrite]>]> {
  let summary = "write values to the standard error stream";
  let description = [{
    One line with the kernel, its grid ids, the text and scalars; tiles follow, one row of the last dimension a line.
    Instances that run at the same time write in any order, one line or tile at a time. The CPU device and the simulator
    do so; code for GPUs leaves it out, with a warning.

    Preconditions: none. Postconditions: none.

    Example: `tile.print "after block" %n, %m : i32, !tile.tile<[BLOCK_M], f32>`

    Errors:
    - within a function that is applied to elements
  }];
  let arguments = (ins StrAttr:$text, Variadic<Tile_TileOrScalar>:$values);
  let assemblyFormat = "$text ($values^ `:` type($values))? attr-dict";
  let extraClassDeclaration = [{
    /// Discardable, of tile-drop-debug: the names of the grid ids that the first values are.
    static llvm::StringRef getInstanceName() { return "instance"; }
  }];
}

def Tile_AssertOp : Tile_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "end the run with an error unless a condition holds";
  let description = [{
    The condition is an `i1`, or a tile of `i1` that must be true everywhere. The error has the message, the place in
    the source, the grid ids (on the simulator those of the thread block), and of a tile the first element that is
    false. The CPU device and the simulator check it; code for GPUs leaves it out, with a warning.

    Preconditions: none. Postconditions: the condition holds, where it is checked.

    Example: `tile.assert %sorted, "offsets must not decrease" : !tile.tile<[E], i1>`

    Errors:
    - a condition whose elements are not i1
    - within a function that is applied to elements
  }];
  let arguments = (ins Tile_TileOrScalar:$condition, StrAttr:$message);
  let assemblyFormat = "$condition `,` $message attr-dict `:` type($condition)";
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEDEBUGOPS_TD
