// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The lowering of #tile.expr to operations of arith, for passes that compute a grid on the device.

#ifndef TILEWRIGHT_PASSES_EXPRLOWERING_H
#define TILEWRIGHT_PASSES_EXPRLOWERING_H

#include "dialect/Tile/Tile.h"

#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright {

/// The options of lowerExpr(), and its queries of the caller.
struct ExprLowering {
  mlir::ImplicitLocOpBuilder &b;
  /// The width of integers in bits. Values wrap if the launch, which computes in 64 bits, reports
  /// an overflow.
  unsigned width;
  /// The value of a name or an extent, an integer of `width` bits or an i1; null if there is none.
  llvm::function_ref<mlir::Value(tile::ExprAttr)> leaf;
  /// Reports expressions that cannot be lowered. Null if the caller has checked that everything
  /// can.
  llvm::function_ref<void(const llvm::Twine &)> fail = nullptr;
  /// Whether dividend and divisor are known to be non-negative. Null: nothing is known.
  llvm::function_ref<bool(tile::ExprAttr division)> isPlain = nullptr;
};

/// Computes an expression before the builder's insertion point; flags are i1. As in the
/// interpreters, operands that `and`, `or` and `select` do not need are not evaluated if their
/// evaluation could divide by zero. Null if something cannot be lowered.
mlir::Value lowerExpr(const ExprLowering &lowering, tile::ExprAttr expr);

/// Whether no value of the expression or of its operands is negative: extents, numbers, and their
/// sums, products and quotients.
bool isNotNegative(tile::ExprAttr expr);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_EXPRLOWERING_H
