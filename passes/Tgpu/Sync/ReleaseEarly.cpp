// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-release-early: releases a slot directly after its last reader.
//
// tgpu-assign-roles releases buffers that are copied once per tile after the loops that read them.
// When iterations overlap, the last product of a loop is in an epilogue after it and reads other
// slots, so the next tile's copy would wait for an unrelated product. This pass moves the arrival
// up, and into both branches of a condition, to the last operation that reads the slot, but never
// into a loop.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPURELEASEEARLY
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

using Buffers = llvm::SmallDenseSet<Value, 4>;

/// The buffer, or the ring that contains it.
Value getRoot(Value buffer) {
  auto slot = buffer.getDefiningOp<SlotOp>();
  return slot ? slot.getRing() : buffer;
}

/// The buffers that copies, or a role that gathers, fill after acquiring these barriers, and the
/// barriers at which the copies arrive; nothing if these are not known.
Buffers getGuarded(Value barriers) {
  Buffers buffers, rows;
  for (Operation *user : barriers.getUsers()) {
    auto acquire = dyn_cast<AcquireOp>(user);
    if (!acquire)
      continue;
    for (Operation *op = acquire->getNextNode(); op && !isa<AcquireOp>(op); op = op->getNextNode())
      if (auto load = dyn_cast<TmaLoadOp>(op); load && load.getUse() == acquire.getUse()) {
        buffers.insert(getRoot(load.getBuffer()));
        buffers.insert(load.getBarriers());
      } else if (auto write = dyn_cast<WriteSharedOp>(op)) {
        rows.insert(getRoot(write.getBuffer()));
      }
  }
  // Rows that arrive with copies. Without copies, other threads of a role that computes write.
  if (!buffers.empty())
    buffers.insert_range(rows);
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
            // A product may extend the sum of another one, which has no wait of its own.
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
      // Do not change the order of an iteration that has been ordered. One whose products go in
      // turn was not, and others wait for its slots.
      auto loop = dyn_cast<scf::ForOp>(arrive->getParentOp());
      auto schedule = loop ? scheduleAttr.get(loop) : ScheduleAttr();
      bool isOfRound = loop && (rareAttr.isOn(loop) || (schedule && schedule.getTurns() != 2));
      Buffers buffers = getGuarded(arrive.getBarriers());
      if (!isOfRound && !buffers.empty())
        moveUp(arrive, buffers);
    }
  }
};

} // namespace
