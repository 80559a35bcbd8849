// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What one role tells the others of a tile: what that is, and the ring of tiles through which it
// goes. Where it takes long to compute, a role of its own does, the scheduler, while the tile
// before is copied and computed.

#include "passes/Tgpu/RoleWriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

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

/// Whether what is told of a tile waits for memory, as a search for the tile's sequence does. The
/// role that copies would do that when it has copied all of the tile before, and the others would
/// wait for it.
bool RoleWriter::isToldLate() {
  return llvm::any_of(toldBy, [](Operation *op) {
    return op->walk([](tile::AtOp) { return WalkResult::interrupt(); }).wasInterrupted();
  });
}

void RoleWriter::findToldScalars() {
  // What does not fit is computed by each role, from the ids.
  constexpr size_t mostWords = 15, mostWordsOfScheduler = 31;
  // Of 24 registers the role that copies would spill 64 bytes with a window, whose full blocks take
  // 86 operations to find. A causal mask takes 21, and the first rounds of three warpgroups 66.
  constexpr int64_t enoughRegisters = 32;
  const int64_t mostMore = schedule.getLoadRegisters() < enoughRegisters ? 64 : 128;
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
    hasScheduler = isToldLate();
    auto tell = [&](Value value) {
      if (llvm::none_of(value.getUsers(), [&](Operation *user) {
            bool isOfCopies = isa<CopyAsyncOp>(user) || isOnlyCopied(user);
            return !isMoved(user) && (hasScheduler || !isOfCopies);
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
    if (isStable && told.size() > (hasScheduler ? mostWordsOfScheduler : mostWords)) {
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

/// A number of -1 says that there is no further tile. The scheduler has waited for the slot before
/// it took the tile, and its first slot is free.
void RoleWriter::writePublish(Value number, Value taken) {
  if (role != Role::Schedule)
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

/// The loop in which the role that copies lets the scheduler take the next tile, or null.
scf::ForOp RoleWriter::findReleasingLoop() {
  scf::ForOp last;
  for (const CopyGroup &group : slice.groups)
    if (scf::ForOp loop = group.getLoop(); loop && loop->getBlock() == &old.getBody().front())
      if (!last || last->isBeforeInBlock(loop))
        last = loop;
  bool counts = last && last.getInductionVar().getType().isInteger(32) &&
                matchPattern(last.getStep(), m_One());
  return counts ? last : scf::ForOp();
}

/// The scheduler takes a tile when this one has been received. By the role that copies, when copies
/// of so few rounds are left that the next tile is known when they have been started: a tile that
/// is taken earlier, another block could have begun earlier. `left` rounds are.
void RoleWriter::writeReceivedWhere(arith::CmpIPredicate predicate, Value left) {
  constexpr int64_t roundsAhead = 2;
  Value isDue = arith::CmpIOp::create(b, predicate, left, i32(roundsAhead));
  auto branch = scf::IfOp::create(b, isDue, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  writeReceived(current);
}

void RoleWriter::writeReceived(Value taken) {
  ArriveOp::create(b, tileEmpty, taken, ArriveScope::Warp);
}

SmallVector<Value> RoleWriter::writeReceive(Value taken) {
  WaitOp::create(b, tileFull, taken);
  auto slot = cast<RingType>(tileRing.getType()).getSlot();
  SmallVector<Type> types(isTold() ? 1 + told.size() : 1, b.getI32Type());
  auto words = ReceiveOp::create(b, types, SlotOp::create(b, slot, tileRing, taken));
  if (role != Role::Load)
    writeReceived(taken);
  return llvm::to_vector(ValueRange(words.getValues()));
}

/// Through which one role tells the others of its next tile. A scheduler is a tile ahead with one
/// slot; with more, blocks would take tiles that others could begin earlier.
void RoleWriter::makeTileRing() {
  constexpr int64_t wordsOfChunk = 4;
  int64_t stages = hasScheduler ? 1 : 2;
  int64_t words = llvm::alignTo(1 + told.size(), wordsOfChunk);
  auto slot = SharedType::get(b.getContext(), {words}, b.getI32Type(), tgpu::Swizzle::None);
  int64_t receivers = old.getWarps() + (slice.reductions.empty() ? 0 : 1) + (hasScheduler ? 1 : 0);
  tileRing = makeRing(slot, stages, /*always=*/true);
  tileFull = makeBarriers(stages, 1);
  tileEmpty = makeBarriers(stages, receivers);
}
