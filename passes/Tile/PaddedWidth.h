// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The rules by which widths are padded: padded() and padded_for() of expressions.

#ifndef TILEWRIGHT_PASSES_TILE_PADDEDWIDTH_H
#define TILEWRIGHT_PASSES_TILE_PADDEDWIDTH_H

#include "dialect/Tile/Tile.h"

#include <string>

namespace tilewright {

/// The expression that a call of padded() or padded_for() stands for, on targets with or without
/// roles. Null: no rule has the name that the call gives.
tile::ExprAttr expandPaddedWidth(tile::ExprAttr call, bool hasRoles);

/// "depth, columns, ...": the names of the rules for padded_for().
std::string listPaddedWidths();

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_PADDEDWIDTH_H
