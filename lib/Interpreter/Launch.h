// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compiled kernel over its grid.

#ifndef TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H
#define TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H

#include "dialect/Tile/TileExprEval.h"
#include "lib/Interpreter/Arguments.h"
#include "lib/Interpreter/Lowering.h"

namespace tilewright::interpreter {

/// What expressions may read at a launch: shapes and scalars of these arguments, and the number of
/// cores. Refers to `arguments`.
tile::ExprEnvironment environmentOf(mlir::Operation *kernelOrProgram,
                                    llvm::ArrayRef<BoundArgument> arguments);

/// Checks the constraints that read arguments. One that reads the shape of an argument that was
/// left out holds. The first that does not hold is reported at the operation.
mlir::LogicalResult checkConstraints(mlir::Operation *kernelOrProgram,
                                     llvm::ArrayRef<BoundArgument> arguments);

/// Checks the constraints of the kernel and runs every point of the grid on the threads. The first error stops all of them and is reported
/// at the operation that failed.
mlir::LogicalResult launch(const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                           const llvm::StringMap<BoundArgument> &captures, unsigned threads);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H
