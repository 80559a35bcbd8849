// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates flags of scalar functions that depend only on parameters.

#ifndef TILEWRIGHT_PASSES_BLOCKS_FLAGEVALUATOR_H
#define TILEWRIGHT_PASSES_BLOCKS_FLAGEVALUATOR_H

#include "passes/Tile/BindParameters.h"

#include <optional>

namespace tilewright {

/// Evaluates values of type i1 before a kernel is bound: constants, parameters, `or` and `and` of
/// them, and results of functions that have no other.
class FlagEvaluator {
public:
  FlagEvaluator(mlir::ModuleOp module, const Bindings &bindings)
      : symbols(module), bindings(bindings) {}

  /// The result of a function of that name; nothing if there is none.
  std::optional<bool> evaluate(mlir::FlatSymbolRefAttr name);
  std::optional<bool> evaluate(mlir::Value value);

private:
  mlir::SymbolTable symbols;
  const Bindings &bindings;
  unsigned calls = 0, nesting = 0;
  llvm::DenseMap<mlir::Value, std::optional<bool>> known;
};

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_BLOCKS_FLAGEVALUATOR_H
