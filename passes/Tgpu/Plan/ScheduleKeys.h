// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The keys of --schedule, by which an author fixes what tgpu-plan-schedule decides.

#ifndef TILEWRIGHT_PASSES_TGPU_PLAN_SCHEDULEKEYS_H
#define TILEWRIGHT_PASSES_TGPU_PLAN_SCHEDULEKEYS_H

#include "dialect/Tgpu/Tgpu.h"

#include <optional>

namespace tilewright::tgpu {

/// Whether captures are copied through shared memory (tile-copy-captures).
inline constexpr llvm::StringLiteral copyCapturesKey = "copy_captures";
/// Whether warps skip products with factors that are one (tgpu-skip-ones).
inline constexpr llvm::StringLiteral skipOnesKey = "skip_ones";

/// The values that an author fixed; none if tgpu-plan-schedule decides.
struct ScheduleOverrides {
  std::optional<Skeleton> skeleton;
  std::optional<bool> keepInRegisters;
  std::optional<int64_t> stages, inFlight;
  /// Of kernels that are split into roles.
  std::optional<int64_t> turns, group, dynamic, tileStages, storeBuffers, reduceStages,
      scratchStages, computeRoles, lateProducts, loadRoles, lend, loadRegisters, computeRegisters;
};

/// A key, and the numbers that it takes. The attributes that record a schedule check, in addition,
/// what depends on the target or on other values.
struct ScheduleKey {
  llvm::StringLiteral name;
  /// Null: its values are words, or another pass applies it.
  std::optional<int64_t> ScheduleOverrides::*value = nullptr;
  int64_t least = 0, most = 0;
  bool isOfRoles = false;

  /// "0 or 1", "0, 1 or 2", or "a number from 1 to 32".
  std::string describe() const;
  bool allows(int64_t number) const { return number >= least && number <= most; }
};

/// All keys, in the order in which messages and documents list them.
llvm::ArrayRef<ScheduleKey> getScheduleKeys();
/// Null if there is no such key.
const ScheduleKey *findScheduleKey(llvm::StringRef name);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_PLAN_SCHEDULEKEYS_H
