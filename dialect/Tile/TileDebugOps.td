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
    With `limit`, only that many elements of each tile are written, the first ones in row-major order. Instances that
    run at the same time write in any order, one line or tile at a time. The CPU device and the simulator do so.

    Code for a GPU has the operation if it is compiled with `--debug-ops`; otherwise it leaves it out, with a warning.
    It writes to the standard output stream by CUDA's printf, when the host next synchronizes: the line of scalars
    once, and a line for each element of a tile, in any order, with its position, and with the number of the value if
    the operation has several.

    Preconditions: none. Postconditions: none.

    Examples:
    ```mlir
    tile.print "after block" %n, %m : i32, !tile.tile<[BLOCK_M], f32>
    tile.print "scores" %s limit 8 : !tile.tile<[BLOCK_M, BLOCK_N], f32>
    ```

    Errors:
    - a limit less than 1
    - within a function that is applied to elements
  }];
  let arguments = (ins StrAttr:$text, Variadic<Tile_TileOrScalar>:$values, OptionalAttr<I64Attr>:$limit);
  let assemblyFormat = [{
    $text `` custom<PrintValues>($values) (`limit` $limit^)? (`:` type($values)^)? attr-dict
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Discardable, of tile-drop-debug: the names of the grid ids that the first values are.
    static llvm::StringRef getInstanceName() { return "instance"; }
    /// The names of the ids among the values; empty before tile-drop-debug.
    ::llvm::SmallVector<llvm::StringRef> getInstanceNames();
    /// How many elements of a tile of that many are written.
    int64_t getLimitFor(int64_t count);
  }];
}

def Tile_AssertOp : Tile_Op<"assert", [MemoryEffects<[MemWrite]>]> {
  let summary = "end the run with an error unless a condition holds";
  let description = [{
    The condition is an `i1`, or a tile of `i1` that must be true everywhere. The error has the message, the place in
    the source, the grid ids (on the simulator those of the thread block), and of a tile the first element that is
    false. The CPU device and the simulator check it.

    Code for a GPU checks it if it is compiled with `--debug-ops`; otherwise it leaves it out, with a warning. There
    each thread that has elements that are false writes the message with the position of the first of them to the
    standard output stream, then CUDA's line about a failed assertion appears on the standard error stream, and the
    kernel ends with CUDA_ERROR_ASSERT, after which the process cannot use the GPU any more.

    Preconditions: none. Postconditions: the condition holds, where it is checked.

    Example: `tile.assert %sorted, "offsets must not decrease" : !tile.tile<[E], i1>`

    Errors:
    - a condition whose elements are not i1
    - within a function that is applied to elements
  }];
  let arguments = (ins Tile_TileOrScalar:$condition, StrAttr:$message, Variadic<I32>:$instance);
  let assemblyFormat = "$condition `,` $message (`at` `(` $instance^ `)`)? attr-dict `:` type($condition)";
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// Discardable, of tile-drop-debug: "FILE:LINE".
    static llvm::StringRef getPlaceName() { return "place"; }
  }];
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEDEBUGOPS_TD
