// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-scale-after-loop: a factor of all terms of a carried sum is applied to the sum once, after
// the loop. A sum is followed from the value that an iteration yields back to its iteration
// argument.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tile/UniformFactor.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/TypeUtilities.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tilewright {
#define GEN_PASS_DEF_TILESCALEAFTERLOOP
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

bool isZero(Value tile) {
  UniformFactor value = getUniformFactor(tile);
  if (value.constant)
    return value.constant.getValue().isPosZero();
  return value.scalar && matchPattern(value.scalar, m_PosZeroFloat());
}

/// Whether the results are the values that the last iteration yields.
bool isCountedLoop(Operation *op) { return isa<ForBlocksOp, scf::ForOp>(op); }

/// The sum that a loop carries as iteration argument `number`, and the products that are its terms.
class CarriedSum {
public:
  CarriedSum(LoopLikeOpInterface outermost, unsigned number)
      : outermost(outermost), number(number) {}

  /// Whether all terms have one factor, which is loop-invariant.
  bool isScaled() {
    return isZero(outermost.getInits()[number]) && follow(outermost, number) && factor;
  }
  void scaleBehind();

private:
  bool follow(LoopLikeOpInterface loop, unsigned number);
  bool addTerm(Value term);

  LoopLikeOpInterface outermost;
  unsigned number;
  SmallVector<arith::MulFOp> products;
  UniformFactor factor;
};

/// Adds a term, or the operand of a matrix product that is one: a tile that is scaled only for this
/// use, possibly rounded to another type.
bool CarriedSum::addTerm(Value term) {
  auto cast = term.getDefiningOp<CastOp>();
  if (cast && !cast->hasOneUse())
    return false;
  auto product = (cast ? cast.getSource() : term).getDefiningOp<arith::MulFOp>();
  std::optional<ScaledTile> scaled = product ? matchScaledTile(product) : std::nullopt;
  if (!scaled || !product->hasOneUse() ||
      !bitEnumContainsAll(product.getFastmath(), arith::FastMathFlags::reassoc) ||
      getElementTypeOrSelf(product.getType()) !=
          getElementTypeOrSelf(outermost->getResult(number).getType()))
    return false;
  if (scaled->factor.scalar && !outermost.isDefinedOutsideOfLoop(scaled->factor.scalar))
    return false;
  if (factor &&
      (scaled->factor.scalar != factor.scalar || scaled->factor.constant != factor.constant))
    return false;
  factor = scaled->factor;
  products.push_back(product);
  return true;
}

/// Follows the sum from the yielded value to the iteration argument: through additions of terms,
/// through products that scale all of it uniformly, and through loops within the iteration.
bool CarriedSum::follow(LoopLikeOpInterface loop, unsigned number) {
  BlockArgument carried = loop.getRegionIterArgs()[number];
  Value sum = loop.getYieldedValues()[number];
  while (sum != carried) {
    Operation *op = sum.getDefiningOp();
    // Other users of the sum would see a different value.
    if (!op || op->getParentRegion() != carried.getParentRegion() || !sum.hasOneUse())
      return false;
    if (auto dot = dyn_cast<DotOp>(op)) {
      if (!dot.getAcc() || (!addTerm(dot.getLhs()) && !addTerm(dot.getRhs())))
        return false;
      sum = dot.getAcc();
    } else if (auto addition = dyn_cast<arith::AddFOp>(op)) {
      if (addTerm(addition.getRhs()))
        sum = addition.getLhs();
      else if (addTerm(addition.getLhs()))
        sum = addition.getRhs();
      else
        return false;
    } else if (auto product = dyn_cast<arith::MulFOp>(op)) {
      // One factor per row, such as the rescaling of an online softmax.
      bool isRight = product.getLhs().getDefiningOp<ExpandOp>() != nullptr;
      if (!isRight && !product.getRhs().getDefiningOp<ExpandOp>())
        return false;
      sum = isRight ? product.getRhs() : product.getLhs();
    } else if (isCountedLoop(op)) {
      auto inner = cast<LoopLikeOpInterface>(op);
      unsigned innerNumber = cast<OpResult>(sum).getResultNumber();
      if (!follow(inner, innerNumber))
        return false;
      sum = inner.getInits()[innerNumber];
    } else {
      return false;
    }
  }
  return carried.hasOneUse();
}

void CarriedSum::scaleBehind() {
  Value sum = outermost->getResult(number);
  OpBuilder b(outermost->getContext());
  b.setInsertionPointAfter(outermost);
  Location loc = products.front().getLoc();
  Value scalar = factor.materialize(b, loc);
  Value uniform = FullOp::create(b, loc, sum.getType(), scalar);
  auto scaled = arith::MulFOp::create(b, loc, sum, uniform, products.front().getFastmathAttr());
  sum.replaceAllUsesExcept(scaled, scaled);
  for (arith::MulFOp product : products) {
    ScaledTile parts = *matchScaledTile(product);
    product.getResult().replaceAllUsesWith(parts.tile);
    product.erase();
    if (isOpTriviallyDead(parts.uniform.getDefiningOp()))
      parts.uniform.getDefiningOp()->erase();
  }
}

struct TileScaleAfterLoopPass : tilewright::impl::TileScaleAfterLoopBase<TileScaleAfterLoopPass> {
  void runOnOperation() override {
    // Outer loops first: their sums may be carried through inner ones.
    SmallVector<LoopLikeOpInterface> loops;
    getOperation()->walk<WalkOrder::PreOrder>([&](LoopLikeOpInterface loop) {
      if (isCountedLoop(loop))
        loops.push_back(loop);
    });
    for (LoopLikeOpInterface loop : loops)
      for (unsigned i = 0, e = loop->getNumResults(); i < e; ++i)
        if (isTile(loop->getResult(i).getType()))
          if (CarriedSum sum(loop, i); sum.isScaled())
            sum.scaleBehind();
  }
};

} // namespace
