// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The kernel with roles, the rings and barriers between them, and its way through the tiles of the
// grid.

#include "passes/Tgpu/RoleWriter.h"

#include "passes/Tgpu/ScheduleNames.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Transforms/RegionUtils.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Value RoleWriter::i32(int64_t value) {
  return arith::ConstantOp::create(b, b.getI32IntegerAttr(static_cast<int32_t>(value)));
}

/// What an operation reads, in its regions, too.
static SetVector<Value> getInputs(Operation *op) {
  SetVector<Value> inputs(op->operand_begin(), op->operand_end());
  getUsedValuesDefinedAbove(op->getRegions(), inputs);
  return inputs;
}

bool RoleWriter::Channel::isUsedIn(Operation *op) const {
  if (group)
    return op->isAncestor(group->block->getParentOp());
  return llvm::any_of(reduction->ops, [&](Operation *add) { return op->isProperAncestor(add); });
}

/// Copies that arrive at one barrier start together: one that started behind another group's would
/// wait for a slot of that, too.
static void gather(const CopyGroup &group) {
  CopyAsyncOp last = group.copies.front();
  for (CopyAsyncOp copy : llvm::drop_begin(group.copies)) {
    bool isKnown = llvm::all_of(copy->getOperands(), [&](Value operand) {
      Operation *def = operand.getDefiningOp();
      return !def || def->getBlock() != group.block || def->isBeforeInBlock(last);
    });
    if (!isKnown)
      return;
    copy->moveAfter(last);
    last = copy;
  }
}

void RoleWriter::run() {
  llvm::for_each(slice.groups, gather);
  makeKernel();
  for (const CopyGroup &group : slice.groups)
    makeChannel(group);
  for (const Reduction &reduction : slice.reductions)
    makeChannel(reduction);
  if (schedule.getScratchStages() > 1)
    makeScratch();
  makeBarrier();
  if (isDynamic()) {
    findToldScalars();
    makeTileRing();
  }
  if (isPersistent()) {
    order.emplace(mapped, old.getGridAttr(), schedule.getGroup());
    if (isDynamic() && schedule.getGroup() > 1)
      order->limitGroup([this](Value zero) { return getBytesOfStep(zero); });
    blocks = GridExtentOp::create(b, b.getI32Type(), 0);
  }
  makeRoles();
  old.erase();
}

//===----------------------------------------------------------------------===//
// What the roles share
//===----------------------------------------------------------------------===//

void RoleWriter::makeKernel() {
  ArrayAttr grid = old.getGridAttr(), names = old.getGridNamesAttr();
  if (isPersistent()) {
    grid = getPersistentGrid(grid);
    names = b.getStrArrayAttr({getNewName("cta")});
  }
  b.setInsertionPoint(old);
  mapped = KernelOp::create(b, old.getSymNameAttr(), old.getTargetAttr(),
                            b.getI64IntegerAttr(old.getWarps() + moreWarps), old.getArgNamesAttr(),
                            old.getArgOptionalAttr(), names, grid, old.getConstraintsAttr(),
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

/// With two buffers in turn the barrier behind a round's writes also says that all warps have done
/// with the round before the last, which read what the next round overwrites.
void RoleWriter::makeScratch() {
  for (auto alloc : old.getBody().getOps<AllocOp>()) {
    scf::ForOp loop = getScratchLoop(alloc);
    if (!loop || !loop->hasAttr(scheduleName))
      continue;
    auto type = cast<SharedType>(alloc.getBuffer().getType());
    map.lookup(alloc.getBuffer()).getDefiningOp()->erase();
    scratch.push_back({alloc.getBuffer(), loop, makeRing(type, schedule.getScratchStages())});
  }
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
    Value size = arith::ConstantOp::create(b, b.getI64IntegerAttr(bits / 8));
    for (int64_t dim : {rowDim, rank - 1}) {
      Value extent = tile::DimOp::create(b, b.getI32Type(), map.lookup(view), dim);
      extent = arith::AddIOp::create(b, extent, zero);
      size = arith::MulIOp::create(b, size, arith::ExtSIOp::create(b, wide, extent));
    }
    bytes = arith::AddIOp::create(b, bytes, size);
  };
  for (const CopyGroup &group : slice.groups)
    if (group.getLoop())
      for (CopyAsyncOp copy : group.copies)
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
  auto planned = loop ? loop->getAttrOfType<ScheduleAttr>(scheduleName) : ScheduleAttr();
  int64_t stages = planned ? planned.getStages() : isPersistent() ? schedule.getTileStages() : 1;
  if (auto own = group.copies.front()->getAttrOfType<IntegerAttr>(ringStagesName))
    stages = own.getInt();
  Channel channel;
  channel.group = &group;
  for (CopyAsyncOp copy : group.copies) {
    auto slot = cast<SharedType>(copy.getBuffer().getType());
    TensorMapType type = getTensorMap(old, copy, slot);
    channel.maps.push_back(getMap(map.lookup(MappedView::of(copy.getView()).argument), type));
    // In a loop a ring even of one slot: the passes that order its rounds ask who reads a slot.
    channel.rings.push_back(makeRing(slot, stages, /*always=*/loop != nullptr));
  }
  channel.full = makeBarriers(stages, 1);
  // What is copied once for one tile is never overwritten.
  if (loop || isPersistent())
    channel.empty = makeBarriers(stages, old.getWarps());
  channel.lends = loop && isPersistent() && group.copies.front()->hasAttr(lendSlotName);
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

/// Roles in the order of their warps; those of a warpgroup have one number of registers.
void RoleWriter::makeRoles() {
  bool reduces = !slice.reductions.empty();
  int64_t warps = old.getWarps();
  SmallVector<StringRef> names{"load", "idle", "compute"};
  SmallVector<int64_t> counts{1, moreWarps - 1, warps};
  if (reduces) {
    names.insert(names.begin() + 1, "reduce");
    counts.insert(counts.begin() + 1, 1);
    --counts[2];
  }
  SmallVector<int64_t> registers(names.size(), schedule.getLoadRegisters());
  registers.back() = schedule.getComputeRegisters();
  auto roles = RolesOp::create(b, b.getStrArrayAttr(names), b.getDenseI64ArrayAttr(counts),
                               b.getDenseI64ArrayAttr(registers), names.size());
  for (auto [name, region] : llvm::zip_equal(names, roles.getBodies())) {
    b.createBlock(&region);
    if (name == "idle")
      continue;
    role = name == "load" ? Role::Load : name == "reduce" ? Role::Reduce : Role::Compute;
    writeRole();
  }
}

Value RoleWriter::getMap(Value view, TensorMapType type) {
  Value &tensorMap = maps[{view, type}];
  if (!tensorMap)
    tensorMap = TensorMapOp::create(b, type, view);
  return tensorMap;
}

/// Syncs that kept copies and reads apart are done with; those that ordinary stores to shared
/// memory need are now the role's own.
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

/// Through which the role that copies tells the others of its next tile.
void RoleWriter::makeTileRing() {
  constexpr int64_t stages = 2, wordsOfChunk = 4;
  int64_t words = llvm::alignTo(1 + told.size(), wordsOfChunk);
  auto slot = SharedType::get(b.getContext(), {words}, b.getI32Type(), tgpu::Swizzle::None);
  tileRing = makeRing(slot, stages);
  tileFull = makeBarriers(stages, 1);
  tileEmpty = makeBarriers(stages, old.getWarps() + (slice.reductions.empty() ? 0 : 1));
}

//===----------------------------------------------------------------------===//
// Tiles of the grid
//===----------------------------------------------------------------------===//

void RoleWriter::writeRole() {
  uses.assign(channels.size() + scratch.size(), Value());
  for (Value &use : uses)
    use = i32(0);
  if (!isPersistent())
    return writeBlock(old.getBody().front());
  if (isDynamic())
    return writeTakenTiles();
  Value cta = mapped.getGridIds()[0];
  auto loop = scf::ForOp::create(b, cta, order->getTiles(b, cta), blocks, uses);
  b.setInsertionPointToStart(loop.getBody());
  uses.assign(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  mapIds(loop.getInductionVar());
  writeBlock(old.getBody().front());
  finishTile();
  scf::YieldOp::create(b, uses);
}

void RoleWriter::finishTile() {
  if (role == Role::Load)
    lendSlots();
  else if (role == Role::Compute)
    giveSlotsBack();
}

/// Behind all copies of a tile.
void RoleWriter::lendSlots() {
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.lends)
      continue;
    AcquireOp::create(b, channel.empty, uses[i]);
    ArriveOp::create(b, channel.full, uses[i], ArriveScope::Role);
    uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
  }
}

void RoleWriter::waitForSlots() {
  for (auto [i, channel] : llvm::enumerate(channels))
    if (channel.lends)
      WaitOp::create(b, channel.full, uses[i]);
}

void RoleWriter::giveSlotsBack() {
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.lends)
      continue;
    ArriveOp::create(b, channel.empty, uses[i], ArriveScope::Warp);
    uses[i] = arith::AddIOp::create(b, uses[i], i32(1));
  }
}

void RoleWriter::mapIds(Value tile) {
  for (auto [id, value] : llvm::zip_equal(old.getGridIds(), order->getIds(b, tile)))
    map.map(id, value);
}

/// Tile after tile while there are any. The role that copies computes what depends on the tile's
/// number, publishes it, starts all copies, and takes the next number. The one that computes asks
/// for the next tile before it lets its results out; the one that adds to memory, when it has added
/// all.
void RoleWriter::writeTakenTiles() {
  bool loads = role == Role::Load, computes = role == Role::Compute;
  Value cta = mapped.getGridIds()[0];
  // How many tiles were published or received, in this role, before the loop.
  SmallVector<Value> inits = loads ? SmallVector<Value>{cta} : writeReceive(i32(0));
  size_t numWords = inits.size();
  llvm::append_range(inits, uses);
  inits.push_back(i32(loads ? 0 : 1));
  SmallVector<Type> types(inits.size(), b.getI32Type());
  SmallVector<Location> locs(inits.size(), b.getLoc());
  auto loop = scf::WhileOp::create(b, types, inits);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locs);
  Value tile = before->getArgument(0);
  Value isTile =
      loads ? arith::CmpIOp::create(b, arith::CmpIPredicate::slt, tile, order->getTiles(b, tile))
            : arith::CmpIOp::create(b, arith::CmpIPredicate::sge, tile, i32(0));
  scf::ConditionOp::create(b, isTile, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locs);
  ValueRange arguments = after->getArguments();
  Value taken = arguments.back();
  uses = llvm::to_vector(arguments.drop_front(numWords).drop_back());
  SmallVector<Value> next;
  if (loads) {
    mapIds(arguments.front());
    writeTold();
  } else if (computes) {
    for (auto [value, word] : llvm::zip_equal(told, arguments.slice(1, told.size())))
      map.map(value, value.getType().isInteger(1)
                         ? arith::CmpIOp::create(b, arith::CmpIPredicate::ne, word, i32(0))
                         : word);
    afterLoops = [&] { next = writeReceive(taken); };
    lastLoop = findLastLoop();
  } else {
    mapIds(arguments.front());
  }
  if (loads) {
    taken = writePublished(arguments.front(), taken, [&](Value tile) {
      next = {TakeTileOp::create(b, b.getI32Type(), order->getTiles(b, tile), Value())};
    });
  } else {
    writeBlock(old.getBody().front());
    b.setLoc(old.getLoc());
    if (!computes)
      next = writeReceive(taken);
    finishTile();
    taken = arith::AddIOp::create(b, taken, i32(1));
  }
  SmallVector<Value> yielded(next);
  llvm::append_range(yielded, uses);
  yielded.push_back(taken);
  scf::YieldOp::create(b, yielded);
  b.setInsertionPointAfter(loop);
  if (!loads)
    return;
  for (Value value : told)
    map.erase(value);
  writePublish(i32(-1), loop.getResults().back());
}

/// Publishes a tile, starts its copies and takes the next; returns how many tiles were published.
/// One that writes nothing is not published: in a batch of sequences of different lengths most
/// tiles may lie beyond the end of theirs.
Value RoleWriter::writePublished(Value tile, Value taken,
                                 llvm::function_ref<void(Value tile)> takeNext) {
  auto start = [&] {
    writePublish(tile, taken);
    writeBlock(old.getBody().front());
    b.setLoc(old.getLoc());
  };
  Value isVoid = writeIsVoid();
  if (!isVoid) {
    start();
    takeNext(tile);
    finishTile();
    return arith::AddIOp::create(b, taken, i32(1));
  }
  SmallVector<Type> types(uses.size() + 1, b.getI32Type());
  auto branch = scf::IfOp::create(b, types, isVoid, /*addThenBlock=*/true, /*addElseBlock=*/true);
  auto yield = [&](Value count) {
    SmallVector<Value> values(uses);
    values.push_back(count);
    scf::YieldOp::create(b, values);
  };
  b.setInsertionPointToEnd(branch.thenBlock());
  yield(taken);
  b.setInsertionPointToEnd(branch.elseBlock());
  start();
  finishTile();
  yield(arith::AddIOp::create(b, taken, i32(1)));
  b.setInsertionPointAfter(branch);
  uses = SmallVector<Value>(branch.getResults().drop_back());
  takeNext(tile);
  return branch.getResults().back();
}

/// Whether all that the tile writes lies beyond the parts of views that it is written to; null
/// where scalars do not tell.
Value RoleWriter::writeIsVoid() {
  llvm::SetVector<std::pair<Value, Value>> bounds; // of an access: its index, the size of the part
  WalkResult result = old.walk([&](Operation *op) {
    auto note = [&](auto write) {
      auto part = write.getView().template getDefiningOp<tile::SubviewOp>();
      if (!part)
        return WalkResult::interrupt();
      auto dim = static_cast<int64_t>(part.getDim());
      ArrayRef<int64_t> known = write.getStaticIndices();
      if (!ShapedType::isDynamic(known[dim]))
        return WalkResult::interrupt();
      Value index =
          write.getIndices()[llvm::count_if(known.take_front(dim), ShapedType::isDynamic)];
      bounds.insert({index, part.getSize()});
      return canWriteScalar(index) && canWriteScalar(part.getSize()) ? WalkResult::advance()
                                                                     : WalkResult::interrupt();
    };
    return llvm::TypeSwitch<Operation *, WalkResult>(op)
        .Case<StoreOp, AtomicAddOp>(note)
        .Case<tile::ScatterAddOp, tile::AddAtOp>([](auto) { return WalkResult::interrupt(); })
        .Default(WalkResult::advance());
  });
  if (result.wasInterrupted())
    return {};
  Value isVoid;
  for (auto [index, size] : bounds) {
    writeScalar(index);
    writeScalar(size);
    Value isBeyond =
        arith::CmpIOp::create(b, arith::CmpIPredicate::sge, map.lookup(index), map.lookup(size));
    isVoid = isVoid ? arith::AndIOp::create(b, isVoid, isBeyond).getResult() : isBeyond;
  }
  return isVoid;
}

/// Whether a scalar of the old kernel can be computed where a tile begins.
bool RoleWriter::canWriteScalar(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || map.contains(value))
    return map.contains(value);
  bool isScalar = isa<arith::ConstantOp, tile::DimOp>(op) || mayTell(*op, {});
  return isScalar && op->getBlock() == &old.getBody().front() &&
         llvm::all_of(getInputs(op), [&](Value input) { return canWriteScalar(input); });
}

/// With all that it is computed of.
void RoleWriter::writeScalar(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op || map.contains(value))
    return;
  llvm::for_each(getInputs(op), [&](Value input) { writeScalar(input); });
  b.clone(*op, map);
}

/// The operation of the kernel's body behind which no copy is waited for.
Operation *RoleWriter::findLastLoop() {
  Operation *last = nullptr;
  for (const CopyGroup &group : slice.groups) {
    Operation *op = old.getBody().front().findAncestorOpInBlock(*group.lastUse);
    if (!last || last->isBeforeInBlock(op))
      last = op;
  }
  return last;
}

/// A scalar that follows from the tile's number, in as few instructions as it may: what it reads is
/// told, or the same for all tiles. What is read from memory, too: the others need not wait for it,
/// and ptxas knows of what they receive that it is the same for all threads.
bool RoleWriter::mayTell(Operation &op, const llvm::DenseSet<Operation *> &refused) {
  auto isScalar = [](Type type) {
    return type.isInteger(1) || type.isInteger(32) || type.isInteger(64);
  };
  if (op.getNumResults() == 0 || refused.contains(&op) ||
      !llvm::all_of(op.getResultTypes(), isScalar))
    return false;
  if (isa<tile::AtOp>(op))
    return written.canComputeAhead(&op);
  if (auto loop = dyn_cast<scf::ForOp>(op)) // such as a search
    return llvm::all_of(loop.getBody()->without_terminator(), [&](Operation &inner) {
      return isa<arith::ConstantOp>(inner) || mayTell(inner, {});
    });
  return isa<arith::ArithDialect>(op.getDialect()) && llvm::all_of(op.getOperandTypes(), isScalar);
}

void RoleWriter::findToldScalars() {
  // What does not fit is computed by each role, from the ids.
  constexpr size_t mostWords = 15;
  // The role that copies has 24 registers: with a window, whose full blocks take 86 operations to
  // find, it would spill 64 bytes. A causal mask takes 21.
  constexpr int64_t mostMore = 64;
  Block &body = old.getBody().front();
  llvm::DenseSet<Operation *> refused;
  for (bool isStable = false; !isStable;) {
    isStable = true;
    toldBy.clear();
    told.clear();
    // Values that every role can compute, and those that depend on the ids besides.
    llvm::DenseSet<Value> common, moved(old.getGridIds().begin(), old.getGridIds().end());
    for (BlockArgument argument : old.getArgs())
      common.insert(argument);
    for (Operation &op : body) {
      auto isKnown = [&](Value operand) {
        return common.contains(operand) || moved.contains(operand);
      };
      bool isCommon = isa<arith::ConstantOp, tile::DimOp, tile::CapturedOp>(op);
      if (isa<arith::ArithDialect>(op.getDialect()) && mayTell(op, {}))
        isCommon |=
            llvm::all_of(op.getOperands(), [&](Value operand) { return common.contains(operand); });
      if (isCommon) {
        common.insert(op.getResult(0));
      } else if (mayTell(op, refused) && llvm::all_of(getInputs(&op), isKnown)) {
        moved.insert(op.result_begin(), op.result_end());
        toldBy.push_back(&op);
      }
    }
    auto isMoved = [&](Operation *op) {
      Operation *top = body.findAncestorOpInBlock(*op);
      return top && top->getNumResults() > 0 && moved.contains(top->getResult(0));
    };
    auto tell = [&](Value value) {
      if (llvm::any_of(value.getUsers(), [&](Operation *user) {
            return !isMoved(user) && !isa<CopyAsyncOp>(user) && !isOnlyCopied(user);
          }))
        told.push_back(value);
    };
    llvm::for_each(old.getGridIds(), tell);
    for (Operation *op : toldBy)
      llvm::for_each(op->getResults(), tell);
    for (Value value : told)
      if (value.getType().isInteger(64)) {
        refused.insert(value.getDefiningOp());
        isStable = false;
      }
    // For itself the role computes the blocks that it copies, but not which of them are full.
    auto isMore = [&](Operation *op) { return !slice.load.ops.contains(op); };
    if (isStable && llvm::count_if(toldBy, isMore) > mostMore) {
      for (Operation *op : llvm::make_filter_range(toldBy, isMore))
        refused.insert(op);
      isStable = false;
    }
    if (isStable && told.size() > mostWords) {
      for (Operation *op : toldBy)
        refused.insert(op);
      isStable = toldBy.empty();
    }
  }
}

/// With what the others need not compute, everything that it is computed of.
void RoleWriter::writeTold() {
  for (Operation *op : toldBy)
    writeScalar(op->getResult(0));
}

/// A number of -1 says that there is no further tile.
void RoleWriter::writePublish(Value number, Value taken) {
  AcquireOp::create(b, tileEmpty, taken);
  SmallVector<Value> words{number};
  for (Value value : told) {
    Value word = map.lookupOrNull(value);
    if (!word)
      word = i32(0);
    else if (word.getType().isInteger(1))
      word = arith::ExtUIOp::create(b, b.getI32Type(), word);
    words.push_back(word);
  }
  auto slot = cast<RingType>(tileRing.getType()).getSlot();
  PublishOp::create(b, words, SlotOp::create(b, slot, tileRing, taken));
  ArriveOp::create(b, tileFull, taken, ArriveScope::Role);
}

SmallVector<Value> RoleWriter::writeReceive(Value taken) {
  WaitOp::create(b, tileFull, taken);
  auto slot = cast<RingType>(tileRing.getType()).getSlot();
  SmallVector<Type> types(role == Role::Compute ? 1 + told.size() : 1, b.getI32Type());
  auto words = ReceiveOp::create(b, types, SlotOp::create(b, slot, tileRing, taken));
  ArriveOp::create(b, tileEmpty, taken, ArriveScope::Warp);
  return llvm::to_vector(ValueRange(words.getValues()));
}
