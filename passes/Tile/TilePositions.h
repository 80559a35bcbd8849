// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Describes integers of a scalar function for the elements of the tiles that it is applied to:
// uniform, or the element's position along a dimension plus a uniform value.

#ifndef TILEWRIGHT_PASSES_TILE_TILEPOSITIONS_H
#define TILEWRIGHT_PASSES_TILE_TILEPOSITIONS_H

#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tilewright {

/// A sum of scalars and, if there is a `dim`, of the element's position along it. If the condition
/// `isFixed` holds, the value is `fixed` instead.
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

/// Positions of the values of a scalar function with one block, without calls, for given operands.
/// Terms are values of the function or of the code around the operation that applies it.
class TilePositions {
public:
  TilePositions(mlir::func::FuncOp function, mlir::ValueRange operands);
  /// Without a function.
  TilePositions() = default;

  /// Bounds on the recursion over both operands of sums, and on the number of terms.
  static constexpr unsigned mostLevels = 64, mostTerms = 16;

  /// The position of an i32 tile or scalar of the surrounding code.
  static std::optional<TilePosition> getOfOperand(mlir::Value operand,
                                                  unsigned levels = mostLevels);

  /// The position of an i32 of the function, or nothing.
  std::optional<TilePosition> get(mlir::Value value, unsigned levels = mostLevels) const;

  /// Emits a uniform scalar of the function, or returns one of the surrounding code. Reuses
  /// operations of the function that were emitted before.
  mlir::Value write(mlir::OpBuilder &b, mlir::Value scalar);
  /// Emits the sum of the terms.
  mlir::Value writeStart(mlir::OpBuilder &b, mlir::Location loc, const TilePosition &position);

  /// Emits whether the value is `fixed`; a constant if it never is.
  mlir::Value writeCondition(mlir::OpBuilder &b, mlir::Location loc, const TilePosition &position);

  bool isOfFunction(mlir::Value value) const;
  /// Whether a scalar of the function depends on no operand: it is the same throughout a launch.
  bool isConstant(mlir::Value scalar) const { return getSources(scalar).empty(); }

  /// The values of the surrounding code that these positions depend on.
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
