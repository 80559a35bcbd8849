// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two roles that compute (ComputeSplit.h): the rings through which the first one hands over tiles
// to the second one, and the operand buffers that each of them uses.
//
//   full    completes when all warps of the first role have written the slot
//   empty   completes when all warps of the second role have read it
//
// Threads write and read these slots, neither TMA nor products do, so barriers suffice: there is no
// fence.

#include "passes/Tgpu/Roles/RoleWriter.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

void RoleWriter::makeChannel(const ComputeSplit::Handover &handover) {
  Channel channel;
  channel.handover = &handover;
  int64_t stages = ComputeSplit::stages;
  Operation *op = handover.values.front().getDefiningOp();
  if (auto own = ringStagesAttr.remove(op); own && own.getInt() == 1)
    stages = 1;
  channel.rings.push_back(makeRing(handover.slot, stages));
  channel.full = makeBarriers(stages, old.getWarps());
  channel.empty = makeBarriers(stages, old.getWarps());
  channels.push_back(std::move(channel));
}

void RoleWriter::findUses(Channel &channel) {
  const CopyGroup &group = *channel.group;
  channel.usesOf[0] = {group.firstUse, group.lastUse};
  if (!slice.split)
    return;
  const RolePart *parts[] = {&slice.split->first, &slice.split->second};
  for (auto [part, uses] : llvm::zip_equal(parts, channel.usesOf)) {
    uses = {nullptr, nullptr};
    for (CopyAsyncOp copy : group.copies)
      for (Operation *user : copy.getBuffer().getUsers()) {
        if (user == copy || !part->ops.contains(user))
          continue;
        // A product reads its operands until its wait.
        Operation *end = isa<WgmmaOp>(user) ? *user->user_begin() : user;
        Operation *first = group.block->findAncestorOpInBlock(*user);
        Operation *last = group.block->findAncestorOpInBlock(*end);
        if (!uses.first || first->isBeforeInBlock(uses.first))
          uses.first = first;
        if (!uses.second || uses.second->isBeforeInBlock(last))
          uses.second = last;
      }
  }
}

bool RoleWriter::hasEqualSides(scf::IfOp branch) {
  if (!getPart() || !branch.elseBlock())
    return false;
  IRMapping inElse; // what corresponds to values of the other side
  auto isIn = [](Value value, Region &region) {
    return region.isAncestor(value.getParentRegion());
  };
  for (const Channel &channel : channels) {
    if (!channel.handover)
      continue;
    Value sides[2];
    for (Value value : channel.handover->values) {
      if (isIn(value, branch.getThenRegion()))
        sides[0] = value;
      else if (isIn(value, branch.getElseRegion()))
        sides[1] = value;
    }
    if (!sides[0] != !sides[1])
      return false;
    if (sides[0])
      inElse.map(sides[0], sides[1]);
  }
  auto getOps = [&](Block &block) {
    SmallVector<Operation *> ops;
    for (Operation &op : block.without_terminator())
      if (has(&op))
        ops.push_back(&op);
    return ops;
  };
  auto correspond = [&](Value x, Value y) { return inElse.lookupOrDefault(x) == y; };
  SmallVector<Operation *> xs = getOps(*branch.thenBlock()), ys = getOps(*branch.elseBlock());
  if (xs.size() != ys.size())
    return false;
  for (auto [x, y] : llvm::zip_equal(xs, ys)) {
    if (x->getName() != y->getName() || x->getAttrDictionary() != y->getAttrDictionary() ||
        x->getResultTypes() != y->getResultTypes() || x->getNumRegions() != 0 ||
        x->getNumOperands() != y->getNumOperands() ||
        !llvm::all_of_zip(x->getOperands(), y->getOperands(), correspond))
      return false;
    for (auto [from, to] : llvm::zip_equal(x->getResults(), y->getResults())) {
      if (inElse.contains(from) && !correspond(from, to))
        return false;
      inElse.map(from, to);
    }
  }
  return llvm::all_of(branch.getResults(), [&](OpResult result) {
    unsigned number = result.getResultNumber();
    return !keeps(result) ||
           correspond(branch.thenYield().getOperand(number), branch.elseYield().getOperand(number));
  });
}

void RoleWriter::handOver(Operation &op) {
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.handover)
      continue;
    for (Value value : channel.handover->values) {
      if (value.getDefiningOp() != &op)
        continue;
      if (role == Role::Compute) {
        AcquireOp::create(b, channel.empty, uses[i]);
        WriteSharedOp::create(b, map.lookup(value), getSlot(i, 0), /*transpose=*/false);
        ArriveOp::create(b, channel.full, uses[i], ArriveScope::Warp);
      } else {
        WaitOp::create(b, channel.full, uses[i]);
        map.map(value, ReadOp::create(b, value.getType(), getSlot(i, 0)).getResult());
        ArriveOp::create(b, channel.empty, uses[i], ArriveScope::Warp);
      }
      uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
    }
  }
}
