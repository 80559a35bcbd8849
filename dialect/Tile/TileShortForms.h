// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What authors may write shorter, and what it stands for. tile-link expands it, so that no other
// pass meets it.

#ifndef TILEWRIGHT_DIALECT_TILE_TILESHORTFORMS_H
#define TILEWRIGHT_DIALECT_TILE_TILESHORTFORMS_H

#include "dialect/Tile/Tile.h"

namespace tilewright::tile {

/// Replaces each operation with formulas by the operations of these: tile.expr, tile.result and
/// the statements of TileFormOps.td.
void expandFormulas(mlir::Operation *root);

/// Replaces the condition of each tile.subview by a choice between the part and the whole.
void expandParts(mlir::Operation *root);

/// Arguments of launches by name become those by position.
mlir::LogicalResult expandLaunches(mlir::Operation *root);

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_TILESHORTFORMS_H
