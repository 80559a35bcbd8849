// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
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

/// The environment of expressions at a launch: shapes and scalars of these arguments, and the
/// number of multiprocessors (none: the cores of this machine). Refers to `arguments`.
tile::ExprEnvironment environmentOf(mlir::Operation *kernelOrProgram,
                                    llvm::ArrayRef<BoundArgument> arguments,
                                    std::optional<int64_t> smCount = std::nullopt);

/// Checks the constraints that read arguments or captures. A constraint over the shape of an
/// omitted argument holds. Reports the first violation at the operation.
mlir::LogicalResult checkConstraints(mlir::Operation *kernelOrProgram,
                                     llvm::ArrayRef<BoundArgument> arguments,
                                     const llvm::StringMap<BoundArgument> &captures,
                                     std::optional<int64_t> smCount = std::nullopt);

/// The points of a kernel's grid.
struct Grid {
  llvm::SmallVector<int64_t> extents;
  int64_t points = 1;

  /// The point with this number; the first id varies fastest.
  llvm::SmallVector<int64_t, 4> pointAt(int64_t number) const;
};
mlir::FailureOr<Grid> gridOf(const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                             std::optional<int64_t> smCount = std::nullopt);

/// Allocates the values of a kernel and sets its arguments, captures and constants.
void initialize(Frame &frame, const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                const llvm::StringMap<BoundArgument> &captures);

/// Adds the grid point at which an error occurred to its diagnostic.
void notePoint(mlir::InFlightDiagnostic &error, const CompiledKernel &kernel,
               llvm::ArrayRef<int64_t> point);

/// Checks the constraints of the kernel and executes every grid point on the threads. The first
/// error stops all of them and is reported at the failing operation. Uses one thread if elements
/// are watched. `checksInstances`: see InstanceCheck.h.
mlir::LogicalResult launch(const CompiledKernel &kernel, llvm::ArrayRef<BoundArgument> arguments,
                           const llvm::StringMap<BoundArgument> &captures, unsigned threads,
                           WatchList *watches = nullptr, bool checksInstances = true);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_LAUNCH_H
