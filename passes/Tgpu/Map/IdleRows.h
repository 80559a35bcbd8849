// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Unused rows of a block loop, and tiles without rows.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_IDLEROWS_H
#define TILEWRIGHT_PASSES_TGPU_MAP_IDLEROWS_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Returns true if values that the loop computes for rows of its fixed interval beyond the limit
/// reach no view and no other row. Then the mask need not exclude these rows: a tile that ends
/// beyond the limit is computed like any other.
///
/// This holds if no operation that depends on `keep`, on the loop's iteration arguments or on its
/// results combines rows, and if all stores of these values begin at the start of the interval, in
/// views that end at its limit.
bool hasIdleRows(tile::ForBlocksOp loop);

/// Whether the fixed interval begins before its limit in every tile of the grid: it begins at a
/// grid id times its size, and the grid's extent is that of the limit divided by the size.
bool hasRowsInEveryTile(tile::ForBlocksOp loop);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_IDLEROWS_H
