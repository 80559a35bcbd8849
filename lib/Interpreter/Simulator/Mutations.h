// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Kernels with one synchronisation less. The simulator must find a fault in each: that is what
// shows that it looks, and that the kernel has no synchronisation it does not need.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MUTATIONS_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MUTATIONS_H

#include "mlir/IR/BuiltinOps.h"
#include "mlir/IR/OwningOpRef.h"

#include <string>
#include <vector>

namespace tilewright {

/// On an operation that may be missing: a string that proves it.
constexpr llvm::StringLiteral kRedundantAttr = "tgpu.redundant";

struct Mutation {
  unsigned number = 0; ///< of the operation, in the order of a walk
  /// Waits for groups: so many more may be unfinished. 0: the operation is dropped.
  int64_t weakenedBy = 0;

  bool operator==(const Mutation &other) const {
    return number == other.number && weakenedBy == other.weakenedBy;
  }
};

/// Of every operation that waits, arrives, announces, commits or fences: without it, and waits for
/// groups also with one group more left unfinished. A wait that yields tiles stays, but waits for
/// nothing.
std::vector<Mutation> listMutations(mlir::ModuleOp module);

mlir::OwningOpRef<mlir::ModuleOp> mutate(mlir::ModuleOp module, const Mutation &mutation);

/// The operation, and what is done to it.
mlir::Operation *findMutated(mlir::ModuleOp module, const Mutation &mutation);
std::string describe(mlir::ModuleOp module, const Mutation &mutation);

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_MUTATIONS_H
