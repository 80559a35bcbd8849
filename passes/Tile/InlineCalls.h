// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Inlines calls.

#ifndef TILEWRIGHT_PASSES_TILE_INLINECALLS_H
#define TILEWRIGHT_PASSES_TILE_INLINECALLS_H

#include "mlir/IR/SymbolTable.h"

namespace tilewright {

/// Replaces every `func.call` within `root`, and transitively those of the callees, in time
/// proportional to the number of operations created. Keeps calls of functions without a body or
/// with several blocks and, with `ofTilesOnly`, calls that neither pass nor return a tile or a
/// view. Calls must not form a cycle.
void inlineCalls(mlir::Operation *root, mlir::SymbolTable &symbols, bool ofTilesOnly = false);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_INLINECALLS_H
