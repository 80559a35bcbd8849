// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the work of the compute role between two roles. If a kernel carries several sums, such as
// dV and dK of attention, the registers of one warpgroup may not hold both at the same time. Each
// role then computes some of the sums, and every product is computed once: a tile that the first
// role computes from its products, and the second role needs, is handed over in shared memory, as
// are values of its rows, such as factors that rescale a sum.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_COMPUTESPLIT_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_COMPUTESPLIT_H

#include "passes/Tgpu/Roles/RolePart.h"

#include <optional>

namespace tilewright::tgpu {

struct ComputeSplit {
  /// A tile, or values of rows, that the first role writes to a ring, and the second role reads:
  /// one value, or one in each side of a branch, in a loop or after it.
  struct Handover {
    llvm::SmallVector<mlir::Value> values;
    SharedType slot;
  };

  RolePart first, second;
  llvm::SmallVector<Handover> handovers;

  /// Slots of each ring, if there is room: the first role is one iteration ahead of the second one.
  static constexpr int64_t stages = 2;

  int64_t getBytes() const; ///< of one slot of each handover

  /// The split of a kernel in the plain form. Nothing if it stores fewer than two results, or two
  /// to the same columns of an array; if it reads what it writes, adds to memory, votes or writes
  /// to shared memory; if all results depend on the same products; if both roles would reduce over
  /// warps; or if anything but tiles of products and values of their rows would be handed over.
  static std::optional<ComputeSplit> get(KernelOp kernel);
};

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_COMPUTESPLIT_H
