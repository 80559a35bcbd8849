// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of the `tile` dialect, by family.

#ifndef TILEWRIGHT_DIALECT_TILE_TILEOPS_TD
#define TILEWRIGHT_DIALECT_TILE_TILEOPS_TD

include "dialect/Tile/TileKernelOps.td"
include "dialect/Tile/TileCallOps.td"
include "dialect/Tile/TileMemoryOps.td"
include "dialect/Tile/TileValueOps.td"
include "dialect/Tile/TileCompositeOps.td"
include "dialect/Tile/TileDebugOps.td"
include "dialect/Tile/TileLoopOps.td"
include "dialect/Tile/TileSumOps.td"
include "dialect/Tile/TileFormOps.td"

#endif // TILEWRIGHT_DIALECT_TILE_TILEOPS_TD
