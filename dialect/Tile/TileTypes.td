// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types of the `tile` dialect.

#ifndef TILEWRIGHT_DIALECT_TILE_TILETYPES_TD
#define TILEWRIGHT_DIALECT_TILE_TILETYPES_TD

include "mlir/IR/BuiltinTypeInterfaces.td"
include "mlir/IR/BuiltinTypes.td"
include "dialect/Tile/TileDialect.td"

class Tile_Type<string name, string typeMnemonic, list<Trait> traits = []>
    : TypeDef<Tile_Dialect, name, traits> {
  let mnemonic = typeMnemonic;
}

def Tile_ParamType : Tile_Type<"Param", "param", [
    DeclareTypeInterfaceMethods<FloatTypeInterface,
        ["getFloatSemantics", "scaleElementBitwidth"]>]> {
  let summary = "the floating-point type that a parameter of kind `type` will be bound to";
  let description = [{
    Stands for a floating-point type until the parameter is bound, so that `arith` and `math`
    accept it. Literals of this type keep the precision of f64 and are rounded when the type is
    bound. Inside `!tile.tile` and `!tile.view` it is written as the bare name.

    Example: `!tile.param<T>`

    Errors:
    - a name that is a literal or a type (`true`, `f32`, `i8`, ...)
  }];
  let parameters = (ins StringRefParameter<"name of the parameter">:$name);
  let assemblyFormat = "`<` custom<ParamName>($name) `>`";
  let genVerifyDecl = 1;
}

def Tile_TileType : Tile_Type<"Tile", "tile", [ShapedTypeInterface, ValueSemantics]> {
  let summary = "a dense value of any rank whose dimensions may name parameters";
  let description = [{
    A dimension is a positive integer or the name of an integer parameter; the element type is
    a float, `i1`, `i32` or `i64`, or the name of a parameter of kind `type`.
    Binding replaces it with a builtin ranked tensor of static shape.

    Example: `!tile.tile<[BLOCK_M, 64], T>`

    Errors:
    - a dimension below 1 or above 2147483647
    - an element type that is none of the above
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t", "extents; dynamic where a name is given">:$shape,
    ArrayRefParameter<"::mlir::StringAttr", "names; null where an extent is given">:$symbols,
    "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    bool hasRank() const { return true; }
    TileType cloneWith(std::optional<llvm::ArrayRef<int64_t>> shape,
                       ::mlir::Type elementType) const;
  }];
}

def Tile_ViewType : Tile_Type<"View", "view"> {
  let summary = "pointer, shape and strides (64-bit, in elements) of an array in memory";
  let description = [{
    A dimension is `?` (known at launch), a positive integer or the name of an integer
    parameter; the last two are checked against the argument at launch. Strides are always
    dynamic. The extents bound what may be accessed, not the allocation.

    Example: `!tile.view<[?, ?, ?, D], T>`

    Errors:
    - a dimension below 1 or above 2147483647
    - an element type that is not a float, `i1`, `i32`, `i64` or the name of a parameter
  }];
  let parameters = (ins
    ArrayRefParameter<"int64_t", "extents; dynamic for `?` and names">:$shape,
    ArrayRefParameter<"::mlir::StringAttr", "names; null elsewhere">:$symbols,
    "::mlir::Type":$elementType);
  let hasCustomAssemblyFormat = 1;
  let genVerifyDecl = 1;
  let extraClassDeclaration = [{
    int64_t getRank() const { return getShape().size(); }
  }];
}

#endif // TILEWRIGHT_DIALECT_TILE_TILETYPES_TD
