// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Formulas as trees: from text to operations.

#ifndef TILEWRIGHT_DIALECT_TILE_FORMULATREE_H
#define TILEWRIGHT_DIALECT_TILE_FORMULATREE_H

#include "dialect/Tile/Formula.h"
#include "dialect/Tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "llvm/ADT/StringMap.h"

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

/// `fastmath<...>` and `overflow<...>` after formulas.
struct Flags {
  mlir::Attribute fastmath, overflow;
};
mlir::ParseResult parseFlags(mlir::OpAsmParser &parser, Flags &flags);

/// Whether it is a condition, as far as the node itself tells.
bool isCondition(const Node &node);

/// Values that the parser does not know, by their names: if there are any, a formula reads no
/// others.
using Locals = llvm::StringMap<mlir::Value>;

/// The type of a value that is defined above.
mlir::FailureOr<mlir::Type> findType(mlir::OpAsmParser &parser,
                                     const mlir::OpAsmParser::UnresolvedOperand &operand,
                                     const Locals *locals = nullptr);

/// The type of a formula that stands alone, from those of its operands; null if they do not tell.
/// Fails with an error if an operand is not defined.
mlir::FailureOr<mlir::Type> inferType(mlir::OpAsmParser &parser, const Node &node,
                                      const Locals *locals = nullptr);

/// Creates the operations of a formula and returns its values, none after an error. Only a call,
/// a list, or a choice of these has another number of values than one.
llvm::SmallVector<mlir::Value> buildFormula(mlir::OpAsmParser &parser, mlir::OpBuilder &b,
                                            const Flags &flags, const Node &node,
                                            mlir::TypeRange types, bool asCondition,
                                            const Locals *locals = nullptr);

/// The formulas of an operation: their text.
struct Formulas {
  llvm::SmallVector<NodePtr> roots;
  Flags flags;
  llvm::SmallVector<mlir::Type> types; ///< read after a colon or inferred, unless given
  mlir::Type converted;                ///< after an arrow
  const Locals *locals = nullptr;
};

/// Parses formulas, one or a list, up to the end of the operation.
mlir::ParseResult parseFormulas(mlir::OpAsmParser &parser, mlir::OperationState &result,
                                bool isList, Formulas &formulas);
/// Creates their operations in a region, which ends by yielding their values.
mlir::ParseResult buildFormulas(mlir::OpAsmParser &parser, const Formulas &formulas,
                                mlir::Region &region);

/// The text of formulas, which are operations in regions of `op`.
void printFormulas(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::ValueRange values);
void printIndices(mlir::OpAsmPrinter &printer, mlir::Operation *op, mlir::OperandRange indices,
                  llvm::ArrayRef<int64_t> integers);
void printFlags(mlir::OpAsmPrinter &printer, mlir::Operation *op);

/// Checks that formulas can be written as text. `last` is an operation that is none of theirs.
mlir::LogicalResult verifyBody(mlir::Operation *op, mlir::Region &region,
                               mlir::Operation *last = nullptr);

} // namespace tilewright::tile::formula

#endif // TILEWRIGHT_DIALECT_TILE_FORMULATREE_H
