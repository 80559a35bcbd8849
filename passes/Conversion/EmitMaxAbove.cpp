// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu.max_above. The bits of floats that are not negative are ordered as integers are, and of any
// number of floats the largest integer is that of the maximum, or negative if all of them are. So
// threads compare integers, of which VIMNMX3 takes three, where FMNMX takes two floats.

#include "passes/Conversion/KernelEmitter.h"

#include "lib/Layout/Relations.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

/// As a tree that combines three at a time.
static Value combineByThrees(SmallVector<Value> values, function_ref<Value(Value, Value)> combine) {
  while (values.size() > 1) {
    SmallVector<Value> next;
    for (size_t i = 0; i < values.size(); i += 3) {
      Value some = values[i];
      for (size_t j = i + 1; j < std::min(i + 3, values.size()); ++j)
        some = combine(some, values[j]);
      next.push_back(some);
    }
    values = std::move(next);
  }
  return values.front();
}

void KernelEmitter::emitMaxAbove(MaxAboveOp op) {
  Type f32 = b.getF32Type(), i32Type = b.getI32Type();
  const RegisterLayout &from = *getLayout(op, op.getSource().getType());
  layout::ReductionPlan plan = layout::reductionPlan(from, 1);
  assert(!plan.acrossWarps() && "rows of wgmma lie in a warp each");
  // Registers of the result, which lies as slice<1>, are the rows in their order.
  SmallVector<Values> rows(plan.result.registersPerThread());
  for (auto [reg, value] : llvm::enumerate(getElements(op.getSource())))
    rows[plan.resultRegister[reg]].push_back(value);
  Values thresholds = getElements(op.getThreshold());
  Value factor = getScalar(op.getFactor());

  // Whether a row may be above its threshold. The largest integer is that of the maximum unless all
  // are negative: then it is that of the least, whose product with a positive factor is negative as
  // the maximum's is, and with a negative factor no less. So a row above a threshold from 0 on is
  // seen.
  Value zero = arith::ConstantOp::create(b, b.getF32FloatAttr(0.0f));
  Value any;
  for (auto [threshold, row] : llvm::zip_equal(thresholds, rows)) {
    Values words;
    for (Value value : row)
      words.push_back(bitcast(value, i32Type));
    Value most = combineByThrees(
        words, [&](Value x, Value y) -> Value { return arith::MaxSIOp::create(b, x, y); });
    Value product = arith::MulFOp::create(b, bitcast(most, f32), factor);
    Value isAbove = arith::CmpFOp::create(b, arith::CmpFPredicate::OGT, product, threshold);
    Value isLow = arith::CmpFOp::create(b, arith::CmpFPredicate::OLT, threshold, zero);
    Value mayBeAbove = arith::OrIOp::create(b, isAbove, isLow);
    any = any ? arith::OrIOp::create(b, any, mayBeAbove).getResult() : mayBeAbove;
  }
  any = intrinsic("llvm.nvvm.vote.any.sync", b.getI1Type(), {i32(-1), any});
  auto branch = scf::IfOp::create(b, SmallVector<Type>(rows.size(), f32), any,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  {
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(branch.thenBlock());
    auto larger = [&](Value x, Value y) { return combine(tile::ReduceKind::Max, x, y); };
    Values maxima;
    for (const Values &row : rows) {
      Value most = combineByThrees(row, larger);
      for (int mask : plan.laneMasks) {
        Value others = shuffle("bfly", most, i32(mask));
        most = larger(most, others);
      }
      maxima.push_back(arith::MulFOp::create(b, most, factor));
    }
    scf::YieldOp::create(b, maxima);
    b.setInsertionPointToEnd(branch.elseBlock());
    auto lowest = APFloat::getInf(APFloat::IEEEsingle(), /*Negative=*/true);
    Value none = arith::ConstantOp::create(b, b.getFloatAttr(f32, lowest));
    scf::YieldOp::create(b, Values(rows.size(), none));
  }
  setElements(op.getResult(), Values(branch.getResults()));
}
