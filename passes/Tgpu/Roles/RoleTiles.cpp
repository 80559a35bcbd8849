// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Iterates a kernel with roles over the tiles of the grid: in the order of the grid, or taken from
// a counter by one role, which publishes the values that other roles need (RolePublish.cpp).

#include "passes/Tgpu/Roles/RoleWriter.h"

#include "passes/Tgpu/Analysis/IdleRounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

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
  if (loads() || role == Role::Gather)
    lendSlots();
  else if (computes())
    giveSlotsBack();
}

/// Lends slots after all copies of a tile.
void RoleWriter::lendSlots() {
  for (auto [i, channel] : llvm::enumerate(channels)) {
    if (!channel.lends || !channel.concerns(role))
      continue;
    AcquireOp::create(b, channel.empty, uses[i]);
    ArriveOp::create(b, channel.full, uses[i], loads() ? ArriveScope::Role : ArriveScope::Warp);
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

/// Loops while there are tiles. The scheduler computes the values that depend on the tile number,
/// publishes them, and takes the next number; without a scheduler, the load role does so and starts
/// all copies of a tile before it takes the next. The compute role receives the next tile before it
/// stores its results; other roles receive it when they have copied or added everything.
void RoleWriter::writeTakenTiles() {
  bool publishes = role == getPublisher();
  order->setKept(role == Role::Schedule);
  if (role == Role::Schedule)
    uses.clear();
  Value cta = mapped.getGridIds()[0];
  // The number of tiles that this role has published or received before the loop.
  auto takeTile = [&](Value tile) -> Value {
    return TakeTileOp::create(b, b.getI32Type(), order->getTiles(b, tile), isOrdered(), Value());
  };
  SmallVector<Value> inits =
      publishes ? SmallVector<Value>{isOrdered() ? takeTile(cta) : cta} : writeReceive(i32(0));
  size_t numWords = inits.size();
  readsAhead.clear();
  if (computes() && receivesValues())
    findReadsAhead();
  IRMapping outside = map;
  llvm::append_range(inits, writeReadsAhead(outside, inits));
  b.setLoc(old.getLoc());
  size_t numUses = uses.size();
  llvm::append_range(inits, uses);
  inits.push_back(i32(publishes ? 0 : 1));
  SmallVector<Type> types(ValueRange(inits).getTypes());
  SmallVector<Location> locs(inits.size(), b.getLoc());
  auto loop = scf::WhileOp::create(b, types, inits);
  Block *before = b.createBlock(&loop.getBefore(), {}, types, locs);
  Value tile = before->getArgument(0);
  Value isTile = publishes ? arith::CmpIOp::create(b, arith::CmpIPredicate::slt, tile,
                                                   order->getTiles(b, tile))
                           : arith::CmpIOp::create(b, arith::CmpIPredicate::sge, tile, i32(0));
  scf::ConditionOp::create(b, isTile, before->getArguments());
  Block *after = b.createBlock(&loop.getAfter(), {}, types, locs);
  ValueRange arguments = after->getArguments();
  Value taken = arguments.back();
  uses = llvm::to_vector(arguments.drop_back().take_back(numUses));
  for (auto [op, value] : llvm::zip_equal(readsAhead, arguments.slice(numWords, readsAhead.size())))
    map.map(op->getResult(0), value);
  SmallVector<Value> next;
  if (publishes) {
    mapIds(arguments.front());
    writePublishedValues();
  } else if (receivesValues()) {
    mapPublished(arguments);
    for (Operation *multiple : multiples) {
      for (Value operand : multiple->getOperands())
        if (matchPattern(operand, m_Constant()))
          b.clone(*operand.getDefiningOp(), map);
      b.clone(*multiple, map);
    }
    if (computes()) {
      afterLoops = [&] {
        next = writeReceive(taken);
        llvm::append_range(next, writeReadsAhead(outside, next));
      };
      lastLoop = findLastLoop();
    } else if (loads()) {
      current = arith::SubIOp::create(b, taken, i32(1));
    }
  } else {
    mapIds(arguments.front());
  }
  if (publishes) {
    taken = writeTakenTile(arguments.front(), taken, [&](Value tile, Value published) {
      // Do not take a tile before it can be published: another block could have started it sooner.
      if (role == Role::Schedule)
        AcquireOp::create(b, tileEmpty, published);
      next = {takeTile(tile)};
    });
  } else {
    writeBlock(old.getBody().front());
    b.setLoc(old.getLoc());
    if (loads() && !findReleasingLoop())
      writeReceived(current);
    if (!computes())
      next = writeReceive(taken);
    finishTile();
    taken = arith::AddIOp::create(b, taken, i32(1));
  }
  SmallVector<Value> yielded(next);
  llvm::append_range(yielded, uses);
  yielded.push_back(taken);
  scf::YieldOp::create(b, yielded);
  b.setInsertionPointAfter(loop);
  if (!publishes)
    return;
  for (Value value : published)
    map.erase(value);
  writePublish(i32(-1), loop.getResults().back());
}

/// Publishes a tile, in the load role also starts its copies, and takes the next one. Returns the
/// number of tiles published. A tile that writes nothing is not published: in a batch of sequences
/// of different lengths most tiles may be beyond the end of their sequence.
Value RoleWriter::writeTakenTile(Value tile, Value taken,
                                 llvm::function_ref<void(Value tile, Value published)> takeNext) {
  auto start = [&] {
    writePublish(tile, taken);
    if (role == Role::Load)
      writeBlock(old.getBody().front());
    b.setLoc(old.getLoc());
  };
  Value isVoid = writeIsVoid();
  if (!isVoid) {
    start();
    Value published = arith::AddIOp::create(b, taken, i32(1));
    takeNext(tile, published);
    finishTile();
    return published;
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
  Value published = branch.getResults().back();
  takeNext(tile, published);
  return published;
}

/// Whether every access by which the tile writes is beyond the end of its part of a view, or in a
/// loop without iterations; null if scalars do not determine this or all views are whole.
Value RoleWriter::writeIsVoid() {
  // Pairs such that nothing is written unless the first is less than the second: the index of an
  // access and the size of its part, or the bounds of a loop.
  using Bounds = std::pair<Value, Value>;
  llvm::SetVector<Bounds> bounds;
  bool hasPart = false;
  auto isKnown = [&](Bounds each) {
    return each.first && canWriteScalar(each.first) && canWriteScalar(each.second);
  };
  auto note = [&](Operation *write, Bounds ofPart) {
    Bounds each = ofPart;
    hasPart |= each.first != nullptr;
    auto loop = write->getParentOfType<scf::ForOp>();
    if (!isKnown(each) && loop && loop.getLowerBound().getType().isInteger(32))
      each = {getFirstOfAll(loop.getLowerBound()), loop.getUpperBound()};
    if (!isKnown(each))
      return WalkResult::interrupt();
    bounds.insert(each);
    return WalkResult::advance();
  };
  auto getPart = [&](auto write) -> Bounds {
    auto part = write.getView().template getDefiningOp<tile::SubviewOp>();
    if (!part)
      return {};
    auto dim = static_cast<int64_t>(part.getDim());
    ArrayRef<int64_t> known = write.getStaticIndices();
    if (!ShapedType::isDynamic(known[dim]))
      return {};
    return {write.getIndices()[llvm::count_if(known.take_front(dim), ShapedType::isDynamic)],
            part.getSize()};
  };
  WalkResult result = old.walk<WalkOrder::PreOrder>([&](Operation *op) {
    return llvm::TypeSwitch<Operation *, WalkResult>(op)
        // What tile.spread writes does not belong to a tile.
        .Case([](tile::SpreadOp) { return WalkResult::skip(); })
        .Case<StoreOp, AtomicAddOp>([&](auto write) { return note(write, getPart(write)); })
        .Case<tile::ScatterAddOp, tile::AddAtOp>([&](auto write) { return note(write, {}); })
        .Default(WalkResult::advance());
  });
  if (result.wasInterrupted() || !hasPart)
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

/// Whether a few operations at the beginning of a tile can compute a scalar of the old kernel.
bool RoleWriter::canWriteScalar(Value value) {
  constexpr size_t mostValues = 256;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (map.contains(reached[i]))
      continue;
    if (!op || reached.size() > mostValues)
      return false;
    bool isScalar = isa<arith::ConstantOp, tile::DimOp>(op) || mayPublish(*op, {});
    bool isReached = op->getBlock() == &old.getBody().front() || isPure(op);
    if (!isScalar || !isReached)
      return false;
    reached.insert_range(getInputs(op));
  }
  return true;
}

/// Clones a scalar's definition with its dependences, operands first.
void RoleWriter::writeScalar(Value value) {
  SmallVector<Value> stack{value};
  while (!stack.empty()) {
    Operation *op = stack.back().getDefiningOp();
    if (!op || map.contains(stack.back())) {
      stack.pop_back();
      continue;
    }
    size_t size = stack.size();
    for (Value input : getInputs(op))
      if (input.getDefiningOp() && !map.contains(input))
        stack.push_back(input);
    if (stack.size() == size)
      b.clone(*op, map);
  }
}

/// The operation of the kernel's body after which no copy is waited for.
Operation *RoleWriter::findLastLoop() {
  Operation *last = nullptr;
  for (const CopyGroup &group : slice.groups) {
    Operation *op = old.getBody().front().findAncestorOpInBlock(*group.lastUse);
    if (!last || last->isBeforeInBlock(op))
      last = op;
  }
  return last;
}
