// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What values are, where they follow from constants.

#ifndef TILEWRIGHT_PASSES_TILE_CONSTANTEVALUATOR_H
#define TILEWRIGHT_PASSES_TILE_CONSTANTEVALUATOR_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/DenseMap.h"

namespace tilewright {

/// Computes values from constants without changing any operation. What it has computed stays: the
/// code must not change while the object lives.
class ConstantEvaluator {
public:
  /// Null where it cannot.
  mlir::Attribute evaluate(mlir::Value value, unsigned depth = 0);

private:
  static constexpr unsigned maxDepth = 64;
  llvm::DenseMap<mlir::Value, mlir::Attribute> known;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_CONSTANTEVALUATOR_H
