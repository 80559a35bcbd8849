// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Calls replaced by the code that they call.

#ifndef TILEWRIGHT_PASSES_TILE_INLINECALLS_H
#define TILEWRIGHT_PASSES_TILE_INLINECALLS_H

#include "mlir/IR/SymbolTable.h"

namespace tilewright {

/// Replaces every `func.call` within `root`, and those of what is called, in time proportional to
/// the operations that this makes. A call of a function without a body, or with one of several
/// blocks, stays, and with `ofTilesOnly` a call that neither passes nor returns a tile or a view.
/// Calls must not form a cycle.
void inlineCalls(mlir::Operation *root, mlir::SymbolTable &symbols, bool ofTilesOnly = false);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_INLINECALLS_H
