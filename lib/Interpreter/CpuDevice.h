// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU device: runs a specialized kernel or program (after tile-specialize) on arrays in memory.

#ifndef TILEWRIGHT_LIB_INTERPRETER_CPUDEVICE_H
#define TILEWRIGHT_LIB_INTERPRETER_CPUDEVICE_H

#include "lib/Interpreter/Argument.h"

#include "mlir/Support/LLVM.h"
#include "llvm/ADT/StringMap.h"

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

class WatchList;

struct RunOptions {
  /// Computes every float in f64, without rounding. Arrays of float views are then of
  /// ElementType::F64, otherwise of the declared type.
  bool f64 = false;
  /// Zero: all cores. Results do not depend on it, except for the order of atomic additions.
  unsigned threads = 0;
  /// Elements whose writers are recorded (Watch.h); the run then uses one thread.
  WatchList *watches = nullptr;
  /// An error where an instance stores an element that another one of the same launch stores or
  /// loads (InstanceCheck.h).
  bool checksInstances = true;
};

/// Runs the kernel or program `entry`, whose parameters are bound. Arguments, and the captures of
/// its module, are bound by name; an optional argument may be missing. Every error (an invalid
/// argument, an operation that the device does not support, a run-time error such as an integer
/// division by zero) is a diagnostic at the entry or at the operation. If an argument or an
/// operation is rejected, nothing has been written; after a run-time error the outputs are
/// undefined.
mlir::LogicalResult runOnCpu(mlir::Operation *entry, const llvm::StringMap<Argument> &arguments,
                             const RunOptions &options = {});

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_CPUDEVICE_H
