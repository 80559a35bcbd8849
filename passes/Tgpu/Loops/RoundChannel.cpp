// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Tgpu/Loops/RoundChannel.h"

#include "passes/Tgpu/Analysis/LoopChain.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

bool RoundChannel::isSharedByRoles() const {
  return isa<WaitOp>(wait) && llvm::any_of(barriers.getUsers(), [&](Operation *user) {
           return isa<WaitOp>(user) && getRole(user) != getRole(wait);
         });
}

std::optional<SmallVector<RoundChannel>> tgpu::collectRoundChannels(Block *body) {
  SmallVector<RoundChannel> channels;
  for (Operation &op : *body) {
    RoundChannel channel;
    channel.wait = &op;
    if (auto wait = dyn_cast<WaitOp>(op))
      std::tie(channel.barriers, channel.use) = std::pair(wait.getBarriers(), wait.getUse());
    else if (auto acquire = dyn_cast<AcquireOp>(op))
      std::tie(channel.barriers, channel.use) = std::pair(acquire.getBarriers(), acquire.getUse());
    else
      continue;
    if (llvm::any_of(channels, [&](const RoundChannel &each) { return each.use == channel.use; }))
      return std::nullopt;
    for (auto arrive : body->getOps<ArriveOp>())
      if (arrive.getUse() == channel.use) {
        if (channel.arrive)
          return std::nullopt;
        channel.arrive = arrive;
      }
    if (!channel.arrive)
      return std::nullopt;
    channels.push_back(std::move(channel));
  }
  for (auto write : body->getOps<WriteSharedOp>()) {
    auto slot = write.getBuffer().getDefiningOp<SlotOp>();
    if (!slot || llvm::none_of(channels, [&](const RoundChannel &channel) {
          return isa<AcquireOp>(channel.wait) && channel.use == slot.getUse();
        }))
      return std::nullopt;
  }
  return channels;
}
