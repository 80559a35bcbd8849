// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Runs a kernel or a program: arguments, workspaces, conditions, launches. A KernelRunner executes
// the kernels.

#ifndef TILEWRIGHT_LIB_INTERPRETER_ENTRYRUN_H
#define TILEWRIGHT_LIB_INTERPRETER_ENTRYRUN_H

#include "lib/Interpreter/Arguments.h"

namespace tilewright::interpreter {

class KernelRunner {
public:
  virtual ~KernelRunner() = default;

  /// Called for every kernel, possibly several times, before anything is written.
  virtual mlir::LogicalResult compile(tile::KernelOp kernel) = 0;
  virtual mlir::LogicalResult launch(tile::KernelOp kernel, llvm::ArrayRef<BoundArgument> arguments,
                                     const llvm::StringMap<BoundArgument> &captures) = 0;
};

struct EntryOptions {
  bool f64 = false;
  std::optional<int64_t> smCount; ///< value of `sm_count()`; none: number of cores of this machine
};

/// As runOnCpu, with kernels executed by `runner`.
mlir::LogicalResult runEntry(mlir::Operation *entry, const llvm::StringMap<Argument> &arguments,
                             const EntryOptions &options, KernelRunner &runner);

/// Binds the arguments and checks the constraints of the entry without running it: used before
/// arrays in host memory are copied to a device, where constraints over elements cannot be checked.
mlir::LogicalResult checkEntry(mlir::Operation *entry, const llvm::StringMap<Argument> &arguments,
                               std::optional<int64_t> smCount);

} // namespace tilewright::interpreter

#endif // TILEWRIGHT_LIB_INTERPRETER_ENTRYRUN_H
