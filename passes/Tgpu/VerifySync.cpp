// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: plays the steps of a kernel's participants against each other. VerifySync.h has
// the plan.

#include "passes/Tgpu/VerifySync.h"

#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUVERIFYSYNC
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

Player::Player(KernelOp kernel, const Trace &trace, bool deliversEarly)
    : kernel(kernel), trace(trace), deliversEarly(deliversEarly), states(trace.participants.size()),
      memory(trace.places.size()) {
  for (State &state : states)
    state.knows.of.resize(states.size());
}

LogicalResult Player::play() {
  for (ArrayRef<int> phase : trace.phases) {
    // Whoever begins a phase knows what those of the phase before knew when they ended. What a role
    // has done before it ended is known; what a warp of the block has done only as far as it met
    // others.
    for (int who : phase)
      for (int before = 0; before < phase.front(); ++before) {
        const State &state = states[before];
        states[who].knows.merge(state.knows);
        auto end = static_cast<int64_t>(trace.participants[before].steps.size());
        bool isRole = trace.participants[before].warps != static_cast<int64_t>(kernel.getWarps());
        states[who].knows.of[before] = {isRole ? end : state.synced, end};
      }
    if (failed(playPhase(phase)))
      return failure();
  }
  if (!trace.isCut && !trace.phases.empty())
    for (int who : trace.phases.back())
      if (failed(checkEnd(who)))
        return failure();
  return success();
}

LogicalResult Player::playPhase(ArrayRef<int> phase) {
  while (true) {
    bool moved = false;
    SmallVector<int> stuck;
    for (int who : phase) {
      const std::vector<Step> &steps = trace.participants[who].steps;
      State &state = states[who];
      while (state.next < steps.size()) {
        Outcome outcome = playBarrier(who, steps[state.next]);
        if (outcome == Outcome::Error)
          return failure();
        if (outcome == Outcome::Blocked)
          break;
        ++state.next;
        moved = true;
      }
      if (state.next < steps.size())
        stuck.push_back(who);
    }
    if (stuck.empty())
      return success();
    if (moved)
      continue;
    if (!flights.empty()) {
      Flight flight = flights.front();
      flights.pop_front();
      if (failed(deliver(flight)))
        return failure();
      continue;
    }
    // Whoever is missing might have come after the cut.
    return trace.isCut ? success() : reportDeadlock(stuck);
  }
}

namespace {

constexpr Launch kLaunches[] = {
    {/*answer=*/true, /*hasPartialBlocks=*/true, /*hasLongScalars=*/false},
    {/*answer=*/false, /*hasPartialBlocks=*/false, /*hasLongScalars=*/false},
    {/*answer=*/true, /*hasPartialBlocks=*/false, /*hasLongScalars=*/true},
};

struct TgpuVerifySyncPass : tilewright::impl::TgpuVerifySyncBase<TgpuVerifySyncPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      for (const Launch &launch : kLaunches) {
        Trace trace = traceKernel(kernel, launch);
        if (failed(Player(kernel, trace, /*deliversEarly=*/!launch.answer).play()))
          return signalPassFailure();
      }
    markAllAnalysesPreserved();
  }
};

} // namespace
