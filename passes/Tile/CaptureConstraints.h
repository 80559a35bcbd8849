// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What captures require of the launches that pass them.

#ifndef TILEWRIGHT_PASSES_TILE_CAPTURECONSTRAINTS_H
#define TILEWRIGHT_PASSES_TILE_CAPTURECONSTRAINTS_H

#include "passes/Tile/BindParameters.h"

namespace tilewright {

/// Moves the constraints of `captures`, all that the bound entry reaches, to the entry. They read
/// its parameters, its arguments and the captures. Those that mention an argument that the
/// parameters exclude hold; those that mention an unknown name are dropped with a warning.
mlir::LogicalResult moveCaptureConstraints(mlir::Operation *entry,
                                           llvm::ArrayRef<tile::CaptureOp> captures,
                                           const Bindings &bindings);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_CAPTURECONSTRAINTS_H
