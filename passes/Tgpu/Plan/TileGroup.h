// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The order in which tiles of a kernel with roles run.

#ifndef TILEWRIGHT_PASSES_TGPU_PLAN_TILEGROUP_H
#define TILEWRIGHT_PASSES_TGPU_PLAN_TILEGROUP_H

#include "passes/Tgpu/Roles/RoleSlice.h"

namespace tilewright::tgpu {

/// The number of steps of the second grid id that form a group: tiles of a group that run together
/// read the fewest bytes. 1 is the order of the grid.
int64_t chooseGroup(KernelOp kernel, const RoleSlice &slice);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PLAN_TILEGROUP_H
