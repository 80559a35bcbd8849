// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Determines before which writes copies and their scalar operands may be moved. For tile IR and
// tgpu IR.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_WRITTENVIEWS_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_WRITTENVIEWS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tilewright::tgpu {

/// The argument or capture that a view is derived from.
mlir::Value getViewRoot(mlir::Value view);

/// Whether a load reads a capture, which is never written, at scalar indices: it can be moved to
/// any place in its block after their definitions.
bool readsCapture(mlir::Operation *op);

/// Whether a scalar function, or one that it calls, contains an operation for which `test` holds.
bool hasOperation(mlir::Operation *from, mlir::FlatSymbolRefAttr function,
                  llvm::function_ref<bool(mlir::Operation *)> test);

/// The arguments that operations nested in an operation write, through any view of them.
class WrittenViews {
public:
  explicit WrittenViews(mlir::Operation *scope);

  bool contains(mlir::Value view) const;
  /// Whether the operation computes scalars (or views) from scalars and reads nothing that the
  /// scope writes: its result is the same wherever its operands are available.
  bool canComputeAhead(mlir::Operation *op) const;

private:
  llvm::DenseSet<mlir::Value> written;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_WRITTENVIEWS_H
