// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the body of each role.

#include "passes/Tgpu/Roles/RoleWriter.h"

#include "passes/Tgpu/Analysis/IdleRounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/LoopLikeInterface.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

bool RoleWriter::isOnlyCopied(Operation *op) {
  return isa<tile::SubviewOp, tile::PagedOp>(op) &&
         llvm::all_of(op->getUsers(), llvm::IsaPred<CopyAsyncOp>);
}

bool RoleWriter::copies(CopyAsyncOp copy) {
  return llvm::any_of(channels, [&](const Channel &channel) {
    return loads() && channel.concerns(role) && llvm::is_contained(channel.group->copies, copy);
  });
}

void RoleWriter::writeBlock(Block &block) {
  for (Operation &op : block) {
    if (op.hasTrait<OpTrait::IsTerminator>())
      break;
    if (isa<tile::SpreadOp>(op))
      continue;
    // Copies find rows of parts by their operands, and rows in pages by the view.
    if (isOnlyCopied(&op) &&
        !(isa<tile::PagedOp>(op) && llvm::any_of(op.getUsers(), [&](Operation *user) {
            return copies(cast<CopyAsyncOp>(user));
          })))
      continue;
    if ((role == getPublisher() || receivesValues()) && llvm::is_contained(publishedOps, &op))
      continue;
    if (computes() && llvm::is_contained(readsAhead, &op))
      continue;
    b.setLoc(op.getLoc());
    if (role == Role::Gather)
      writeForGather(op);
    else if (gatherOps.contains(&op))
      continue;
    else if (loads())
      writeForLoad(op);
    else if (role == Role::Reduce)
      writeForReduce(op);
    else
      writeForCompute(op);
  }
}

/// What iterations copy takes longer to come from memory than what the tile copies once, which
/// other blocks have read or written before, so the first iteration's copies are started before it.
/// One H200, 2026-11-30, decoding over pages of 64 rows: 6.54 us for 6.67 (B1 S1k), 0.995 to 1.003
/// of the time in eight longer cases.
scf::ForOp RoleWriter::findLoopBeforeTile() {
  SmallVector<scf::ForOp> loops = slice.getCopyingLoops();
  if (role != Role::Load || loops.size() != 1 || !slice.readsMemoryOnly())
    return {};
  // Results may leave through the buffer of such a copy, which then must be one operation.
  if (schedule.getStoreBuffers() == 0)
    return {};
  scf::ForOp loop = loops.front();
  bool isAlways = llvm::all_of(slice.groups, [&](const CopyGroup &group) {
    return !group.getLoop() || group.block == loop.getBody();
  });
  return isAlways && loop->getBlock() == &old.getBody().front() ? loop : scf::ForOp();
}

/// The last copy of the first group of an iteration.
CopyAsyncOp RoleWriter::findFirstCopied(scf::ForOp loop) {
  const CopyGroup *first = nullptr;
  for (const CopyGroup &group : slice.groups)
    if (group.getLoop() == loop &&
        (!first || group.copies.front()->isBeforeInBlock(first->copies.front())))
      first = &group;
  return first->copies.back();
}

/// In an iteration, or behind the loop.
void RoleWriter::writeTileCopies(Value isNow) {
  auto branch = scf::IfOp::create(b, isNow, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  SmallVector<Value> before = uses;
  for (CopyAsyncOp copy : tileCopies)
    writeCopy(copy);
  uses = before;
}

void RoleWriter::writeForLoad(Operation &op) {
  auto copy = dyn_cast<CopyAsyncOp>(op);
  if (!copy) {
    if (has(&op))
      writeOp(op);
    return;
  }
  scf::ForOp loop = findLoopBeforeTile();
  auto isInFront = [&](CopyAsyncOp each) {
    return each->getBlock() == loop->getBlock() && each->isBeforeInBlock(loop);
  };
  // A group arrives at one barrier, so that its copies stay together.
  auto isOfGroup = [&](const CopyGroup &group) { return llvm::is_contained(group.copies, copy); };
  if (loop && copies(copy) &&
      llvm::all_of(llvm::find_if(slice.groups, isOfGroup)->copies, isInFront)) {
    tileCopies.push_back(copy);
    return;
  }
  writeCopy(copy);
  if (tileCopies.empty() || copy != findFirstCopied(loop))
    return;
  auto written = cast<scf::ForOp>(b.getInsertionBlock()->getParentOp());
  writeTileCopies(arith::CmpIOp::create(b, arith::CmpIPredicate::eq, written.getInductionVar(),
                                        written.getLowerBound()));
}

SmallVector<Value> RoleWriter::getAll(ValueRange values) {
  return llvm::map_to_vector(values, [&](Value value) { return map.lookup(value); });
}

/// One thread adds a slot to memory and releases it when it has been read.
void RoleWriter::writeForReduce(Operation &op) {
  auto add = dyn_cast<AtomicAddOp>(op);
  if (!add) {
    if (has(&op))
      writeOp(op);
    return;
  }
  size_t number = getChannel(add);
  if (number == channels.size())
    return;
  const Channel &channel = channels[number];
  // Poll before the tile arrives: the check takes a memory round trip.
  if (add.getNumber())
    AwaitTurnOp::create(b, map.lookup(add.getNumber()), map.lookup(add.getTurns()),
                        getAll(add.getTurnIndices()), add.getStaticTurnIndicesAttr());
  WaitOp::create(b, channel.full, uses[number]);
  SmallVector<Value> indices = getAll(add.getIndices());
  MappedView view = MappedView::of(add.getView());
  Value begin = view.begin ? map.lookup(view.begin) : Value();
  Value size = view.size ? map.lookup(view.size) : Value();
  Value slot = getSlot(number, 0);
  auto write = [&](auto op) {
    decltype(op)::create(b, slot, channel.maps[0], indices, add.getStaticIndicesAttr(), begin,
                         size);
  };
  if (add.getNumber()) {
    Value isFirst =
        arith::CmpIOp::create(b, arith::CmpIPredicate::eq, map.lookup(add.getNumber()), i32(0));
    auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/true);
    b.setInsertionPointToStart(branch.thenBlock());
    write(TmaStoreOp());
    b.setInsertionPointToStart(branch.elseBlock());
    write(TmaReduceAddOp());
    b.setInsertionPointAfter(branch);
  } else {
    write(TmaReduceAddOp());
  }
  BulkCommitOp::create(b);
  BulkWaitOp::create(b, 0, /*read=*/true);
  ArriveOp::create(b, channel.empty, uses[number], ArriveScope::Role);
  if (add.getNumber()) {
    // That the reduction has read its slot does not imply that its result is visible in global
    // memory.
    BulkWaitOp::create(b, 0, /*read=*/false);
    EndTurnOp::create(b, map.lookup(add.getNumber()), map.lookup(add.getTurns()),
                      getAll(add.getTurnIndices()), add.getStaticTurnIndicesAttr());
  }
  uses[number] = arith::AddIOp::create(b, uses[number], i32(1));
}

bool RoleWriter::isUnneeded(SyncOp sync) {
  auto loop = sync->getParentOfType<scf::ForOp>();
  auto isScratch = [&](WriteSharedOp write) {
    return llvm::any_of(scratch, [&](const Scratch &each) {
      return each.buffer == write.getBuffer() && each.loop == loop;
    });
  };
  bool writes = false, writesElse = false;
  if (loop)
    loop->walk([&](Operation *op) {
      auto write = dyn_cast<WriteSharedOp>(op);
      auto convert = dyn_cast<ConvertOp>(op);
      (write && isScratch(write) ? writes : writesElse) |=
          write || (convert && convert.getScratch());
    });
  if (writesElse)
    return false;
  // Without writes there is nothing to publish or to protect: slots have barriers of their own, and
  // writes before the loop are published before it.
  if (!writes)
    return loop != nullptr;
  // A barrier after a write of the iteration publishes that write.
  for (Operation *op = sync; op != loop; op = op->getParentOp())
    for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode())
      if (before->walk([](WriteSharedOp) { return WalkResult::interrupt(); }).wasInterrupted())
        return false;
  return true;
}

size_t RoleWriter::getChannel(AtomicAddOp add) {
  auto *it = llvm::find_if(channels, [&](const Channel &channel) {
    return channel.reduction && llvm::is_contained(channel.reduction->ops, add);
  });
  return it - channels.begin();
}

bool RoleWriter::writeReduction(AtomicAddOp add) {
  size_t number = getChannel(add);
  if (number == channels.size())
    return false;
  writeToRing(number, map.lookup(add.getValue()));
  return true;
}

void RoleWriter::writeToRing(size_t number, Value tile) {
  const Channel &channel = channels[number];
  AcquireOp::create(b, channel.empty, uses[number]);
  WriteSharedOp::create(b, tile, getSlot(number, 0), channel.reduction->isTransposed);
  FenceAsyncOp::create(b);
  ArriveOp::create(b, channel.full, uses[number], ArriveScope::Warp);
  uses[number] = arith::AddIOp::create(b, uses[number], i32(1));
}

void RoleWriter::writeZeros(Operation *op) {
  for (size_t number : getInner(op)) {
    if (number >= channels.size() || !channels[number].reduction)
      continue;
    AtomicAddOp add = channels[number].reduction->ops.front();
    auto type = cast<RankedTensorType>(add.getValue().getType());
    Value zero = arith::ConstantOp::create(b, b.getZeroAttr(type.getElementType()));
    writeToRing(number, tile::FullOp::create(b, type, zero));
  }
}

const RolePart *RoleWriter::getPart() {
  if (loads())
    return &slice.load;
  if (role == Role::Gather)
    return &slice.gather;
  if (!computes())
    return &slice.reduce;
  if (!slice.split)
    return nullptr;
  return role == Role::Second ? &slice.split->second : &slice.split->first;
}

bool RoleWriter::has(Operation *op) {
  const RolePart *part = getPart();
  return !part || part->ops.contains(op);
}

bool RoleWriter::keeps(Value result) {
  const RolePart *part = getPart();
  return !part || part->values.contains(result);
}

void RoleWriter::writeCopy(CopyAsyncOp copy) {
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.group || !channel.concerns(role))
      continue;
    const auto *it = llvm::find(channel.group->copies, copy);
    if (it == channel.group->copies.end())
      continue;
    size_t position = it - channel.group->copies.begin();
    if (position == 0) {
      if (channel.empty)
        AcquireOp::create(b, channel.empty, uses[i]);
      ExpectOp::create(b, channel.full, uses[i], channel.group->getCopiedBytes());
    }
    SmallVector<Value> indices = getAll(copy.getIndices());
    SmallVector<int64_t> staticIndices(copy.getStaticIndices());
    MappedView view = MappedView::of(copy.getView());
    Value pages;
    if (copy.getView().getDefiningOp<tile::PagedOp>()) {
      pages = map.lookup(copy.getView());
      staticIndices.insert(staticIndices.begin(), 0); // pages are found by the rows
    }
    auto load = TmaLoadOp::create(b, channel.maps[position], indices, staticIndices,
                                  view.begin ? map.lookup(view.begin) : Value(),
                                  view.size ? map.lookup(view.size) : Value(), pages,
                                  getSlot(i, position), channel.full, uses[i]);
    if (readOnceAttr.isOn(copy))
      readOnceAttr.set(load);
    if (position + 1 == channel.group->copies.size())
      uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
  }
}

Value RoleWriter::getSlot(size_t channel, size_t copy) {
  Value ring = channels[channel].rings[copy];
  auto type = dyn_cast<RingType>(ring.getType());
  return type ? SlotOp::create(b, type.getSlot(), ring, uses[channel]).getResult() : ring;
}

/// Whether it writes what products of the whole tile read, in a branch or not. Other warps may
/// still be in a product of the previous tile.
static bool isOperandOfTile(Operation &op) {
  auto write = dyn_cast<WriteSharedOp>(op);
  return write && !op.getParentOfType<LoopLikeOpInterface>() &&
         llvm::any_of(write.getBuffer().getUsers(), llvm::IsaPred<WgmmaOp>);
}

/// Whether warps have met, and have not accessed shared memory since: the barriers before and after
/// a copy are one where another role copies.
static bool followsSync(ImplicitLocOpBuilder &b) {
  Block *block = b.getInsertionBlock();
  for (Operation &op : llvm::reverse(llvm::make_range(block->begin(), b.getInsertionPoint()))) {
    if (isa<SyncOp>(op))
      return true;
    if (!isMemoryEffectFree(&op) && !isa<WaitOp>(op))
      return false;
  }
  return false;
}

void RoleWriter::writeForCompute(Operation &op) {
  if (isa<CopyAsyncOp, CopyCommitOp, CopyWaitOp>(op))
    return;
  if (isa<AllocOp>(op)) // allocations are outside of roles and exist already
    return;
  if (auto sync = dyn_cast<SyncOp>(op)) {
    if (barrier && !isUnneeded(sync) && !followsSync(b))
      SyncOp::create(b, barrier);
    return;
  }
  if (auto any = dyn_cast<AnyOp>(op)) {
    map.map(any.getResult(),
            AnyOp::create(b, b.getI1Type(), map.lookup(any.getTile()), voteBarrier));
    return;
  }
  if (auto add = dyn_cast<AtomicAddOp>(op); add && writeReduction(add))
    return;
  if (barrier && isPersistent() && isOperandOfTile(op))
    SyncOp::create(b, barrier);
  auto stores = old.getBody().getOps<StoreOp>();
  if (!stores.empty() && *stores.begin() == &op)
    waitForSlots();
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.group || channel.usesOf[role == Role::Second].first != &op)
      continue;
    WaitOp::create(b, channel.full, uses[i]);
    for (auto [j, copy] : llvm::enumerate(channel.group->copies))
      map.map(CopyAsyncOp(copy).getBuffer(), getSlot(i, j));
  }
  if (has(&op) && !readGathered(op))
    writeOp(op);
  handOver(op);
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.group || channel.usesOf[role == Role::Second].second != &op)
      continue;
    if (channel.empty)
      ArriveOp::create(b, channel.empty, uses[i], ArriveScope::Warp);
    uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
  }
  if (&op == lastLoop)
    afterLoops();
}

void RoleWriter::writeOp(Operation &op) {
  if (auto loop = dyn_cast<scf::ForOp>(op))
    writeFor(loop);
  else if (auto branch = dyn_cast<scf::IfOp>(op))
    writeIf(branch);
  else
    b.clone(op, map);
}

SmallVector<size_t> RoleWriter::getInner(Operation *op) {
  SmallVector<size_t> inner;
  for (auto [i, channel] : llvm::enumerate(channels))
    if (channel.concerns(role) && channel.isUsedIn(op))
      inner.push_back(i);
  for (auto [i, each] : llvm::enumerate(scratch))
    if (computes() && op->isAncestor(each.loop))
      inner.push_back(channels.size() + i);
  return inner;
}

void RoleWriter::writeFor(scf::ForOp loop) {
  SmallVector<size_t> inner = getInner(loop);
  SmallVector<unsigned> kept;
  SmallVector<Value> inits;
  for (OpResult result : loop.getResults())
    if (keeps(result)) {
      kept.push_back(result.getResultNumber());
      inits.push_back(map.lookup(loop.getInitArgs()[result.getResultNumber()]));
    }
  for (size_t channel : inner)
    inits.push_back(uses[channel]);
  // A load role copies for all compute warpgroups, including those that start at a later iteration.
  Value first = loop.getLowerBound();
  Value lower = map.lookup(computes() ? first : getFirstOfAll(first));
  bool releases = hasScheduler() && loads() && loop == findReleasingLoop();
  if (releases)
    writeReceivedWhere(arith::CmpIPredicate::sle,
                       arith::SubIOp::create(b, map.lookup(loop.getUpperBound()), lower));
  auto copy = scf::ForOp::create(b, lower, map.lookup(loop.getUpperBound()),
                                 map.lookup(loop.getStep()), inits);
  copy.setUnsignedCmp(loop.getUnsignedCmp());
  if (computes())
    copy->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  map.map(loop.getInductionVar(), copy.getInductionVar());
  for (auto [i, number] : llvm::enumerate(kept)) {
    map.map(loop.getRegionIterArgs()[number], copy.getRegionIterArgs()[i]);
    map.map(loop.getResult(number), copy.getResult(i));
  }
  {
    OpBuilder::InsertionGuard guard(b);
    if (inits.empty())
      copy.getBody()->getTerminator()->erase();
    b.setInsertionPointToEnd(copy.getBody());
    for (auto [i, channel] : llvm::enumerate(inner))
      uses[channel] = copy.getRegionIterArgs()[kept.size() + i];
    SmallVector<size_t> advanced;
    for (auto [i, each] : llvm::enumerate(scratch))
      if (computes() && each.loop == loop) {
        auto type = cast<SharedType>(each.buffer.getType());
        map.map(each.buffer, SlotOp::create(b, type, each.ring, uses[channels.size() + i]));
        advanced.push_back(channels.size() + i);
      }
    if (releases)
      writeReceivedWhere(
          arith::CmpIPredicate::eq,
          arith::SubIOp::create(b, copy.getUpperBound(),
                                arith::AddIOp::create(b, copy.getInductionVar(), i32(1))));
    writeBlock(*loop.getBody());
    for (size_t number : advanced)
      uses[number] = arith::AddIOp::create(b, uses[number], i32(1));
    writeYield(loop.getBody()->getTerminator(), kept, inner);
  }
  for (auto [i, channel] : llvm::enumerate(inner))
    uses[channel] = copy.getResult(kept.size() + i);
  if (tileCopies.empty() || loop != findLoopBeforeTile())
    return;
  auto isNone = copy.getUnsignedCmp() ? arith::CmpIPredicate::uge : arith::CmpIPredicate::sge;
  writeTileCopies(arith::CmpIOp::create(b, isNone, copy.getLowerBound(), copy.getUpperBound()));
  for (auto [i, channel] : llvm::enumerate(channels))
    if (channel.group && llvm::is_contained(tileCopies, channel.group->copies.front()))
      uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
  tileCopies.clear();
}

void RoleWriter::writeIf(scf::IfOp branch) {
  // For roles that move data, the else branch does the same if it contains all their channels.
  auto isUsedIn = [](const Channel &channel, Region &region) {
    return channel.reduction && llvm::any_of(channel.reduction->ops, [&](Operation *add) {
             return region.isAncestor(add->getParentRegion());
           });
  };
  bool isCovered = llvm::all_of(channels, [&](const Channel &channel) {
    return !isUsedIn(channel, branch.getThenRegion()) || isUsedIn(channel, branch.getElseRegion());
  });
  if (computes() ? hasEqualSides(branch) : specialCaseAttr.isOn(branch) && isCovered) {
    writeBlock(*branch.elseBlock());
    for (auto [result, yielded] :
         llvm::zip_equal(branch.getResults(), branch.elseYield().getOperands()))
      if (keeps(result))
        map.map(result, map.lookup(yielded));
    return;
  }
  bool isAssumed = slice.assumed.contains(branch);
  if (isAssumed && role == Role::Reduce)
    return writeBlock(*branch.thenBlock());
  SmallVector<size_t> inner = getInner(branch);
  SmallVector<unsigned> kept;
  SmallVector<Type> types;
  for (OpResult result : branch.getResults())
    if (keeps(result)) {
      kept.push_back(result.getResultNumber());
      types.push_back(result.getType());
    }
  types.append(inner.size(), b.getI32Type());
  bool hasElse = branch.elseBlock() || !types.empty();
  auto copy = scf::IfOp::create(b, types, map.lookup(branch.getCondition()),
                                /*addThenBlock=*/true, /*addElseBlock=*/hasElse);
  copy->setDiscardableAttrs(branch->getDiscardableAttrDictionary());
  SmallVector<Value> before = uses;
  for (auto [from, to] : {std::pair(branch.thenBlock(), copy.thenBlock()),
                          std::pair(branch.elseBlock(), copy.elseBlock())}) {
    if (!to)
      continue;
    OpBuilder::InsertionGuard guard(b);
    if (!to->empty())
      to->getTerminator()->erase();
    b.setInsertionPointToEnd(to);
    uses = before;
    if (from)
      writeBlock(*from);
    if (isAssumed && role == Role::Compute && to == copy.elseBlock())
      writeZeros(branch);
    writeYield(from ? from->getTerminator() : nullptr, kept, inner);
  }
  uses = before;
  for (auto [i, number] : llvm::enumerate(kept))
    map.map(branch.getResult(number), copy.getResult(i));
  for (auto [i, channel] : llvm::enumerate(inner))
    uses[channel] = copy.getResult(kept.size() + i);
}

void RoleWriter::writeYield(Operation *yield, ArrayRef<unsigned> kept, ArrayRef<size_t> inner) {
  SmallVector<Value> values;
  for (unsigned number : kept)
    values.push_back(map.lookup(yield->getOperand(number)));
  for (size_t channel : inner)
    values.push_back(uses[channel]);
  scf::YieldOp::create(b, values);
}
