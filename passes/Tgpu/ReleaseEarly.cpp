// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-release-early: a slot is given back right behind its last reader.
//
// tgpu-assign-roles gives back what is copied once for a tile behind the loops that read it. When
// rounds overlap, the last product of a loop stands in an epilogue behind it, and reads other
// slots. The next tile's copy then waits for a product that has nothing to do with it. So the
// arrival moves up, and into both branches of a condition, to where the last operation that reads
// the slot stands before it; never into a loop.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"
#include "passes/Tgpu/ScheduleNames.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPURELEASEEARLY
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

using Buffers = llvm::SmallDenseSet<Value, 4>;

/// The buffer or the ring that a buffer is of.
Value getRoot(Value buffer) {
  auto slot = buffer.getDefiningOp<SlotOp>();
  return slot ? slot.getRing() : buffer;
}

/// What copies fill behind an acquire of these barriers, and the barriers at which they arrive;
/// nothing if that is not known.
Buffers getGuarded(Value barriers) {
  Buffers buffers;
  for (Operation *user : barriers.getUsers()) {
    auto acquire = dyn_cast<AcquireOp>(user);
    if (!acquire)
      continue;
    for (Operation *op = acquire->getNextNode(); op && !isa<AcquireOp>(op); op = op->getNextNode())
      if (auto load = dyn_cast<TmaLoadOp>(op); load && load.getUse() == acquire.getUse()) {
        buffers.insert(getRoot(load.getBuffer()));
        buffers.insert(load.getBarriers());
      }
  }
  return buffers;
}

/// Whether an operation waits for a copy, reads a buffer, or waits for a product that may read one.
bool concerns(Operation *op, const Buffers &buffers) {
  auto reads = [&](Operation *reader) {
    return llvm::any_of(reader->getOperands(), [&](Value operand) {
      return isa<SharedType, RingType, BarriersType>(operand.getType()) &&
             buffers.contains(getRoot(operand));
    });
  };
  return op
      ->walk([&](Operation *inner) {
        bool isReader = reads(inner);
        if (auto wait = dyn_cast<WgmmaWaitOp>(inner))
          for (Value pending : wait.getOperands()) {
            // A product may go on from another's sum, for which nothing else waits.
            auto product = pending.getDefiningOp<WgmmaOp>();
            isReader |= !product;
            while (product && !isReader) {
              isReader = reads(product);
              Value sum = product.getAcc();
              if (!sum || !isa<PendingType>(sum.getType()))
                break;
              product = sum.getDefiningOp<WgmmaOp>();
              isReader |= !product;
            }
          }
        return isReader ? WalkResult::interrupt() : WalkResult::advance();
      })
      .wasInterrupted();
}

void moveUp(ArriveOp arrive, const Buffers &buffers) {
  while (Operation *before = arrive->getPrevNode()) {
    if (before == arrive.getUse().getDefiningOp())
      return;
    if (!concerns(before, buffers)) {
      arrive->moveBefore(before);
      continue;
    }
    auto branch = dyn_cast<scf::IfOp>(before);
    if (!branch || !branch.elseBlock())
      return;
    for (Block *block : {branch.thenBlock(), branch.elseBlock()}) {
      OpBuilder b(block->getTerminator());
      moveUp(cast<ArriveOp>(b.clone(*arrive)), buffers);
    }
    return arrive.erase();
  }
}

struct TgpuReleaseEarlyPass : tilewright::impl::TgpuReleaseEarlyBase<TgpuReleaseEarlyPass> {
  void runOnOperation() override {
    SmallVector<ArriveOp> arrivals;
    getOperation()->walk([&](RolesOp roles) {
      roles.walk([&](ArriveOp arrive) {
        if (arrive.getPer() == ArriveScope::Warp)
          arrivals.push_back(arrive);
      });
    });
    for (ArriveOp arrive : arrivals) {
      // The order of a round is not to be touched.
      auto loop = dyn_cast<scf::ForOp>(arrive->getParentOp());
      bool isOfRound = loop && (loop->hasAttr(scheduleName) || loop->hasAttr(rareName));
      Buffers buffers = getGuarded(arrive.getBarriers());
      if (!isOfRound && !buffers.empty())
        moveUp(arrive, buffers);
    }
  }
};

} // namespace
