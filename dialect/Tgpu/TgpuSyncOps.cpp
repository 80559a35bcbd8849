// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Barriers and fences: verifiers.

#include "dialect/Tgpu/TgpuVerify.h"
#include "dialect/Tile/Origin.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

LogicalResult AllocBarriersOp::verify() {
  if (static_cast<int64_t>(getArrivals()) < 1 || getArrivals() >= Target::phaseLimit)
    return emitOpError() << "a phase needs 1 to " << Target::phaseLimit - 1 << " arrivals, but got "
                         << static_cast<int64_t>(getArrivals());
  int64_t offset = getOffset().value_or(0);
  if (offset < 0 || offset % 8 != 0)
    return emitOpError() << "offset of barriers must be a multiple of 8 bytes, but got " << offset;
  if ((*this)->getParentOfType<RolesOp>())
    return emitOpError("must be outside of roles, since every warp must wait for the "
                       "initialization, but got it in a role");
  return success();
}

LogicalResult ArriveOp::verify() {
  int64_t warps = getExecutingWarps(*this);
  if (getPer() != ArriveScope::Warpgroup || warps % Target::warpsOfGroup == 0)
    return success();
  return emitOpError() << "'per warpgroup' requires a multiple of 4 warps in its role, but got "
                       << warps;
}

LogicalResult ExpectOp::verify() {
  if (failed(verifyFeature(*this, Feature::Tma)))
    return failure();
  if (static_cast<int64_t>(getBytes()) >= 1 && getBytes() < Target::phaseLimit)
    return success();
  return emitOpError() << "must expect 1 to " << Target::phaseLimit - 1 << " bytes, but got "
                       << static_cast<int64_t>(getBytes());
}

int64_t tgpu::getNumHardwareBarriers(Operation *op) {
  if (auto turns = dyn_cast<TurnsOp>(op))
    return static_cast<int64_t>(turns.getWarpgroups());
  auto named = dyn_cast<NamedBarrierOp>(op);
  if (!named)
    return 0;
  return named.getPerWarpgroup() ? static_cast<int64_t>(named.getWarps()) / Target::warpsOfGroup
                                 : 1;
}

std::optional<int64_t> tgpu::getFirstHardwareBarrier(Operation *op) {
  return llvm::TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<NamedBarrierOp, TurnsOp>([](auto declared) { return declared.getId(); })
      .Default(std::nullopt);
}

void tgpu::setFirstHardwareBarrier(Operation *op, int64_t id) {
  llvm::TypeSwitch<Operation *>(op).Case<NamedBarrierOp, TurnsOp>(
      [&](auto declared) { declared.setId(id); });
}

LogicalResult NamedBarrierOp::verify() {
  if (static_cast<int64_t>(getWarps()) < 1 || getWarps() > 32)
    return emitOpError() << "a named barrier must have 1 to 32 warps, but got "
                         << static_cast<int64_t>(getWarps());
  if (getPerWarpgroup() && getWarps() % Target::warpsOfGroup != 0)
    return emitOpError() << "'per warpgroup' requires a multiple of 4 warps, but got "
                         << static_cast<int64_t>(getWarps());
  // Barrier 0 is that of the whole block.
  int64_t most = Target::namedBarriers - getNumHardwareBarriers(*this);
  if (getId() && (static_cast<int64_t>(*getId()) < 1 || static_cast<int64_t>(*getId()) > most))
    return emitOpError() << "id of a named barrier must be 1 to " << most << ", but got "
                         << static_cast<int64_t>(*getId());
  return success();
}

/// The declaration of a named barrier, and that it is for at least `warps` warps.
static LogicalResult verifyParticipants(Operation *op, Value barrier, int64_t warps) {
  auto declared = barrier.getDefiningOp<NamedBarrierOp>();
  if (!declared)
    return op->emitOpError("barrier must be the result of tgpu.named_barrier, but got ")
           << tile::describeOrigin(barrier);
  int64_t expected = declared.getWarps();
  if (declared.getPerWarpgroup() && !isa<SyncOp>(op))
    return op->emitOpError("barrier must be one of the whole role, but got a barrier per "
                           "warpgroup, which is for tgpu.sync only");
  if (declared.getPerWarpgroup() && warps != expected)
    return op->emitOpError() << "must be executed by the " << expected
                             << " warps of its barrier per warpgroup, but got " << warps;
  if (warps <= expected)
    return success();
  return op->emitOpError() << "is executed by " << getExecutingWarps(op)
                           << " warps, but its barrier is for " << expected
                           << (isa<SignalOp>(op) ? ", of which some must wait" : "");
}

LogicalResult AnyOp::verify() {
  Type element = tilewright::tile::getElementType(getTile().getType());
  if (!element.isInteger(1))
    return emitOpError() << "requires a tile of i1, but got elements of " << element;
  if (!getBarrier() && (*this)->getParentOfType<RolesOp>())
    return emitOpError("must have a named barrier of the role inside a role, but got none");
  int64_t warps = getExecutingWarps(*this);
  if (getBarrier()) {
    if (failed(verifyParticipants(*this, getBarrier(), warps)))
      return failure();
    int64_t declared = getBarrier().getDefiningOp<NamedBarrierOp>().getWarps();
    if (declared != warps)
      return emitOpError() << "must be executed by the " << declared
                           << " warps of its barrier, but got " << warps;
  }
  return verifyWarps(*this);
}

LogicalResult SyncOp::verify() {
  if (getBarrier())
    return verifyParticipants(*this, getBarrier(), getExecutingWarps(*this));
  if ((*this)->getParentOfType<RolesOp>())
    return emitOpError("a block-wide sync is not allowed inside a role; use a named barrier");
  return success();
}

LogicalResult SignalOp::verify() {
  return verifyParticipants(*this, getBarrier(), getExecutingWarps(*this) + 1);
}

LogicalResult TurnsOp::verify() {
  int64_t count = getNumHardwareBarriers(*this);
  if (count < 2 || count > 8)
    return emitOpError() << "turns must have 2 to 8 warpgroups, but got " << count;
  int64_t id = getId().value_or(1);
  if (id < 1 || id > Target::namedBarriers - count)
    return emitOpError() << "ids of " << count << " named barriers must begin at 1 to "
                         << Target::namedBarriers - count << ", but got " << id;
  return success();
}

static LogicalResult verifyTurn(Operation *op, Value turns) {
  auto declared = turns.getDefiningOp<TurnsOp>();
  if (!declared)
    return op->emitOpError("turns must be the result of tgpu.turns, but got ")
           << tile::describeOrigin(turns);
  int64_t warps = getExecutingWarps(op), warpgroups = declared.getWarpgroups();
  if (!warps || warps == Target::warpsOfGroup * warpgroups)
    return success();
  return op->emitOpError() << "must be executed by the " << warpgroups
                           << " warpgroups of its turns, but got " << warps << " warps";
}

LogicalResult TakeTurnOp::verify() { return verifyTurn(*this, getTurns()); }
LogicalResult PassTurnOp::verify() { return verifyTurn(*this, getTurns()); }

LogicalResult FirstRoundOp::verify() {
  int64_t warps = getExecutingWarps(*this), warpgroups = static_cast<int64_t>(getOwn().size());
  if (warpgroups == 0)
    return emitOpError("must have an iteration for each warpgroup, but got none");
  if (!warps || warps == Target::warpsOfGroup * warpgroups)
    return success();
  return emitOpError() << "must have one iteration for every four warps that execute it, but got "
                       << warpgroups << " for " << warps << " warps";
}

OpFoldResult FirstRoundOp::fold(FoldAdaptor) {
  return llvm::all_equal(getOwn()) ? OpFoldResult(getOwn().front()) : OpFoldResult();
}

LogicalResult FenceAsyncOp::verify() { return verifyFeature(*this, Feature::Tma); }
