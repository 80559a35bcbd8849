// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What tile.fill of a program stands for.

#ifndef TILEWRIGHT_PASSES_TILE_EXPANDFILLS_H
#define TILEWRIGHT_PASSES_TILE_EXPANDFILLS_H

#include "mlir/IR/BuiltinOps.h"

namespace tilewright {

/// Each tile.fill becomes a launch of a kernel of its own, which is added after the program.
void expandFills(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_EXPANDFILLS_H
