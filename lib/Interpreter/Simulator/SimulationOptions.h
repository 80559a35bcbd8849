// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Options of the simulator.

#ifndef TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATIONOPTIONS_H
#define TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATIONOPTIONS_H

#include "llvm/ADT/SmallVector.h"

#include <cstdint>
#include <set>

namespace tilewright {

class WatchList;

/// When asynchronous work is executed: copies deliver, products read their operands.
enum class AsyncMoment {
  Earliest, ///< at its start
  Latest,   ///< at the wait for it
  Random    ///< in between, by the seed; roles also run in a random order
};

struct SimulationOptions {
  uint64_t seed = 0;
  /// Each run starts from the caller's arrays; the results of the last one remain.
  llvm::SmallVector<AsyncMoment, 3> moments = {AsyncMoment::Earliest, AsyncMoment::Latest,
                                               AsyncMoment::Random};
  /// The value of `sm_count()`: two, so that a block of a persistent grid has several tiles.
  int64_t smCount = 2;
  /// A block that executes more steps than this, or rounds of loops, is reported as endless.
  int64_t mostSteps = int64_t(1) << 24;
  /// Receives the operations of tgpu that were executed at least once, by their numbers in a
  /// pre-order walk of the module.
  std::set<unsigned> *executed = nullptr;
  /// Elements whose writers are recorded (Watch.h), in the last run.
  WatchList *watches = nullptr;
};

} // namespace tilewright

#endif // TILEWRIGHT_LIB_INTERPRETER_SIMULATOR_SIMULATIONOPTIONS_H
