// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds the contribution of one read of a capture to the gradient of the capture.

#ifndef TILEWRIGHT_PASSES_TILE_GRADIENTSUMS_H
#define TILEWRIGHT_PASSES_TILE_GRADIENTSUMS_H

#include "passes/Tile/ScalarGradients.h"

namespace tilewright {

/// The elements of the gradient of a capture.
mlir::Type getSumType(tile::CaptureOp capture);

/// Adds the adjoints of a read in the function to `sums`: the gradient itself, or its exact sums.
/// `isOnlyRead`: no other operation of the kernel adds to them. Builds before the operation.
void addToSums(tile::AddGradientsOp op, const CaptureRead &read, mlir::Value sums, bool isOnlyRead);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_GRADIENTSUMS_H
