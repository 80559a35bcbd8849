// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles of few rows, held with rows and columns exchanged. Internal to tile-to-tgpu.

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_TRANSPOSETILES_H
#define TILEWRIGHT_PASSES_TGPU_MAP_TRANSPOSETILES_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// wgmma multiplies 64 rows, but as few as 8 columns. If all products of 16-bit operands have fewer
/// rows and at least 64 columns, C^T = B^T A^T takes their place, and every tile that meets C in
/// elementwise operations, loops and branches is transposed with it: reductions and expansions
/// change their dimension, loads and stores the order of theirs, and masks of block loops are
/// marked with `transposedKeepAttr`. Where an operation needs the tile as it was, tile.transpose
/// precedes it. Returns whether it did so; a kernel with other products stays as it is.
bool transposeTilesOfFewRows(tile::KernelOp kernel);

/// The type of a matrix with rows and columns exchanged.
RankedTensorType getTransposed(Type type);

/// The `dims` of a load or store of a matrix, with the two exchanged; null for the last two of the
/// view in order.
DenseI64ArrayAttr swapDims(std::optional<ArrayRef<int64_t>> dims, Value view);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_TRANSPOSETILES_H
