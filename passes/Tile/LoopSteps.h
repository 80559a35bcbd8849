// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the steps of loops that binding makes constant.

#ifndef TILEWRIGHT_PASSES_TILE_LOOPSTEPS_H
#define TILEWRIGHT_PASSES_TILE_LOOPSTEPS_H

#include "mlir/Support/LLVM.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

/// Rejects every scf.for nested in `op` whose step is constant, or computed from constants, and not
/// positive. MLIR would take such a loop to have no iterations and remove it, whereas devices
/// reject such a step at run time.
mlir::LogicalResult checkLoopSteps(mlir::Operation *op);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LOOPSTEPS_H
