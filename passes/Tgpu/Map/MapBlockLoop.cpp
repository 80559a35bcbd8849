// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.for_blocks becomes a loop over block numbers with two versions of the body: one without a
// mask, for blocks that the ranges promise to be full, and one that computes the mask
// (MapBlockMask.cpp) and executes only if the block holds a kept pair (a vote of the whole thread
// block), as tile.for_blocks requires.

#include "passes/MaskRanges.h"
#include "passes/Tgpu/Analysis/BlockOrigin.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Map/BlockLoop.h"
#include "passes/Tgpu/Map/IdleRows.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using arith::CmpIPredicate;

func::FuncOp tgpu::getRanges(tile::ForBlocksOp op) {
  return SymbolTable::lookupNearestSymbolFrom<func::FuncOp>(op, op.getRangesAttr());
}

/// Whether the IR shows that a value is a multiple of `divisor`: it is a constant, or a product
/// with such a factor. `levels` bounds the recursion over both factors.
static bool isMultipleOf(Value value, int64_t divisor, unsigned levels = 8) {
  APInt constant;
  if (auto product = value.getDefiningOp<arith::MulIOp>(); product && levels > 0)
    return isMultipleOf(product.getLhs(), divisor, levels - 1) ||
           isMultipleOf(product.getRhs(), divisor, levels - 1);
  return matchPattern(value, m_ConstantInt(&constant)) && constant.getSExtValue() % divisor == 0;
}

SmallVector<Value> tgpu::cloneBody(OpBuilder &b, func::FuncOp function, ValueRange operands) {
  Block &body = function.getBody().front();
  IRMapping map;
  map.map(body.getArguments(), operands);
  for (Operation &op : body.without_terminator())
    b.clone(op, map);
  SmallVector<Value> results;
  for (Value result : body.getTerminator()->getOperands())
    results.push_back(map.lookup(result));
  return results;
}

/// Whether the mask is a diagonal that crosses the rows where a block of columns begins (causal,
/// with tiles no higher than blocks are wide). Then at most one block is partly kept.
bool KernelMapper::endsAtBlock(func::FuncOp ranges, ValueRange operands, const BlockLoop &loop) {
  auto shifts = tile::rowEdgeAttr.getOfResult(ranges, MustEnd);
  auto isAligned = [&](Value value) { return isMultipleOf(value, loop.columnCount); };
  return shifts && loop.rowCount <= loop.columnCount && isAligned(loop.origin) &&
         isAligned(loop.start) && llvm::all_of(shifts.asArrayRef(), [&](int64_t shift) {
           return isAligned(operands[shift]);
         });
}

void KernelMapper::computeBounds(tile::ForBlocksOp op, BlockLoop &loop) {
  auto shape = cast<RankedTensorType>(op.getKeep().getType()).getShape();
  bool isTransposed = transposedKeepAttr.isOn(op);
  loop.rowCount = shape[isTransposed ? 1 : 0];
  loop.columnCount = shape[isTransposed ? 0 : 1];
  loop.lower = map.lookup(op.getLower());
  loop.upper = map.lookup(op.getUpper());
  loop.start = map.lookup(op.getStart());
  loop.hasIdleRows = hasIdleRows(op);
  Value zero = i32(0), one = i32(1), columns = i32(loop.columnCount), all = i32(loop.rowCount);
  Value left = arith::SubIOp::create(b, map.lookup(op.getLimit()), loop.start);
  loop.rows = arith::MinSIOp::create(b, arith::MaxSIOp::create(b, left, zero), all);
  Value mayBegin = loop.lower, mayEnd = loop.upper;
  Value mustBegin, mustEnd;
  loop.origin = loop.lower;
  if (!op.getMask()) {
    mustBegin = loop.lower;
    mustEnd = loop.upper;
    loop.endsInOneBlock = true;
  }
  if (op.getRanges()) {
    Values operands{loop.start, arith::AddIOp::create(b, loop.start, loop.rows), loop.lower,
                    loop.upper};
    for (Value operand : op.getMaskOperands())
      operands.push_back(map.lookup(operand));
    // Clone it here: facts about the bounds decide which parts of the loop exist.
    Values bounds = cloneBody(b, getRanges(op), operands);
    mayBegin = arith::MaxSIOp::create(b, bounds[MayBegin], loop.lower);
    mayEnd = arith::MinSIOp::create(b, bounds[MayEnd], loop.upper);
    // A document may start at any position. Counting blocks from its start makes the first block
    // full and can save one block.
    if (target.hasRoles() && !op.getList() && isFromMemory(bounds[MayBegin]) &&
        mayBeginAnywhere(op))
      loop.origin = mayBegin = arith::MinSIOp::create(b, mayBegin, loop.upper);
    mustBegin = bounds[MustBegin];
    mustEnd = bounds[MustEnd];
    loop.endsInOneBlock =
        bounds[MayEnd] == bounds[MustEnd] || endsAtBlock(getRanges(op), operands, loop);
    // Without roles, a branch costs more than the vote, which the schedule needs as a barrier.
    if (target.hasRoles())
      loop.holdsPairs = bounds[IsTight];
    // A list visits its blocks regardless of the ranges.
    if (!op.getList())
      loop.tight = loop.holdsPairs;
  }
  // No block is full in any launch, so no full-block test is emitted.
  if (mustBegin == mustEnd)
    mustBegin = {};
  Value isNonEmpty = arith::CmpIOp::create(b, CmpIPredicate::sgt, mayEnd, mayBegin);
  // A tile without rows has no observable result, so it needs no blocks.
  if (!loop.hasIdleRows && !hasRowsInEveryTile(op)) {
    Value hasRows = arith::CmpIOp::create(b, CmpIPredicate::sgt, loop.rows, zero);
    isNonEmpty = arith::AndIOp::create(b, hasRows, isNonEmpty);
  }
  Value before = arith::SubIOp::create(b, mayBegin, loop.origin);
  Value last = arith::SubIOp::create(b, arith::SubIOp::create(b, mayEnd, loop.origin), one);
  Value end = arith::AddIOp::create(b, arith::DivSIOp::create(b, last, columns), one);
  loop.first = arith::DivSIOp::create(b, before, columns);
  loop.end = arith::SelectOp::create(b, isNonEmpty, end, loop.first);
  if (!mustBegin)
    return;
  // Clamped to the interval, where differences do not wrap. Folds to 0 if it equals the origin.
  auto distance = [&](Value position) -> Value {
    Value isBefore = arith::CmpIOp::create(b, CmpIPredicate::sle, position, loop.origin);
    Value below = arith::MinSIOp::create(b, position, loop.upper);
    return arith::SelectOp::create(b, isBefore, zero, arith::SubIOp::create(b, below, loop.origin));
  };
  Value mustFirst = distance(mustBegin);
  Value whole = arith::DivSIOp::create(b, mustFirst, columns);
  Value startsInside = arith::CmpIOp::create(b, CmpIPredicate::ne, mustFirst,
                                             arith::MulIOp::create(b, whole, columns));
  Value afterWhole = arith::AddIOp::create(b, whole, one);
  loop.fullFirst = arith::SelectOp::create(b, startsInside, afterWhole, whole);
  Value fullEnd = arith::DivSIOp::create(b, distance(mustEnd), columns);
  loop.fullEnd = fullEnd;
  if (loop.hasIdleRows)
    return;
  Value hasAllRows = arith::CmpIOp::create(b, CmpIPredicate::eq, loop.rows, all);
  // Since masked blocks come first, treat every block as masked if the tile is partial or has no
  // full block. Then only the block cut by `upper` follows the full ones.
  loop.hasOneAfter = target.hasRoles() && op.getOrder() == tile::BlockOrder::Ascending &&
                     op.getRanges() && !op.getList() && mustBegin != loop.lower &&
                     tile::endsAtUpperAttr.getOfResult(getRanges(op), MustEnd);
  if (loop.hasOneAfter) {
    Value hasFull = arith::CmpIOp::create(b, CmpIPredicate::slt, mustBegin, mustEnd);
    Value both = arith::AndIOp::create(b, hasAllRows, hasFull);
    loop.fullFirst = arith::SelectOp::create(b, both, loop.fullFirst, loop.end);
    return;
  }
  loop.fullEnd = arith::SelectOp::create(b, hasAllRows, fullEnd, loop.fullFirst);
}

LogicalResult KernelMapper::mapBlockBody(tile::ForBlocksOp op, Value begin, Value keep,
                                         ValueRange carried, Values &yielded) {
  map.map(op.getBlockStart(), begin);
  if (keep)
    map.map(op.getKeep(), keep);
  else
    allTrue.insert(op.getKeep());
  map.map(op.getRegionIterArgs(), carried);
  LogicalResult result = mapBody(op.getBody().front(), op->getResults(), yielded);
  allTrue.erase(op.getKeep());
  return result;
}

LogicalResult KernelMapper::copyAhead(tile::ForBlocksOp op, Value begin) {
  WrittenViews written(op);
  map.map(op.getBlockStart(), begin);
  llvm::DenseSet<Value> known{op.getBlockStart()};
  auto isKnown = [&](Value value) {
    return known.contains(value) || !op->isAncestor(value.getParentRegion()->getParentOp());
  };
  for (Operation &inner : op.getBody().front().without_terminator()) {
    if (!llvm::all_of(inner.getOperands(), isKnown))
      continue;
    if (auto load = dyn_cast<tile::LoadOp>(inner)) {
      bool feedsDot = tgpu::isStaged(load) && llvm::any_of(load->getUsers(), [](Operation *user) {
                        return isa<tile::DotOp>(user);
                      });
      if (!(feedsDot || isReadFromBuffer(load)) || written.contains(load.getView()))
        continue;
      b.setLoc(load.getLoc());
      if (!feedsDot)
        copyToShared(load, getReadBuffer(load));
      else if (failed(copyForDots(load)))
        return failure();
      copiedAhead.insert(load);
      continue;
    }
    if (!written.canComputeAhead(&inner))
      continue;
    if (failed(mapOp(&inner)))
      return failure();
    known.insert(inner.result_begin(), inner.result_end());
  }
  return success();
}

LogicalResult KernelMapper::visitMasked(tile::ForBlocksOp op, const BlockLoop &loop, Value begin,
                                        ValueRange carried, Values &yielded) {
  Value keep = computeKeep(op, loop, begin);
  // Without a mask function every block of the interval holds a pair.
  if (!op.getMask())
    return mapBlockBody(op, begin, keep, carried, yielded);
  Value any = mapVote(op, loop, keep);
  auto body = [&](Values &values) { return mapBlockBody(op, begin, keep, carried, values); };
  auto skip = [&](Values &values) {
    llvm::append_range(values, carried);
    return success();
  };
  return branch(any, op->getResults(), body, skip, yielded);
}

LogicalResult KernelMapper::visitBlock(tile::ForBlocksOp op, const BlockLoop &loop, Value round,
                                       Value number, ValueRange carried, Values &yielded) {
  Value columns = i32(loop.columnCount);
  Value begin = arith::AddIOp::create(b, loop.origin, arith::MulIOp::create(b, number, columns));
  if (failed(copyAhead(op, begin)))
    return failure();
  auto masked = [&](Values &values) { return visitMasked(op, loop, begin, carried, values); };
  if (!loop.fullFirst)
    return masked(yielded);
  auto full = [&](Values &values) { return mapBlockBody(op, begin, Value(), carried, values); };
  // A range of iterations, so that tgpu-clone-segments can split the loop.
  Value isBeforeEnd = arith::CmpIOp::create(b, CmpIPredicate::slt, round, loop.fullEnd);
  Value isBehindFirst = arith::CmpIOp::create(b, CmpIPredicate::sge, round, loop.fullFirst);
  Value isFull = arith::AndIOp::create(b, isBehindFirst, isBeforeEnd);
  if (failed(branch(isFull, op->getResults(), full, masked, yielded)))
    return failure();
  // The mask of a full block keeps everything, so the masked body is valid for full blocks.
  for (Operation *user : isFull.getUsers()) {
    specialCaseAttr.set(user);
    if (loop.hasOneBefore)
      oneBeforeAttr.set(user);
    if (loop.hasOneAfter)
      oneAfterAttr.set(user);
  }
  return success();
}

/// The number of the block that the list gives for an iteration.
Value KernelMapper::getListedBlock(tile::ForBlocksOp op, const BlockLoop &loop, Value round) {
  int64_t blocksOfEntry = op.getBlocksOfEntry();
  Value blocks = i32(blocksOfEntry), entry = round;
  if (blocksOfEntry > 1)
    entry = arith::DivSIOp::create(b, round, blocks);
  Values indices = getAll(op.getListIndices(), op.getListIndices());
  indices.push_back(entry);
  SmallVector<int64_t> dynamic(indices.size(), ShapedType::kDynamic);
  Value number =
      tile::AtOp::create(b, b.getI32Type(), FlatSymbolRefAttr(), map.lookup(op.getList()), indices,
                         b.getDenseI64ArrayAttr(dynamic));
  if (blocksOfEntry == 1)
    return number;
  // A number outside the interval stays outside, but is clamped so that the product does not wrap.
  Value below = arith::MinSIOp::create(b, number, loop.listEnd);
  Value near = arith::MaxSIOp::create(b, below, i32(-1));
  Value first = arith::MulIOp::create(b, near, blocks);
  Value before = arith::MulIOp::create(b, entry, blocks);
  return arith::AddIOp::create(b, first, arith::SubIOp::create(b, round, before));
}

LogicalResult KernelMapper::mapForBlocks(tile::ForBlocksOp op) {
  waitForAll();
  BlockLoop loop;
  computeBounds(op, loop);
  computeRowLimits(op, loop);
  Value zero = i32(0), one = i32(1);
  Value first = loop.first, end = loop.end;
  if (op.getList()) {
    // Entries beyond the extents of the list name no block.
    Value view = map.lookup(op.getList());
    int64_t rank = tile::getRank(op.getList().getType());
    Value count = arith::MinSIOp::create(b, map.lookup(op.getCount()),
                                         tile::DimOp::create(b, b.getI32Type(), view, rank - 1));
    for (auto [dim, index] : llvm::enumerate(op.getListIndices())) {
      // Compare as unsigned: a negative index is then too large.
      Value inside = arith::CmpIOp::create(b, CmpIPredicate::ult, map.lookup(index),
                                           tile::DimOp::create(b, b.getI32Type(), view, dim));
      count = arith::SelectOp::create(b, inside, count, zero);
    }
    first = zero;
    end = count;
    if (int64_t blocksOfEntry = op.getBlocksOfEntry(); blocksOfEntry > 1) {
      Value blocks = i32(blocksOfEntry), rest = i32(blocksOfEntry - 1);
      loop.listEnd = arith::DivSIOp::create(b, arith::AddIOp::create(b, loop.end, rest), blocks);
      end = arith::MulIOp::create(b, count, blocks);
    }
  }
  Value last, isDescending;
  if (op.getOrderCondition()) {
    // The iterations are those of the ascending loop; their numbers are mirrored.
    eitherOrderAttr.set(entry->getParentOp());
    isDescending = map.lookup(op.getOrderCondition());
    Value sum = arith::AddIOp::create(b, first, end);
    last = arith::SubIOp::create(b, sum, one);
    if (!op.getList() && loop.fullFirst) {
      auto mirror = [&](Value bound, Value other) -> Value {
        Value mirrored = arith::SubIOp::create(b, sum, other);
        return arith::SelectOp::create(b, isDescending, mirrored, bound);
      };
      Value fullFirst = mirror(loop.fullFirst, loop.fullEnd);
      loop.fullEnd = mirror(loop.fullEnd, loop.fullFirst);
      loop.fullFirst = fullFirst;
    }
  } else if (op.isDescending()) {
    // Iterations count from 0, so that a range starting at the first block ends with the loop.
    last = arith::SubIOp::create(b, end, one);
    if (!op.getList()) {
      if (loop.fullFirst) {
        Value fullRound = arith::SubIOp::create(b, end, loop.fullEnd);
        loop.fullEnd = arith::SubIOp::create(b, end, loop.fullFirst);
        loop.fullFirst = fullRound;
        loop.hasOneBefore = loop.endsInOneBlock && loop.hasIdleRows;
      }
      end = arith::SubIOp::create(b, end, first);
      first = getFirstRound(op, loop, end);
    }
  }
  auto forOp = scf::ForOp::create(b, first, end, one, getAll(op.getInitArgs(), op->getResults()));
  if (op.getInitArgs().empty())
    forOp.getBody()->getTerminator()->erase();
  LogicalResult result = inScope(forOp.getBody(), /*isLoop=*/true, [&] {
    Value round = forOp.getInductionVar(), number = round;
    if (last)
      number = arith::SubIOp::create(b, last, number);
    if (isDescending)
      number = arith::SelectOp::create(b, isDescending, number, round);
    ValueRange carried = forOp.getRegionIterArgs();
    Values yielded;
    auto visit = [&](Values &values) {
      return visitBlock(op, loop, op.getList() ? number : round, number, carried, values);
    };
    if (op.getList()) {
      number = getListedBlock(op, loop, number);
      Value isBeforeEnd = arith::CmpIOp::create(b, CmpIPredicate::slt, number, loop.end);
      Value isBehindFirst = arith::CmpIOp::create(b, CmpIPredicate::sge, number, loop.first);
      Value inside = arith::AndIOp::create(b, isBehindFirst, isBeforeEnd);
      auto skip = [&](Values &values) {
        llvm::append_range(values, carried);
        return success();
      };
      if (failed(branch(inside, op->getResults(), visit, skip, yielded)))
        return failure();
    } else if (failed(visit(yielded))) {
      return failure();
    }
    scf::YieldOp::create(b, yielded);
    return success();
  });
  map.map(op->getResults(), forOp.getResults());
  return result;
}
