// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Statements whose operands are formulas. tile-link replaces them by the operations that they stand for.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEFORMOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEFORMOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_BranchOp : Tile_Op<"if", [NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "a branch whose condition is a formula";
  let description = [{
    Stands for the operations of its condition and `scf.if` (tile-link). The regions end with `tile.yield`, whose
    operands may be formulas, too. The condition is often a flag among the parameters: then only one of the regions is
    compiled.

    Preconditions, postconditions: those of `scf.if`.

    Examples:
    ```mlir
    tile.if FACTORS {
      tile.store 1, %factors[%b, %h, %m] : !tile.tile<[M], T>
    }
    %end = tile.if and(%own, PAGE_ROWS > 0) -> (i32) {
      tile.yield %first + 1 : i32
    } else {
      tile.yield 0 : i32
    }
    ```

    Errors:
    - those of `tile.expr`
    - a condition of another type than i1
    - results without `else`, or of other types than those that a region yields
  }];
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$condition, SizedRegion<1>:$then_region, MaxSizedRegion<1>:$else_region);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

def Tile_LoopOp : Tile_Op<"for", [RecursiveMemoryEffects]> {
  let summary = "a loop whose bounds and first values are formulas";
  let description = [{
    Stands for the operations of its formulas and `scf.for` of i32 (tile-link), with the same attributes. The body ends
    with `tile.yield`, whose operands may be formulas, too. Without `step`, it is 1.

    Preconditions, postconditions: those of `scf.for`.

    Examples:
    ```mlir
    %sum = tile.for %k in (0 to dim(%a, 1)) step BLOCK_K iter_args(%old = 0 : !tile.tile<[M, N], f32>) {
      tile.yield dot(load %a[%m, %k] : !tile.tile<[M, K], T>, load %b[%k, %n] : !tile.tile<[K, N], T>, %old)
    } {tile.combine = @add}
    ```

    Errors:
    - those of `tile.expr`
    - a number or type of initial, yielded and result values that differ
  }];
  let results = (outs Variadic<AnyType>:$results);
  let regions = (region SizedRegion<1>:$bounds, SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The lower and the upper bound, the step, and the initial values.
    ::mlir::ValueRange getFormulas();
  }];
}

def Tile_StoreFormOp : Tile_Op<"store_form", [SingleBlock, NoRegionArguments, RecursiveMemoryEffects]> {
  let summary = "a tile.store whose tile or indices are formulas";
  let description = [{
    What `tile.store` is read as if its tile or an index is not a value but a formula. It stands for the operations of
    the formulas and the store (tile-link), and is printed as it was written, as `tile.store`.

    Preconditions, postconditions: those of `tile.store`.

    Example: `tile.store cast(%sum * full(%scale)), %out[%b, 2 * %h, %row, 0] : !tile.tile<[M, D], T>`

    Errors: those of `tile.expr` and `tile.store`
  }];
  let regions = (region SizedRegion<1>:$body);
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    StoreOp getStore();
    static ::mlir::OperationName::PrintAssemblyFn getPrintAssemblyFn();
  }];
}

def Tile_FunctionOp : Tile_Op<"function"> {
  let summary = "a private function, which may be a formula";
  let description = [{
    `tile.function @f(%x, %y: type, ...) -> type = formula` is read as a `func.func private` that ends with the formula
    as its `tile.result`, and is printed as that. Neighboring arguments may share a type. Attributes stand before the
    formula. A function of several results has as many formulas, or one call. The formulas need no types: they are those
    of the results. A function of several statements has a body in braces instead.

    Preconditions, postconditions: those of the operations.

    Examples:
    ```mlir
    tile.function @reciprocal_or_zero(%x: f32) -> f32 = select(%x == 0, 0, 1 / %x)
    tile.function @sink(%h: i32) -> f32 attributes {tile.replaceable} = minus_inf
    tile.function @both(%x, %n: i32) -> (i32, i32) = %x / %n, mod(%x, %n)
    tile.function @rounded(%x, %n: i32) -> i32 {
      %blocks = tile.expr ceildiv(%x, %n)
      tile.result %blocks * %n : i32
    }
    ```

    Errors:
    - those of `tile.result`
    - in a formula, a value that is not an argument of the function
    - two arguments of one name, or one without a type
  }];
  let hasCustomAssemblyFormat = 1;
  let hasVerifier = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEFORMOPS_TD
