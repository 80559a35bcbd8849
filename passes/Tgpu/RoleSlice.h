// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a kernel's load role would have to do: its copies, and what their places depend on.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLESLICE_H
#define TILEWRIGHT_PASSES_TGPU_ROLESLICE_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// Copies of one block whose buffers the same operation reads first: they arrive at one barrier.
struct CopyGroup {
  llvm::SmallVector<CopyAsyncOp> copies; ///< in order
  mlir::Block *block = nullptr;
  /// The operations of the block that contain the first use of a buffer, and the end of the last:
  /// of a product the wait for it.
  mlir::Operation *firstUse = nullptr, *lastUse = nullptr;
  mlir::Operation *reader = nullptr; ///< the first operation that reads a buffer

  int64_t getBytes() const; ///< of one slot of all its rings
  /// The loop whose rounds the copies belong to; null for those made once for each tile.
  mlir::scf::ForOp getLoop() const;
};

struct RoleSlice {
  llvm::SmallVector<CopyGroup> groups;
  /// What the load role has in common with the other: loops, branches and scalars.
  llvm::DenseSet<mlir::Operation *> needed;
  /// Results of loops and branches that it needs, and iteration arguments of loops.
  llvm::DenseSet<mlir::Value> neededValues;

  /// All copies of the kernel. Fails if some cannot be made by TMA, or cannot be made by a role of
  /// its own; with `explain` says which and why.
  static mlir::FailureOr<RoleSlice> get(KernelOp kernel, bool explain);
};

/// The tensor map by which a view is copied from or to a buffer; null where there is none: the view
/// must be an argument that is not optional, and the buffer be made of its last dimensions.
TensorMapType getTensorMap(KernelOp kernel, mlir::Value view,
                           std::optional<llvm::ArrayRef<int64_t>> dims, SharedType buffer);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLESLICE_H
