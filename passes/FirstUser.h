// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Where the results of an operation are used first.

#ifndef TILEWRIGHT_PASSES_FIRSTUSER_H
#define TILEWRIGHT_PASSES_FIRSTUSER_H

#include "mlir/IR/Block.h"
#include "mlir/IR/Operation.h"

namespace tilewright {

/// The first operation of the operation's block that uses its results or contains a use; null if
/// there is none.
inline mlir::Operation *getFirstUser(mlir::Operation *op) {
  mlir::Operation *first = nullptr;
  for (mlir::Operation *user : op->getUsers())
    if (mlir::Operation *top = op->getBlock()->findAncestorOpInBlock(*user);
        top && (!first || top->isBeforeInBlock(first)))
      first = top;
  return first;
}

} // namespace tilewright

#endif // TILEWRIGHT_PASSES_FIRSTUSER_H
