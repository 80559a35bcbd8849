// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The form of a launch in which each instance adds a single term of a tile.accumulate.

#ifndef TILEWRIGHT_PASSES_TILE_DIVIDESUM_H
#define TILEWRIGHT_PASSES_TILE_DIVIDESUM_H

#include "passes/Tile/StrategyTable.h"

#include "mlir/IR/SymbolTable.h"

#include <string>

namespace tilewright {

/// Adds that form to the program of the launch, for when the row says that it is faster, or always
/// where it is possible. Returns the reason why there is none, which is empty if it was added, or
/// if the kernel does not allow it.
std::string divideSum(tile::AccumulateOp op, tile::LaunchOp launch, mlir::SymbolTable &symbols,
                      const ApartRow &row, int64_t multiprocessors, bool isForced);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_DIVIDESUM_H
