// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The mask of an operation that pairs two intervals of positions:
//
//   where @mask(%a, against, block, ... : types) ranges @ranges when (CONDITION)

#ifndef TILEWRIGHT_DIALECT_TILE_MASKCLAUSE_H
#define TILEWRIGHT_DIALECT_TILE_MASKCLAUSE_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tile {

/// The clause of an operation. Only a loop has ranges.
class MaskClause {
public:
  explicit MaskClause(ForBlocksOp op) : MaskClause(op, op.getRangesAttr()) {}
  explicit MaskClause(KeptRangeOp op) : MaskClause(op, mlir::FlatSymbolRefAttr()) {}

  /// The operands of a clause until they are resolved.
  struct Parsed {
    llvm::SmallVector<mlir::OpAsmParser::UnresolvedOperand> operands;
    llvm::SmallVector<mlir::Type> types;

    mlir::ParseResult resolve(mlir::OpAsmParser &parser, llvm::SMLoc loc,
                              mlir::OperationState &result) {
      return parser.resolveOperands(operands, types, loc, result.operands);
    }
  };
  /// Adds the attributes of the clause, if there is one.
  static mlir::ParseResult parse(mlir::OpAsmParser &parser, mlir::OperationState &result,
                                 Parsed &parsed, bool withRanges);
  /// On a line of its own; nothing without a mask.
  void print(mlir::OpAsmPrinter &printer) const;
  mlir::LogicalResult verify() const;
  mlir::LogicalResult verifySymbolUses(mlir::SymbolTableCollection &symbols) const;

  /// Operands of the mask function, with the given values for the two positions.
  llvm::SmallVector<mlir::Value> getCallOperands(mlir::Value againstValue,
                                                 mlir::Value blockValue) const;

  template <typename OpT> static void drop(OpT op) {
    op.getMaskOperandsMutable().clear();
    op.removeMaskAttr();
    op.removeMaskConditionAttr();
    op.setAgainstPosition(0);
    op.setBlockPosition(1);
  }

  /// The attributes, which the clause prints.
  static llvm::ArrayRef<llvm::StringRef> getAttributeNames();

private:
  template <typename OpT>
  MaskClause(OpT op, mlir::FlatSymbolRefAttr ranges)
      : op(op), mask(op.getMaskAttr()), ranges(ranges), condition(op.getMaskConditionAttr()),
        operands(op.getMaskOperands()), against(op.getAgainstPosition()),
        block(op.getBlockPosition()) {}

  int64_t getCount() const { return static_cast<int64_t>(operands.size()) + 2; }

  mlir::Operation *op;
  mlir::FlatSymbolRefAttr mask, ranges;
  ExprAttr condition;
  mlir::OperandRange operands;
  int64_t against, block; ///< places in the call
};

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_MASKCLAUSE_H
