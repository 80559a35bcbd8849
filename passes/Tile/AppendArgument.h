// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Adds an argument to a kernel or a program.

#ifndef TILEWRIGHT_PASSES_TILE_APPENDARGUMENT_H
#define TILEWRIGHT_PASSES_TILE_APPENDARGUMENT_H

#include "dialect/Tile/Tile.h"

namespace tilewright {

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
