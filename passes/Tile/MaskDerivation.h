// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A function that computes bounds of a mask.

#ifndef TILEWRIGHT_PASSES_TILE_MASKDERIVATION_H
#define TILEWRIGHT_PASSES_TILE_MASKDERIVATION_H

#include "passes/Tile/MaskBounds.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"

#include <optional>

namespace tilewright {

/// @NAMEsuffix(against_begin, against_end, lower, upper, other operands...) -> results, after the
/// mask function @NAME. It has the computation of the bounds, and `finish` ends it.
class MaskDerivation {
public:
  /// `against` and `block` are the numbers of the operands of the mask that are positions. If
  /// `lower` is given, the function is used for this lower bound alone.
  MaskDerivation(mlir::func::FuncOp mask, int64_t against, int64_t block, llvm::StringRef suffix,
                 mlir::TypeRange results, mlir::SymbolTable &symbols, mlir::IntegerAttr lower = {});
  MaskDerivation(const MaskDerivation &) = delete; // `bounds` refers to the builder

  /// Returns the results, and removes unused conditions: each was written with its negation.
  void finish(mlir::ValueRange results);

  mlir::func::FuncOp function;
  mlir::OpBuilder builder; ///< inside the function
  std::optional<MaskBoundsBuilder> bounds;
  Bounds kept;
  /// The bounds number rows by a remainder.
  bool isByRemainder = false;
  /// Operations of the mask with unknown results and known operands.
  llvm::SmallVector<mlir::Operation *> obstacles;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_MASKDERIVATION_H
