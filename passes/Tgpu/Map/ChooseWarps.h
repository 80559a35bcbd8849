// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the default number of warps of a kernel.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_CHOOSEWARPS_H
#define TILEWRIGHT_PASSES_TGPU_MAP_CHOOSEWARPS_H

#include "base/Target/Target.h"
#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// The largest number of warpgroups, up to three, that divides the blocks of 64 rows evenly.
int64_t getWarpgroups(int64_t blocks);

/// With wgmma: as many warpgroups, up to three, as divide the 64-row blocks of the largest product
/// evenly. With other products: four warps, or eight if the live tiles exceed the registers of
/// four. Without products: the fewest of 4, 8, 16 and 32 warps that hold the tiles without spills.
int64_t chooseWarps(tile::KernelOp kernel, const Target &target);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_CHOOSEWARPS_H
