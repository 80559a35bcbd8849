// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Types and constants under given values: the part of tile-specialize that looks into operations.

#ifndef TILEWRIGHT_PASSES_TILE_APPLYBINDINGS_H
#define TILEWRIGHT_PASSES_TILE_APPLYBINDINGS_H

#include "passes/Tile/BindParameters.h"

#include <functional>
#include <limits>

namespace tilewright {

/// Extents, indices and numbers of elements are i32.
constexpr int64_t maxExtent = std::numeric_limits<int32_t>::max();

/// Rewrites `root` and all operations in it in place: dimensions and types that name parameters,
/// literals of such types, symbols for which `renameSymbol` has another name, and `tile.param`.
/// With `exactLiterals`, a literal that its type cannot hold becomes a truncation of one of f64.
/// Leaves expressions and the declaration of parameters alone. Errors are emitted at the operation
/// they are found in.
mlir::LogicalResult applyBindings(mlir::Operation *root, const Bindings &bindings,
                                  bool exactLiterals,
                                  std::function<mlir::StringAttr(llvm::StringRef)> renameSymbol);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_APPLYBINDINGS_H
