// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Computes the mask of a block, and whether it keeps any pair.

#include "passes/MaskRanges.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"
#include "passes/Tgpu/Map/BlockLoop.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using arith::CmpIPredicate;

/// The positions of the mask's elements: its type with other elements.
static RankedTensorType getPositions(tile::ForBlocksOp op, Type flags) {
  auto type = cast<RankedTensorType>(flags);
  return RankedTensorType::get(type.getShape(), IntegerType::get(op.getContext(), 32),
                               type.getEncoding());
}

/// The dimensions of the mask along which positions of the fixed interval and of the block are.
static int64_t getAgainstDim(tile::ForBlocksOp op) { return transposedKeepAttr.isOn(op) ? 1 : 0; }
static int64_t getBlockDim(tile::ForBlocksOp op) { return 1 - getAgainstDim(op); }

/// A mask with tight ranges keeps an interval of each row, given by the ranges of that row alone.
/// Two comparisons per row then replace the mask of each element.
void KernelMapper::computeRowLimits(tile::ForBlocksOp op, BlockLoop &loop) {
  if (!loop.tight)
    return;
  func::FuncOp ranges = getRanges(op);
  auto slice = getSlice(layouts.get(op.getKeep()), getBlockDim(op));
  auto type = RankedTensorType::get({loop.rowCount}, b.getI32Type(), slice);
  Values operands{tile::IotaOp::create(b, type, loop.start, 0), loop.lower, loop.upper};
  for (Value operand : op.getMaskOperands())
    operands.push_back(map.lookup(operand));
  func::FuncOp begin = getRowLimit(ranges, "_begin", MayBegin);
  func::FuncOp end = getRowLimit(ranges, "_end", MayEnd);
  // The function's second argument, lower, bounds the result.
  Block &body = begin.getBody().front();
  loop.hasRowBegins = body.getTerminator()->getOperand(0) != body.getArgument(1);
  loop.rowBegin = tile::MapOp::create(b, type, FlatSymbolRefAttr::get(begin), operands);
  loop.rowEnd = tile::MapOp::create(b, type, FlatSymbolRefAttr::get(end), operands);
}

/// Returns the function (row, lower, upper, other operands) -> one result of `ranges` for that row.
func::FuncOp KernelMapper::getRowLimit(func::FuncOp ranges, StringRef suffix, unsigned result) {
  auto module = ranges->getParentOfType<ModuleOp>();
  std::string name = (ranges.getSymName() + suffix).str();
  if (auto known = module.lookupSymbol<func::FuncOp>(name))
    return known;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointAfter(ranges);
  ArrayRef<Type> inputs = ranges.getArgumentTypes();
  auto type = b.getFunctionType(inputs.drop_front(), ranges.getResultTypes()[result]);
  auto function = func::FuncOp::create(b, name, type);
  function.setPrivate();
  Block *body = function.addEntryBlock();
  b.setInsertionPointToStart(body);
  Value row = body->getArgument(0);
  // Positions are below 2^31 - 1, so 32 bits suffice (arith-int-range-narrowing).
  Values operands{row, arith::AddIOp::create(b, row, i32(1), arith::IntegerOverflowFlags::nsw)};
  llvm::append_range(operands, body->getArguments().drop_front());
  func::ReturnOp::create(b, cloneBody(b, ranges, operands)[result]);
  return function;
}

/// Whether registers are left for each row's mask as the bits of a word (EmitColumns.cpp), in
/// addition to the loop's sums and its products of the mask's shape. ptxas makes predicates of all
/// bits of a byte, and saves those in use. This takes fewer instructions for two bounds per row;
/// for one it was no faster (causal, D 64 to 256: 0.99 to 1.00).
bool KernelMapper::hasRoomForMask(tile::ForBlocksOp op, const BlockLoop &loop) {
  constexpr int64_t threadsOfWarp = 32;
  int64_t registers = 0;
  auto count = [&](Value value) {
    auto tile = dyn_cast<RankedTensorType>(value.getType());
    if (tile && tile.getRank() == 2)
      registers += getRegistersOf(tile, threadsOfWarp * warps);
  };
  llvm::for_each(op.getResults(), count);
  auto mask = cast<RankedTensorType>(op.getKeep().getType());
  op.getBody().walk([&](tile::DotOp dot) {
    auto tile = dyn_cast<RankedTensorType>(dot.getType());
    if (tile && !dot.getAcc() && tile.getShape() == mask.getShape())
      count(dot.getResult());
  });
  return registers <= RegisterLimits::forKeeping;
}

Value KernelMapper::computeKeep(tile::ForBlocksOp op, const BlockLoop &loop, Value begin) {
  if (!loop.rowEnd)
    return computeMask(op, loop, begin);
  Type flags = getType(op.getKeep());
  auto branch = scf::IfOp::create(b, flags, loop.tight, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  Type positions = getPositions(op, flags);
  int64_t columnDim = getBlockDim(op);
  // row begin <= position < row end, relative to the beginning of the block. No difference wraps,
  // since all positions are in the interval.
  Value column = tile::IotaOp::create(b, positions, i32(0), columnDim);
  Value beginning = tile::FullOp::create(b, loop.rowEnd.getType(), begin);
  auto compare = [&](CmpIPredicate predicate, Value lhs, Value rhs) -> Value {
    return arith::CmpIOp::create(b, predicate, lhs,
                                 tile::ExpandOp::create(b, positions, rhs, columnDim));
  };
  Value keep;
  if (loop.hasRowBegins && hasRoomForMask(op, loop)) {
    Value first = arith::SubIOp::create(b, loop.rowBegin, beginning);
    Value end = arith::SubIOp::create(b, loop.rowEnd, beginning);
    Value isBelow = compare(CmpIPredicate::slt, column, end);
    keep = arith::AndIOp::create(b, isBelow, compare(CmpIPredicate::sge, column, first));
  } else {
    // A single unsigned comparison.
    Value first = arith::SubIOp::create(b, beginning, loop.rowBegin);
    Value count = arith::SubIOp::create(b, loop.rowEnd, loop.rowBegin);
    Value place =
        arith::AddIOp::create(b, tile::ExpandOp::create(b, positions, first, columnDim), column);
    keep = compare(CmpIPredicate::ult, place, count);
  }
  if (!loop.hasIdleRows)
    keep = arith::AndIOp::create(b, keep, computeRowMask(op, loop));
  scf::YieldOp::create(b, keep);
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, computeMask(op, loop, begin));
  return branch.getResult(0);
}

/// The rows before the limit.
Value KernelMapper::computeRowMask(tile::ForBlocksOp op, const BlockLoop &loop) {
  Type positions = getPositions(op, getType(op.getKeep()));
  Value limit = tile::FullOp::create(b, positions, loop.rows);
  Value row = tile::IotaOp::create(b, positions, i32(0), getAgainstDim(op));
  return arith::CmpIOp::create(b, CmpIPredicate::slt, row, limit);
}

Value KernelMapper::computeMask(tile::ForBlocksOp op, const BlockLoop &loop, Value begin) {
  Type flags = getType(op.getKeep());
  Type positions = getPositions(op, flags);
  auto iota = [&](Value first, int64_t dim) {
    return tile::IotaOp::create(b, positions, first, dim);
  };
  // Relative to the beginning of the block, since positions beyond the interval may wrap.
  auto isBelow = [&](int64_t dim, Value count) -> Value {
    Value limit = tile::FullOp::create(b, positions, count);
    return arith::CmpIOp::create(b, CmpIPredicate::slt, iota(i32(0), dim), limit);
  };
  Value keep = isBelow(getBlockDim(op), arith::SubIOp::create(b, loop.upper, begin));
  if (!loop.hasIdleRows)
    keep = arith::AndIOp::create(b, computeRowMask(op, loop), keep);
  if (!op.getMask())
    return keep;
  Values operands = op.getMaskCallOperands(Value(), Value());
  for (Value &operand : operands)
    if (operand)
      operand = map.lookup(operand);
  operands[op.getAgainstPosition()] = iota(loop.start, getAgainstDim(op));
  operands[op.getBlockPosition()] = iota(begin, getBlockDim(op));
  Value mask = tile::MapOp::create(b, flags, op.getMaskAttr(), operands);
  return arith::AndIOp::create(b, keep, mask);
}

/// Whether the block holds a kept pair. A role need not vote if the ranges promise one.
Value KernelMapper::mapVote(tile::ForBlocksOp op, const BlockLoop &loop, Value keep) {
  if (!loop.holdsPairs)
    return AnyOp::create(b, b.getI1Type(), keep, Value());
  auto branch = scf::IfOp::create(b, b.getI1Type(), loop.holdsPairs, /*withElseRegion=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, arith::ConstantOp::create(b, b.getBoolAttr(true)).getResult());
  b.setInsertionPointToEnd(branch.elseBlock());
  scf::YieldOp::create(b, AnyOp::create(b, b.getI1Type(), keep, Value()).getResult());
  return branch.getResult(0);
}
