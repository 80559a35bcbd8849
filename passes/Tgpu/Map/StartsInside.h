// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Determines whether indices are non-negative.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_STARTSINSIDE_H
#define TILEWRIGHT_PASSES_TGPU_MAP_STARTSINSIDE_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Whether a scalar of a kernel is at least 0, assuming that no sum or product in it overflows.
/// This holds for the positions of a block loop that begins at such a scalar.
bool isNonNegative(mlir::Value value);

/// Whether a tile that is accessed at these indices of a part of a view begins in or after the
/// part. A copy engine that clips only at the end of a part then clips correctly at both ends.
bool startsInside(tile::SubviewOp part, mlir::OperandRange indices,
                  llvm::ArrayRef<int64_t> staticIndices);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_STARTSINSIDE_H
