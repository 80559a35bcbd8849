// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The tile dialect: types, attributes, operations, and the helpers that treat both forms of a tile
// (symbolic, and a ranked tensor once parameters are bound) alike.

#ifndef TILEWRIGHT_DIALECT_TILE_TILE_H
#define TILEWRIGHT_DIALECT_TILE_TILE_H

#include "dialect/Tile/Discardable.h"

#include "mlir/Bytecode/BytecodeOpInterface.h"
#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/BuiltinTypes.h"
#include "mlir/IR/Dialect.h"
#include "mlir/IR/OpDefinition.h"
#include "mlir/IR/OpImplementation.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/ControlFlowInterfaces.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <limits>
#include <optional>
#include <string>

#include "dialect/Tile/TileDialect.h.inc"
#include "dialect/Tile/TileEnums.h.inc"

#define GET_ATTRDEF_CLASSES
#include "dialect/Tile/TileAttrs.h.inc"
#define GET_TYPEDEF_CLASSES
#include "dialect/Tile/TileTypes.h.inc"

#define GET_OP_CLASSES
#include "dialect/Tile/TileOps.h.inc"

namespace tilewright::tile {

// All discardable attributes of the dialect:

/// Other files may replace the function. A value names the rule by which several replacements are
/// combined.
inline constexpr DiscardableAttr<mlir::Attribute, mlir::func::FuncOp> replaceableAttr{
    "tile.replaceable"};
inline constexpr llvm::StringLiteral kComposeRule = "compose", kAndRule = "and",
                                     kMultiplyRule = "multiply";
/// The function has no body. It is the one that the function of this name in its file replaces.
inline constexpr DiscardableAttr<mlir::FlatSymbolRefAttr, mlir::func::FuncOp> baseAttr{"tile.base"};
/// On a function of a linked file: its result may exceed a quarter of the greatest finite number.
/// replaced("score_mod.unbounded") asks whether one that replaces @score_mod is marked so.
inline constexpr UnitMark<mlir::func::FuncOp> unboundedAttr{"tile.unbounded"};
/// The loop is unrolled when parameters are bound.
inline constexpr UnitMark<mlir::scf::ForOp, LoopOp> unrollAttr{"tile.unroll"};
/// The function that merges the states of two parts of the loop's iterations.
inline constexpr DiscardableAttr<mlir::FlatSymbolRefAttr, mlir::scf::ForOp, LoopOp> combineAttr{
    "tile.combine"};
/// The capture's file promises that along the last dimension no element is less than the previous.
inline constexpr UnitMark<CaptureOp> ascendingAttr{"tile.ascending"};
/// If a constraint or default tests it: the functions that linked files have replaced.
inline constexpr DiscardableAttr<StringsAttr, mlir::ModuleOp> replacedAttr{"tile.replaced"};
/// On a module that a tool compiled: parameters and constraints of the entry before parameters were
/// bound, two lists, for diagnostics.
inline constexpr DiscardableAttr<mlir::ArrayAttr, mlir::ModuleOp> statedAttr{"tile.stated"};
/// On the result MustEnd of a function that tile-analyze-masks derives (passes/MaskRanges.h): the
/// numbers of the arguments whose sum is s, where the mask keeps exactly c <= r + s. So, clipped to
/// [lower, upper), may ends at against_end + s, and must at against_begin + 1 + s.
inline constexpr DiscardableAttr<I64sAttr> rowEdgeAttr{"tile.row_edge"};
/// On the same result: neither may nor must, unless it is empty, ends before upper.
inline constexpr UnitMark<> endsAtUpperAttr{"tile.ends_at_upper"};

/// One dimension of a tile or view: a name, an extent, or neither (`?` of a view).
struct Dim {
  int64_t extent = mlir::ShapedType::kDynamic;
  mlir::StringAttr symbol;

  bool isSymbol() const { return static_cast<bool>(symbol); }
  bool isUnknown() const { return !symbol && mlir::ShapedType::isDynamic(extent); }
  bool operator==(const Dim &other) const {
    return symbol == other.symbol && (symbol || extent == other.extent);
  }
  bool operator!=(const Dim &other) const { return !(*this == other); }
};

/// Whether the module lacks the symbol and links files (tile.link), where it may be found later.
bool mayBeLinked(mlir::Operation *user, mlir::FlatSymbolRefAttr symbol,
                 mlir::SymbolTableCollection &symbols);

/// The error in the path of a tile.link, independent of existing files: it must be relative, must
/// not leave the folder, and must end with .mlir.
std::optional<std::string> findLinkFault(llvm::StringRef file);

/// A float, i1, i32, i64 or a type parameter.
bool isElementType(mlir::Type type);
/// Extents and indices are i32.
constexpr int64_t kMaxExtent = std::numeric_limits<int32_t>::max();
/// A `!tile.tile`, or a ranked tensor of static, positive extents with such elements.
bool isTile(mlir::Type type);

/// Dimensions of a tile (either form) or a view.
llvm::SmallVector<Dim> getDims(mlir::Type type);
/// Element type of a tile (either form) or a view; the type itself for a scalar.
mlir::Type getElementType(mlir::Type type);
int64_t getRank(mlir::Type type);
/// A tile of the given dimensions, in the form of `like` unless a name forces the symbolic form.
mlir::Type makeTile(mlir::MLIRContext *context, llvm::ArrayRef<Dim> dims, mlir::Type elementType,
                    bool symbolicForm);
/// "[BLOCK_M, 64]", for diagnostics.
std::string printDims(llvm::ArrayRef<Dim> dims);

/// The type in which products of `type` accumulate (f64 for f64, else f32); null while `type` is a
/// parameter, since then only binding can tell.
mlir::Type getAccumulatorType(mlir::Type type);

/// Whether types are equal, or one is a parameter and the other a float, or both are parameters, as
/// far as that is known before parameters are bound.
bool mayBecomeEqual(mlir::Type a, mlir::Type b);

/// The rules of an access of \p tileType at indices of \p viewType along \p dims (or the last
/// dimensions): numbers of indices and dimensions, ranks, element types.
mlir::LogicalResult verifyAccess(mlir::Operation *op, mlir::Type viewType,
                                 mlir::OperandRange indices, llvm::ArrayRef<int64_t> staticIndices,
                                 mlir::Type tileType, std::optional<llvm::ArrayRef<int64_t>> dims);
/// The rules of a counter in memory that orders additions.
mlir::LogicalResult verifyTurn(mlir::Operation *op, mlir::Type turnsType,
                               mlir::OperandRange indices,
                               std::optional<llvm::ArrayRef<int64_t>> staticIndices);

/// The declaration of a kernel or program, independent of the op.
struct Signature {
  explicit Signature(mlir::Operation *kernelOrProgram);
  /// For an operation of another dialect with the same declaration, without parameters.
  Signature(mlir::Operation *op, mlir::ArrayAttr constraints, mlir::ArrayAttr argNames,
            llvm::ArrayRef<bool> argOptional, mlir::DictionaryAttr argDefaults, mlir::Block *body);
  mlir::Operation *op;
  mlir::ArrayAttr params, constraints, argNames;
  llvm::ArrayRef<bool> argOptional;
  mlir::DictionaryAttr argDefaults; ///< of scalars, by name; may be null
  /// For arguments with `when`, by name: expressions over parameters, or `false` after binding if
  /// the argument does not exist. May be null.
  mlir::DictionaryAttr argConditions;
  mlir::Block *body;

  ParamDeclAttr findParam(llvm::StringRef name) const;
  /// Position of an argument, or -1.
  int findArg(llvm::StringRef name) const;
  /// The value of an omitted scalar: an integer (i1 or i64), a float (f64), or null if it is
  /// required.
  mlir::Attribute getArgDefault(llvm::StringRef name) const;
  /// The condition of an argument; null if it always exists.
  ExprAttr getArgCondition(llvm::StringRef name) const;
  /// Whether callers may omit argument `i`, or it may not exist.
  bool mayBeAbsent(unsigned i) const;
  mlir::Type getArgType(unsigned i) const { return body->getArgument(i).getType(); }
};

/// Calls `fn` for every name node and every `dim` node inside the expression.
void walkExpr(ExprAttr expr, llvm::function_ref<void(ExprAttr)> fn);

/// Whether it is block() or block_in(n), which tile-choose-blocks replaces.
inline bool isChosenBlock(ExprAttr expr) {
  return expr.getKind() == ExprKind::Call &&
         (expr.getName() == "block" || expr.getName() == "block_in");
}

/// Spelling of a bound type in parameters ("f16", "e4m3", ...), and back; null when unknown.
llvm::StringRef getTypeSpelling(mlir::Type type);
mlir::Type getTypeBySpelling(mlir::MLIRContext *context, llvm::StringRef name);

/// Whether the word is a literal or a type, in expressions or in types: it cannot name a parameter.
bool isReservedName(llvm::StringRef name);

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILE_H
