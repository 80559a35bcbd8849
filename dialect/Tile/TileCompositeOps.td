// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operations that tile-expand-composites replaces by others once parameters are bound. All are pure.

#ifndef TILEWRIGHT_DIALECT_TILE_TILECOMPOSITEOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILECOMPOSITEOPS_TD

include "dialect/Tile/TileOpBase.td"

class Tile_ExtremumOp<string mnemonic> : Tile_Op<mnemonic, [Pure]> {
  let arguments = (ins Tile_AnyTile:$source, I64Attr:$dim);
  let results = (outs Tile_AnyTile:$value, Tile_AnyTile:$index);
  let assemblyFormat = [{
    $source `dim` custom<Int>($dim) attr-dict `:`
    custom<ExtremumTypes>(type($source), type($value), type($index), ref($dim))
  }];
  let hasVerifier = 1;
}

def Tile_ArgMaxOp : Tile_ExtremumOp<"argmax"> {
  let summary = "the greatest elements along one dimension, and where they are";
  let description = [{
    The first result is that of `tile.reduce max`, the second the positions, i32, of these elements along `dim`: of
    equal elements the first. NaN is the greatest of all.

    The types of the results follow from the operand's and may be left out.

    Preconditions: none. Postconditions: the dimension is gone. A position is at least zero and less than the extent.

    Example: `%score, %expert = tile.argmax %scores dim 1 : !tile.tile<[M, E], f32>`

    Errors:
    - a dimension beyond the rank
    - results that are not the operand without that dimension, with its elements and with i32
    - elements of i1
  }];
}

def Tile_ArgMinOp : Tile_ExtremumOp<"argmin"> {
  let summary = "the least elements along one dimension, and where they are";
  let description = [{
    As `tile.argmax`, with `tile.reduce min`: of equal elements the first. NaN is the least of all.

    Preconditions: none. Postconditions: the dimension is gone. A position is at least zero and less than the extent.

    Example: `%cost, %at = tile.argmin %costs dim 0 : !tile.tile<[N], f32>`

    Errors: those of `tile.argmax`
  }];
}

def Tile_TopKOp : Tile_Op<"top_k", [Pure]> {
  let summary = "the K greatest elements along one dimension in order, and where they are";
  let description = [{
    K is the extent of the result along `dim`. The first result holds the elements from the greatest to the least, or
    with `smallest` from the least to the greatest; the second their positions, i32, along `dim`. Of equal elements the
    first comes first. NaN comes before all others, as in `tile.argmax` and `tile.argmin`.

    It takes K rounds of two reductions: for small K.

    Preconditions: none. Postconditions: the positions of a row differ from each other.

    Example:
    ```mlir
    %weights, %experts = tile.top_k %scores dim 1
        : !tile.tile<[M, E], f32> -> !tile.tile<[M, K], f32>
    ```

    Errors:
    - a dimension beyond the rank
    - a result whose rank, other dimensions or elements differ from the operand's
    - positions that are not i32, or of another shape than the elements
    - K that is more than the extent of the operand, once both are known
    - elements of i1
  }];
  let arguments = (ins Tile_AnyTile:$source, I64Attr:$dim, UnitAttr:$smallest);
  let results = (outs Tile_AnyTile:$values, Tile_AnyTile:$indices);
  let assemblyFormat = [{
    $source `dim` custom<Int>($dim) (`smallest` $smallest^)? attr-dict `:` type($source) `->`
    custom<ValuesAndIndices>(type($values), type($indices))
  }];
  let hasVerifier = 1;
}

def Tile_ConcatOp : Tile_Op<"concat", [Pure]> {
  let summary = "tiles one after another along one dimension";
  let description = [{
    Preconditions: the extents of the operands along `dim` add up to that of the result once parameters are bound.

    Postconditions: the elements of the first operand come first.

    On a GPU, each operand goes through shared memory.

    Example:
    ```mlir
    %x = tile.concat %left, %right dim 1
        : !tile.tile<[M, D], T>, !tile.tile<[M, D], T> -> !tile.tile<[M, D2], T>
    ```

    Errors:
    - no operand
    - a dimension beyond the rank
    - an operand whose rank, other dimensions or elements differ from the result's
    - extents that do not add up to the result's (checked where all are integers)
  }];
  let arguments = (ins Variadic<Tile_AnyTile>:$sources, I64Attr:$dim);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = "$sources `dim` custom<Int>($dim) attr-dict `:` type($sources) `->` type($result)";
  let hasVerifier = 1;
}

def Tile_InsertOp : Tile_Op<"insert", [Pure, AllTypesMatch<["into", "result"]>]> {
  let summary = "a tile with a part along one dimension replaced: the converse of tile.slice";
  let description = [{
    Element (.., i, ..) of the result is element (.., i - `offset`, ..) of `part`, where i is the position along `dim`,
    or that of `into` where `part` has no such element. Elements of `part` that lie beyond the result are dropped.

    On a GPU, the part goes through shared memory.

    Preconditions: none; the offset is any number, known when the kernel runs.

    Postconditions: none.

    Example:
    ```mlir
    %x = tile.insert %row into %rows dim 0 from %i : !tile.tile<[1, N], T> -> !tile.tile<[M, N], T>
    ```

    Errors:
    - a dimension beyond the rank
    - a part whose rank, other dimensions or elements differ from the result's
  }];
  let arguments = (ins Tile_AnyTile:$part, Tile_AnyTile:$into, I64Attr:$dim, I32:$offset);
  let results = (outs Tile_AnyTile:$result);
  let assemblyFormat = [{
    $part `into` $into `dim` custom<Int>($dim) `from` $offset attr-dict `:` type($part) `->` type($result)
  }];
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILECOMPOSITEOPS_TD
