// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu.raise_max. The bits of floats that are not negative are ordered as integers are, and of any
// floats and a zero the largest integer is that of the maximum, or of the zero if all are negative.
// So threads compare integers, of which VIMNMX3 takes three, where FMNMX takes two floats, to see
// whether a row may be raised. Only a warp that has one computes maxima and what follows from them.

#include "passes/Conversion/RaisedMaxima.h"

#include "base/Layout/Relations.h"
#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/IntegerMaxima.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Tile/PositiveRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

namespace {
struct RaisedMaxima : llvm::DenseMap<Value, Value> {};
} // namespace

Value tgpu::mayDifferFromOne(KernelEmitter &e, Value tile) {
  return e.state<RaisedMaxima>().lookup(tile);
}

/// Whether the IR shows, within a few levels, that a number is positive or NaN.
static bool isPositive(Value value, unsigned levels = 4) {
  FloatAttr constant;
  if (matchPattern(value, m_Constant(&constant)))
    return !constant.getValue().isNegative() && !constant.getValue().isZero();
  auto isSo = [&](Value operand) { return levels > 0 && isPositive(operand, levels - 1); };
  Operation *op = value.getDefiningOp();
  if (isa_and_nonnull<arith::MaximumFOp>(op))
    return llvm::any_of(op->getOperands(), isSo);
  return isa_and_nonnull<arith::MinimumFOp>(op) && llvm::all_of(op->getOperands(), isSo);
}

/// A maximum times the factor, plus the contribution of its row's offset, if any.
static Value scale(ImplicitLocOpBuilder &b, Value most, Value factor, Value more) {
  if (!more)
    return arith::MulFOp::create(b, most, factor);
  auto contract = arith::FastMathFlags::contract;
  Value product = arith::MulFOp::create(b, most, factor, contract);
  return arith::AddFOp::create(b, product, more, contract);
}

/// Whether a row may exceed its limit, for each thread; `any`: regardless of the elements. The zero
/// replaces elements that are all negative, whose maximum plus an offset is below the offset.
static Value mayBeAbove(ImplicitLocOpBuilder &b, ArrayRef<Values> rows, ArrayRef<Value> limits,
                        ArrayRef<Value> more, Value factor, Value zeroWord, Value any) {
  for (auto [row, limit, offset] : llvm::zip_equal(rows, limits, more)) {
    Values words{zeroWord};
    for (Value value : row)
      words.push_back(arith::BitcastOp::create(b, zeroWord.getType(), value));
    Value most = combineByThrees(
        words, [&](Value x, Value y) -> Value { return arith::MaxSIOp::create(b, x, y); });
    Value largest = arith::BitcastOp::create(b, factor.getType(), most);
    Value product = scale(b, largest, factor, offset);
    Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, product, limit);
    any = any ? arith::OrIOp::create(b, any, isAbove).getResult() : isAbove;
  }
  return any;
}

/// The differences between the old and the new maxima, and their exponentials, in the op's block.
static SmallVector<Operation *> findFalls(RaiseMaxOp op) {
  SmallVector<Operation *> falls;
  for (Operation *user : op.getResult().getUsers()) {
    auto fall = dyn_cast<arith::SubFOp>(user);
    if (!fall || fall.getLhs() != op.getOld() || fall.getRhs() != op.getResult() ||
        fall->getBlock() != op->getBlock())
      continue;
    falls.push_back(fall);
    for (Operation *power : fall->getUsers())
      if (isa<math::Exp2Op, math::ExpOp>(power) && power->getBlock() == op->getBlock())
        falls.push_back(power);
  }
  return falls;
}

static LogicalResult emitRaiseMax(KernelEmitter &e, RaiseMaxOp op) {
  ThreadBuilder &b = e.b;
  Type f32 = b.getF32Type();
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  layout::ReductionPlan plan = layout::reductionPlan(from, 1);
  assert(!plan.acrossWarps() && "rows of wgmma lie in a warp each");
  // Registers of the result, which has the layout slice<1>, are the rows in order.
  SmallVector<Values> rows(plan.result.registersPerThread());
  for (auto [reg, value] : llvm::enumerate(e.getElements(op.getSource())))
    rows[plan.resultRegister[reg]].push_back(value);
  Values old = e.getElements(op.getOld()), limits;
  Value factor = e.getScalar(op.getFactor()), lag = e.getScalar(op.getLag());
  for (Value each : old)
    limits.push_back(arith::AddFOp::create(b, each, lag));
  // The contributions of offsets to the products: null without offsets.
  Values more(old.size());
  if (op.getOffset())
    for (auto [product, offset] : llvm::zip_equal(more, e.getElements(op.getOffset())))
      product = arith::MulFOp::create(b, offset, factor);

  // With a negative factor, the smallest element gives the largest product. LLVM uses other facts
  // about the factor, such as the condition of an enclosing branch.
  Value any;
  if (!isPositive(op.getFactor()) && !findPositiveRange(op.getFactor())) {
    Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
    Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, factor, zero);
    Value no = arith::ConstantOp::create(b, b.getBoolAttr(false));
    any = b.equal(isAbove, no);
  }
  any = mayBeAbove(b, rows, limits, more, factor, b.i32(0), any);
  any = b.voteAny(any);
  SmallVector<Operation *> falls = findFalls(op);
  auto branch = scf::IfOp::create(b, SmallVector<Type>(rows.size() * (1 + falls.size()), f32), any,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    auto larger = [&](Value x, Value y) { return combine(b, tile::ReduceKind::Max, x, y); };
    Values results;
    for (auto [row, before, limit, offset] : llvm::zip_equal(rows, old, limits, more)) {
      Value most = combineByThrees(row, larger);
      for (int mask : plan.laneMasks) {
        Value others = shuffle(b, "bfly", most, b.i32(mask));
        most = larger(most, others);
      }
      Value scaled = scale(b, most, factor, offset);
      Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, scaled, limit);
      results.push_back(arith::SelectOp::create(b, isAbove, scaled, before));
    }
    e.setElements(op.getResult(), results);
    for (Operation *fall : falls) {
      if (failed(e.emitOp(fall)))
        return failure();
      llvm::append_range(results, e.getElements(fall->getResult(0)));
    }
    scf::YieldOp::create(b, results);

    b.setInsertionPointToEnd(branch.elseBlock());
    Values kept(old);
    for (Operation *fall : falls) {
      float value = isa<arith::SubFOp>(fall) ? 0.0f : 1.0f;
      Value number = arith::ConstantOp::create(b, b.getF32FloatAttr(value));
      kept.append(rows.size(), number);
    }
    scf::YieldOp::create(b, kept);
  }
  auto results = branch.getResults();
  e.setElements(op.getResult(), Values(results.take_front(rows.size())));
  for (Operation *fall : falls) {
    results = results.drop_front(rows.size());
    e.setElements(fall->getResult(0), Values(results.take_front(rows.size())));
    e.markWritten(fall);
    if (!isa<arith::SubFOp>(fall))
      e.state<RaisedMaxima>()[fall->getResult(0)] = any;
  }
  return success();
}

void tgpu::registerRaiseMaxLowerings(LoweringTable &table) { table.add<RaiseMaxOp>(emitRaiseMax); }
