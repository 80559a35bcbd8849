// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Lists mutations of a kernel, and applies one.

#include "lib/Interpreter/Simulator/Mutations.h"

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/Support/raw_ostream.h"

using namespace mlir;

namespace tilewright {

namespace {

constexpr int64_t maxPendingProducts = 7, maxPendingCopies = 64;

/// The number of groups that a wait may leave incomplete; nothing for other operations.
std::optional<int64_t> mostPending(Operation *op) {
  if (isa<tgpu::WgmmaWaitOp>(op))
    return maxPendingProducts;
  if (isa<tgpu::CopyWaitOp, tgpu::BulkWaitOp>(op))
    return maxPendingCopies;
  return std::nullopt;
}

int64_t pendingOf(Operation *op) { return op->getAttrOfType<IntegerAttr>("pending").getInt(); }

bool isDroppable(Operation *op) {
  return isa<tgpu::SyncOp, tgpu::SignalOp, tgpu::CopyWaitOp, tgpu::CopyCommitOp, tgpu::WaitOp,
             tgpu::AcquireOp, tgpu::ArriveOp, tgpu::ExpectOp, tgpu::FenceAsyncOp, tgpu::BulkWaitOp,
             tgpu::BulkCommitOp, tgpu::WgmmaCommitOp, tgpu::TakeTurnOp, tgpu::PassTurnOp,
             tgpu::AwaitTurnOp, tgpu::EndTurnOp, tgpu::WgmmaWaitOp>(op) &&
         op->use_empty();
}

} // namespace

std::vector<Mutation> listMutations(ModuleOp module) {
  std::vector<Mutation> mutations;
  unsigned number = 0;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (isDroppable(op))
      mutations.push_back({number, 0});
    if (std::optional<int64_t> most = mostPending(op)) {
      int64_t left = *most - pendingOf(op);
      if (left > 0)
        mutations.push_back({number, 1});
      // A wait that yields tiles cannot be dropped.
      if (left > 1 && !op->use_empty())
        mutations.push_back({number, left});
    }
    ++number;
  });
  return mutations;
}

Operation *findMutated(ModuleOp module, const Mutation &mutation) {
  unsigned number = 0;
  Operation *found = nullptr;
  module.walk<WalkOrder::PreOrder>([&](Operation *op) {
    if (number++ != mutation.number)
      return WalkResult::advance();
    found = op;
    return WalkResult::interrupt();
  });
  return found;
}

OwningOpRef<ModuleOp> mutate(ModuleOp module, const Mutation &mutation) {
  OwningOpRef<ModuleOp> copy = module.clone();
  Operation *op = findMutated(*copy, mutation);
  if (mutation.weakenedBy == 0)
    op->erase();
  else
    op->setAttr("pending",
                Builder(op->getContext()).getI64IntegerAttr(pendingOf(op) + mutation.weakenedBy));
  return copy;
}

std::string describe(ModuleOp module, const Mutation &mutation) {
  Operation *op = findMutated(module, mutation);
  std::string text;
  llvm::raw_string_ostream stream(text);
  stream << op->getLoc() << ": '" << op->getName().getStringRef() << "' ";
  if (mutation.weakenedBy == 0)
    stream << "dropped";
  else
    stream << "with " << mutation.weakenedBy << " more groups unfinished";
  return text;
}

} // namespace tilewright
