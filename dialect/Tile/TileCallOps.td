// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Programs that are parts of other programs.

#ifndef TILEWRIGHT_DIALECT_TILE_TILECALLOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILECALLOPS_TD

include "dialect/Tile/TileOpBase.td"

def Tile_CallOp : Tile_Op<"call", [
    HasParent<"ProgramOp">, DeclareOpInterfaceMethods<SymbolUserOpInterface>]> {
  let summary = "a program as a part of another";
  let description = [{
    Stands for the workspaces, launches and constraints of the program that it calls (tile-inline-programs). So a
    library can own workspaces and launches, not only kernels.

    Arguments are passed by name. An argument of the callee that the call does not name gets the caller's argument of
    that name. If there is none, and the callee's is a view that is `optional` or has a condition, the argument is
    absent: its extents are 0, and constraints that mention it hold.

    The value of a parameter of the callee is the first of these: that of the `with` clause, that of the caller's
    parameter of the same name. Without either the parameter becomes one of the caller, with its default, and programs
    that run the caller can bind it.

    Results are the views that the callee returns (`tile.return`).

    Preconditions: those of the callee.

    Postconditions: those of the callee. A program that others call is no longer in the module.

    Example: `%delta = tile.call @rows(given = %o) with (BLOCK_M = 64) : !o_view -> !row_view`

    Errors:
    - a callee that is not a program of the module
    - an argument that the callee does not have, that is passed twice, or that has another rank, kind or element type
    - an argument without a value, if the callee requires it; one that may be absent for one that may not
    - a number or a type of results that differs from what the callee returns
    - a `with` clause that names no parameter of the callee, a derived one, or one that a type in the callee reads
    - an expression that names no parameter of the caller
    - what tile-inline-programs lists
  }];
  let arguments = (ins
    FlatSymbolRefAttr:$program,
    Variadic<AnyType>:$args,
    ArrayAttr:$arg_names,
    ArrayAttr:$with_names,
    ArrayAttr:$with_values);
  let results = (outs Variadic<Tile_AnyView>:$views);
  let assemblyFormat = [{
    $program `(` custom<CallArguments>($args, $arg_names) `)` custom<WithClause>($with_names, $with_values) attr-dict
    `` custom<ArgumentTypes>(ref($args), type($args)) (`->` type($views)^)?
  }];
  let hasVerifier = 1;
  let extraClassDeclaration = [{
    /// The value for each argument of the callee, null for one that is absent. An error is emitted
    /// if one has none, or another type.
    ::mlir::FailureOr<::llvm::SmallVector<::mlir::Value>> matchArguments(ProgramOp callee);
  }];
}

def Tile_ReturnOp : Tile_Op<"return", [HasParent<"ProgramOp">]> {
  let summary = "the views that a program gives to its callers";
  let description = [{
    The last operation of a program that other programs call (`tile.call`). Such a program is no entry.

    Example: `tile.return %delta : !row_view`

    Errors:
    - a place other than the end of a program
  }];
  let arguments = (ins Variadic<Tile_AnyView>:$views);
  let assemblyFormat = "$views attr-dict `:` type($views)";
}

#endif // TILEWRIGHT_DIALECT_TILE_TILECALLOPS_TD
