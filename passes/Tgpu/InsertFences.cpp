// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-insert-fences. One bit of state is carried along the program: whether this role has written,
// by ordinary stores, to a buffer that wgmma or TMA reads, since its last fence.

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

/// Where a buffer was allocated; null where that is not known.
Operation *getAllocation(Value buffer) {
  if (auto slot = buffer.getDefiningOp<SlotOp>())
    buffer = slot.getRing();
  Operation *op = buffer.getDefiningOp();
  return isa_and_nonnull<AllocOp, AllocRingOp>(op) ? op : nullptr;
}

/// Others learn at these operations of what was written before.
bool isBarrier(Operation *op) { return isa<SyncOp, SignalOp, ArriveOp, AnyOp>(op); }

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

  /// What is under way on entry to a point of the program.
  struct State {
    bool copying = false; // copies without a wait for their end
    bool unfenced = false;

    State operator|(State other) const {
      return {copying || other.copying, unfenced || other.unfenced};
    }
  };

  /// The state after `block`. Without `insert` nothing is changed.
  State visit(Block &block, State state, bool insert) {
    for (Operation &op : block) {
      if (auto write = dyn_cast<WriteSharedOp>(op)) {
        state.unfenced |= isReadAsync(write.getBuffer());
      } else if (auto convert = dyn_cast<ConvertOp>(op)) {
        state.unfenced |= convert.getScratch() && isReadAsync(convert.getScratch());
      } else if (auto copy = dyn_cast<CopyAsyncOp>(op)) {
        state.copying |= isReadAsync(copy.getBuffer());
      } else if (isa<CopyWaitOp>(op)) {
        // Copies write like ordinary stores, but not before this point.
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

private:
  State visitRegions(Operation &op, State state, bool insert) {
    // A round of a loop begins with what the round before has left.
    bool isLoop = isa<LoopLikeOpInterface>(op);
    if (isLoop)
      for (Region &region : op.getRegions())
        for (Block &block : region)
          state = state | visit(block, state, /*insert=*/false);
    // One of the regions runs; of a loop, or a condition without an alternative, perhaps none.
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
    if (Operation *allocation = getAllocation(buffer))
      asyncReads.insert(allocation);
    else
      readsUnknown = true;
  }

  bool isReadAsync(Value buffer) const {
    Operation *allocation = getAllocation(buffer);
    return readsUnknown || !allocation || asyncReads.contains(allocation);
  }

  llvm::SmallPtrSet<Operation *, 8> asyncReads;
  bool readsUnknown = false;
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
