// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The table of keys. test/Docs/schedule-keys.test compares it with docs/guide/schedule.md.

#include "passes/Tgpu/Plan/ScheduleKeys.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

ArrayRef<ScheduleKey> tgpu::getScheduleKeys() {
  using O = ScheduleOverrides;
  constexpr int64_t most = 255; // of what the attribute of roles limits further
  static constexpr ScheduleKey keys[] = {
      {"skeleton"},
      {"stages", &O::stages, 1, 32},
      {"in_flight", &O::inFlight, 0, 7},
      {"keep_in_registers"},
      {copyCapturesKey, nullptr, 0, 1},
      {skipOnesKey, nullptr, 0, 1},
      {"turns", &O::turns, 0, 2, true},
      {"group", &O::group, 0, most, true},
      {"dynamic", &O::dynamic, 0, most, true},
      {"tile_stages", &O::tileStages, 0, most, true},
      {"store_buffers", &O::storeBuffers, 0, most, true},
      {"reduce_stages", &O::reduceStages, 0, most, true},
      {"scratch_stages", &O::scratchStages, 0, most, true},
      {"compute_roles", &O::computeRoles, 0, most, true},
      {"late_products", &O::lateProducts, 0, most, true},
      {"load_roles", &O::loadRoles, 0, most, true},
      {"lend", &O::lend, 0, most, true},
      {"load_registers", &O::loadRegisters, 0, most, true},
      {"compute_registers", &O::computeRegisters, 0, most, true},
  };
  return keys;
}

const ScheduleKey *tgpu::findScheduleKey(StringRef name) {
  const auto *found =
      llvm::find_if(getScheduleKeys(), [&](const ScheduleKey &key) { return key.name == name; });
  return found == getScheduleKeys().end() ? nullptr : found;
}

std::string ScheduleKey::describe() const {
  if (least == 0 && most == 1)
    return "0 or 1";
  if (least == 0 && most == 2)
    return "0, 1 or 2";
  return ("a number from " + Twine(least) + " to " + Twine(most)).str();
}
