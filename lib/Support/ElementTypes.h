// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#ifndef TILEWRIGHT_LIB_SUPPORT_ELEMENTTYPES_H
#define TILEWRIGHT_LIB_SUPPORT_ELEMENTTYPES_H

#include "base/Numeric/ElementType.h"
#include "dialect/Tile/Tile.h"

namespace tilewright {

/// The type of elements in memory for an MLIR type; nothing for others, such as an unbound type
/// parameter.
inline std::optional<ElementType> toElementType(mlir::Type type) {
  if (type.isSignlessInteger(1))
    return ElementType::I1;
  if (type.isSignlessInteger(32))
    return ElementType::I32;
  if (type.isSignlessInteger(64))
    return ElementType::I64;
  llvm::StringRef spelling = tile::getTypeSpelling(type);
  return parseElementType(std::string_view(spelling.data(), spelling.size()));
}

} // namespace tilewright

#endif
