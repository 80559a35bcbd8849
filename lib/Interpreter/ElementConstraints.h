// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constraints over the elements of arrays of indices, on arrays in host memory.

#ifndef TILEWRIGHT_LIB_INTERPRETER_ELEMENTCONSTRAINTS_H
#define TILEWRIGHT_LIB_INTERPRETER_ELEMENTCONSTRAINTS_H

#include "dialect/Tile/TileExprEval.h"
#include "lib/Interpreter/Arguments.h"

namespace tilewright::interpreter {

/// Whether a constraint asks for elements: ascending(view), within(view, low, high),
/// within_first(view, low, high, counts, size).
bool readsElements(tile::ExprAttr constraint);

/// Reports the first element that breaks such a constraint at the kernel or program: array, index
/// and value. One over an argument that was left out holds.
mlir::LogicalResult checkElements(mlir::Operation *kernelOrProgram, tile::ExprAttr constraint,
                                  llvm::ArrayRef<BoundArgument> arguments,
                                  const tile::ExprEnvironment &environment);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_ELEMENTCONSTRAINTS_H
