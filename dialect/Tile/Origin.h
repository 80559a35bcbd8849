// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a diagnostic says of a value that must come from another operation.

#ifndef TILEWRIGHT_DIALECT_TILE_ORIGIN_H
#define TILEWRIGHT_DIALECT_TILE_ORIGIN_H

#include "mlir/IR/Operation.h"

namespace tilewright::tile {

/// "a result of 'tgpu.slot'", or "an argument of 'scf.for'".
inline std::string describeOrigin(mlir::Value value) {
  mlir::Operation *op = value.getDefiningOp();
  const char *what = op ? "a result of '" : "an argument of '";
  if (!op)
    op = llvm::cast<mlir::BlockArgument>(value).getOwner()->getParentOp();
  return what + op->getName().getStringRef().str() + "'";
}

} // namespace tilewright::tile

#endif // TILEWRIGHT_DIALECT_TILE_ORIGIN_H
