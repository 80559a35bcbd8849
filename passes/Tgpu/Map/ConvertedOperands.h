// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_PASSES_TGPU_MAP_CONVERTEDOPERANDS_H
#define TILEWRIGHT_PASSES_TGPU_MAP_CONVERTEDOPERANDS_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tgpu {

/// The load of an 8-bit tile in a loop, whose conversion `value` is an operand of products and has
/// no other use; null if there is none.
tile::LoadOp getConvertedLoad(mlir::Value value);

/// The loads of all tiles of which operand a of a product is computed element by element with it,
/// if these are loads alone and the operand is not transposed; none otherwise. Weights of 4 bits
/// with scales are an example.
llvm::SmallVector<tile::LoadOp> getComputedLoads(tile::DotOp dot);

/// Whether a load through a buffer reads rows of the tile from columns of the view.
bool isReadByColumns(tile::LoadOp load);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_MAP_CONVERTEDOPERANDS_H
