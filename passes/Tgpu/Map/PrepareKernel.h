// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transformations of a tile.kernel before it is mapped onto a GPU. Internal to tile-to-tgpu.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_PREPAREKERNEL_H
#define TILEWRIGHT_PASSES_TGPU_MAP_PREPAREKERNEL_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// Converts the operands of products of 8-bit floats to f16, except those that wgmma multiplies as
/// they are. The products are exact: f16 represents every value of both formats. `warps` is the
/// number that the user wants, or 0.
void widenProducts(tile::KernelOp kernel, const Target &target, int64_t warps);

/// Records for reports which masks of blocks are evaluated for each block, since
/// tile-analyze-masks, which has emitted the remark, found no ranges.
void noteMasksOfBlocks(tile::KernelOp kernel);

/// Loads 16-bit operands whose extent along k is not a multiple of the instruction's k, but ends
/// with their views, with further columns, which are zero in both operands.
void roundInnerExtents(tile::KernelOp kernel);
/// Whether a tile extends to the end of the view along a dimension: elements beyond it are zero.
bool endsWithView(tile::LoadOp load, int64_t dim);

/// Transposes products that are only added to memory, if their columns but not their rows are a
/// multiple of `rows`: (A B)^T = B^T A^T, and an addition names the dimensions of its tile.
/// Warpgroups divide the rows.
void orientProducts(tile::KernelOp kernel, int64_t rows);

/// Lets loads of converted operands (ConvertedOperands.h) be copied to shared memory as they are,
/// and read and converted at their first product. One that is operand a of products by wgmma is
/// read in the orientation of that operand. The same for tiles in loops of which operand a of wgmma
/// is computed.
void copyConvertedOperands(tile::KernelOp kernel, const Target &target);

/// Lets rows that the iterations of a loop read beside the operands of their products be copied to
/// shared memory with these, on a target whose copies run ahead in a role of their own.
void copyRowsOfIterations(tile::KernelOp kernel, const Target &target);

/// The largest power of two up to `warps` such that mma.sync can distribute the result of every
/// product over that many warps; at least 1.
int64_t getUsableWarps(tile::KernelOp kernel, int64_t warps);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_PREPAREKERNEL_H
