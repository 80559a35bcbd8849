// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What happens to a tile.kernel before it is mapped onto a GPU. Internal to tile-to-tgpu.

#ifndef TILEWRIGHT_PASSES_TGPU_PREPAREKERNEL_H
#define TILEWRIGHT_PASSES_TGPU_PREPAREKERNEL_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Products of floats of 8 bits become products of f16, for machines whose matrix unit has no
/// others. f16 holds every value of both formats, so the products are the same.
void widenProducts(tile::KernelOp kernel);

/// Operands of 16 bits that are not stored in multiples of what a product takes along k, but end
/// where their views end, are loaded with as many columns, zero in both.
void roundInnerExtents(tile::KernelOp kernel);
/// Whether a tile has all that the view holds along a dimension: beyond it, all is zero.
bool endsWithView(tile::LoadOp load, int64_t dim);

/// Products that are only added to memory are computed transposed where their columns, but not
/// their rows, are a multiple of `rows`: (A B)^T = B^T A^T, and an addition names the dimensions
/// along which its tile lies. Warpgroups share rows.
void orientProducts(tile::KernelOp kernel, int64_t rows);

/// The largest number of warps up to `warps` (a power of two) over which mma.sync can spread the
/// result of every product; at least 1.
int64_t getUsableWarps(tile::KernelOp kernel, int64_t warps);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PREPAREKERNEL_H
