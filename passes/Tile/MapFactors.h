// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Moves uniform factors out of the functions that tile.map applies, so that other passes can
// combine them.

#ifndef TILEWRIGHT_PASSES_TILE_MAPFACTORS_H
#define TILEWRIGHT_PASSES_TILE_MAPFACTORS_H

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace tilewright {

/// If a mapped function multiplies an operand, or its result, by a uniform value, and its products
/// may be reassociated, multiplies the tile instead. Functions that become identical are shared.
void takeFactorsOutOfMaps(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_MAPFACTORS_H
