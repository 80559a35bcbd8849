// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules of differentiation: for each operation on scalars, the contributions of its result's
// adjoint to the adjoints of its operands.

#ifndef TILEWRIGHT_PASSES_TILE_DERIVATIVES_H
#define TILEWRIGHT_PASSES_TILE_DERIVATIVES_H

#include "mlir/IR/Builders.h"

namespace tilewright {

/// The type in which adjoints of values of a float type are computed: f64 for f64, else f32.
mlir::Type getAdjointType(mlir::Type type);

/// Converts between float types; returns the value itself if it has the type.
mlir::Value convertFloat(mlir::OpBuilder &b, mlir::Location loc, mlir::Value value,
                         mlir::Type type);

/// An operation whose results do not change with its float operands, or in steps only: its
/// derivative is taken as zero (comparisons, conversions to integers, floor, ...).
bool hasZeroDerivative(mlir::Operation *op);

struct AdjointRequest {
  mlir::Operation *op;
  mlir::Value adjoint; ///< adjoint of the result, of its adjoint type
  /// Whether the adjoint of this operand is needed.
  llvm::function_ref<bool(unsigned)> isWanted;
  /// Whether a value is the same for all elements: then dividing by zero is an error of the author,
  /// not of an element.
  llvm::function_ref<bool(mlir::Value)> isUniform;
  /// Receives the contribution to the adjoint of an operand, in its adjoint type.
  llvm::function_ref<void(unsigned, mlir::Value)> add;
};

/// Applies the rule of the operation; fails, without a diagnostic, if there is none. If a rule may
/// divide by zero or overflow, an adjoint of zero still gives zero.
///
/// Where a function is not differentiable: `maximumf`, `minimumf`, `maxnumf` and `minnumf` of equal
/// operands give half to each, `absf` and `copysign` give 0 at 0, `select` follows the chosen
/// operand.
mlir::LogicalResult emitAdjoints(mlir::OpBuilder &b, const AdjointRequest &request);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_DERIVATIVES_H
