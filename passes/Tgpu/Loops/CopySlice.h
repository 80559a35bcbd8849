// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The copies of a loop that can be started iterations ahead, and the operations that compute their
// indices.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_COPYSLICE_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_COPYSLICE_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

struct CopySlice {
  llvm::SmallVector<CopyAsyncOp> copies; ///< directly in the loop's body, in order
  /// The scalar operations of the body that the indices depend on, in order. They depend only on
  /// the induction variable and on loop-invariant values.
  llvm::SmallVector<mlir::Operation *> scalars;
  llvm::SmallSetVector<mlir::Value, 4> buffers; ///< results of tgpu.alloc used only in the loop

  /// Fails if the loop has no copies or if some cannot be moved; `explain` emits the reason.
  static mlir::FailureOr<CopySlice> get(mlir::scf::ForOp loop, bool explain);
};

/// Whether no operation in the loop writes the buffer, which is defined outside of it.
bool isUnchangedIn(mlir::scf::ForOp loop, mlir::Value buffer);

/// Whether the operation, or a nested one, writes a shared buffer by generic-proxy stores.
bool writesShared(mlir::Operation *op);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_COPYSLICE_H
