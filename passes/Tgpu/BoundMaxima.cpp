// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-bound-maxima: the maximum of a row that raises what a loop carries only where it exceeds
// that by a constant is computed only there.

#include "passes/Passes.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Dominance.h"
#include "mlir/IR/Matchers.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUBOUNDMAXIMA
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// all = maximum(old, maximum of the source's rows * factor), which counts where it is above
/// limit = old + constant.
struct RareMaximum {
  arith::MaximumFOp all;
  arith::AddFOp limit;
  Value scaled; ///< what `all` takes besides `old`
  tile::ReduceOp reduce;
  Value factor; ///< null: 1
};

bool isNotNegative(Value tile) {
  Value scalar = tile;
  if (auto full = tile.getDefiningOp<tile::FullOp>())
    scalar = full.getValue();
  FloatAttr number;
  return matchPattern(scalar, m_Constant(&number)) && !number.getValue().isNegative() &&
         !number.getValue().isNaN();
}

std::optional<RareMaximum> match(arith::CmpFOp compare) {
  RareMaximum found;
  found.all = compare.getLhs().getDefiningOp<arith::MaximumFOp>();
  found.limit = compare.getRhs().getDefiningOp<arith::AddFOp>();
  if (compare.getPredicate() != arith::CmpFPredicate::OGT || !found.all || !found.limit)
    return std::nullopt;
  Value old = found.limit.getLhs(), constant = found.limit.getRhs();
  if (!isNotNegative(constant))
    std::swap(old, constant);
  // Nothing is carried yet in the round before a loop: its maxima exceed what it begins with.
  if (!isNotNegative(constant) || !isa<BlockArgument>(old) ||
      (found.all.getLhs() != old && found.all.getRhs() != old))
    return std::nullopt;
  found.scaled = found.all.getLhs() == old ? found.all.getRhs() : found.all.getLhs();
  // Where the comparison does not hold, the maximum must not matter.
  for (Operation *user : found.all->getUsers()) {
    auto select = dyn_cast<tile::SelectOp>(user);
    if (user != compare && !(select && select.getCondition() == compare.getResult() &&
                             select.getIfTrue() == found.all.getResult() &&
                             select.getIfFalse() != found.all.getResult()))
      return std::nullopt;
  }
  if (!found.scaled.hasOneUse())
    return std::nullopt;
  found.reduce = found.scaled.getDefiningOp<tile::ReduceOp>();
  if (auto product = found.scaled.getDefiningOp<arith::MulFOp>())
    for (auto [maximum, factors] : {std::pair(product.getLhs(), product.getRhs()),
                                    std::pair(product.getRhs(), product.getLhs())}) {
      auto reduce = maximum.getDefiningOp<tile::ReduceOp>();
      auto full = factors.getDefiningOp<tile::FullOp>();
      if (!reduce || !reduce->hasOneUse() || !full)
        continue;
      found.reduce = reduce;
      found.factor = full.getValue();
    }
  if (!found.reduce || found.reduce.getKind() != tile::ReduceKind::Max ||
      found.reduce.getDim() != 1)
    return std::nullopt;
  // Rows of other layouts may lie in several warps.
  auto type = dyn_cast<RankedTensorType>(found.reduce.getSource().getType());
  if (!type || !type.getElementType().isF32() || !isa_and_nonnull<WgmmaAttr>(type.getEncoding()))
    return std::nullopt;
  return found;
}

struct TgpuBoundMaxima : tilewright::impl::TgpuBoundMaximaBase<TgpuBoundMaxima> {
  void runOnOperation() override {
    DominanceInfo dominance(getOperation());
    SmallVector<RareMaximum> maxima;
    getOperation()->walk([&](arith::CmpFOp compare) {
      if (std::optional<RareMaximum> found = match(compare))
        maxima.push_back(*found);
    });
    for (RareMaximum &each : maxima) {
      // The threshold is needed earlier now.
      if (!dominance.properlyDominates(each.limit.getOperation(), each.all)) {
        if (!llvm::all_of(each.limit->getOperands(), [&](Value operand) {
              return dominance.properlyDominates(operand, each.all);
            }))
          continue;
        each.limit->moveBefore(each.all);
      }
      OpBuilder b(each.all);
      Location loc = each.reduce.getLoc();
      Value factor = each.factor;
      if (!factor)
        factor = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
      Value maximum = MaxAboveOp::create(b, loc, each.limit.getType(), each.reduce.getSource(),
                                         factor, each.limit);
      each.all->replaceUsesOfWith(each.scaled, maximum);
      if (Operation *product = each.scaled.getDefiningOp(); product != each.reduce)
        product->erase();
      each.reduce->erase();
    }
  }
};

} // namespace
