// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-scale-after-max: the maximum of a row scaled by one positive factor is the scaled maximum of
// the row, since rounding is monotonic. So the factor is applied to a row instead of a tile, and
// other users of the scaled tile may compute a fused multiply-add from the unscaled tile.
//
// Most factors are known only at run time, so both forms are emitted under a uniform branch. For a
// factor that is negative, zero, infinite or NaN the original computation is executed, which
// preserves the result. There is no branch if the constraints of the kernel exclude such factors.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tile/PositiveRange.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"

#include <limits>
#include <optional>

namespace tilewright {
#define GEN_PASS_DEF_TILESCALEAFTERMAX
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// keep ? source * factor : -inf; without `keep`, the product alone.
struct MaskedFactor {
  Value source, factor;
  arith::MulFOp product;
  SelectOp select;
};

bool isMinusInfinity(Value tile) {
  Value scalar = tile;
  if (auto full = tile.getDefiningOp<FullOp>())
    scalar = full.getValue();
  auto constant = scalar.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return false;
  Attribute value = constant.getValue();
  if (auto splat = dyn_cast<SplatElementsAttr>(value))
    value = splat.getSplatValue<Attribute>();
  auto number = dyn_cast<FloatAttr>(value);
  return number && number.getValue().isInfinity() && number.getValue().isNegative();
}

std::optional<MaskedFactor> matchScaled(Value tile) {
  MaskedFactor result;
  if (auto select = tile.getDefiningOp<SelectOp>();
      select && isMinusInfinity(select.getIfFalse())) {
    result.select = select;
    tile = select.getIfTrue();
  }
  auto product = tile.getDefiningOp<arith::MulFOp>();
  if (!product)
    return std::nullopt;
  for (auto [source, factor] : {std::pair(product.getLhs(), product.getRhs()),
                                std::pair(product.getRhs(), product.getLhs())})
    if (auto full = factor.getDefiningOp<FullOp>()) {
      result.product = product;
      result.source = source;
      result.factor = full.getValue();
      return result;
    }
  return std::nullopt;
}

/// Moves an operation after `last`, next to its other users: only the source is live until then.
void sink(Operation *op, Operation *last) {
  Block *block = last->getBlock();
  bool usersFollow = llvm::all_of(op->getUsers(), [&](Operation *user) {
    Operation *ancestor = block->findAncestorOpInBlock(*user);
    return ancestor && last->isBeforeInBlock(ancestor);
  });
  if (op->getBlock() != block || !op->isBeforeInBlock(last))
    return;
  if (op->use_empty())
    op->erase();
  else if (usersFollow)
    op->moveAfter(last);
}

/// The maximum of the unscaled tile, scaled; with `withMasked` also the masked product.
SmallVector<Value> scaleMaximum(OpBuilder &b, ReduceOp reduce, MaskedFactor scaled,
                                bool withMasked) {
  Location loc = reduce.getLoc();
  Value source = scaled.source;
  if (auto select = scaled.select)
    source = SelectOp::create(b, loc, source.getType(), select.getCondition(), source,
                              select.getIfFalse());
  Value maximum =
      ReduceOp::create(b, loc, reduce.getType(), reduce.getKind(), source, reduce.getDim());
  Value factors = FullOp::create(b, loc, reduce.getType(), scaled.factor);
  SmallVector<Value> results{arith::MulFOp::create(b, loc, maximum, factors)};
  if (withMasked && scaled.select) {
    // -inf times a positive finite factor is -inf, so the selected tile may be scaled.
    auto product = cast<arith::MulFOp>(b.clone(*scaled.product));
    product->replaceUsesOfWith(scaled.source, source);
    results.push_back(product);
  }
  return results;
}

/// The results of scaleMaximum where the factor permits it, else those of the source.
scf::IfOp makeBranch(OpBuilder &b, ReduceOp reduce, MaskedFactor scaled, bool withMasked) {
  Location loc = reduce.getLoc();
  auto type = cast<FloatType>(scaled.factor.getType());
  auto constant = [&](double value) {
    return arith::ConstantOp::create(b, loc, b.getFloatAttr(type, value));
  };
  Value isPositive =
      arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OGT, scaled.factor, constant(0.0));
  Value isFinite = arith::CmpFOp::create(b, loc, arith::CmpFPredicate::OLT, scaled.factor,
                                         constant(std::numeric_limits<double>::infinity()));
  Value keepsOrder = arith::AndIOp::create(b, loc, isPositive, isFinite);
  SmallVector<Type> types{reduce.getType()};
  bool yieldsTile = withMasked && scaled.select;
  if (yieldsTile)
    types.push_back(scaled.select.getType());
  auto branch = scf::IfOp::create(b, loc, types, keepsOrder,
                                  /*addThenBlock=*/true, /*addElseBlock=*/true);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToEnd(branch.thenBlock());
  scf::YieldOp::create(b, loc, scaleMaximum(b, reduce, scaled, withMasked));
  b.setInsertionPointToEnd(branch.elseBlock());
  IRMapping map;
  // Without fast-math flags it is another operation to LLVM, which would otherwise compute both
  // products before the branch and prevent their fusion with later operations.
  cast<arith::MulFOp>(b.clone(*scaled.product, map)).setFastmath(arith::FastMathFlags::none);
  if (scaled.select)
    b.clone(*scaled.select, map);
  SmallVector<Value> results{b.clone(*reduce, map)->getResult(0)};
  if (yieldsTile)
    results.push_back(map.lookup(scaled.select.getResult()));
  scf::YieldOp::create(b, loc, results);
  return branch;
}

void rewrite(ReduceOp reduce, MaskedFactor scaled, bool withMasked, bool alwaysBranch) {
  OpBuilder b(reduce);
  SmallVector<Value> results;
  Operation *last = nullptr;
  if (!alwaysBranch && findPositiveRange(scaled.factor)) {
    results = scaleMaximum(b, reduce, scaled, withMasked);
    last = results.back().getDefiningOp();
  } else {
    scf::IfOp branch = makeBranch(b, reduce, scaled, withMasked);
    results.assign(branch.result_begin(), branch.result_end());
    last = branch;
  }
  reduce.getResult().replaceAllUsesWith(results[0]);
  reduce.erase();
  if (results.size() > 1)
    scaled.select.getResult().replaceUsesWithIf(results[1], [&](OpOperand &use) {
      Operation *user = last->getBlock()->findAncestorOpInBlock(*use.getOwner());
      return user && last->isBeforeInBlock(user);
    });
  // The select first: it uses the product, which is then placed between the new operations and the
  // select.
  if (scaled.select)
    sink(scaled.select, last);
  sink(scaled.product, last);
}

struct TileScaleAfterMaxPass : tilewright::impl::TileScaleAfterMaxBase<TileScaleAfterMaxPass> {
  using TileScaleAfterMaxBase::TileScaleAfterMaxBase;

  void runOnOperation() override {
    SmallVector<ReduceOp> maxima;
    getOperation()->walk([&](ReduceOp reduce) {
      if (reduce.getKind() == ReduceKind::Max && isa<FloatType>(getElementType(reduce.getType())))
        maxima.push_back(reduce);
    });
    for (ReduceOp reduce : maxima)
      if (std::optional<MaskedFactor> scaled = matchScaled(reduce.getSource()))
        rewrite(reduce, *scaled, withMasked, alwaysBranch);
  }
};

} // namespace
