// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-assign-roles: a kernel in which all warps do the same becomes one with a role that copies
// and a role that computes. Both roles get the loops, the branches and the scalars they need; each
// group of copies gets
//
//   full    completes when the bytes of a use have arrived    load: expect, copies | compute: wait
//   empty   completes when all warps are done with the slot   load: acquire        | compute:
//   arrive
//
// and a counter of its uses, which runs through all loops around it, and across tiles.

#include "passes/Passes.h"
#include "passes/Tgpu/RoleSlice.h"
#include "passes/Tgpu/ScheduleNames.h"
#include "passes/Tgpu/TileOrder.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUASSIGNROLES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

// One warp copies. Registers are dealt to whole warpgroups: the others of its group are idle.
constexpr int64_t loadWarps = 1, idleWarps = 3, moreWarps = loadWarps + idleWarps;

/// A group's rings and barriers in the new kernel.
struct Channel {
  const CopyGroup *group;
  BarriersType type;
  Value full, empty;
  SmallVector<Value> maps, rings; ///< of each copy; a buffer where there is one stage
};

class RoleWriter {
public:
  RoleWriter(KernelOp kernel, RoleScheduleAttr schedule, RoleSlice slice)
      : old(kernel), schedule(schedule), slice(std::move(slice)),
        b(kernel.getLoc(), kernel.getContext()) {}

  void run() {
    makeKernel();
    for (const CopyGroup &group : slice.groups)
      makeChannel(group);
    makeBarrier();
    if (isDynamic())
      makeTileRing();
    if (isPersistent()) {
      order.emplace(b, mapped, old.getGridAttr(), schedule.getGroup());
      if (isDynamic() && schedule.getGroup() > 1)
        order->limitGroup(b, getBytesOfStep());
      blocks = GridExtentOp::create(b, b.getI32Type(), 0);
    }
    auto roles = RolesOp::create(
        b, b.getStrArrayAttr({"load", "idle", "compute"}),
        b.getDenseI64ArrayAttr({loadWarps, idleWarps, static_cast<int64_t>(old.getWarps())}),
        b.getDenseI64ArrayAttr({schedule.getLoadRegisters(), schedule.getLoadRegisters(),
                                schedule.getComputeRegisters()}),
        3);
    for (auto [i, region] : llvm::enumerate(roles.getBodies())) {
      b.createBlock(&region);
      isLoad = i == 0;
      if (i != 1)
        writeRole();
    }
    old.erase();
  }

private:
  bool isPersistent() { return schedule.getGroup() > 0; }
  bool isDynamic() { return schedule.getDynamic() != 0; }

  Value i32(int64_t value) {
    return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
  }

  //===--- The kernel ---------------------------------------------------------===//

  void makeKernel() {
    ArrayAttr grid = old.getGridAttr(), names = old.getGridNamesAttr();
    if (isPersistent()) {
      grid = getPersistentGrid(grid);
      names = b.getStrArrayAttr({getNewName("cta")});
    }
    b.setInsertionPoint(old);
    mapped = KernelOp::create(b, old.getSymNameAttr(), old.getTargetAttr(),
                              b.getI64IntegerAttr(old.getWarps() + moreWarps),
                              old.getArgNamesAttr(), old.getArgOptionalAttr(), names, grid,
                              old.getBindingsAttr(), IntegerAttr());
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

  /// What the loops of a step of the second id read: all rows of the views that they copy.
  Value getBytesOfStep() {
    Type wide = b.getI64Type();
    Value bytes = arith::ConstantOp::create(b, b.getI64IntegerAttr(0));
    for (const CopyGroup &group : slice.groups)
      for (CopyAsyncOp copy : group.copies) {
        if (!group.getLoop())
          continue;
        auto type = cast<tile::ViewType>(copy.getView().getType());
        int64_t rank = type.getRank(), bits = getElementBits(type.getElementType());
        Value size = arith::ConstantOp::create(b, b.getI64IntegerAttr(bits / 8));
        for (int64_t dim : {rank - 2, rank - 1}) {
          Value extent = tile::DimOp::create(b, b.getI32Type(), map.lookup(copy.getView()), dim);
          size = arith::MulIOp::create(b, size, arith::ExtSIOp::create(b, wide, extent));
        }
        bytes = arith::AddIOp::create(b, bytes, size);
      }
    return bytes;
  }

  std::string getNewName(std::string name) {
    while (llvm::is_contained(old.getArgNames(), b.getStringAttr(name)))
      name += "_";
    return name;
  }

  void makeChannel(const CopyGroup &group) {
    scf::ForOp loop = group.getLoop();
    auto planned = loop ? loop->getAttrOfType<ScheduleAttr>(scheduleName) : ScheduleAttr();
    int64_t stages = planned ? planned.getStages() : isPersistent() ? schedule.getTileStages() : 1;
    Channel channel{&group, BarriersType::get(b.getContext(), stages), {}, {}, {}, {}};
    for (CopyAsyncOp copy : group.copies) {
      auto slot = cast<SharedType>(copy.getBuffer().getType());
      TensorMapType type = getTensorMap(old, copy.getView(), copy.getDims(), slot);
      channel.maps.push_back(getMap(map.lookup(copy.getView()), type));
      if (stages == 1)
        channel.rings.push_back(AllocOp::create(b, slot, IntegerAttr()));
      else
        channel.rings.push_back(
            AllocRingOp::create(b, RingType::get(b.getContext(), stages, slot), IntegerAttr()));
    }
    channel.full = AllocBarriersOp::create(b, channel.type, 1, IntegerAttr());
    channel.empty = AllocBarriersOp::create(b, channel.type, old.getWarps(), IntegerAttr());
    channels.push_back(std::move(channel));
  }

  Value getMap(Value view, TensorMapType type) {
    Value &tensorMap = maps[{view, type}];
    if (!tensorMap)
      tensorMap = TensorMapOp::create(b, type, view);
    return tensorMap;
  }

  /// Syncs that kept copies and reads apart are done with; those that ordinary stores to shared
  /// memory need are now the role's own.
  void makeBarrier() {
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

  /// Through which the role that copies tells the other its next tile.
  void makeTileRing() {
    constexpr int64_t stages = 2, words = 4;
    auto slot = SharedType::get(b.getContext(), {words}, b.getI32Type(), tgpu::Swizzle::None);
    auto type = BarriersType::get(b.getContext(), stages);
    tileRing = AllocRingOp::create(b, RingType::get(b.getContext(), stages, slot), IntegerAttr());
    tileFull = AllocBarriersOp::create(b, type, 1, IntegerAttr());
    tileEmpty = AllocBarriersOp::create(b, type, old.getWarps(), IntegerAttr());
  }

  //===--- Roles ---------------------------------------------------------------===//

  void writeRole() {
    uses.assign(channels.size(), Value());
    for (Value &use : uses)
      use = i32(0);
    if (!isPersistent())
      return writeBlock(old.getBody().front());
    if (isDynamic())
      return writeTakenTiles();
    auto loop = scf::ForOp::create(b, mapped.getGridIds()[0], order->getTiles(), blocks, uses);
    b.setInsertionPointToStart(loop.getBody());
    uses.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
    mapIds(loop.getInductionVar());
    writeBlock(old.getBody().front());
    scf::YieldOp::create(b, uses);
  }

  void mapIds(Value tile) {
    for (auto [id, value] : llvm::zip_equal(old.getGridIds(), order->getIds(b, tile)))
      map.map(id, value);
  }

  /// Tile after tile while there are any. The role that copies takes the next when it has started
  /// all copies for this one; the other asks for it before it lets its results out, and divides its
  /// number into ids meanwhile.
  void writeTakenTiles() {
    size_t numIds = isLoad ? 0 : old.getGridIds().size();
    Value cta = mapped.getGridIds()[0];
    SmallVector<Value> inits{cta};
    if (!isLoad)
      llvm::append_range(inits, order->getIds(b, cta));
    llvm::append_range(inits, uses);
    inits.push_back(i32(0));
    SmallVector<Type> types(inits.size(), b.getI32Type());
    SmallVector<Location> locs(inits.size(), b.getLoc());
    auto loop = scf::WhileOp::create(b, types, inits);
    Block *before = b.createBlock(&loop.getBefore(), {}, types, locs);
    Value isTile = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, before->getArgument(0),
                                         order->getTiles());
    scf::ConditionOp::create(b, isTile, before->getArguments());
    Block *after = b.createBlock(&loop.getAfter(), {}, types, locs);
    ValueRange arguments = after->getArguments();
    Value taken = arguments.back();
    uses = llvm::to_vector(arguments.drop_front(1 + numIds).drop_back());
    Value next;
    SmallVector<Value> nextIds;
    if (isLoad) {
      mapIds(arguments.front());
      writeBlock(old.getBody().front());
      b.setLoc(old.getLoc());
      next = writeTake(taken);
    } else {
      for (auto [id, value] : llvm::zip_equal(old.getGridIds(), arguments.slice(1, numIds)))
        map.map(id, value);
      afterLoops = [&] {
        next = writeGet(taken);
        nextIds = order->getIds(b, next);
      };
      lastLoop = findLastLoop();
      writeBlock(old.getBody().front());
      b.setLoc(old.getLoc());
    }
    SmallVector<Value> yielded{next};
    llvm::append_range(yielded, nextIds);
    llvm::append_range(yielded, uses);
    yielded.push_back(arith::AddIOp::create(b, taken, i32(1)));
    scf::YieldOp::create(b, yielded);
    b.setInsertionPointAfter(loop);
  }

  /// The operation of the kernel's body behind which no copy is waited for.
  Operation *findLastLoop() {
    Operation *last = nullptr;
    for (const CopyGroup &group : slice.groups) {
      Operation *op = old.getBody().front().findAncestorOpInBlock(*group.lastUse);
      if (!last || last->isBeforeInBlock(op))
        last = op;
    }
    return last;
  }

  Type getTileSlot() { return cast<RingType>(tileRing.getType()).getSlot(); }

  Value writeTake(Value taken) {
    AcquireOp::create(b, tileEmpty, taken);
    Value slot = SlotOp::create(b, getTileSlot(), tileRing, taken);
    Value next = TakeTileOp::create(b, b.getI32Type(), order->getTiles(), slot);
    ArriveOp::create(b, tileFull, taken, ArriveScope::Role);
    return next;
  }

  Value writeGet(Value taken) {
    WaitOp::create(b, tileFull, taken);
    Value next =
        GetTileOp::create(b, b.getI32Type(), SlotOp::create(b, getTileSlot(), tileRing, taken));
    ArriveOp::create(b, tileEmpty, taken, ArriveScope::Warp);
    return next;
  }

  void writeBlock(Block &block) {
    for (Operation &op : block) {
      if (op.hasTrait<OpTrait::IsTerminator>())
        break;
      b.setLoc(op.getLoc());
      if (isLoad)
        writeForLoad(op);
      else
        writeForCompute(op);
    }
  }

  void writeForLoad(Operation &op) {
    if (auto copy = dyn_cast<CopyAsyncOp>(op))
      return writeCopy(copy);
    if (slice.needed.contains(&op))
      writeOp(op);
  }

  void writeCopy(CopyAsyncOp copy) {
    for (auto [i, channel] : llvm::enumerate(channels)) {
      auto it = llvm::find(channel.group->copies, copy);
      if (it == channel.group->copies.end())
        continue;
      size_t position = it - channel.group->copies.begin();
      if (position == 0) {
        AcquireOp::create(b, channel.empty, uses[i]);
        ExpectOp::create(b, channel.full, uses[i], channel.group->getBytes());
      }
      SmallVector<Value> indices;
      for (Value index : copy.getIndices())
        indices.push_back(map.lookup(index));
      TmaLoadOp::create(b, channel.maps[position], indices, copy.getStaticIndicesAttr(),
                        getSlot(i, position), channel.full, uses[i]);
      if (position + 1 == channel.group->copies.size())
        uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
    }
  }

  Value getSlot(size_t channel, size_t copy) {
    Value ring = channels[channel].rings[copy];
    auto type = dyn_cast<RingType>(ring.getType());
    return type ? SlotOp::create(b, type.getSlot(), ring, uses[channel]).getResult() : ring;
  }

  void writeForCompute(Operation &op) {
    if (isa<CopyAsyncOp, CopyCommitOp, CopyWaitOp>(op))
      return;
    if (isa<AllocOp>(op)) // outside of roles, and there already
      return;
    if (isa<SyncOp>(op)) {
      if (barrier)
        SyncOp::create(b, barrier);
      return;
    }
    if (auto any = dyn_cast<AnyOp>(op)) {
      map.map(any.getResult(),
              AnyOp::create(b, b.getI1Type(), map.lookup(any.getTile()), voteBarrier));
      return;
    }
    for (auto [i, channel] : llvm::enumerate(channels)) {
      if (channel.group->firstUse != &op)
        continue;
      WaitOp::create(b, channel.full, uses[i]);
      for (auto [j, copy] : llvm::enumerate(channel.group->copies))
        map.map(CopyAsyncOp(copy).getBuffer(), getSlot(i, j));
    }
    writeOp(op);
    for (auto [i, channel] : llvm::enumerate(channels)) {
      if (channel.group->lastUse != &op)
        continue;
      ArriveOp::create(b, channel.empty, uses[i], ArriveScope::Warp);
      uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
    }
    if (&op == lastLoop)
      afterLoops();
  }

  void writeOp(Operation &op) {
    if (auto loop = dyn_cast<scf::ForOp>(op))
      writeFor(loop);
    else if (auto branch = dyn_cast<scf::IfOp>(op))
      writeIf(branch);
    else
      b.clone(op, map);
  }

  /// Numbers of the channels whose copies lie inside.
  SmallVector<size_t> getInner(Operation *op) {
    SmallVector<size_t> inner;
    for (auto [i, channel] : llvm::enumerate(channels))
      if (op->isAncestor(channel.group->block->getParentOp()))
        inner.push_back(i);
    return inner;
  }

  /// What of a loop's or branch's results the role needs.
  bool keeps(Value result) { return !isLoad || slice.neededValues.contains(result); }

  void writeFor(scf::ForOp loop) {
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
    auto copy =
        scf::ForOp::create(b, map.lookup(loop.getLowerBound()), map.lookup(loop.getUpperBound()),
                           map.lookup(loop.getStep()), inits);
    copy.setUnsignedCmp(loop.getUnsignedCmp());
    if (!isLoad)
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
      writeBlock(*loop.getBody());
      writeYield(loop.getBody()->getTerminator(), kept, inner);
    }
    for (auto [i, channel] : llvm::enumerate(inner))
      uses[channel] = copy.getResult(kept.size() + i);
  }

  void writeIf(scf::IfOp branch) {
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
      writeYield(from ? from->getTerminator() : nullptr, kept, inner);
    }
    uses = before;
    for (auto [i, number] : llvm::enumerate(kept))
      map.map(branch.getResult(number), copy.getResult(i));
    for (auto [i, channel] : llvm::enumerate(inner))
      uses[channel] = copy.getResult(kept.size() + i);
  }

  void writeYield(Operation *yield, ArrayRef<unsigned> kept, ArrayRef<size_t> inner) {
    SmallVector<Value> values;
    for (unsigned number : kept)
      values.push_back(map.lookup(yield->getOperand(number)));
    for (size_t channel : inner)
      values.push_back(uses[channel]);
    scf::YieldOp::create(b, values);
  }

  KernelOp old, mapped;
  RoleScheduleAttr schedule;
  RoleSlice slice;
  ImplicitLocOpBuilder b;
  IRMapping map;
  SmallVector<Channel> channels;
  llvm::DenseMap<std::pair<Value, Type>, Value> maps;
  Value barrier;     ///< of the role that computes, where it writes to shared memory
  Value voteBarrier; ///< for votes of that role
  Value tileRing, tileFull, tileEmpty; ///< numbers of tiles, where they are taken
  /// What is written behind the last loop, of the role that computes.
  Operation *lastLoop = nullptr;
  std::function<void()> afterLoops;
  std::optional<TileOrder> order;
  Value blocks; ///< of the grid
  bool isLoad = false;
  SmallVector<Value> uses; ///< of each channel: how often, until here
};

struct TgpuAssignRolesPass : tilewright::impl::TgpuAssignRolesBase<TgpuAssignRolesPass> {
  void runOnOperation() override {
    for (auto kernel : llvm::to_vector(getOperation().getOps<KernelOp>())) {
      auto schedule = kernel->getAttrOfType<RoleScheduleAttr>(roleScheduleName);
      if (!schedule || !kernel.getBody().getOps<RolesOp>().empty())
        continue;
      FailureOr<RoleSlice> slice = RoleSlice::get(kernel, /*explain=*/true);
      if (failed(slice) || failed(verify(kernel, schedule)))
        return signalPassFailure();
      RoleWriter(kernel, schedule, std::move(*slice)).run();
    }
  }

private:
  LogicalResult verify(KernelOp kernel, RoleScheduleAttr schedule) {
    if (kernel.getTarget() != "sm_90a")
      return kernel.emitOpError("is split into roles for target sm_90a only");
    constexpr int64_t mostWarps = 32;
    if (kernel.getWarps() % 4 != 0 || kernel.getWarps() + moreWarps > mostWarps)
      return kernel.emitOpError()
             << "is split into roles with 4 to 28 warps, a multiple of 4, but got "
             << static_cast<int64_t>(kernel.getWarps());
    if (schedule.getGroup() > 0 && !hasComputableGrid(kernel))
      return kernel.emitOpError("cannot take tile after tile: its grid is not computed by +, -, * "
                                "and ceildiv from extents and numbers; use the schedule group=0");
    return success();
  }
};

} // namespace
