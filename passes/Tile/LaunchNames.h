// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Translates what a kernel computes from its parameters and shapes into expressions of the program
// that launches it.

#ifndef TILEWRIGHT_PASSES_TILE_LAUNCHNAMES_H
#define TILEWRIGHT_PASSES_TILE_LAUNCHNAMES_H

#include "dialect/Tile/Tile.h"

#include <optional>

namespace tilewright {

tile::ExprAttr makeDim(mlir::MLIRContext *context, llvm::StringRef name, int64_t dim);

/// The expression with other parts: `replace` returns one instead of its argument, or nullopt to
/// have the operands replaced. Null if a part is replaced by null.
tile::ExprAttr
rewriteExpr(tile::ExprAttr expr,
            llvm::function_ref<std::optional<tile::ExprAttr>(tile::ExprAttr)> replace);

/// Conjunction; null is true.
tile::ExprAttr both(tile::ExprAttr a, tile::ExprAttr b);
/// Whether a condition is false whatever its parameters are.
bool isFalse(tile::ExprAttr condition);

/// The value of a scalar as an expression over the kernel; null if it has none, or is computed in
/// more than a few steps. A divisor is an extent, so it counts as at least 1.
tile::ExprAttr toExpr(mlir::Value value, tile::KernelOp kernel);

/// Expressions of a kernel in terms of the program that launches it.
class LaunchNames {
public:
  LaunchNames(tile::KernelOp kernel, tile::LaunchOp launch);

  /// Null if it reads a scalar argument, or a parameter without a value.
  tile::ExprAttr get(tile::ExprAttr expr) const;
  /// Of a view's dimension; null if it is `?`.
  tile::ExprAttr getExtent(tile::Dim dim) const;
  /// Of an element of a tile or view.
  tile::ExprAttr getBits(mlir::Type type) const;
  /// The number of instances; null if an extent of the grid has no expression.
  tile::ExprAttr getInstances() const;
  /// The name of the program's argument that the launch passes; null for a workspace.
  mlir::StringAttr getArgument(unsigned number) const;
  /// Whether a parameter of the kernel has the value that the program's of that name has.
  bool isSameInProgram(llvm::StringRef name) const;

private:
  tile::ExprAttr getParam(tile::ExprAttr name) const;
  tile::ExprAttr getDim(tile::ExprAttr dim) const;

  tile::Signature kernel, program;
  tile::LaunchOp launch;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LAUNCHNAMES_H
