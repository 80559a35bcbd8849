// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A loop that adds products to carried accumulators need not wait for them in the same iteration.
// With the products of one iteration in flight:
//
//   iteration 0    wait full 0; wgmma ...; commit
//   iteration i    wait full i; wgmma ...; commit; wait until one is pending; arrive empty i - 1
//   after it       wait until none is pending; arrive empty of the last
//
// A product whose operand a the iteration computes in registers ends in its iteration.

#ifndef TILEWRIGHT_PASSES_TGPU_LOOPS_SUMSINFLIGHT_H
#define TILEWRIGHT_PASSES_TGPU_LOOPS_SUMSINFLIGHT_H

#include "passes/Tgpu/Analysis/LoopChain.h"

namespace tilewright::tgpu {

/// If all products of the loops are such sums, gives their wait, and the releases behind it, stage
/// 1, and all other operations stage 0. Returns false if they are not.
bool leaveSumsInFlight(const LoopChain &chain);

} // namespace tilewright::tgpu

#endif // TILEWRIGHT_PASSES_TGPU_LOOPS_SUMSINFLIGHT_H
