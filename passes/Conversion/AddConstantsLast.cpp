// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// arith-add-constants-last: one walk in the order of the operations, so that a constant moves
// through a chain of sums and products, without the greedy driver, whose folders would change other
// code.

#include "passes/FastMath.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "mlir/Pass/Pass.h"

#include <optional>

namespace tilewright {
#define GEN_PASS_DEF_ARITHADDCONSTANTSLAST
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;

namespace {

std::optional<APFloat> getFloatConstant(Value value) {
  FloatAttr number;
  if (!matchPattern(value, m_Constant(&number)))
    return std::nullopt;
  return number.getValue();
}

/// base + constant; without a constant, the value itself.
struct Sum {
  Value base;
  std::optional<APFloat> constant;
};

Sum split(Value value) {
  auto sum = value.getDefiningOp<arith::AddFOp>();
  if (sum && mayReassociate(sum)) {
    if (std::optional<APFloat> constant = getFloatConstant(sum.getRhs()))
      return {sum.getLhs(), constant};
    if (std::optional<APFloat> constant = getFloatConstant(sum.getLhs()))
      return {sum.getRhs(), constant};
  }
  return {value, std::nullopt};
}

class Rewriter {
public:
  explicit Rewriter(Operation *op) : b(op), op(op), loc(op->getLoc()) {
    flags = cast<arith::ArithFastMathInterface>(op).getFastMathFlagsAttr();
  }

  /// (x + c) + (y + d)  =>  (x + y) + (c + d), and the same of a difference.
  void addOrSubtract(bool isSum) {
    Sum left = split(op->getOperand(0)), right = split(op->getOperand(1));
    if (!left.constant && !right.constant)
      return;
    if (getFloatConstant(left.base) || getFloatConstant(right.base))
      return; // already a constant, with no other use
    APFloat zero = APFloat::getZero((left.constant ? left : right).constant->getSemantics());
    APFloat total = left.constant.value_or(zero), other = right.constant.value_or(zero);
    if (isSum)
      total.add(other, APFloat::rmNearestTiesToEven);
    else
      total.subtract(other, APFloat::rmNearestTiesToEven);
    Value base = isSum ? arith::AddFOp::create(b, loc, left.base, right.base, flags).getResult()
                       : arith::SubFOp::create(b, loc, left.base, right.base, flags).getResult();
    replace(base, constant(total));
  }

  /// (x + c) * k  =>  x * k + c * k
  void multiply() {
    for (auto [sum, factor] : {std::pair(op->getOperand(0), op->getOperand(1)),
                               std::pair(op->getOperand(1), op->getOperand(0))}) {
      Sum parts = split(sum);
      if (!parts.constant)
        continue;
      Value base = arith::MulFOp::create(b, loc, parts.base, factor, flags);
      Value more;
      if (std::optional<APFloat> number = getFloatConstant(factor)) {
        parts.constant->multiply(*number, APFloat::rmNearestTiesToEven);
        more = constant(*parts.constant);
      } else {
        Value term = constant(*parts.constant);
        more = arith::MulFOp::create(b, loc, term, factor, flags);
      }
      return replace(base, more);
    }
  }

private:
  Value constant(const APFloat &value) {
    return arith::ConstantOp::create(b, loc, FloatAttr::get(op->getResult(0).getType(), value));
  }

  void replace(Value base, Value more) {
    Value sum = arith::AddFOp::create(b, loc, base, more, flags);
    op->getResult(0).replaceAllUsesWith(sum);
  }

  OpBuilder b;
  Operation *op;
  Location loc;
  arith::FastMathFlagsAttr flags;
};

struct ArithAddConstantsLast : tilewright::impl::ArithAddConstantsLastBase<ArithAddConstantsLast> {
  void runOnOperation() override {
    SmallVector<Operation *> candidates;
    getOperation()->walk([&](Operation *op) {
      if (isa<arith::AddFOp, arith::SubFOp, arith::MulFOp>(op) && mayReassociate(op) &&
          isa<FloatType>(op->getResult(0).getType()))
        candidates.push_back(op);
    });
    for (Operation *op : candidates) {
      if (isa<arith::MulFOp>(op))
        Rewriter(op).multiply();
      else
        Rewriter(op).addOrSubtract(isa<arith::AddFOp>(op));
    }
    for (Operation *op : llvm::reverse(candidates))
      if (isOpTriviallyDead(op))
        op->erase();
  }
};

} // namespace
