// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the kernel with roles, and the rings and barriers between them.

#include "passes/Tgpu/Roles/RoleWriter.h"

#include "passes/Tgpu/Analysis/BlockOrigin.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Roles/GridIds.h"
#include "passes/Tgpu/Roles/LoadSplit.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/StringSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Value RoleWriter::i32(int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

bool RoleWriter::Channel::isUsedIn(Operation *op) const {
  if (group)
    return op->isAncestor(group->block->getParentOp());
  if (handover)
    return llvm::any_of(handover->values,
                        [&](Value value) { return op->isProperAncestor(value.getDefiningOp()); });
  return llvm::any_of(reduction->ops, [&](Operation *add) { return op->isProperAncestor(add); });
}

/// Copies start in the order in which they are read, those of one barrier together: a copy waits
/// for its slot, and the copies after it in program order wait as well. If V preceded K, the copy
/// of K would start only after the previous iteration had multiplied by its V.
static void orderByUse(KernelOp kernel, ArrayRef<CopyGroup> groups) {
  llvm::DenseMap<Operation *, unsigned> positions;
  kernel.walk<WalkOrder::PreOrder>(
      [&](Operation *op) { positions.try_emplace(op, positions.size()); });
  SmallVector<const CopyGroup *> sorted = llvm::map_to_vector(
      groups, [](const CopyGroup &group) -> const CopyGroup * { return &group; });
  llvm::stable_sort(sorted, [&](const CopyGroup *x, const CopyGroup *y) {
    return positions.lookup(x->reader) < positions.lookup(y->reader);
  });
  llvm::DenseMap<Block *, Operation *> lasts;
  for (const CopyGroup *group : sorted) {
    Operation *&last = lasts[group->block];
    for (CopyAsyncOp copy : group->copies) {
      if (last && copy->isBeforeInBlock(last)) {
        if (!last->isBeforeInBlock(group->firstUse))
          continue;
        copy->moveAfter(last);
      }
      last = copy;
    }
  }
}

void RoleWriter::run() {
  detachGathers();
  orderByUse(old, slice.groups);
  makeKernel();
  for (const CopyGroup &group : slice.groups)
    makeChannel(group);
  for (const Reduction &reduction : slice.reductions)
    makeChannel(reduction);
  if (slice.split)
    for (const ComputeSplit::Handover &handover : slice.split->handovers)
      makeChannel(handover);
  if (schedule.getScratchStages() > 1)
    makeScratch();
  makeBarrier();
  if (isDynamic()) {
    findPublishedValues();
    makeTileRing();
  }
  if (isPersistent()) {
    order.emplace(mapped, old.getGridAttr(), schedule.getGroup());
    blocks = GridExtentOp::create(b, b.getI32Type(), 0);
    if (isDynamic() && schedule.getGroup() > 1) {
      order->limitGroup([this](Value zero) { return getBytesOfStep(zero); },
                        /*goesOn=*/slice.reductions.empty());
      bool varies = llvm::any_of(slice.groups, [](const CopyGroup &group) {
        scf::ForOp loop = group.getLoop();
        return loop && tripsVaryByTile(loop);
      });
      // With ordered additions, complete sums are taken group by group, and the shortest tiles may
      // come first, unless the last tiles have another order.
      using Last = TileOrder::Last;
      Last ordered = eitherOrderAttr.isOn(old) ? Last::TwoRounds : Last::NoneUnlessFew;
      if (varies)
        order->uniteLastTiles(blocks, slice.isOrdered() ? ordered : Last::TwoGroups);
    }
  }
  makeRoles();
  old.erase();
}

//===----------------------------------------------------------------------===//
// Objects shared by roles
//===----------------------------------------------------------------------===//

void RoleWriter::makeKernel() {
  ArrayAttr grid = old.getGridAttr(), names = old.getGridNamesAttr();
  ArrayAttr constraints = old.getConstraintsAttr();
  if (isPersistent()) {
    constraints = getPersistentConstraints(constraints, grid, schedule.getGroup());
    grid = getPersistentGrid(grid);
    names = b.getStrArrayAttr({getNewName("cta")});
  }
  b.setInsertionPoint(old);
  mapped =
      KernelOp::create(b, old.getSymNameAttr(), old.getTargetAttr(),
                       b.getI64IntegerAttr(getComputeRoles() * old.getWarps() + moreWarps),
                       old.getArgNamesAttr(), old.getArgOptionalAttr(), names, grid, constraints,
                       old.getArgDefaultsAttr(), old.getBindingsAttr(), IntegerAttr());
  mapped->setDiscardableAttrs(old->getDiscardableAttrDictionary());
  Block *entry = b.createBlock(&mapped.getBody());
  for (BlockArgument argument : old.getArgs())
    map.map(argument, entry->addArgument(argument.getType(), argument.getLoc()));
  for (size_t i = 0; i < grid.size(); ++i)
    entry->addArgument(b.getI32Type(), old.getLoc());
  if (!isPersistent())
    map.map(old.getGridIds(), mapped.getGridIds());
  for (auto alloc : old.getBody().getOps<AllocOp>())
    if (llvm::none_of(alloc->getUsers(), [](Operation *user) { return isa<CopyAsyncOp>(user); }))
      b.clone(*alloc, map);
}

/// With two alternating buffers, the barrier after an iteration's writes also orders the reads of
/// the iteration before the last, whose buffer the next iteration overwrites.
void RoleWriter::makeScratch() {
  for (auto alloc : old.getBody().getOps<AllocOp>()) {
    scf::ForOp loop = getScratchLoop(alloc);
    if (!loop || !scheduleAttr.isOn(loop))
      continue;
    auto type = cast<SharedType>(alloc.getBuffer().getType());
    map.lookup(alloc.getBuffer()).getDefiningOp()->erase();
    scratch.push_back({alloc.getBuffer(), loop, makeRing(type, schedule.getScratchStages())});
  }
}

/// If the parts of a view begin at elements read from an array, such as the sequences of a packed
/// batch, an iteration reads one part. The number of its rows is unknown, so take the mean.
Value RoleWriter::getRowsOfPart(Value rows, const MappedView &view) {
  llvm::SetVector<Value> reached;
  if (view.begin)
    reached.insert(view.begin);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (!op)
      continue;
    if (auto at = dyn_cast<tile::AtOp>(op); at && isa<BlockArgument>(at.getView())) {
      Value one = i32(1);
      Value ends = tile::DimOp::create(b, b.getI32Type(), map.lookup(at.getView()), 0);
      Value parts = arith::MaxSIOp::create(b, arith::SubIOp::create(b, ends, one), one);
      return arith::CeilDivSIOp::create(b, rows, parts);
    }
    reached.insert_range(op->getOperands());
  }
  return rows;
}

/// Whether the first iteration of a tile's loop is loaded from memory, as for documents within one
/// sequence. A tile then reads only some of the rows, and neighboring tiles read the same ones:
/// they share the cache however many heads form a group.
static bool beginsByMemory(CopyAsyncOp copy, scf::ForOp loop) {
  return isFromMemory(getFirstOfAll(loop.getLowerBound()), loop) ||
         llvm::any_of(copy.getIndices(), [&](Value index) { return isFromMemory(index, loop); });
}

Value RoleWriter::getBytesOfStep(Value zero) {
  Type wide = b.getI64Type();
  Value bytes = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
  auto add = [&](auto access) {
    Value view = MappedView::of(access.getView()).argument;
    auto type = cast<tile::ViewType>(view.getType());
    int64_t rank = type.getRank(), bits = getElementBits(type.getElementType());
    if (rank < 2)
      return;
    auto dims = access.getDims();
    int64_t rowDim = dims && dims->size() == 2 ? std::min((*dims)[0], (*dims)[1]) : rank - 2;
    if (access.getView().template getDefiningOp<tile::PagedOp>())
      rowDim = 1; // of the pool
    Value size = arith::ConstantOp::create(b, b.getI64IntegerAttr(bits / 8));
    for (int64_t dim : {rowDim, rank - 1}) {
      Value extent = tile::DimOp::create(b, b.getI32Type(), getArgument(view), dim);
      extent = arith::AddIOp::create(b, extent, zero);
      if (dim == rowDim)
        extent = getRowsOfPart(extent, MappedView::of(access.getView()));
      size = arith::MulIOp::create(b, size, arith::ExtSIOp::create(b, wide, extent));
    }
    bytes = arith::AddIOp::create(b, bytes, size);
  };
  for (const CopyGroup &group : slice.groups)
    for (CopyAsyncOp copy : group.copies)
      // The additions access one more array: with long documents the L2 does not hold all heads of
      // a backward (16,384 tokens, D 128: 0.76 of the speed).
      if (scf::ForOp loop = group.getLoop();
          loop && !(slice.reductions.empty() && beginsByMemory(copy, loop)))
        add(copy);
  for (const Reduction &reduction : slice.reductions)
    add(AtomicAddOp(reduction.ops.front()));
  return bytes;
}

std::string RoleWriter::getNewName(std::string name) {
  while (llvm::is_contained(old.getArgNames(), b.getStringAttr(name)))
    name += "_";
  return name;
}

Value RoleWriter::makeRing(SharedType slot, int64_t stages, bool always) {
  if (stages == 1 && !always)
    return AllocOp::create(b, slot, IntegerAttr());
  return AllocRingOp::create(b, RingType::get(b.getContext(), stages, slot), IntegerAttr());
}

Value RoleWriter::makeBarriers(int64_t stages, int64_t arrivals) {
  auto type = BarriersType::get(b.getContext(), stages);
  return AllocBarriersOp::create(b, type, arrivals, IntegerAttr());
}

void RoleWriter::makeChannel(const CopyGroup &group) {
  scf::ForOp loop = group.getLoop();
  auto planned = loop ? scheduleAttr.get(loop) : ScheduleAttr();
  int64_t stages = planned ? planned.getStages() : isPersistent() ? schedule.getTileStages() : 1;
  if (auto own = ringStagesAttr.get(group.copies.front()))
    stages = own.getInt();
  Channel channel;
  channel.group = &group;
  for (CopyAsyncOp copy : group.copies) {
    auto slot = cast<SharedType>(copy.getBuffer().getType());
    TensorMapType type = getTensorMap(old, copy, slot);
    channel.maps.push_back(getMap(getArgument(MappedView::of(copy.getView()).argument), type));
    // In a loop, make a ring even of one slot: the passes that order iterations look for the
    // readers of a slot.
    channel.rings.push_back(makeRing(slot, stages, /*always=*/loop != nullptr));
  }
  for (const GatheredRow &row : group.gathers)
    channel.rings.push_back(makeRing(row.slot, stages, /*always=*/true));
  channel.full = makeBarriers(stages, group.gathers.empty() ? 1 : 1 + gatherWarps);
  findUses(channel);
  int64_t readers = channel.concerns(Role::Compute) + channel.concerns(Role::Second);
  // Buffers that are copied once and for one tile are never overwritten.
  if (loop || isPersistent())
    channel.empty = makeBarriers(stages, readers * old.getWarps());
  channel.lends = loop && isPersistent() && !slice.split && lendSlotAttr.isOn(group.copies.front());
  if (schedule.getLoadRoles() > 1 && isOfSecondLoad(group))
    channel.loader = Role::SecondLoad;
  channels.push_back(std::move(channel));
}

void RoleWriter::makeChannel(const Reduction &reduction) {
  int64_t stages = schedule.getReduceStages();
  Channel channel;
  channel.reduction = &reduction;
  Value view = AtomicAddOp(reduction.ops.front()).getView();
  channel.maps.push_back(getMap(map.lookup(MappedView::of(view).argument), reduction.map));
  channel.rings.push_back(makeRing(reduction.slot, stages));
  channel.full = makeBarriers(stages, old.getWarps());
  channel.empty = makeBarriers(stages, 1);
  channels.push_back(std::move(channel));
}

/// Creates the roles in the order of their warps. Roles that share a warpgroup have one register
/// count.
void RoleWriter::makeRoles() {
  bool reduces = !slice.reductions.empty();
  int64_t warps = old.getWarps();
  SmallVector<StringRef> names{"load", "idle", "compute"};
  SmallVector<int64_t> counts{1, moreWarps - 1, warps};
  auto addWarps = [&](StringRef name, int64_t count) {
    names.insert(names.end() - 2, name);
    counts.insert(counts.end() - 2, count);
    *(counts.end() - 2) -= count;
  };
  if (schedule.getLoadRoles() > 1)
    addWarps("load_2", 1);
  if (reduces)
    addWarps("reduce", 1);
  if (slice.hasGathers())
    addWarps("gather", gatherWarps);
  if (hasScheduler())
    addWarps("schedule", 1);
  if (*(counts.end() - 2) == 0) { // no warp is idle
    names.erase(names.end() - 2);
    counts.erase(counts.end() - 2);
  }
  if (slice.spread) { // no warp is idle
    names[names.size() - 2] = "spread";
    spreadWarps = counts[counts.size() - 2];
  }
  SmallVector<int64_t> registers(names.size(), schedule.getLoadRegisters());
  registers.back() = schedule.getComputeRegisters();
  if (slice.split) {
    names.push_back("compute_2");
    counts.push_back(warps);
    registers.push_back(schedule.getComputeRegisters());
  }
  auto roles = RolesOp::create(b, b.getStrArrayAttr(names), b.getDenseI64ArrayAttr(counts),
                               b.getDenseI64ArrayAttr(registers), names.size());
  for (auto [name, region] : llvm::zip_equal(names, roles.getBodies())) {
    b.createBlock(&region);
    if (name == "idle")
      continue;
    role = llvm::StringSwitch<Role>(name)
               .Case("load", Role::Load)
               .Case("load_2", Role::SecondLoad)
               .Case("reduce", Role::Reduce)
               .Case("gather", Role::Gather)
               .Case("schedule", Role::Schedule)
               .Case("spread", Role::Spread)
               .Case("compute_2", Role::Second)
               .Default(Role::Compute);
    IRMapping shared = map;
    if (role != Role::Spread)
      writeRole();
    map = shared;
    if (slice.spread && (role == Role::Spread || role == Role::Compute)) {
      b.setInsertionPointToEnd(&region.front());
      writeSpread();
      map = std::move(shared);
    }
  }
}

/// The argument of the new kernel, or the capture, which the kernel itself declares for tensor
/// maps.
Value RoleWriter::getArgument(Value view) {
  auto captured = view.getDefiningOp<tile::CapturedOp>();
  if (!captured)
    return map.lookup(view);
  Value &own = captures[captured.getCaptureAttr()];
  if (!own)
    own = b.clone(*captured)->getResult(0);
  return own;
}

Value RoleWriter::getMap(Value view, TensorMapType type) {
  Value &tensorMap = maps[{view, type}];
  if (!tensorMap)
    tensorMap = TensorMapOp::create(b, type, view);
  return tensorMap;
}

/// Barriers that separated copies from reads are no longer needed. Those that generic-proxy stores
/// to shared memory need become barriers of the role.
void RoleWriter::makeBarrier() {
  bool stores = false, votes = false;
  old.walk([&](Operation *op) {
    auto convert = dyn_cast<ConvertOp>(op);
    stores |= isa<WriteSharedOp>(op) || (convert && convert.getScratch());
    votes |= isa<AnyOp>(op);
  });
  if (stores)
    barrier = NamedBarrierOp::create(b, b.getIndexType(), old.getWarps(), IntegerAttr());
  if (votes)
    voteBarrier = NamedBarrierOp::create(b, b.getIndexType(), old.getWarps(), IntegerAttr());
}
