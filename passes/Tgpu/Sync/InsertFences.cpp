// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-insert-fences: a forward dataflow of one bit, whether this role has written a buffer that
// wgmma or TMA reads through the generic proxy since its last proxy fence.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"

#include "mlir/IR/Builders.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUINSERTFENCES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The allocation of a buffer, or null if it is not known.
Operation *findAllocation(Value buffer) {
  if (auto slot = buffer.getDefiningOp<SlotOp>())
    buffer = slot.getRing();
  Operation *op = buffer.getDefiningOp();
  return isa_and_nonnull<AllocOp, AllocRingOp>(op) ? op : nullptr;
}

/// Whether the operation makes earlier writes visible to other threads that may read them. Threads
/// that acquire a slot only write it.
bool isBarrier(Operation *op) {
  if (auto arrive = dyn_cast<ArriveOp>(op))
    return !llvm::all_of(arrive.getBarriers().getUsers(),
                         [](Operation *user) { return isa<ArriveOp, AcquireOp>(user); });
  return isa<SyncOp, SignalOp, AnyOp>(op);
}

class FenceInserter {
public:
  explicit FenceInserter(KernelOp kernel) {
    kernel.walk([&](Operation *op) {
      if (auto wgmma = dyn_cast<WgmmaOp>(op)) {
        if (isa<SharedType>(wgmma.getA().getType()))
          addAsyncRead(wgmma.getA());
        addAsyncRead(wgmma.getB());
      } else if (isa<TmaStoreOp, TmaReduceAddOp>(op)) {
        addAsyncRead(op->getOperand(0));
      }
    });
  }

  bool isNeeded() const { return readsUnknown || !asyncReads.empty(); }

  /// The dataflow state at a program point.
  struct State {
    bool copying = false; // copies that have not been waited for
    bool unfenced = false;

    State operator|(State other) const {
      return {copying || other.copying, unfenced || other.unfenced};
    }
  };

  /// Returns the state after `block`. Changes the program only if `insert`.
  State visit(Block &block, State state, bool insert) {
    if (insert)
      return visitOps(block, state, insert);
    // Each loop visits its body twice, so nested loops would take exponential time. Fences that
    // have been inserted since do not change a result.
    auto key = std::make_pair(&block, 2u * state.copying + state.unfenced);
    if (auto found = results.find(key); found != results.end())
      return found->second;
    State result = visitOps(block, state, insert);
    return results[key] = result;
  }

private:
  State visitOps(Block &block, State state, bool insert) {
    for (Operation &op : block) {
      if (auto write = dyn_cast<WriteSharedOp>(op)) {
        state.unfenced |= isReadAsync(write.getBuffer());
      } else if (auto convert = dyn_cast<ConvertOp>(op)) {
        state.unfenced |= convert.getScratch() && isReadAsync(convert.getScratch());
      } else if (auto copy = dyn_cast<CopyAsyncOp>(op)) {
        state.copying |= isReadAsync(copy.getBuffer());
      } else if (isa<CopyWaitOp>(op)) {
        // A copy's writes count as generic-proxy stores from its wait on.
        state.unfenced |= state.copying;
        state.copying &= cast<CopyWaitOp>(op).getPending() != 0;
      } else if (isa<FenceAsyncOp>(op)) {
        state.unfenced = false;
      } else if (isBarrier(&op) && state.unfenced) {
        if (insert) {
          OpBuilder builder(&op);
          FenceAsyncOp::create(builder, op.getLoc());
        }
        state.unfenced = false;
      } else if (op.getNumRegions() != 0) {
        state = visitRegions(op, state, insert);
      }
    }
    return state;
  }

  State visitRegions(Operation &op, State state, bool insert) {
    // An iteration of a loop begins in the state after the previous one.
    bool isLoop = isa<LoopLikeOpInterface>(op);
    if (isLoop)
      for (Region &region : op.getRegions())
        for (Block &block : region)
          state = state | visit(block, state, /*insert=*/false);
    // Exactly one region runs, except for loops and for conditions without an else region.
    bool runsOne = !isLoop && llvm::none_of(op.getRegions(), [](Region &r) { return r.empty(); });
    State after = runsOne ? State() : state;
    for (Region &region : op.getRegions()) {
      State inside = state;
      for (Block &block : region)
        inside = visit(block, inside, insert);
      after = after | inside;
      // The regions of a loop run one after the other.
      if (isLoop)
        state = inside;
    }
    return after;
  }

  void addAsyncRead(Value buffer) {
    if (Operation *allocation = findAllocation(buffer))
      asyncReads.insert(allocation);
    else
      readsUnknown = true;
  }

  bool isReadAsync(Value buffer) const {
    Operation *allocation = findAllocation(buffer);
    return readsUnknown || !allocation || asyncReads.contains(allocation);
  }

  llvm::SmallPtrSet<Operation *, 8> asyncReads;
  bool readsUnknown = false;
  /// Visits without insertion, by the block and the state before it.
  llvm::DenseMap<std::pair<Block *, unsigned>, State> results;
};

struct TgpuInsertFencesPass : tilewright::impl::TgpuInsertFencesBase<TgpuInsertFencesPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      FenceInserter inserter(kernel);
      if (inserter.isNeeded())
        inserter.visit(kernel.getBody().front(), {}, /*insert=*/true);
    }
  }
};

} // namespace
