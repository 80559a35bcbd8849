// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Unused rows of a block loop, and tiles without rows.

#ifndef TILEWRIGHT_PASSES_TGPU_IDLEROWS_H
#define TILEWRIGHT_PASSES_TGPU_IDLEROWS_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Whether what the loop computes for rows of its fixed interval beyond the limit reaches no view
/// and no other row. Then the mask need not exclude them: a tile that ends beyond the limit is
/// computed like any other.
///
/// It is so if everything that depends on `keep`, on what the loop carries and on its results keeps
/// rows apart, and ends in stores that begin at the loop's start, in views that end at its limit.
bool hasIdleRows(tile::ForBlocksOp loop);

/// Whether the fixed interval begins before its limit in every tile of the grid: it begins at a
/// grid id times its size, and the grid's extent is that of the limit divided by the size.
bool hasRowsInEveryTile(tile::ForBlocksOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_IDLEROWS_H
