// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas as trees: from text to operations.

#ifndef TILEWRIGHT_DIALECT_TILE_FORMULATREE_H
#define TILEWRIGHT_DIALECT_TILE_FORMULATREE_H

#include "dialect/Tile/Formula.h"
#include "dialect/Tile/TileParsing.h"

#include "mlir/IR/Builders.h"

#include <memory>

namespace tilewright::tile::formula {

struct Node {
  enum Kind {
    Operand,
    Number,
    Param,
    Element, ///< of a view, the operand, or of a capture
    Load,    ///< of a tile from the operand, a view
    Extent,  ///< of the operand, a view
    Apply,   ///< a function of the module, called
    Map,     ///< a function of scalars, applied to each element
    Dot,     ///< a product of the first two operands, added to the third
    Reduce,  ///< a tile without dimension `dim`
    Typed,   ///< a formula and its type
    List,    ///< several formulas, the values of a side of a choice
    Choice,  ///< the first operand decides which of the others is computed
    Call     ///< of a function, operator or word of formulas
  } kind = Call;
  mlir::SMLoc loc;
  mlir::OpAsmParser::UnresolvedOperand operand;
  mlir::Attribute number; ///< an integer or a float
  ExprAttr param;
  mlir::FlatSymbolRefAttr symbol; ///< of a function or a capture
  llvm::StringRef word;           ///< of a call
  ReduceKindAttr reduction;
  mlir::Type from; ///< of the operand of a cast, or of a typed formula
  int64_t dim = 0;
  llvm::SmallVector<int64_t> dims;               ///< of the view, that a loaded tile runs along
  bool transposesA = false, transposesB = false; ///< of a product
  llvm::SmallVector<std::unique_ptr<Node>, 3> operands = {};
};
using NodePtr = std::unique_ptr<Node>;

mlir::ParseResult parseFormula(mlir::OpAsmParser &parser, NodePtr &result);

/// `fastmath<...>` and `overflow<...>` behind formulas.
struct Flags {
  mlir::Attribute fastmath, overflow;
};
mlir::ParseResult parseFlags(mlir::OpAsmParser &parser, Flags &flags);

/// Whether it is a condition, as far as the node itself tells.
bool isCondition(const Node &node);

/// The type of a formula that stands alone, from those of its operands; null if they do not tell.
/// Fails with an error if an operand is not defined.
mlir::FailureOr<mlir::Type> inferType(mlir::OpAsmParser &parser, const Node &node);

/// Creates the operations of a formula and returns its values, none after an error. Only a call,
/// a list, or a choice of these has another number of values than one.
llvm::SmallVector<mlir::Value> buildFormula(mlir::OpAsmParser &parser, mlir::OpBuilder &b,
                                            const Flags &flags, const Node &node,
                                            mlir::TypeRange types, bool asCondition);

} // namespace tilewright::tile::formula

#endif // TILEWRIGHT_DIALECT_TILE_FORMULATREE_H
