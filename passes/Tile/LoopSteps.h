// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of loops that binding makes constant.

#ifndef TILEWRIGHT_PASSES_TILE_LOOPSTEPS_H
#define TILEWRIGHT_PASSES_TILE_LOOPSTEPS_H

#include "mlir/Support/LLVM.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

/// Refuses every scf.for below `op` whose step is a constant, or computed from constants, and not
/// positive. MLIR takes such a loop for one without rounds and removes it, where the devices refuse
/// a step that is known only when they run.
mlir::LogicalResult checkLoopSteps(mlir::Operation *op);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LOOPSTEPS_H
