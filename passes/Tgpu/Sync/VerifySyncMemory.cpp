// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: checks accesses to shared buffers. Every access must be ordered after those
// that it depends on: they have ended, and barriers have made this known to the participant.

#include "passes/Tgpu/Sync/VerifySync.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

void Knowledge::merge(const Knowledge &other) {
  for (auto [mine, theirs] : llvm::zip_equal(of, other.of)) {
    mine.all = std::max(mine.all, theirs.all);
    mine.first = std::max(mine.first, theirs.first);
  }
  if (arrived.size() < other.arrived.size())
    arrived.resize(other.arrived.size());
  arrived |= other.arrived;
  if (phases.size() < other.phases.size())
    phases.resize(other.phases.size());
  for (auto [mine, theirs] : llvm::zip(phases, other.phases))
    mine = std::max(mine, theirs);
}

std::string Player::describe(int place) const {
  const Place &which = trace.places[place];
  if (auto ring = dyn_cast<AllocRingOp>(which.allocation))
    return "slot " + std::to_string(which.slot) + " of a ring";
  return "a buffer";
}

InFlightDiagnostic Player::report(Operation *op, const Access &other, const char *note) {
  InFlightDiagnostic diagnostic = op->emitOpError();
  diagnostic.attachNote(other.op->getLoc())
      << note << (trace.participants.size() > 1 ? " by " + trace.participants[other.who].name : "");
  return diagnostic;
}

/// Whether rows of the two buffers, which begin at the same byte, have the same bytes.
static bool haveSameRows(Operation *a, Operation *b) {
  auto typeOf = [](Operation *op) {
    return TypeSwitch<Operation *, SharedType>(op)
        .Case<WriteSharedOp, TmaStoreOp, TmaReduceAddOp>(
            [](auto access) { return cast<SharedType>(access.getBuffer().getType()); })
        .Default([](Operation *) { return SharedType(); });
  };
  SharedType x = typeOf(a), y = typeOf(b);
  if (!x || !y || x.getElementType() != y.getElementType() || x.getSwizzle() != y.getSwizzle() ||
      x.getShape().front() != y.getShape().front())
    return false;
  // With a swizzle, a row of a panel has its width; without one, that of the buffer.
  return x.getSwizzle() != tgpu::Swizzle::None || x.getShape().back() == y.getShape().back();
}

bool Player::isOfOwnRows(Operation *op, int who) const {
  if (isCopyPerWarpgroup(op))
    return true;
  auto write = dyn_cast<WriteSharedOp>(op);
  if (!write || write.getTranspose())
    return false;
  // A warpgroup's rows of an accumulator follow each other if it has one block of them.
  auto tile = cast<RankedTensorType>(write.getValue().getType());
  int64_t groups = trace.participants[who].warps / Target::warpsOfGroup;
  auto layout = dyn_cast<WgmmaAttr>(tile.getEncoding());
  return layout && layout.getWarpgroups() == groups && tile.getRank() == 2 &&
         tile.getDimSize(0) == rowsOfWarpgroup * groups;
}

bool Player::isBehind(const Access &access, int who, bool byFirst, Operation *op) const {
  const State &state = states[who];
  if (access.copy >= 0)
    return access.copy < state.knows.arrived.size() && state.knows.arrived.test(access.copy);
  if (access.isPending)
    return false;
  if (access.who == who && ((access.byFirst && byFirst) || state.synced >= access.time))
    return true;
  if (access.who == who && op && state.syncedByGroup >= access.time &&
      isOfOwnRows(access.op, who) && isOfOwnRows(op, who) && haveSameRows(access.op, op))
    return true;
  // A participant may also learn of its own warps' progress from another one that waited for them.
  const Knowledge::Progress &known = state.knows.of[access.who];
  return (access.byFirst ? known.first : known.all) >= access.time;
}

/// Whether each warpgroup writes the rows that its products read as operand a.
static bool writesRowsOfOperandA(WriteSharedOp write, int64_t warps) {
  if (write.getTranspose())
    return false;
  Attribute layout = cast<RankedTensorType>(write.getValue().getType()).getEncoding();
  if (auto operand = dyn_cast<OperandAttr>(layout))
    layout = operand.getParent();
  auto rows = dyn_cast<WgmmaAttr>(layout);
  return rows && rows.getWarpgroups() * Target::warpsOfGroup == warps;
}

/// Whether both accesses are made by the same thread for each element.
bool Player::isSameThread(const Access &access, int who, Operation *op) const {
  if (access.who != who || access.byFirst || access.isPending || access.copy >= 0)
    return false;
  int64_t warps = trace.participants[who].warps;
  if (auto product = dyn_cast<WgmmaOp>(access.op)) {
    // Each warpgroup has read all of b, but only its own rows of a.
    auto write = dyn_cast<WriteSharedOp>(op);
    return write &&
           (warps <= Target::warpsOfGroup ||
            (access.isOperandA && !product.getTransposeA() && writesRowsOfOperandA(write, warps)));
  }
  if (warps == 1)
    return true;
  auto tileOf = [](Operation *op) -> std::pair<Type, bool> {
    if (auto read = dyn_cast<ReadOp>(op))
      return {read.getType(), read.getTranspose()};
    if (auto write = dyn_cast<WriteSharedOp>(op))
      return {write.getValue().getType(), write.getTranspose()};
    if (auto copy = dyn_cast<CopyAsyncOp>(op))
      return {copy.getBuffer().getType(), false};
    return {Type(), false};
  };
  return tileOf(op).first && tileOf(op) == tileOf(access.op);
}

LogicalResult Player::read(int who, const Step &step, int place, bool isAsync, bool byFirst,
                           Group *group, bool isOperandA) {
  PlaceState &state = memory[place];
  if (state.write < 0)
    return step.op->emitOpError() << "must read memory that was written, but got "
                                  << describe(place);
  const Access &write = accesses[state.write];
  for (int other : trace.places[place].overlapping)
    if (memory[other].write > state.write)
      return report(step.op, accesses[memory[other].write], "overwritten here")
             << "must read memory before another buffer overwrites it, but got " << describe(place)
             << ", overwritten from byte " << trace.places[place].begin << " on";
  bool isDone = isBehind(write, who, byFirst, step.op);
  if (!isDone && (isAsync || !isSameThread(write, who, step.op))) {
    InFlightDiagnostic diagnostic = report(step.op, write, "written here");
    diagnostic << "reads " << describe(place);
    if (write.copy >= 0)
      return diagnostic << " before its copy has arrived; tgpu.wait for the copy's barriers first";
    if (write.isPending)
      return diagnostic << " before its copy is done; tgpu.copy_wait for its group first";
    return diagnostic << " that other warps may not have written yet; a barrier must come between";
  }
  if (isAsync && write.copy < 0 && !isFenced(state, who, byFirst, step.op))
    return report(step.op, write, "written here")
           << "reads generic-proxy writes to " << describe(place)
           << " through the async proxy without tgpu.fence_async, which must come between the "
              "write and the barrier, or after the barrier";
  if (group)
    group->push_back(accesses.size());
  state.reads.push_back(accesses.size());
  Access access{step.op, who, getNow(who), byFirst};
  access.isPending = group != nullptr;
  access.isOperandA = isOperandA;
  accesses.push_back(access);
  return success();
}

LogicalResult Player::write(int who, const Step &step, int place, bool byFirst, Group *group,
                            int64_t copy) {
  auto isFree = [&](int other, const Access &access) {
    return isBehind(access, who, byFirst, other == place ? step.op : nullptr) ||
           (other == place && !byFirst && isSameThread(access, who, step.op));
  };
  auto reject = [&](const Access &access, bool isRead) -> LogicalResult {
    InFlightDiagnostic diagnostic = report(step.op, access, isRead ? "read here" : "written here");
    diagnostic << "overwrites " << describe(place);
    if (!isRead)
      return diagnostic << ", to which a write may still be under way; a barrier must come between";
    if (access.isPending && isa<WgmmaOp>(access.op))
      return diagnostic << " that a product may still read; tgpu.wgmma_wait for it first";
    if (access.isPending)
      return diagnostic << " that a copy may still read; tgpu.bulk_wait for it first";
    if (access.who != who)
      return diagnostic << " that another role may still read; it must be released, and acquired "
                           "before it is filled again";
    return diagnostic << " that other warps may still read; a barrier must come between";
  };
  for (int other : trace.places[place].overlapping) {
    PlaceState &state = memory[other];
    for (int read : state.reads)
      if (!isFree(other, accesses[read]))
        return reject(accesses[read], true);
    if (state.write >= 0 && !isFree(other, accesses[state.write]))
      return reject(accesses[state.write], false);
  }
  if (group)
    group->push_back(accesses.size());
  memory[place].write = accesses.size();
  memory[place].reads.clear();
  memory[place].fences.clear();
  Access access{step.op, who, getNow(who), byFirst};
  access.isPending = group != nullptr;
  access.copy = copy;
  accesses.push_back(access);
  return success();
}

void Player::finish(int who, Groups &groups, int64_t pending, bool byFirst) {
  while (static_cast<int64_t>(groups.closed.size()) > pending) {
    for (int index : groups.closed.front()) {
      accesses[index].isPending = false;
      accesses[index].time = getNow(who);
      accesses[index].byFirst = byFirst && !isCopyPerWarpgroup(accesses[index].op);
    }
    groups.closed.pop_front();
  }
}

void Player::fence(int who) {
  for (PlaceState &state : memory) {
    if (state.write < 0)
      continue;
    const Access &write = accesses[state.write];
    if (write.copy >= 0 || write.isPending)
      continue;
    bool knowsAll = isBehind(write, who, /*byFirst=*/false);
    if (!knowsAll && write.who != who)
      continue;
    bool isKnown = llvm::any_of(state.fences, [&](const Fence &fence) {
      return fence.who == who && fence.knewAll >= knowsAll;
    });
    if (!isKnown)
      state.fences.push_back({who, getNow(who), knowsAll});
  }
}

bool Player::isFenced(const PlaceState &state, int who, bool byFirst, Operation *op) const {
  return llvm::any_of(state.fences, [&](const Fence &fence) {
    if (fence.who == who && fence.knewAll)
      return true; // each of its threads has fenced all of the write
    Access end = accesses[state.write];
    end.who = fence.who;
    end.time = fence.time;
    return isBehind(end, who, byFirst, op);
  });
}

LogicalResult Player::playProduct(int who, const Step &step) {
  State &state = states[who];
  if (step.operandA >= 0 && failed(read(who, step, step.operandA, /*isAsync=*/true,
                                        /*byFirst=*/false, &state.products.open,
                                        /*isOperandA=*/true)))
    return failure();
  state.openProducts.push_back(step.products.front());
  state.startedProducts[step.products.front()] = step.op;
  return read(who, step, step.buffer, /*isAsync=*/true, /*byFirst=*/false, &state.products.open);
}

LogicalResult Player::playProductWait(int who, const Step &step) {
  State &state = states[who];
  auto pending = static_cast<int64_t>(cast<WgmmaWaitOp>(step.op).getPending());
  for (int64_t product : step.products) {
    auto group = state.groupOfProduct.find(product);
    if (group == state.groupOfProduct.end())
      return step.op->emitOpError(
          "waits for a product that is not committed; tgpu.wgmma_commit must come between");
    int64_t younger = state.numProductGroups - 1 - group->second;
    if (pending > younger)
      return step.op->emitOpError()
             << "yields a tile that may still be in flight: wait until at most " << younger
             << " groups are pending, but got " << pending;
  }
  finish(who, state.products, pending, /*byFirst=*/false);
  return success();
}

LogicalResult Player::playYield(int who, const Step &step) {
  const State &state = states[who];
  auto numPending = static_cast<int64_t>(state.products.closed.size());
  for (int64_t product : step.products) {
    auto group = state.groupOfProduct.find(product);
    bool isPending =
        group == state.groupOfProduct.end() || group->second >= state.numProductGroups - numPending;
    if (!isPending)
      continue;
    InFlightDiagnostic diagnostic = step.op->emitOpError()
                                    << "overwrites an operand a in registers for the next "
                                       "iteration while a product may still read it; "
                                       "tgpu.wgmma_wait for it before the iteration ends";
    diagnostic.attachNote(state.startedProducts.lookup(product)->getLoc()) << "the product";
    return diagnostic;
  }
  return success();
}

template <typename Groups> static void close(Groups &groups) {
  groups.closed.push_back(std::move(groups.open));
  groups.open.clear();
}

LogicalResult Player::playMemory(int who, const Step &step) {
  State &state = states[who];
  int64_t now = getNow(who);
  return TypeSwitch<Operation *, LogicalResult>(step.op)
      .Case<TakeTileOp, PublishOp>(
          [&](auto) { return write(who, step, step.buffer, /*byFirst=*/true, nullptr); })
      .Case<ReadOp, GetTileOp, ReceiveOp>(
          [&](auto) { return read(who, step, step.buffer, false, false, nullptr); })
      .Case<FmaDotOp>([&](auto) {
        if (failed(read(who, step, step.operandA, false, false, nullptr)))
          return failure();
        return read(who, step, step.buffer, false, false, nullptr);
      })
      .Case<WriteSharedOp>([&](auto) { return write(who, step, step.buffer, false, nullptr); })
      .Case<ConvertOp>([&](auto) {
        LogicalResult result = write(who, step, step.buffer, false, nullptr);
        state.synced = now; // it exchanges data through the buffer and then frees it
        return result;
      })
      .Case<CopyAsyncOp>(
          [&](auto) { return write(who, step, step.buffer, false, &state.copies.open); })
      .Case<CopyCommitOp>([&](auto) { return close(state.copies), success(); })
      .Case<CopyWaitOp>([&](CopyWaitOp wait) {
        finish(who, state.copies, wait.getPending(), /*byFirst=*/false);
        return success();
      })
      .Case<TmaStoreOp, TmaReduceAddOp>([&](Operation *op) {
        state.openBulkWrite = op;
        return read(who, step, step.buffer, true, !isCopyPerWarpgroup(op), &state.stores.open);
      })
      .Case<BulkCommitOp>([&](auto) {
        state.bulkWrites.push_back(std::exchange(state.openBulkWrite, nullptr));
        return close(state.stores), success();
      })
      .Case<BulkWaitOp>([&](BulkWaitOp wait) {
        while (!wait.getRead() && state.bulkWrites.size() > wait.getPending())
          state.bulkWrites.pop_front();
        finish(who, state.stores, wait.getPending(), /*byFirst=*/true);
        return success();
      })
      .Case<TmaLoadOp, BulkLoadOp>([&](auto load) -> LogicalResult {
        auto slot = load.getBuffer().template getDefiningOp<SlotOp>();
        int64_t stages = cast<BarriersType>(load.getBarriers().getType()).getStages();
        if (slot && slot.getUse() == load.getUse() &&
            cast<RingType>(slot.getRing().getType()).getStages() != stages)
          return load.emitOpError()
                 << "fills a ring of " << cast<RingType>(slot.getRing().getType()).getStages()
                 << " stages, but its barriers have " << stages
                 << "; both must have the same number";
        if (failed(write(who, step, step.buffer, true, nullptr, numCopies)))
          return failure();
        int64_t bytes = getBytes(cast<SharedType>(load.getBuffer().getType()));
        return startFlight(who, step, load.getBarriers().template getDefiningOp<AllocBarriersOp>(),
                           bytes, numCopies++);
      })
      .Case<FenceAsyncOp>([&](auto) { return fence(who), success(); })
      .Case<WgmmaOp>([&](auto) { return playProduct(who, step); })
      .Case<WgmmaCommitOp>([&](auto) {
        close(state.products);
        for (int64_t product : state.openProducts)
          state.groupOfProduct[product] = state.numProductGroups;
        state.openProducts.clear();
        ++state.numProductGroups;
        return success();
      })
      .Case<WgmmaWaitOp>([&](auto) { return playProductWait(who, step); })
      .Case<scf::YieldOp>([&](auto) { return playYield(who, step); })
      .Default([](Operation *) { return success(); });
}

LogicalResult Player::checkEnd(int who) {
  State &state = states[who];
  if (!state.copies.open.empty())
    return accesses[state.copies.open.front()].op->emitOpError(
        "is not committed to a group; tgpu.copy_commit must follow");
  if (!state.stores.open.empty())
    return accesses[state.stores.open.front()].op->emitOpError(
        "is not committed to a group; tgpu.bulk_commit must follow");
  if (!state.products.open.empty())
    return accesses[state.products.open.front()].op->emitOpError(
        "is not committed to a group; tgpu.wgmma_commit must follow");
  auto findUnfinished = [&](const Groups &groups) -> Operation * {
    for (const Group &group : groups.closed)
      if (!group.empty())
        return accesses[group.front()].op;
    return nullptr;
  };
  if (Operation *copy = findUnfinished(state.copies))
    return copy->emitOpError("may still be under way when its role ends; tgpu.copy_wait must "
                             "follow, on every path");
  if (Operation *store = findUnfinished(state.stores))
    return store->emitOpError(
        "may still read shared memory when its role ends; tgpu.bulk_wait must follow");
  if (Operation *product = findUnfinished(state.products))
    return product->emitOpError("may still be under way when its role ends; tgpu.wgmma_wait must "
                                "follow");
  if (state.ownTurn)
    return state.ownTurn->op->emitOpError(
        "awaits a turn that is never ended; tgpu.end_turn must follow");
  for (auto [turns, taken] : state.turns)
    return taken->emitOpError("takes a turn that is never passed on; tgpu.pass_turn must follow");
  return success();
}
