// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Divides the copies of a kernel between two roles. One thread issues all copies of a role, box
// after box, and those behind a copy wait until it has its slot. The second role, "load_2", makes
// the copies of loops that no product needs whose result the same iteration uses, such as V of
// attention, so that those of K wait neither for the slot of V nor for its boxes.

#ifndef TILEWRIGHT_PASSES_TGPU_ROLES_LOADSPLIT_H
#define TILEWRIGHT_PASSES_TGPU_ROLES_LOADSPLIT_H

#include "passes/Tgpu/Roles/RoleSlice.h"

namespace tilewright::tgpu {

/// What of an iteration reads a group's buffers: early readers, whose results the iteration uses,
/// or late products, whose results the loop only carries. The latter may overlap with the next
/// iteration.
struct Readers {
  bool early = false, late = false;
};

Readers getReaders(const CopyGroup &group);

/// Whether the second of two roles that copy makes the copies of a group: a loop makes them, and
/// late products alone read them.
bool isOfSecondLoad(const CopyGroup &group);

/// Whether two roles can make the copies of a kernel whose tiles come from a counter: a warp is
/// left for the second one, and each loop has copies for both. `explain` emits the reason.
mlir::LogicalResult verifyLoadSplit(KernelOp kernel, const RoleSlice &slice, bool explain);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_ROLES_LOADSPLIT_H
