// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The CPU device: runs a specialized kernel or program (after tile-specialize) on arrays in memory.

#ifndef TILEWRIGHT_LIB_INTERPRETER_CPUDEVICE_H
#define TILEWRIGHT_LIB_INTERPRETER_CPUDEVICE_H

#include "base/Numeric/ElementType.h"
#include "mlir/Support/LLVM.h"
#include "llvm/ADT/SmallVector.h"
#include "llvm/ADT/StringMap.h"
#include <variant>

namespace mlir {
class Operation;
} // namespace mlir

namespace tilewright {

class WatchList;

/// An array of the caller. Element (i0, i1, ...) is at data + (i0 * strides[0] + ...) elements;
/// strides may be zero or negative. `data` may be null only if there are no elements. No alignment
/// is required, except for arrays that a kernel adds to atomically.
struct ArrayArgument {
  ElementType type = ElementType::F32;
  llvm::SmallVector<int64_t> shape, strides;
  void *data = nullptr;
};

/// An array for a view; for a scalar, a double for a float type and an int64_t for an integer type
/// (a float scalar takes either).
using Argument = std::variant<ArrayArgument, double, int64_t>;

struct RunOptions {
  /// Computes every float in f64, without rounding. Arrays of float views are then of
  /// ElementType::F64, otherwise of the declared type.
  bool f64 = false;
  /// Zero: all cores. Results do not depend on it, except for the order of atomic additions.
  unsigned threads = 0;
  /// Elements whose writers are recorded (Watch.h); the run then uses one thread.
  WatchList *watches = nullptr;
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
