// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: executes the steps of a kernel's participants against each other. VerifySync.h
// describes the method.

#include "passes/Tgpu/Sync/VerifySync.h"
#include "passes/Tgpu/Analysis/Notes.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Sync/SyncCoverage.h"

#include "passes/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/StringSet.h"

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
    // A participant of the next phase knows the state of the previous phase at its end. All steps
    // of a role are known; steps of the block's warps are known up to their last synchronization.
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
  if (!trace.cut && !trace.phases.empty())
    for (int who : trace.phases.back())
      if (failed(checkEnd(who)))
        return failure();
  return trace.cut ? success() : checkPhases();
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
    // If a trace is incomplete, the missing participant might have arrived later.
    return trace.cut ? success() : reportDeadlock(stuck);
  }
}

namespace {

struct TgpuVerifySyncPass : tilewright::impl::TgpuVerifySyncBase<TgpuVerifySyncPass> {
  using TgpuVerifySyncBase::TgpuVerifySyncBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      Coverage coverage(kernel);
      Cut cut;
      if (failed(checkOrderedAdditions(kernel)) || failed(checkEarlyReads(kernel)) ||
          failed(checkOperandsInFlight(kernel)) || failed(verifyLaunches(kernel, coverage, cut)))
        return signalPassFailure();
      if (cut)
        cut.op->emitRemark()
            << "'" << cut.op->getName()
            << "' is not followed by tgpu-verify-sync, which checks the kernel only "
               "in part: "
            << cut.reason;
      report(coverage);
    }
    markAllAnalysesPreserved();
  }

private:
  /// Ordered additions by all warps could deadlock, since blocks start in any order.
  static LogicalResult checkOrderedAdditions(KernelOp kernel) {
    WalkResult result = kernel.walk([](AtomicAddOp add) {
      if (!add.getNumber())
        return WalkResult::advance();
      add.emitOpError("adds in order, which requires a separate role, on ")
          << Target::getNamesWithRoles()
          << ", and accumulators of wgmma in a loop, but got an addition by the compute warps; use "
             "such a target and blocks, or leave out 'in order'";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// Other blocks also add to sums, so a reader must await the last turn.
  static LogicalResult checkEarlyReads(KernelOp kernel) {
    llvm::SmallDenseMap<Value, TmaReduceAddOp> sums;
    kernel.walk([&](TmaReduceAddOp add) {
      auto map = add.getMap().getDefiningOp<TensorMapOp>();
      if (map)
        sums.try_emplace(getViewRoot(map.getView()), add);
    });
    WalkResult result = kernel.walk([&](LoadOp load) {
      TmaReduceAddOp add = sums.lookup(getViewRoot(load.getView()));
      if (!add || awaitsLastTurn(load))
        return WalkResult::advance();
      InFlightDiagnostic diagnostic = load.emitOpError(
          "reads a sum to which other blocks may still add; tgpu.await_turn with 'last' "
          "must come before");
      diagnostic.attachNote(add.getLoc()) << "an addition";
      return WalkResult::interrupt();
    });
    return failure(result.wasInterrupted());
  }

  /// A product reads operand a from registers until it ends, and the next iteration may write those
  /// of a value that each iteration computes: ptxas keeps other values out of them in straight code
  /// only. That the loop carries an operand is followed with the products.
  static LogicalResult checkOperandsInFlight(KernelOp kernel) {
    WalkResult result = kernel.walk([](WgmmaOp product) {
      Value a = product.getA();
      if (!isa<RankedTensorType>(a.getType()) || !a.getDefiningOp())
        return WalkResult::advance();
      for (Operation *user : product->getUsers()) {
        auto loop = isa<scf::YieldOp>(user) ? dyn_cast<scf::ForOp>(user->getParentOp()) : nullptr;
        if (!loop || loop.isDefinedOutsideOfLoop(a))
          continue;
        product.emitOpError("must end in its iteration, since the next one may write the registers "
                            "of operand a, but got a product that the loop carries; await it by "
                            "tgpu.wgmma_wait, or read operand a from shared memory");
        return WalkResult::interrupt();
      }
      return WalkResult::advance();
    });
    return failure(result.wasInterrupted());
  }

  static bool awaitsLastTurn(LoadOp load) {
    for (Operation *op = load; !isa<RolesOp, KernelOp>(op); op = op->getParentOp())
      for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
        if (auto await = dyn_cast<AwaitTurnOp>(before); await && await.getLast())
          return true;
    return false;
  }

  /// A line of the source is named once: the parts of its loop have the same synchronization.
  void report(const Coverage &coverage) const {
    llvm::StringSet<> lines;
    for (UncheckedSync unchecked : coverage.findUnreached()) {
      Operation *op = unchecked.op;
      std::string place = describePlace(op->getLoc());
      if (!unchecked.isBesideProduct) {
        if (reportUnreached)
          op->emitRemark("was not reached by any simulated launch");
      } else if (lines.insert(StringRef(place).rsplit(':').first).second) {
        op->emitWarning() << "'" << op->getName()
                          << "' is not checked: no launch that tgpu-verify-sync plays reaches it; "
                             "run the kernel on the simulator with arguments that do";
      }
    }
  }
};

} // namespace
