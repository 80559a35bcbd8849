// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Type constraints shared by the operations of the `tile` dialect.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEOPBASE_TD
#define TILEWRIGHT_DIALECT_TILE_TILEOPBASE_TD

include "dialect/Tile/TileTypes.td"
include "dialect/Tile/TileAttrs.td"
include "mlir/IR/OpAsmInterface.td"
include "mlir/IR/SymbolInterfaces.td"
include "mlir/Interfaces/SideEffectInterfaces.td"
include "mlir/Interfaces/LoopLikeInterface.td"

class Tile_Op<string mnemonic, list<Trait> traits = []> : Op<Tile_Dialect, mnemonic, traits>;

/// A tile in either form: symbolic, or a ranked tensor of static shape.
def Tile_AnyTile : Type<CPred<"::tilewright::tile::isTile($_self)">, "a tile">;
def Tile_Scalar : Type<CPred<"::tilewright::tile::isElementType($_self)">,
    "a scalar (float, i1, i32, i64 or a type parameter)">;
def Tile_TileOrScalar : AnyTypeOf<[Tile_AnyTile, Tile_Scalar], "a tile or a scalar">;
def Tile_AnyView : Type<CPred<"::llvm::isa<::tilewright::tile::ViewType>($_self)">, "a view">;

#endif // TILEWRIGHT_DIALECT_TILE_TILEOPBASE_TD
