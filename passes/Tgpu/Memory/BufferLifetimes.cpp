// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The live range of a buffer extends from its first use to its last, in program order. A loop that
// contains some of the uses extends it to the whole loop, unless the loop contains all of them and
// every read follows a write of the same iteration.

#include "passes/Tgpu/Memory/BufferLifetimes.h"

#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isWrite(Operation *op) { return isa<WriteSharedOp, CopyAsyncOp, ConvertOp>(op); }

/// Whether `earlier` executes before `later` in each iteration of their common enclosing loop.
static bool dominates(Operation *earlier, Operation *later) {
  Operation *ancestor = earlier->getBlock()->findAncestorOpInBlock(*later);
  return ancestor && (ancestor == earlier || earlier->isBeforeInBlock(ancestor));
}

BufferLifetimes::BufferLifetimes(KernelOp kernel) : kernel(kernel) {
  int64_t next = 0;
  kernel.walk<WalkOrder::PreOrder>([&](Operation *op) {
    positions[op] = next;
    next += 2; // leaves room for a barrier
  });
  kernel.walk([&](Operation *op) {
    hasRoles |= isa<RolesOp>(op);
    auto any = dyn_cast<AnyOp>(op);
    bool isBarrier =
        (any && !any.getBarrier()) || (isa<SyncOp>(op) && !cast<SyncOp>(op).getBarrier());
    if (isBarrier)
      barriers.push_back(op);
    // The walk is in post-order, so nested operations have positions already.
    int64_t end = positions[op];
    for (Region &region : op->getRegions())
      for (Block &block : region)
        if (!block.empty())
          end = std::max(end, ends[&block.back()]);
    ends[op] = end;
  });
  kernel.walk([&](AllocOp alloc) { lives[alloc.getBuffer()] = compute(alloc.getBuffer()); });
}

BufferLifetimes::Life BufferLifetimes::compute(Value buffer) const {
  Life life;
  life.uses.assign(buffer.user_begin(), buffer.user_end());
  auto isKnown = [](Operation *op) { return isWrite(op) || isa<ReadOp, FmaDotOp>(op); };
  life.isLocal = !hasRoles && !life.uses.empty() && llvm::all_of(life.uses, isKnown);
  if (!life.isLocal)
    return life;
  llvm::sort(life.uses, [&](Operation *x, Operation *y) { return at(x) < at(y); });
  life.first = at(life.uses.front());
  life.last = at(life.uses.back());
  auto followsWrite = [&](Operation *use) {
    return isWrite(use) || llvm::any_of(life.uses, [&](Operation *write) {
             return isWrite(write) && dominates(write, use);
           });
  };
  bool isWrittenFirst = llvm::all_of(life.uses, followsWrite);
  for (Operation *use : life.uses)
    for (Operation *loop = use->getParentOp(); loop != kernel; loop = loop->getParentOp()) {
      if (!isa<LoopLikeOpInterface>(loop))
        continue;
      bool holdsAll =
          llvm::all_of(life.uses, [&](Operation *other) { return loop->isAncestor(other); });
      if (holdsAll && isWrittenFirst)
        continue;
      life.first = std::min(life.first, at(loop));
      life.last = std::max(life.last, ends.find(loop)->second);
    }
  return life;
}

bool BufferLifetimes::mayShare(Value x, Value y) const {
  const Life &a = get(x), &b = get(y);
  return a.isLocal && b.isLocal && (a.last < b.first || b.last < a.first);
}

//===----------------------------------------------------------------------===//
// Barriers
//===----------------------------------------------------------------------===//

/// Whether every path from the uses in `before` to the write passes a barrier.
bool BufferLifetimes::isSeparated(const Life &before, Operation *write) const {
  return llvm::any_of(barriers, [&](Operation *barrier) {
    return at(barrier) > at(before.uses.back()) && at(barrier) < at(write) &&
           dominates(barrier, write);
  });
}

/// The same for paths from the end of an iteration to the write in the next one.
bool BufferLifetimes::isSeparatedAround(Operation *loop, const Life &before,
                                        Operation *write) const {
  return llvm::any_of(barriers, [&](Operation *barrier) {
    if (!loop->isAncestor(barrier))
      return false;
    bool endsIteration = barrier->getParentOp() == loop && at(barrier) > at(before.uses.back());
    return endsIteration || (at(barrier) < at(write) && dominates(barrier, write));
  });
}

void BufferLifetimes::addBarrier(Operation *before) {
  OpBuilder b(before);
  auto barrier = SyncOp::create(b, before->getLoc(), Value());
  positions[barrier] = at(before) - 1;
  ends[barrier] = at(before) - 1;
  barriers.push_back(barrier);
}

void BufferLifetimes::separate(Value x, Value y) {
  bool isInOrder = get(x).last < get(y).first;
  const Life &first = isInOrder ? get(x) : get(y), &second = isInOrder ? get(y) : get(x);
  for (Operation *use : second.uses)
    if (isWrite(use) && !isSeparated(first, use))
      addBarrier(use);
  // In the innermost loop that contains both, `second` also precedes `first`, one iteration
  // earlier.
  Operation *loop = first.uses.front()->getParentOp();
  auto holdsAll = [&](const Life &life) {
    return llvm::all_of(life.uses, [&](Operation *use) { return loop->isAncestor(use); });
  };
  while (loop != kernel && !(isa<LoopLikeOpInterface>(loop) && holdsAll(first) && holdsAll(second)))
    loop = loop->getParentOp();
  if (loop == kernel)
    return;
  for (Operation *use : first.uses)
    if (isWrite(use) && !isSeparatedAround(loop, second, use))
      addBarrier(use);
}
