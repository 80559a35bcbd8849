// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Uniform factors within the functions that tile.map applies, taken out to where others can meet
// them.

#ifndef TILEWRIGHT_PASSES_TILE_MAPFACTORS_H
#define TILEWRIGHT_PASSES_TILE_MAPFACTORS_H

namespace mlir {
class ModuleOp;
} // namespace mlir

namespace tilewright {

/// Where a mapped function multiplies an operand, or its result, with what is the same for all
/// elements, and its products may be reassociated, the tile is multiplied instead. What becomes
/// equal by that is shared.
void takeFactorsOutOfMaps(mlir::ModuleOp module);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_MAPFACTORS_H
