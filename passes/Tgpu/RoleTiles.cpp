// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// A kernel with roles on its way through the tiles of the grid: in the order of the grid, or taken
// from a counter by the role that copies, which then publishes what the others need of a tile.

#include "passes/Tgpu/RoleWriter.h"

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
  auto takeTile = [&](Value tile) -> Value {
    return TakeTileOp::create(b, b.getI32Type(), order->getTiles(b, tile), isOrdered(), Value());
  };
  SmallVector<Value> inits =
      loads ? SmallVector<Value>{isOrdered() ? takeTile(cta) : cta} : writeReceive(i32(0));
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
    for (Operation *multiple : multiples) {
      for (Value operand : multiple->getOperands())
        if (matchPattern(operand, m_Constant()))
          b.clone(*operand.getDefiningOp(), map);
      b.clone(*multiple, map);
    }
    afterLoops = [&] { next = writeReceive(taken); };
    lastLoop = findLastLoop();
  } else {
    mapIds(arguments.front());
  }
  if (loads) {
    taken = writePublished(arguments.front(), taken, [&](Value tile) { next = {takeTile(tile)}; });
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

/// Whether all that the tile writes lies beyond the parts of views that it is written to, or in
/// loops without a round; null where scalars do not tell, or all views are whole.
Value RoleWriter::writeIsVoid() {
  // Nothing is written where the first is not below the second: the index of an access and the size
  // of the part, or the bounds of a loop.
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
      each = {loop.getLowerBound(), loop.getUpperBound()};
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
  WalkResult result = old.walk([&](Operation *op) {
    return llvm::TypeSwitch<Operation *, WalkResult>(op)
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

/// Whether a scalar of the old kernel can be computed where a tile begins, and in few operations.
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
    bool isScalar = isa<arith::ConstantOp, tile::DimOp>(op) || mayTell(*op, {});
    bool isReached = op->getBlock() == &old.getBody().front() || isPure(op);
    if (!isScalar || !isReached)
      return false;
    reached.insert_range(getInputs(op));
  }
  return true;
}

/// With all that it is computed of, operands first.
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

/// What an i32 is a multiple of by a constant, or null.
static Value getFactor(Value value) {
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (!product || !value.getType().isInteger(32))
    return {};
  Value lhs = product.getLhs(), rhs = product.getRhs();
  return matchPattern(rhs, m_Constant()) ? lhs : matchPattern(lhs, m_Constant()) ? rhs : Value();
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
    multiples.clear();
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
      if (llvm::none_of(value.getUsers(), [&](Operation *user) {
            return !isMoved(user) && !isa<CopyAsyncOp>(user) && !isOnlyCopied(user);
          }))
        return;
      // Of a multiple the others compute the product, and LLVM knows its lowest bits.
      Value factor = getFactor(value);
      if (factor && moved.contains(factor)) {
        multiples.push_back(value.getDefiningOp());
        value = factor;
      }
      if (!llvm::is_contained(told, value))
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
