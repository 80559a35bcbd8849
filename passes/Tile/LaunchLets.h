// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Derived parameters that each launch of a program computes: names for expressions over arguments.

#ifndef TILEWRIGHT_PASSES_TILE_LAUNCHLETS_H
#define TILEWRIGHT_PASSES_TILE_LAUNCHLETS_H

#include "mlir/IR/BuiltinOps.h"

namespace tilewright {

/// Replaces these parameters, in all programs of a module, by their expressions, and removes them
/// from the programs: binding then knows only parameters that have a value. Fails, with an error,
/// if a launch would pass one on to a kernel.
mlir::LogicalResult expandLaunchLets(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_LAUNCHLETS_H
