// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: what the traces of a kernel have executed.

#include "passes/Tgpu/Sync/VerifySync.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

/// An operation next to a product is executed in further launches until it was executed this often.
constexpr int64_t kEnoughExecutions = 2;

bool sync::isSynchronization(Operation &op) {
  return isa<SyncOp, SignalOp, AnyOp, CopyCommitOp, CopyWaitOp, WaitOp, AcquireOp, ArriveOp,
             ExpectOp, FenceAsyncOp, BulkCommitOp, BulkWaitOp, WgmmaCommitOp, WgmmaWaitOp,
             TakeTurnOp, PassTurnOp, AwaitTurnOp, EndTurnOp>(op);
}

static bool accessesShared(Operation &op) {
  return llvm::any_of(op.getOperandTypes(), [](Type type) { return isa<SharedType>(type); });
}

Coverage::Coverage(KernelOp kernel) {
  kernel.walk([&](AnyOp any) {
    for (Operation *parent = any->getParentOp(); parent != kernel; parent = parent->getParentOp())
      voting.insert(parent);
  });
  kernel.walk([&](Block *block) {
    bool multiplies =
        llvm::any_of(*block, [](Operation &op) { return isa<MmaOp, WgmmaOp, FmaDotOp>(op); });
    for (Operation &op : *block) {
      bool isSync = isSynchronization(op);
      if (isSync)
        synchronizations.push_back(&op);
      if (isSync && multiplies)
        besideProducts.insert(&op);
      if (!isSync && !accessesShared(op))
        continue;
      Operation *parent = block->getParentOp();
      while (parent != kernel && counted.insert(parent).second)
        parent = parent->getParentOp();
    }
  });
}

void Coverage::addReached(const Trace &trace) {
  for (const Participant &participant : trace.participants)
    for (const Step &step : participant.steps)
      ++executions[step.op];
}

bool Coverage::add(const Trace &trace) {
  bool isNew = false;
  for (size_t way : trace.ways)
    isNew |= ways.insert(way).second;
  for (const Participant &participant : trace.participants)
    for (const Step &step : participant.steps)
      isNew |= ++executions[step.op] <= kEnoughExecutions && isSynchronization(*step.op);
  return isNew;
}

bool Coverage::hasProductsTwice() const {
  return llvm::all_of(besideProducts,
                      [&](Operation *op) { return executions.lookup(op) >= kEnoughExecutions; });
}

bool Coverage::hasAll() const {
  return llvm::all_of(synchronizations, [&](Operation *op) { return executions.contains(op); });
}

SmallVector<UncheckedSync> Coverage::findUnreached() const {
  SmallVector<UncheckedSync> found;
  llvm::SmallDenseSet<Block *> blocks;
  for (Operation *op : synchronizations)
    if (!executions.contains(op) && blocks.insert(op->getBlock()).second)
      found.push_back({op, besideProducts.contains(op)});
  return found;
}
