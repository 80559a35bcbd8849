// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The copies of a loop that can be started rounds ahead, and what computes their places.

#ifndef TILEWRIGHT_PASSES_TGPU_COPYSLICE_H
#define TILEWRIGHT_PASSES_TGPU_COPYSLICE_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

struct CopySlice {
  llvm::SmallVector<CopyAsyncOp> copies; ///< directly in the loop's body, in order
  /// Scalar operations of the body that the places depend on, in order. They depend on the
  /// induction variable and on values from outside alone.
  llvm::SmallVector<mlir::Operation *> scalars;
  llvm::SmallSetVector<mlir::Value, 4> buffers; ///< results of tgpu.alloc used in the loop alone

  /// Fails if the loop has no copies, or some cannot be moved; with `explain` says which and why.
  static mlir::FailureOr<CopySlice> get(mlir::scf::ForOp loop, bool explain);
};

/// Whether nothing inside the loop writes the buffer, which lies outside.
bool isUnchangedIn(mlir::scf::ForOp loop, mlir::Value buffer);

/// Whether the operation, or one inside it, writes a shared buffer by ordinary stores.
bool writesShared(mlir::Operation *op);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_COPYSLICE_H
