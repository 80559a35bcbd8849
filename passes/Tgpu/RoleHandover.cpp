// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Two roles that compute (ComputeSplit.h): the rings through which the first one hands over tiles
// to the second one, and the operand buffers that each of them uses.
//
//   full    completes when all warps of the first role have written the slot
//   empty   completes when all warps of the second role have read it

#include "passes/Tgpu/RoleWriter.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

void RoleWriter::makeChannel(const ComputeSplit::Handover &handover) {
  Channel channel;
  channel.handover = &handover;
  channel.rings.push_back(makeRing(handover.slot, ComputeSplit::stages));
  channel.full = makeBarriers(ComputeSplit::stages, old.getWarps());
  channel.empty = makeBarriers(ComputeSplit::stages, old.getWarps());
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
