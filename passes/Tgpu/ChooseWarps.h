// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many warps a kernel gets by default.

#ifndef TILEWRIGHT_PASSES_TGPU_CHOOSEWARPS_H
#define TILEWRIGHT_PASSES_TGPU_CHOOSEWARPS_H

#include "dialect/Tile/Tile.h"
#include "lib/Target/Target.h"

namespace tilewright::tgpu {

/// With wgmma a warpgroup for each 64 rows of the largest product, up to two; else four
/// warps, or eight if the tiles that live at one place would not fit the registers of four. A
/// kernel without products gets the fewest of 4, 8, 16 and 32 that hold its tiles without spills.
int64_t chooseWarps(tile::KernelOp kernel, const Target &target);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_CHOOSEWARPS_H
