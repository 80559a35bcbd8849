// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the first block of a block loop begins.

#ifndef TILEWRIGHT_PASSES_TGPU_BLOCKORIGIN_H
#define TILEWRIGHT_PASSES_TGPU_BLOCKORIGIN_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Whether blocks may begin at any position, without harm to speed: the body writes nothing, loads
/// rows of the block, and does arithmetic with positions. Columns that begin anywhere are not
/// aligned; random numbers that neighbours share are drawn once only where it is known which
/// positions are neighbours.
bool mayBeginAnywhere(tile::ForBlocksOp op);

/// Whether a scalar is computed from what is read from memory, outside of a loop if one is given.
bool isFromMemory(mlir::Value value, mlir::Operation *loop = nullptr);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_BLOCKORIGIN_H
