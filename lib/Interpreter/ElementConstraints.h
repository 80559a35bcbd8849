// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constraints over the elements of index arrays in host memory.

#ifndef TILEWRIGHT_LIB_INTERPRETER_ELEMENTCONSTRAINTS_H
#define TILEWRIGHT_LIB_INTERPRETER_ELEMENTCONSTRAINTS_H

#include "dialect/Tile/TileExprEval.h"
#include "lib/Interpreter/Arguments.h"

namespace tilewright::interpreter {

/// Whether a constraint is over elements: ascending(view), within(view, low, high),
/// within_first(view, low, high, counts, size).
bool readsElements(tile::ExprAttr constraint);

/// Reports the first element that violates such a constraint at the kernel or program: array, index
/// and value. A constraint over an omitted argument holds.
mlir::LogicalResult checkElements(mlir::Operation *kernelOrProgram, tile::ExprAttr constraint,
                                  llvm::ArrayRef<BoundArgument> arguments,
                                  const tile::ExprEnvironment &environment);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_ELEMENTCONSTRAINTS_H
