// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: executes the steps of a kernel's participants against each other. VerifySync.h
// describes the method.

#include "passes/Tgpu/VerifySync.h"
#include "passes/Tgpu/WrittenViews.h"

#include "passes/Passes.h"

#include "llvm/ADT/Hashing.h"

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
    // If a trace is incomplete, the missing participant might have arrived later.
    return trace.isCut ? success() : reportDeadlock(stuck);
  }
}

namespace {

using Integers = Launch::Integers;
using Relation = Launch::Relation;
constexpr Launch kLaunches[] = {
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Small, Relation::More},
    {/*answer=*/false, /*hasPartialTiles=*/false, Integers::Small, Relation::Equal},
    {/*answer=*/true, /*hasPartialTiles=*/false, Integers::Small, Relation::Less},
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Large, Relation::More},
    {/*answer=*/true, /*hasPartialTiles=*/false, Integers::Large, Relation::Less},
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Window, Relation::More},
    {/*answer=*/false, /*hasPartialTiles=*/true, Integers::Window, Relation::Equal},
    {/*answer=*/true, /*hasPartialTiles=*/true, Integers::Small, Relation::More,
     /*hasOptional=*/false},
};
/// No further blocks of a kernel are executed after this many operations.
constexpr int64_t kEnoughOperations = 400000;
/// A launch in which some warpgroups have no rows, and the maximum number of its blocks.
constexpr Launch kFewRows = {/*answer=*/true,      /*hasPartialTiles=*/true,
                             Integers::Small,      Relation::Equal,
                             /*hasOptional=*/true, /*hasFewRows=*/true};
constexpr int64_t kMostBlocksOfFewRows = 64;

bool isSynchronization(Operation &op) {
  return isa<SyncOp, SignalOp, AnyOp, CopyCommitOp, CopyWaitOp, WaitOp, AcquireOp, ArriveOp,
             ExpectOp, FenceAsyncOp, BulkCommitOp, BulkWaitOp, WgmmaCommitOp, WgmmaWaitOp,
             TakeTurnOp, PassTurnOp, AwaitTurnOp, EndTurnOp>(op);
}

/// Identifies identical traces, which are executed once.
llvm::hash_code hash(const Trace &trace) {
  llvm::hash_code code(0);
  for (const Participant &participant : trace.participants) {
    code = llvm::hash_combine(code, participant.steps.size());
    for (const Step &step : participant.steps) {
      code = llvm::hash_combine(code, step.op, step.use, step.buffer, step.operandA);
      for (int64_t product : step.products)
        code = llvm::hash_combine(code, product);
    }
  }
  return code;
}

struct TgpuVerifySyncPass : tilewright::impl::TgpuVerifySyncBase<TgpuVerifySyncPass> {
  using TgpuVerifySyncBase::TgpuVerifySyncBase;

  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      llvm::DenseSet<Operation *> reached;
      if (failed(checkOrderedAdditions(kernel)) || failed(checkEarlyReads(kernel)) ||
          failed(playLaunches(kernel, reached)))
        return signalPassFailure();
      if (reportUnreached)
        report(kernel, reached);
    }
    markAllAnalysesPreserved();
  }

private:
  /// Ordered additions by all warps could deadlock, since blocks start in any order.
  static LogicalResult checkOrderedAdditions(KernelOp kernel) {
    WalkResult spread = kernel.walk([](tile::SpreadOp op) {
      op.emitOpError("requires a separate role, on ")
          << Target::getNamesWithRoles()
          << ", but got a kernel without roles or a branch around it; use such a target and "
             "blocks, or a separate kernel";
      return WalkResult::interrupt();
    });
    if (spread.wasInterrupted())
      return failure();
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

  static bool awaitsLastTurn(LoadOp load) {
    for (Operation *op = load; !isa<RolesOp, KernelOp>(op); op = op->getParentOp())
      for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
        if (auto await = dyn_cast<AwaitTurnOp>(before); await && await.getLast())
          return true;
    return false;
  }

  static LogicalResult playLaunches(KernelOp kernel, llvm::DenseSet<Operation *> &reached) {
    struct Play {
      bool answer;
      LaunchShape shape;
      std::vector<SmallVector<int64_t>> blocks;
    };
    bool hasParts =
        kernel.walk([](FirstRoundOp) { return WalkResult::interrupt(); }).wasInterrupted();
    std::vector<Play> plays;
    size_t mostBlocks = 0;
    for (const Launch &launch : kLaunches) {
      // Without integer arguments some launches are identical.
      if (launch.integers != Integers::Small && !takesIntegers(kernel))
        continue;
      if (!launch.hasOptional && !takesOptional(kernel))
        continue;
      LaunchShape shape(kernel, launch);
      plays.push_back({launch.answer, shape, shape.getBlocks()});
      mostBlocks = std::max(mostBlocks, plays.back().blocks.size());
    }
    llvm::DenseSet<size_t> played;
    int64_t numVisited = 0;
    // One block of each launch first, then a second block of each, and so on.
    for (size_t i = 0; i < mostBlocks && numVisited < kEnoughOperations; ++i)
      for (const Play &play : plays) {
        if (i >= play.blocks.size())
          continue;
        Trace trace = traceKernel(kernel, play.shape, play.blocks[i], play.answer);
        numVisited += trace.numVisited;
        if (played.insert(hash(trace)).second && failed(playTrace(kernel, trace, reached)))
          return failure();
        if (hasParts && failed(playParts(kernel, play.shape, play.blocks[i], play.answer, played,
                                         numVisited, reached)))
          return failure();
      }
    if (!hasParts)
      return success();
    LaunchShape few(kernel, kFewRows);
    int64_t blocks = 1;
    for (int64_t extent : few.getGrid())
      blocks = std::min(blocks * extent, kMostBlocksOfFewRows);
    for (int64_t block = 0; block < blocks; ++block) {
      SmallVector<int64_t> ids;
      int64_t rest = block;
      for (int64_t extent : few.getGrid()) {
        ids.push_back(rest % extent);
        rest /= extent;
      }
      if (failed(playParts(kernel, few, ids, kFewRows.answer, played, numVisited, reached)))
        return failure();
    }
    return success();
  }

  /// Executes one block with its warpgroups as separate participants.
  static LogicalResult playParts(KernelOp kernel, const LaunchShape &shape, ArrayRef<int64_t> block,
                                 bool answer, llvm::DenseSet<size_t> &played, int64_t &numVisited,
                                 llvm::DenseSet<Operation *> &reached) {
    Trace parts = traceKernel(kernel, shape, block, answer, /*apart=*/true);
    numVisited += parts.numVisited;
    for (const Participant &participant : parts.participants)
      for (const Step &step : participant.steps)
        reached.insert(step.op);
    return played.insert(hash(parts)).second ? playWarpgroups(parts) : success();
  }

  static LogicalResult playTrace(KernelOp kernel, const Trace &trace,
                                 llvm::DenseSet<Operation *> &reached) {
    bool flies = false;
    for (const Participant &participant : trace.participants)
      for (const Step &step : participant.steps) {
        reached.insert(step.op);
        flies |= isa<TmaLoadOp, BulkLoadOp>(step.op);
      }
    if (failed(Player(kernel, trace, /*deliversEarly=*/false).play()))
      return failure();
    return flies ? Player(kernel, trace, /*deliversEarly=*/true).play() : success();
  }

  /// Reports the first unreached synchronization of each block of operations.
  static void report(KernelOp kernel, const llvm::DenseSet<Operation *> &reached) {
    kernel.walk([&](Block *block) {
      for (Operation &op : *block)
        if (isSynchronization(op) && !reached.contains(&op)) {
          op.emitRemark("was not reached by any simulated launch");
          return;
        }
    });
  }
};

} // namespace
