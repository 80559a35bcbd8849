// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the scalars that one role publishes for each tile, and writes the ring through which they
// are published. If a warp is free, a separate role, the scheduler, takes tiles and computes the
// scalars while the previous tile is copied and computed.

#include "passes/Tgpu/Roles/RoleWriter.h"

#include "passes/Tgpu/Analysis/RegisterLimits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// A scalar derived from the tile number that is worth publishing: its operands are published or
/// tile-invariant. Loaded values are published too, so other roles need not wait for memory and
/// ptxas treats them as warp-uniform.
bool RoleWriter::mayPublish(Operation &op, const llvm::DenseSet<Operation *> &rejected) {
  auto isScalar = [](Type type) {
    return type.isInteger(1) || type.isInteger(32) || type.isInteger(64);
  };
  if (op.getNumResults() == 0 || rejected.contains(&op) ||
      !llvm::all_of(op.getResultTypes(), isScalar))
    return false;
  if (isa<tile::AtOp>(op))
    return written.canComputeAhead(&op);
  // For example a binary search, or a number that is read if there is a table.
  if (isa<scf::ForOp, scf::IfOp>(op))
    return llvm::all_of(op.getRegions(), [&](Region &region) {
      return llvm::all_of(region.front().without_terminator(), [&](Operation &inner) {
        return isa<arith::ConstantOp>(inner) || mayPublish(inner, {});
      });
    });
  return isa<arith::ArithDialect>(op.getDialect()) && llvm::all_of(op.getOperandTypes(), isScalar);
}

/// The other factor of an i32 product by a constant, or null.
static Value getFactor(Value value) {
  auto product = value.getDefiningOp<arith::MulIOp>();
  if (!product || !value.getType().isInteger(32))
    return {};
  Value lhs = product.getLhs(), rhs = product.getRhs();
  return matchPattern(rhs, m_Constant()) ? lhs : matchPattern(lhs, m_Constant()) ? rhs : Value();
}

void RoleWriter::findPublishedValues() {
  // If the scalars do not fit, each role computes them from the ids.
  constexpr size_t mostWords = 15, mostWordsOfScheduler = 31;
  using Limits = RegisterLimits;
  const int64_t mostMore = schedule.getLoadRegisters() < Limits::toPublishAll
                               ? Limits::operationsOfFew
                               : Limits::operationsOfAll;
  Block &body = old.getBody().front();
  llvm::DenseSet<Operation *> rejected;
  for (bool isStable = false; !isStable;) {
    isStable = true;
    publishedOps.clear();
    published.clear();
    multiples.clear();
    // Values that every role can compute, and values that also depend on the ids.
    llvm::DenseSet<Value> common, moved(old.getGridIds().begin(), old.getGridIds().end());
    for (BlockArgument argument : old.getArgs())
      common.insert(argument);
    for (Operation &op : body) {
      auto isKnown = [&](Value operand) {
        return common.contains(operand) || moved.contains(operand);
      };
      bool isCommon = isa<arith::ConstantOp, tile::DimOp, tile::CapturedOp>(op);
      // tgpu-hoist-elements reads an element that is the same for all tiles once.
      if (isa<arith::ArithDialect, tile::TileDialect>(op.getDialect()) && mayPublish(op, {}))
        isCommon |=
            llvm::all_of(op.getOperands(), [&](Value operand) { return common.contains(operand); });
      if (isCommon) {
        common.insert(op.getResult(0));
      } else if (mayPublish(op, rejected) && llvm::all_of(getInputs(&op), isKnown)) {
        moved.insert(op.result_begin(), op.result_end());
        publishedOps.push_back(&op);
      }
    }
    auto isMoved = [&](Operation *op) {
      Operation *top = body.findAncestorOpInBlock(*op);
      return top && top->getNumResults() > 0 && moved.contains(top->getResult(0));
    };
    auto publish = [&](Value value) {
      if (llvm::none_of(value.getUsers(), [&](Operation *user) {
            bool isOfCopies = isa<CopyAsyncOp>(user) || isOnlyCopied(user);
            return !isMoved(user) && (hasScheduler() || !isOfCopies);
          }))
        return;
      // Publish the quotient; receivers multiply it back, so LLVM knows the trailing zero bits.
      Value factor = getFactor(value);
      if (factor && moved.contains(factor)) {
        multiples.push_back(value.getDefiningOp());
        value = factor;
      }
      if (!llvm::is_contained(published, value))
        published.push_back(value);
    };
    llvm::for_each(old.getGridIds(), publish);
    for (Operation *op : publishedOps)
      llvm::for_each(op->getResults(), publish);
    for (Value value : published)
      if (value.getType().isInteger(64)) {
        rejected.insert(value.getDefiningOp());
        isStable = false;
      }
    // The copies need the blocks, but not which of them are full.
    auto isMore = [&](Operation *op) { return !slice.load.ops.contains(op); };
    if (isStable && llvm::count_if(publishedOps, isMore) > mostMore) {
      for (Operation *op : llvm::make_filter_range(publishedOps, isMore))
        rejected.insert(op);
      isStable = false;
    }
    if (isStable && published.size() > (hasScheduler() ? mostWordsOfScheduler : mostWords)) {
      for (Operation *op : publishedOps)
        rejected.insert(op);
      isStable = publishedOps.empty();
    }
  }
}

/// Computes the published scalars and everything that they depend on.
void RoleWriter::writePublishedValues() {
  for (Operation *op : publishedOps)
    writeScalar(op->getResult(0));
}

/// A number of -1 means that there is no further tile. The scheduler has acquired the slot before
/// it took the tile; its first slot is free.
void RoleWriter::writePublish(Value number, Value taken) {
  if (role != Role::Schedule)
    AcquireOp::create(b, tileEmpty, taken);
  SmallVector<Value> words{number};
  for (Value value : published) {
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

/// The loop in which a load role signals the scheduler to take the next tile: the one that issues
/// the last copies of a tile, unless it is nested or contains another loop of copies, whose
/// iterations would count, too. Null if a load role signals when all its copies are issued.
scf::ForOp RoleWriter::findReleasingLoop() {
  Block &body = old.getBody().front();
  Operation *last = nullptr;
  auto getTop = [&](scf::ForOp loop) { return body.findAncestorOpInBlock(*loop); };
  for (const CopyGroup &group : slice.groups)
    if (scf::ForOp loop = group.getLoop())
      if (Operation *top = getTop(loop); !last || last->isBeforeInBlock(top))
        last = top;
  for (const CopyGroup &group : slice.groups)
    if (scf::ForOp loop = group.getLoop(); loop && getTop(loop) == last && loop != last)
      return {};
  auto loop = dyn_cast_if_present<scf::ForOp>(last);
  bool counts = loop && loop.getInductionVar().getType().isInteger(32) &&
                matchPattern(loop.getStep(), m_One());
  return counts ? loop : scf::ForOp();
}

/// A load role signals the scheduler when `left` iterations of copies remain, so the next tile is
/// known when they have been issued. Signaling earlier would hold back a tile that another block
/// could start.
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
  SmallVector<Type> types(receivesValues() ? 1 + published.size() : 1, b.getI32Type());
  auto words = ReceiveOp::create(b, types, SlotOp::create(b, slot, tileRing, taken));
  if (!loads())
    writeReceived(taken);
  return llvm::to_vector(ValueRange(words.getValues()));
}

/// The ring through which one role publishes tiles. One slot keeps the scheduler one tile ahead;
/// more would hold back tiles that other blocks could start.
void RoleWriter::makeTileRing() {
  constexpr int64_t wordsOfChunk = 4;
  int64_t stages = hasScheduler() ? 1 : 2;
  int64_t words = llvm::alignTo(1 + published.size(), wordsOfChunk);
  auto slot = SharedType::get(b.getContext(), {words}, b.getI32Type(), tgpu::Swizzle::None);
  int64_t receivers = getComputeRoles() * old.getWarps() + (slice.reductions.empty() ? 0 : 1) +
                      (slice.hasGathers() ? gatherWarps + 0 : 0) +
                      (hasScheduler() ? schedule.getLoadRoles() : 0);
  tileRing = makeRing(slot, stages, /*always=*/true);
  tileFull = makeBarriers(stages, 1);
  tileEmpty = makeBarriers(stages, receivers);
}
