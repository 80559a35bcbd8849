// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-skip-ones: marks products of carried sums with rows that are one in most iterations.

#include "passes/Passes.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSKIPONES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Whether the value is `old` wherever a select's condition is false.
bool isKeptUnless(Value value, Value old) {
  if (auto select = value.getDefiningOp<tile::SelectOp>())
    return select.getIfFalse() == old;
  auto select = value.getDefiningOp<arith::SelectOp>();
  return select && select.getFalseValue() == old;
}

/// Whether the factor is exp2(old - new), or exp(old - new), of such a value.
bool isOftenOne(Value factor) {
  Operation *power = factor.getDefiningOp();
  if (!isa_and_nonnull<math::Exp2Op, math::ExpOp>(power))
    return false;
  auto fall = power->getOperand(0).getDefiningOp<arith::SubFOp>();
  return fall && isKeptUnless(fall.getRhs(), fall.getLhs());
}

/// Excludes sums by thread: a thread holds few numbers, and the vote would take as long as their
/// products.
bool isCarriedTile(Value value) {
  auto argument = dyn_cast<BlockArgument>(value);
  auto type = dyn_cast<RankedTensorType>(value.getType());
  return argument && isa<scf::ForOp>(argument.getOwner()->getParentOp()) && type &&
         !isa_and_nonnull<ByThreadAttr>(type.getEncoding());
}

struct TgpuSkipOnes : tilewright::impl::TgpuSkipOnesBase<TgpuSkipOnes> {
  void runOnOperation() override {
    getOperation()->walk([&](arith::MulFOp product) {
      for (auto [sum, factors] : {std::pair(product.getLhs(), product.getRhs()),
                                  std::pair(product.getRhs(), product.getLhs())}) {
        auto expand = factors.getDefiningOp<tile::ExpandOp>();
        if (!expand || !isCarriedTile(sum) || !isOftenOne(expand.getSource()))
          continue;
        product->setOperands({sum, factors});
        skipOnesAttr.set(product);
        break;
      }
    });
  }
};

} // namespace
