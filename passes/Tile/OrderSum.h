// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The forms of a sum in memory (tile.contribute): in any order, or in order.

#ifndef TILEWRIGHT_PASSES_TILE_ORDERSUM_H
#define TILEWRIGHT_PASSES_TILE_ORDERSUM_H

#include "dialect/Tile/Tile.h"
#include "passes/Tile/StrategyTable.h"

namespace tilewright {

/// When a sum has a form in order.
struct OrderChoice {
  const OrderRow *row; ///< of the table; null: never
  bool isForced;       ///< wherever the kernel allows it, instead of where the row says
  int64_t multiprocessors;
};

/// Lowers the operations of a kernel's sum, in this kernel and in those that read it, and adds the
/// launches of the form in order to the program.
llvm::LogicalResult orderSum(tile::ContributeOp op, mlir::SymbolTable &symbols,
                             const OrderChoice &choice);

/// Lowers what is left of the operations in kernels that no program launches, and adds_in_order()
/// of programs that have no such form.
void lowerUnordered(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_ORDERSUM_H
