// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a compiled kernel over its grid.

#ifndef TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H
#define TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H

#include "dialect/Tile/TileExprEval.h"
#include "lib/Interpreter/Arguments.h"
#include "lib/Interpreter/Lowering.h"

namespace tilewright {
class WatchList;
} // namespace tilewright

namespace tilewright::interpreter {

/// What expressions may read at a launch: shapes and scalars of these arguments, and the number of
/// multiprocessors (none: the cores of this machine). Refers to `arguments`.
tile::ExprEnvironment environmentOf(mlir::Operation *kernelOrProgram,
                                    llvm::ArrayRef<BoundArgument> arguments,
                                    std::optional<int64_t> smCount = std::nullopt);

/// Checks the constraints that read arguments or captures. One that reads the shape of an argument
/// that was left out holds. The first that does not hold is reported at the operation.
mlir::LogicalResult checkConstraints(mlir::Operation *kernelOrProgram,
                                     llvm::ArrayRef<BoundArgument> arguments,
                                     const llvm::StringMap<BoundArgument> &captures,
                                     std::optional<int64_t> smCount = std::nullopt);

/// Points of a kernel's grid.
struct Grid {
  llvm::SmallVector<int64_t> extents;
  int64_t points = 1;

  /// The point with this number; the first id runs fastest.
  llvm::SmallVector<int64_t, 4> pointAt(int64_t number) const;
};
mlir::FailureOr<Grid> gridOf(const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                             std::optional<int64_t> smCount = std::nullopt);

/// Room for the values of a kernel, with its arguments, captures and constants in place.
void initialize(Frame &frame, const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                const llvm::StringMap<BoundArgument> &captures);

/// Adds to an error which point of the grid was run.
void notePoint(mlir::InFlightDiagnostic &error, const CompiledKernel &kernel,
               llvm::ArrayRef<int64_t> point);

/// Checks the constraints of the kernel and runs every point of the grid on the threads. The first
/// error stops all of them and is reported at the operation that failed. With elements to watch, on
/// one thread.
mlir::LogicalResult launch(const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                           const llvm::StringMap<BoundArgument> &captures, unsigned threads,
                           WatchList *watches = nullptr);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H
