// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates values that depend only on constants.

#ifndef TILEWRIGHT_PASSES_TILE_CONSTANTEVALUATOR_H
#define TILEWRIGHT_PASSES_TILE_CONSTANTEVALUATOR_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright {

/// Computes values from constants without changing any operation. Caches results: the IR must not
/// change during the lifetime of the object.
class ConstantEvaluator {
public:
  /// Null if the value is not constant.
  mlir::Attribute evaluate(mlir::Value value, unsigned depth = 0);

private:
  static constexpr unsigned maxDepth = 64;
  llvm::DenseMap<mlir::Value, mlir::Attribute> known;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_CONSTANTEVALUATOR_H
