// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Attributes and enumerations of the `tile` dialect.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEATTRS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEATTRS_TD

include "mlir/IR/EnumAttr.td"
include "dialect/Tile/TileDialect.td"

class Tile_Attr<string name, string attrMnemonic, list<Trait> traits = []>
    : AttrDef<Tile_Dialect, name, traits> {
  let mnemonic = attrMnemonic;
}

class Tile_Enum<string name, string summary, list<I32EnumAttrCase> cases>
    : I32EnumAttr<name, summary, cases> {
  let cppNamespace = "::tilewright::tile";
  let genSpecializedAttr = 0;
}

def Tile_ReduceKind : Tile_Enum<"ReduceKind", "how elements are combined", [
    I32EnumAttrCase<"Add", 0, "add">, I32EnumAttrCase<"Mul", 1, "mul">,
    I32EnumAttrCase<"Max", 2, "max">, I32EnumAttrCase<"Min", 3, "min">,
    I32EnumAttrCase<"And", 4, "and">, I32EnumAttrCase<"Or", 5, "or">]>;
def Tile_ReduceKindAttr : EnumAttr<Tile_Dialect, Tile_ReduceKind, "reduce_kind">;

def Tile_DotPrecision : Tile_Enum<"DotPrecision", "how operands of a product are rounded", [
    I32EnumAttrCase<"IEEE", 0, "ieee">, I32EnumAttrCase<"TF32", 1, "tf32">]>;
def Tile_DotPrecisionAttr : EnumAttr<Tile_Dialect, Tile_DotPrecision, "dot_precision">;

def Tile_BlockOrder : Tile_Enum<"BlockOrder", "order in which a block loop visits", [
    I32EnumAttrCase<"Ascending", 0, "ascending">,
    I32EnumAttrCase<"Descending", 1, "descending">]>;
def Tile_BlockOrderAttr : EnumAttr<Tile_Dialect, Tile_BlockOrder, "block_order">;

def Tile_ParamKind : Tile_Enum<"ParamKind", "what a parameter ranges over", [
    I32EnumAttrCase<"Int", 0, "int">, I32EnumAttrCase<"Flag", 1, "flag">,
    I32EnumAttrCase<"Enum", 2, "enum">, I32EnumAttrCase<"Type", 3, "type">]>;

def Tile_ExprKind : Tile_Enum<"ExprKind", "node of an expression", [
    I32EnumAttrCase<"Int", 0, "int">, I32EnumAttrCase<"Flag", 1, "flag">,
    I32EnumAttrCase<"Enum", 2, "enum">, I32EnumAttrCase<"Type", 3, "type">,
    I32EnumAttrCase<"Name", 4, "name">, I32EnumAttrCase<"Dim", 5, "dim">,
    I32EnumAttrCase<"Call", 6, "call">, I32EnumAttrCase<"Float", 7, "float">]>;

def Tile_ExprAttr : Tile_Attr<"Expr", "expr"> {
  let summary = "an expression over parameters, argument shapes and scalar arguments";
  let description = [{
    Used for defaults and constraints of parameters, for grids, workspace extents and the conditions of launches.
    Written with infix `+ - * < <= > >= ==`, parentheses, and the functions `ceildiv floordiv mod min max and or not
    select eq ne lt le gt ge finite`, `dim(argument, position)`, `sm_count()` (multiprocessors of the device; cores on
    the CPU), `block()` (only as the default of an integer parameter: tile-choose-blocks takes the extent from a table),
    `block_in(n)` (likewise, but a divisor of n; any number if n is 0), `accumulator(T)` (f64 for f64, else f32),
    `bits(T)` and, in constraints and defaults, `replaced("mask_mod")` (whether a linked file replaces the function;
    `replaced("score_mod.unbounded")`: by one with the attribute `tile.unbounded`). tile-bind-target replaces
    `on_gpu()`, `has_roles()`, `multiprocessors()`, `padded(width)` and `padded_for("use", width, beside, T)`, and
    tile-combine-sums `adds_in_order()` (in programs: whether `tile.contribute` can add in order). A bare name is a
    parameter or a scalar argument; a quoted string is a value of an enum parameter; `f16`, `bf16`, `f32`, `f64`,
    `e4m3`, `e5m2` and `i8` are types. Values are 64-bit integers, flags, enum values or types. A constraint of
    a kernel or program may also read float arguments: it can compare them with integers and with each other, and test
    `finite(scale)`, which is false for NaN and infinities. Overflow and division by zero are errors when the expression
    is evaluated. Inside the angle brackets of the attribute itself comparisons are written as functions, `lt(a, b)`.

    Example: `#tile.expr<ceildiv(dim(q, 2), BLOCK_M)>`

    Errors:
    - an unknown function, or a wrong number of arguments to a known one
    - anything but an integer, a name, a string or a parenthesis where a value is expected
    - more than 64 levels of nesting, or more than 1024 of `+`, `-` and `*`
  }];
  let parameters = (ins
    "::tilewright::tile::ExprKind":$kind,
    "int64_t":$value,
    StringRefParameter<"name, enum value, type or function">:$name,
    ArrayRefParameter<"::tilewright::tile::ExprAttr">:$operands);
  let hasCustomAssemblyFormat = 1;
  let extraClassDeclaration = [{
    static ExprAttr getInt(::mlir::MLIRContext *ctx, int64_t value);
    static ExprAttr getFlag(::mlir::MLIRContext *ctx, bool value);
    static ExprAttr getEnum(::mlir::MLIRContext *ctx, llvm::StringRef value);
    static ExprAttr getType(::mlir::MLIRContext *ctx, llvm::StringRef value);
    static ExprAttr getName(::mlir::MLIRContext *ctx, llvm::StringRef name);
    /// The value of a float argument; has no spelling in a file.
    static ExprAttr getFloat(::mlir::MLIRContext *ctx, double value);
    /// Of an integer or a float.
    double getNumber() const;
    /// True for a literal: nothing is left to bind.
    bool isConstant() const {
      return getKind() <= ExprKind::Type || getKind() == ExprKind::Float;
    }
  }];
}

def Tile_ParamDeclAttr : Tile_Attr<"ParamDecl", "param_decl"> {
  let summary = "declaration of a parameter";
  let description = [{
    Name, kind, allowed values (empty: any) and default (null: must be bound). A parameter that is declared by `let` is
    derived: it always has the value of its expression, and cannot be bound.

    Example: `params(BLOCK_M: int in [64, 128] = 128, T: type, let ACC: type = accumulator(T))`

    Errors:
    - a name that is a literal or a type (`true`, `f32`, `i8`, ...)
    - an unknown kind
    - an enum without a list of values
    - a derived parameter without a value
    - a default, or an allowed value, of another kind
    - an allowed value that is not a literal
    - a default that is not among the allowed values
  }];
  let parameters = (ins
    StringRefParameter<"name">:$name,
    "::tilewright::tile::ParamKind":$kind,
    ArrayRefParameter<"::tilewright::tile::ExprAttr", "allowed values">:$allowed,
    "::tilewright::tile::ExprAttr":$defaultValue,
    "bool":$derived);
  let hasCustomAssemblyFormat = 1;
}

#endif // TILEWRIGHT_DIALECT_TILE_TILEATTRS_TD
