// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the roles that move data would have to do: the copies and the additions to memory of a
// kernel, and what their places depend on.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLESLICE_H
#define TILEWRIGHT_PASSES_TGPU_ROLESLICE_H

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// Copies of one block whose buffers the same operation reads first: they arrive at one barrier. A
/// row rides with the tiles that are read last before it.
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

/// Additions to one view that a role of its own makes, by TMA, from the slots of a ring.
struct Reduction {
  llvm::SmallVector<AtomicAddOp> ops; ///< such as those of the two branches of a condition
  SharedType slot;
  TensorMapType map;
  bool isTransposed = false; ///< the slot holds the transposed tile
};

struct RoleSlice {
  /// Loops, branches and scalars, and of these the results and iteration arguments that are needed.
  struct Part {
    llvm::DenseSet<mlir::Operation *> ops;
    llvm::DenseSet<mlir::Value> values;
  };

  llvm::SmallVector<CopyGroup> groups;
  llvm::SmallVector<Reduction> reductions;
  Part load, reduce; ///< what these roles have in common with the one that computes
  /// Conditions that the role which adds cannot know and that hold but in rare cases. It takes them
  /// to hold; where they do not, it is given zeros.
  llvm::DenseSet<mlir::Operation *> assumed;

  /// Whether additions have an order among blocks.
  bool isOrdered() const {
    return llvm::any_of(reductions, [](const Reduction &reduction) {
      return llvm::any_of(reduction.ops, [](AtomicAddOp add) { return bool(add.getNumber()); });
    });
  }

  /// All copies of the kernel. Fails if some cannot be made by TMA, or cannot be made by a role of
  /// its own; with `explain` says which and why. Additions to memory are taken where a role can
  /// make them; the others stay where they are.
  static mlir::FailureOr<RoleSlice> get(KernelOp kernel, bool explain);
};

/// The loop whose rounds write a buffer and read it in products, if nothing else uses the buffer,
/// and there is but one such loop, of which each round meets at a barrier: behind the write or,
/// where a round is skipped, at the vote that says so.
mlir::scf::ForOp getScratchLoop(AllocOp alloc);

/// The tensor map by which the view of an access is copied from or to a buffer; null where there is
/// none: the view must be an argument that is not optional, or a part of one along a dimension but
/// the innermost, in or behind which the access begins. Columns of the buffer run along the
/// innermost dimension. `dims` are those of the view along which the buffer runs; `isOfFirst` says
/// that the access is of element 0 of the first.
TensorMapType getTensorMap(KernelOp kernel, mlir::Operation *access, mlir::Value view,
                           std::optional<llvm::ArrayRef<int64_t>> dims, bool isOfFirst,
                           SharedType buffer);
template <typename AccessOp>
TensorMapType getTensorMap(KernelOp kernel, AccessOp access,
                           std::optional<llvm::ArrayRef<int64_t>> dims, SharedType buffer) {
  return getTensorMap(kernel, access, access.getView(), dims,
                      startsWithZero(access.getIndices(), access.getStaticIndices()), buffer);
}
template <typename AccessOp>
TensorMapType getTensorMap(KernelOp kernel, AccessOp access, SharedType buffer) {
  return getTensorMap(kernel, access, access.getDims(), buffer);
}

/// What an operation reads, in its regions, too.
llvm::SetVector<mlir::Value> getInputs(mlir::Operation *op);

/// The view that has the tensor map, and where along its ragged dimension a part of it lies; null
/// where the map is not ragged.
struct MappedView {
  mlir::Value argument, begin, size;

  static MappedView of(mlir::Value view);
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLESLICE_H
