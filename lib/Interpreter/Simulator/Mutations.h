// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels without one of their synchronizations. The simulator must report a fault in each, which
// shows that it detects missing synchronization and that the kernel has none that is redundant.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MUTATIONS_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MUTATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace tilewright {

struct Mutation {
  unsigned number = 0; ///< number of the operation, in the order of a walk
  /// Waits for groups: the number of additional groups that may be incomplete. 0: the operation is
  /// dropped.
  int64_t weakenedBy = 0;

  bool operator==(const Mutation &other) const {
    return number == other.number && weakenedBy == other.weakenedBy;
  }
};

/// Mutations of every operation that waits, arrives, expects, commits or fences: without it and,
/// for waits for groups, with one more group incomplete. A wait that yields tiles remains but waits
/// for nothing.
std::vector<Mutation> listMutations(mlir::ModuleOp module);

mlir::OwningOpRef<mlir::ModuleOp> mutate(mlir::ModuleOp module, const Mutation &mutation);

/// The mutated operation, and a description of the mutation.
mlir::Operation *findMutated(mlir::ModuleOp module, const Mutation &mutation);
std::string describe(mlir::ModuleOp module, const Mutation &mutation);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MUTATIONS_H
