// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The operations of the data-moving roles: the copies and the additions to memory of a kernel, and
// the operations that their indices depend on.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_ROLESLICE_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_ROLESLICE_H

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Roles/ComputeSplit.h"
#include "passes/Tgpu/Roles/SpreadWork.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright::tgpu {

/// A tile of one row that an iteration gathers, at indices that do not depend on carried values.
struct GatheredRow {
  llvm::SmallVector<tile::GatherOp> ops; ///< of the same elements: one in each side of a branch
  SharedType slot;
  mlir::Value gathered; ///< by the role that gathers, once tgpu-assign-roles has detached it
};

/// Copies of one block whose buffers have the same first reader: they arrive at one barrier. A row
/// joins the last group of tiles that is read before it.
struct CopyGroup {
  llvm::SmallVector<CopyAsyncOp> copies; ///< in order
  mlir::Block *block = nullptr;
  /// The operations of the block that contain the first use of a buffer and the end of the last
  /// use. The use of a product ends at its wait.
  mlir::Operation *firstUse = nullptr, *lastUse = nullptr;
  mlir::Operation *reader = nullptr; ///< the first operation that reads a buffer
  /// Rows that arrive at the barrier, too, from a role that gathers.
  llvm::SmallVector<GatheredRow> gathers;

  int64_t getCopiedBytes() const; ///< of one slot of each copy
  int64_t getBytes() const;       ///< of one slot of each of its rings
  /// The loop in whose iterations the copies are made; null for copies made once per tile.
  mlir::scf::ForOp getLoop() const;
};

/// Additions to one view that a separate role makes, by TMA, from the slots of a ring.
struct Reduction {
  llvm::SmallVector<AtomicAddOp> ops; ///< for example one in each branch of a condition
  SharedType slot;
  TensorMapType map;
  bool isTransposed = false; ///< the slot holds the transposed tile
};

struct RoleSlice {
  llvm::SmallVector<CopyGroup> groups;
  llvm::SmallVector<Reduction> reductions;
  std::optional<SpreadWork> spread;
  std::optional<ComputeSplit> split; ///< set if the compute role is divided
  /// Operations that these roles share with compute.
  RolePart load, reduce, gather;
  /// Conditions that the reduce role cannot compute and that are rarely false. The role assumes
  /// that they hold; the compute role sends zeros if they do not.
  llvm::DenseSet<mlir::Operation *> assumed;

  /// Whether additions are ordered among thread blocks.
  bool isOrdered() const {
    return llvm::any_of(reductions, [](const Reduction &reduction) {
      return llvm::any_of(reduction.ops, [](AtomicAddOp add) { return bool(add.getNumber()); });
    });
  }

  /// The loops that copy, each once.
  llvm::SmallVector<mlir::scf::ForOp> getCopyingLoops() const {
    llvm::SmallVector<mlir::scf::ForOp> loops;
    for (const CopyGroup &group : groups)
      if (mlir::scf::ForOp loop = group.getLoop(); loop && !llvm::is_contained(loops, loop))
        loops.push_back(loop);
    return loops;
  }
  /// Whether all that iterations copy comes from memory, since no other block reads it.
  bool readsMemoryOnly() const {
    return llvm::all_of(groups, [](const CopyGroup &group) {
      return !group.getLoop() ||
             llvm::all_of(group.copies, [](CopyAsyncOp copy) { return readOnceAttr.isOn(copy); });
    });
  }
  bool hasGathers() const {
    return llvm::any_of(groups, [](const CopyGroup &group) { return !group.gathers.empty(); });
  }
  /// Gathered rows stay in the compute role.
  void dropGathers() {
    for (CopyGroup &group : groups)
      group.gathers.clear();
  }

  /// All copies of the kernel. Fails if TMA, or a separate role, cannot make some of them;
  /// `explain` emits the reason. Additions to memory are included if a role can make them; the
  /// others stay in the compute role.
  static mlir::FailureOr<RoleSlice> get(KernelOp kernel, bool explain);
};

/// The loop that writes a buffer and reads it in products in every iteration, if it is the only
/// user of the buffer and each iteration passes a barrier: after the write or, in a skipped
/// iteration, the vote.
mlir::scf::ForOp getScratchLoop(AllocOp alloc);

/// The tensor map that copies between the view of an access and a buffer, or null. The view must be
/// a non-optional argument, or a part of one along a dimension other than the innermost, and the
/// access must not begin before that part. The buffer's columns run along the innermost dimension.
/// `dims` are the view's dimensions along which the buffer lies; `isOfFirst` means that the access
/// is to element 0 of the first dimension. `why` receives the reason if there is none.
TensorMapType getTensorMap(KernelOp kernel, mlir::Operation *access, mlir::Value view,
                           std::optional<llvm::ArrayRef<int64_t>> dims, bool isOfFirst,
                           SharedType buffer, std::string *why = nullptr);
template <typename AccessOp>
TensorMapType getTensorMap(KernelOp kernel, AccessOp access,
                           std::optional<llvm::ArrayRef<int64_t>> dims, SharedType buffer,
                           std::string *why = nullptr) {
  return getTensorMap(kernel, access, access.getView(), dims,
                      startsWithZero(access.getIndices(), access.getStaticIndices()), buffer, why);
}
template <typename AccessOp>
TensorMapType getTensorMap(KernelOp kernel, AccessOp access, SharedType buffer,
                           std::string *why = nullptr) {
  return getTensorMap(kernel, access, access.getDims(), buffer, why);
}

/// The operations on tiles by which an iteration computes a gathered row and its indices, operands
/// first, and the scalars that these read. Fails if another role could not compute them.
struct GatherSlice {
  llvm::SetVector<mlir::Operation *> tiles;
  llvm::SetVector<mlir::Value> scalars;

  static mlir::FailureOr<GatherSlice> get(tile::GatherOp gather, const WrittenViews &written);
};

/// Whether two gathers read the same elements.
bool areSameGathers(tile::GatherOp x, tile::GatherOp y);

/// The view that has the tensor map, and the bounds of a part along its ragged dimension; null if
/// the map is not ragged.
struct MappedView {
  mlir::Value argument, begin, size;

  static MappedView of(mlir::Value view);
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_ROLESLICE_H
