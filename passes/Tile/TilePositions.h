// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What an integer of a scalar function is for the elements of the tiles that the function is
// applied to: the same for all of them, or the element's place along a dimension plus what is the
// same for all.

#ifndef TILEWRIGHT_PASSES_TILE_TILEPOSITIONS_H
#define TILEWRIGHT_PASSES_TILE_TILEPOSITIONS_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {

/// A sum of scalars, and of the number of the element along `dim`, if there is one. Where
/// `condition` is `isFixed`, the value is `fixed` instead.
struct TilePosition {
  struct Term {
    mlir::Value value;
    bool isNegative;
  };
  std::optional<int64_t> dim;
  llvm::SmallVector<Term> terms;
  mlir::Value condition, fixed; ///< both, or neither
  bool isFixed = true;
};

/// Of the values of a scalar function of one block, without calls, for given operands. Terms are
/// values of the function or of the code around the operation that applies it.
class TilePositions {
public:
  TilePositions(mlir::func::FuncOp function, mlir::ValueRange operands);
  /// Without a function.
  TilePositions() = default;

  /// How far sums are followed, and how many terms they may have: both operands of one may be of
  /// another, and so on.
  static constexpr unsigned mostLevels = 64, mostTerms = 16;

  /// Of a tile or scalar of i32 in the code around.
  static std::optional<TilePosition> getOfOperand(mlir::Value operand,
                                                  unsigned levels = mostLevels);

  /// An i32 of the function. Nothing if it is none of these.
  std::optional<TilePosition> get(mlir::Value value, unsigned levels = mostLevels) const;

  /// A scalar of the function that is the same for all elements, or one of the code around it,
  /// computed by operations that `b` writes. Of a function, what was written before counts.
  mlir::Value write(mlir::OpBuilder &b, mlir::Value scalar);
  /// The sum of the terms.
  mlir::Value writeStart(mlir::OpBuilder &b, mlir::Location loc, const TilePosition &position);

  /// Whether the value is `fixed`; a constant where it never is.
  mlir::Value writeCondition(mlir::OpBuilder &b, mlir::Location loc, const TilePosition &position);

  bool isOfFunction(mlir::Value value) const;
  /// Whether a scalar of the function depends on no operand: it is the same throughout a launch.
  bool isConstant(mlir::Value scalar) const { return getSources(scalar).empty(); }

  /// Values of the code around, of which these are computed.
  llvm::SetVector<mlir::Value> getSources(llvm::ArrayRef<TilePosition> positions) const;

private:
  llvm::SetVector<mlir::Value> getSources(mlir::ValueRange values) const;

  mutable mlir::func::FuncOp function;
  llvm::DenseMap<mlir::Value, TilePosition> arguments; ///< i32, by argument of the function
  llvm::DenseSet<mlir::Value> uniform;
  mlir::IRMapping written;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_TILEPOSITIONS_H
