// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Substitutes bound values in operations, as a part of tile-specialize.

#ifndef TILEWRIGHT_PASSES_TILE_APPLYBINDINGS_H
#define TILEWRIGHT_PASSES_TILE_APPLYBINDINGS_H

#include "passes/Tile/BindParameters.h"

#include <functional>
#include <limits>

namespace tilewright {

/// Extents, indices and element counts are i32.
constexpr int64_t maxExtent = std::numeric_limits<int32_t>::max();

/// Rewrites `root` and all nested operations in place: dimensions and types that name parameters,
/// literals of such types, symbols for which `renameSymbol` has another name, and `tile.param`.
/// With `exactLiterals`, a literal that its type cannot represent becomes a truncation of an f64
/// literal. Expressions and parameter declarations remain. Errors are emitted at the operation that
/// has them.
mlir::LogicalResult applyBindings(mlir::Operation *root, const Bindings &bindings,
                                  bool exactLiterals,
                                  std::function<mlir::StringAttr(llvm::StringRef)> renameSymbol);

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_APPLYBINDINGS_H
