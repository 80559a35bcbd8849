// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What copies, and the scalars that place them, may be moved ahead of. Asked of tile IR and of tgpu
// IR.

#ifndef TILEWRIGHT_PASSES_TGPU_WRITTENVIEWS_H
#define TILEWRIGHT_PASSES_TGPU_WRITTENVIEWS_H

#include "mlir/IR/BuiltinAttributes.h"
#include "mlir/IR/Operation.h"
#include "llvm/ADT/DenseSet.h"
#include "llvm/ADT/STLFunctionalExtras.h"

namespace tilewright::tgpu {

/// The arguments that something inside an operation writes, through whatever view of them.
/// The argument or capture that a view is made of.
mlir::Value getViewRoot(mlir::Value view);

/// Whether a load reads a capture, which is never written, at a place that scalars give: it can
/// stand anywhere in its block behind these.
bool readsCapture(mlir::Operation *op);

/// Whether a function of scalars, or one that it calls, has an operation for which `test` holds.
bool hasOperation(mlir::Operation *from, mlir::FlatSymbolRefAttr function,
                  llvm::function_ref<bool(mlir::Operation *)> test);

class WrittenViews {
public:
  explicit WrittenViews(mlir::Operation *scope);

  bool contains(mlir::Value view) const;
  /// Whether the operation computes scalars (or views) from scalars, and reads nothing that the
  /// scope writes: its result is the same wherever its operands are known.
  bool canComputeAhead(mlir::Operation *op) const;

private:
  llvm::DenseSet<mlir::Value> written;
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_WRITTENVIEWS_H
