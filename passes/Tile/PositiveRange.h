// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the constraints of a kernel say about its float arguments and captures.

#ifndef TILEWRIGHT_PASSES_TILE_POSITIVERANGE_H
#define TILEWRIGHT_PASSES_TILE_POSITIVERANGE_H

#include "mlir/IR/Value.h"
#include "llvm/ADT/APFloat.h"

#include <optional>

namespace tilewright {

/// 0 < least <= value <= greatest < infinity.
struct PositiveRange {
  llvm::APFloat least, greatest;
};

/// The range of a float of a tile.kernel or tgpu.kernel, if in all launches it is positive, finite
/// and no NaN.
std::optional<PositiveRange> findPositiveRange(mlir::Value scalar);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_POSITIVERANGE_H
