// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of tgpu-plan-schedule that splits kernels for Hopper into roles.

#ifndef TILEWRIGHT_PASSES_TGPU_PLAN_PLANROLES_H
#define TILEWRIGHT_PASSES_TGPU_PLAN_PLANROLES_H

#include "passes/Tgpu/Plan/ScheduleKeys.h"

namespace tilewright::tgpu {

/// Plans a kernel whose loops feed wgmma, if a separate role can make all its copies. Returns
/// whether it did. With `must`, it is an error if that is not possible.
mlir::FailureOr<bool> planRoles(KernelOp kernel, const ScheduleOverrides &overrides, bool must);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PLAN_PLANROLES_H
