// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The part of tgpu-plan-schedule that splits kernels for Hopper into roles.

#ifndef TILEWRIGHT_PASSES_TGPU_PLAN_PLANROLES_H
#define TILEWRIGHT_PASSES_TGPU_PLAN_PLANROLES_H

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/ADT/StringSwitch.h"

#include <optional>

namespace tilewright::tgpu {

/// The schedule values that an author fixed.
struct RoleOverrides {
  std::optional<int64_t> stages, inFlight, turns, group, dynamic, tileStages, storeBuffers,
      reduceStages, scratchStages, computeRoles, lateProducts, lend, loadRegisters,
      computeRegisters;

  /// The member for a key of --schedule that applies only to roles; null for other keys.
  std::optional<int64_t> *find(llvm::StringRef key) {
    return llvm::StringSwitch<std::optional<int64_t> *>(key)
        .Case("turns", &turns)
        .Case("group", &group)
        .Case("dynamic", &dynamic)
        .Case("tile_stages", &tileStages)
        .Case("store_buffers", &storeBuffers)
        .Case("reduce_stages", &reduceStages)
        .Case("scratch_stages", &scratchStages)
        .Case("compute_roles", &computeRoles)
        .Case("late_products", &lateProducts)
        .Case("lend", &lend)
        .Case("load_registers", &loadRegisters)
        .Case("compute_registers", &computeRegisters)
        .Default(nullptr);
  }
};

/// Plans a kernel whose loops feed wgmma, if a separate role can make all its copies. Returns
/// whether it did. With `must`, it is an error if that is not possible.
mlir::FailureOr<bool> planRoles(KernelOp kernel, const RoleOverrides &overrides, bool must);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PLAN_PLANROLES_H
