// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Fast-math flags that passes test.

#ifndef TILEWRIGHT_PASSES_FASTMATH_H
#define TILEWRIGHT_PASSES_FASTMATH_H

#include "mlir/Dialect/Arith/IR/Arith.h"

namespace tilewright {

/// Whether the operation has fastmath<reassoc>. False for null.
inline bool mayReassociate(mlir::Operation *op) {
  auto flags = mlir::dyn_cast_or_null<mlir::arith::ArithFastMathInterface>(op);
  return flags && mlir::arith::bitEnumContainsAll(flags.getFastMathFlagsAttr().getValue(),
                                                  mlir::arith::FastMathFlags::reassoc);
}

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_FASTMATH_H
