// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The iterations of a tile: those of a loop, of the loops beside it, and of the loops around them,
// through which a counter of a ring runs.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_COUNTEDRUN_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_COUNTEDRUN_H

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// What `number`, the number of an iteration argument, is in the iterations of a tile.
struct CountedRun {
  mlir::scf::ForOp top;    ///< the outermost loop around the iteration
  mlir::Value first, last; ///< the counter before the first iteration, and after `top`
  llvm::SmallSetVector<mlir::Operation *, 4> loops; ///< all through which the counter runs

  /// Returns nothing unless each iteration of the loop adds one to the counter, and the loops
  /// around it only pass the counter on.
  static std::optional<CountedRun> get(mlir::scf::ForOp loop, unsigned number);
};

/// The number of the iteration argument that the value is, if it is one of this loop.
std::optional<unsigned> getCarriedNumber(mlir::Value value, mlir::scf::ForOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_COUNTEDRUN_H
