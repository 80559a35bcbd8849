// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The barrier operations with which an iteration uses the slot of a ring.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_ROUNDCHANNEL_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_ROUNDCHANNEL_H

#include "dialect/Tgpu/Tgpu.h"

#include <optional>

namespace tilewright::tgpu {

struct RoundChannel {
  mlir::Operation *wait; ///< or the acquire, where the iteration writes the slot
  mlir::Value barriers;  ///< that `wait` waits for
  mlir::Value use;       ///< the number of the slot's use, by which they belong together
  ArriveOp arrive;       ///< after the last access to the slot
  /// What reads or writes the slot; known once slot operations have been cloned to their uses.
  llvm::SmallVector<mlir::Operation *> readers;

  /// Whether another role waits for the same barriers.
  bool isSharedByRoles() const;
};

/// The channels of an iteration. Nothing if waits and arrivals do not form pairs, or if something
/// is written outside of an acquired slot.
std::optional<llvm::SmallVector<RoundChannel>> collectRoundChannels(mlir::Block *body);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_ROUNDCHANNEL_H
