// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Whether one role or two make the copies of a kernel.

#ifndef TILEWRIGHT_PASSES_TGPU_PLAN_LOADROLES_H
#define TILEWRIGHT_PASSES_TGPU_PLAN_LOADROLES_H

#include "passes/Tgpu/Roles/RoleSlice.h"

namespace tilewright::tgpu {

/// Whether the loops of a kernel, whose blocks take tiles from a counter, are faster if a second
/// role copies for the products whose results they carry (LoadSplit.h).
bool gainsBySecondLoad(KernelOp kernel, const RoleSlice &slice,
                       llvm::ArrayRef<mlir::scf::ForOp> loops);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PLAN_LOADROLES_H
