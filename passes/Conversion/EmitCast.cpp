// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions between element types.

#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/LoweringTable.h"

#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static void emitCast(KernelEmitter &e, tile::CastOp op) {
  ThreadBuilder &b = e.b;
  Type from = tile::getElementType(op.getSource().getType());
  Type to = tile::getElementType(op.getResult().getType());
  Values source = e.getElements(op.getSource());
  // Narrow floats represent few integers: their sums would be rounded.
  if (!op.getReassoc() || to.getIntOrFloatBitWidth() < 32) {
    bool hasFloat8 = getTargetOf(e.kernel).has(Feature::MmaOfBytes);
    e.setElements(op.getResult(), castElements(b, source, from, to, hasFloat8, op.getSaturate()));
    return;
  }
  // Positions of a thread's elements are sums of the first one and constants.
  Values elements;
  for (Value x : source) {
    auto sum = x.getDefiningOp<arith::AddIOp>();
    APInt constant;
    if (!sum || !matchPattern(sum.getRhs(), m_ConstantInt(&constant))) {
      elements.push_back(castElements(b, x, from, to).front());
      continue;
    }
    APFloat term = APFloat::getZero(cast<FloatType>(to).getFloatSemantics());
    term.convertFromAPInt(constant, /*IsSigned=*/true, APFloat::rmNearestTiesToEven);
    auto flags = arith::FastMathFlags::reassoc | arith::FastMathFlags::contract;
    Value base = castElements(b, sum.getLhs(), from, to).front();
    Value more = arith::ConstantOp::create(b, FloatAttr::get(to, term));
    elements.push_back(arith::AddFOp::create(b, base, more, flags));
  }
  e.setElements(op.getResult(), elements);
}

void tgpu::registerCastLowerings(LoweringTable &table) { table.add<tile::CastOp>(emitCast); }
