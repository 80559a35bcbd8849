// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The symbols of a module that one of its operations needs.

#ifndef TILEWRIGHT_LIB_BUNDLE_REACHEDSYMBOLS_H
#define TILEWRIGHT_LIB_BUNDLE_REACHEDSYMBOLS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"
#include "llvm/ADT/DenseSet.h"

namespace tilewright {

/// Adds to `reached` every symbol of the module that is used below `op`, directly or indirectly.
void collectReached(mlir::ModuleOp module, mlir::Operation *op,
                    llvm::DenseSet<mlir::Operation *> &reached);

/// A module with copies of the operation, of the symbols that it reaches, and of all captures,
/// which belong to the contract of a bound kernel whether it reads them or not; in their order.
mlir::OwningOpRef<mlir::ModuleOp> copyReached(mlir::ModuleOp module, mlir::Operation *op);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_BUNDLE_REACHEDSYMBOLS_H
