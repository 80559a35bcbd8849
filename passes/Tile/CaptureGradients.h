// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.add_gradients: sums of adjoints in kernels, and the arguments, workspaces and launches of
// the program that hold them.

#ifndef TILEWRIGHT_PASSES_TILE_CAPTUREGRADIENTS_H
#define TILEWRIGHT_PASSES_TILE_CAPTUREGRADIENTS_H

#include "passes/Tile/ScalarGradients.h"

namespace tilewright {

/// Replaces every tile.add_gradients of the module.
mlir::LogicalResult lowerCaptureGradients(mlir::ModuleOp module, ScalarGradients &gradients);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_CAPTUREGRADIENTS_H
