// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds an argument to a kernel or a program.

#ifndef TILEWRIGHT_PASSES_TILE_APPENDARGUMENT_H
#define TILEWRIGHT_PASSES_TILE_APPENDARGUMENT_H

#include "dialect/Tile/Tile.h"

#include <string>
#include <type_traits>

namespace tilewright {

/// The name, with as many underscores after it as make it one that a kernel or a program does not
/// use.
template <typename OpTy> std::string getFreeName(OpTy op, std::string name) {
  tile::Signature signature(op);
  auto isTaken = [&] {
    if constexpr (std::is_same_v<OpTy, tile::KernelOp>)
      if (llvm::is_contained(op.getGridNames(), mlir::StringAttr::get(op.getContext(), name)))
        return true;
    return signature.findParam(name) || signature.findArg(name) >= 0;
  };
  while (isTaken())
    name += "_";
  return name;
}

/// Appends to the declared arguments of a kernel or a program.
template <typename OpTy>
mlir::Value appendArgument(OpTy op, llvm::StringRef name, mlir::Type type, bool isOptional,
                           mlir::Location loc) {
  mlir::MLIRContext *context = op.getContext();
  unsigned position = op.getNumArgs();
  llvm::SmallVector<mlir::Attribute> names(op.getArgNames().getValue());
  names.push_back(mlir::StringAttr::get(context, name));
  llvm::SmallVector<bool> optional(op.getArgOptional());
  optional.push_back(isOptional);
  op.setArgNamesAttr(mlir::ArrayAttr::get(context, names));
  op.setArgOptionalAttr(mlir::DenseBoolArrayAttr::get(context, optional));
  return op.getBody().front().insertArgument(position, type, loc);
}

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_TILE_APPENDARGUMENT_H
