// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Analysis of the position at which the first block of a block loop begins.

#ifndef TILEWRIGHT_PASSES_TGPU_ANALYSIS_BLOCKORIGIN_H
#define TILEWRIGHT_PASSES_TGPU_ANALYSIS_BLOCKORIGIN_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Whether blocks may begin at any position without a loss of speed. The body must not write, may
/// only load rows of the block, and may use positions only in arithmetic. Loads of columns would be
/// unaligned, and loads of rows in pages begin at rows that lie together. Neighbors share random
/// numbers only if it is known at compile time which positions are neighbors.
bool mayBeginAnywhere(tile::ForBlocksOp op);

/// Whether a scalar depends on a load from memory. If `loop` is given, only loads outside of it
/// count.
bool isFromMemory(mlir::Value value, mlir::Operation *loop = nullptr);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ANALYSIS_BLOCKORIGIN_H
