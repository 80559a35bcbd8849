// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-bound-maxima: a loop-carried row maximum that is updated only where the new value exceeds it
// by a constant is also computed only there. Others, of products of bytes, are maxima of integers.

#include "passes/Passes.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUBOUNDMAXIMA
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// all = maximum(old, row maxima of the source * factor), selected where it exceeds old + lag.
struct LaggingMaximum {
  arith::MaximumFOp all;
  arith::AddFOp limit;
  arith::CmpFOp exceeds;
  SmallVector<tile::SelectOp> taken;
  Value old, lag;
  Value scaled; ///< the other operand of `all`
  tile::ReduceOp reduce;
  Value factor; ///< null: 1
};

/// Returns the scalar that a tile is filled with, or null.
Value getScalar(Value tile) {
  auto full = tile.getDefiningOp<tile::FullOp>();
  return full ? full.getValue() : Value();
}

bool isNotNegative(Value scalar) {
  FloatAttr number;
  return scalar && matchPattern(scalar, m_Constant(&number)) && !number.getValue().isNegative() &&
         !number.getValue().isNaN();
}

std::optional<LaggingMaximum> match(arith::CmpFOp compare) {
  LaggingMaximum found;
  found.exceeds = compare;
  found.all = compare.getLhs().getDefiningOp<arith::MaximumFOp>();
  found.limit = compare.getRhs().getDefiningOp<arith::AddFOp>();
  if (compare.getPredicate() != arith::CmpFPredicate::OGT || !found.all || !found.limit)
    return std::nullopt;
  found.old = found.limit.getLhs();
  found.lag = getScalar(found.limit.getRhs());
  if (!isNotNegative(found.lag)) {
    found.old = found.limit.getRhs();
    found.lag = getScalar(found.limit.getLhs());
  }
  // `old` must be carried by a loop: before the loop there is no maximum yet, and all rows exceed
  // the initial value.
  if (!isNotNegative(found.lag) || !isa<BlockArgument>(found.old) ||
      (found.all.getLhs() != found.old && found.all.getRhs() != found.old))
    return std::nullopt;
  found.scaled = found.all.getLhs() == found.old ? found.all.getRhs() : found.all.getLhs();
  // The maximum must be unused where the comparison does not hold.
  for (Operation *user : compare->getUsers()) {
    auto select = dyn_cast<tile::SelectOp>(user);
    if (!select || select.getCondition() != compare.getResult() ||
        select.getIfTrue() != found.all.getResult() || select.getIfFalse() != found.old)
      return std::nullopt;
    found.taken.push_back(select);
  }
  if (!llvm::all_of(found.all->getUsers(), [&](Operation *user) {
        return user == compare || llvm::is_contained(found.taken, user);
      }))
    return std::nullopt;
  if (!found.scaled.hasOneUse())
    return std::nullopt;
  found.reduce = found.scaled.getDefiningOp<tile::ReduceOp>();
  if (auto product = found.scaled.getDefiningOp<arith::MulFOp>())
    for (auto [maximum, factors] : {std::pair(product.getLhs(), product.getRhs()),
                                    std::pair(product.getRhs(), product.getLhs())}) {
      auto reduce = maximum.getDefiningOp<tile::ReduceOp>();
      Value factor = getScalar(factors);
      if (!reduce || !reduce->hasOneUse() || !factor)
        continue;
      found.reduce = reduce;
      found.factor = factor;
    }
  if (!found.reduce || found.reduce.getKind() != tile::ReduceKind::Max ||
      found.reduce.getDim() != 1)
    return std::nullopt;
  // In other layouts a row may span several warps.
  auto type = dyn_cast<RankedTensorType>(found.reduce.getSource().getType());
  if (!type || !type.getElementType().isF32() || !isa_and_nonnull<WgmmaAttr>(type.getEncoding()))
    return std::nullopt;
  return found;
}

/// Whether elements are those of a product of bytes, scaled and masked: their NaNs are positive,
/// since arithmetic, other than a change of sign, returns the positive NaN.
bool isOfBytes(Value tile) {
  Operation *op = tile.getDefiningOp();
  if (auto wait = dyn_cast_or_null<WgmmaWaitOp>(op)) {
    Value pending = wait.getTiles()[cast<OpResult>(tile).getResultNumber()];
    auto product = pending.getDefiningOp<WgmmaOp>();
    auto shared = product ? dyn_cast<SharedType>(product.getB().getType()) : SharedType();
    return shared && shared.getElementType().getIntOrFloatBitWidth() == 8;
  }
  auto isNumber = [](Value operand) {
    FloatAttr number;
    Value scalar = getScalar(operand);
    return scalar && matchPattern(scalar, m_Constant(&number)) && !number.getValue().isNaN();
  };
  if (auto select = dyn_cast_or_null<tile::SelectOp>(op))
    return isOfBytes(select.getIfTrue()) && isNumber(select.getIfFalse());
  if (auto product = dyn_cast_or_null<arith::MulFOp>(op)) {
    Value factor = getScalar(product.getRhs());
    // LLVM may turn a product with a negative number into a change of sign.
    return factor && (isNotNegative(factor) || !matchPattern(factor, m_Constant())) &&
           isOfBytes(product.getLhs());
  }
  auto sum = dyn_cast_or_null<arith::AddFOp>(op);
  return sum && isOfBytes(sum.getLhs()) && isOfBytes(sum.getRhs());
}

/// Whether comparing integers is worthwhile: on one H200, the forward of 8-bit arrays gains 1.02 at
/// D 64 and 1.17 at D 256.
bool isOfIntegers(tile::ReduceOp reduce) {
  auto type = dyn_cast<RankedTensorType>(reduce.getSource().getType());
  return reduce.getKind() == tile::ReduceKind::Max && reduce.getDim() == 1 && type &&
         type.getElementType().isF32() && isa_and_nonnull<WgmmaAttr>(type.getEncoding()) &&
         reduce->getParentOfType<scf::ForOp>() && isOfBytes(reduce.getSource());
}

struct TgpuBoundMaxima : tilewright::impl::TgpuBoundMaximaBase<TgpuBoundMaxima> {
  void runOnOperation() override {
    SmallVector<LaggingMaximum> maxima;
    getOperation()->walk([&](arith::CmpFOp compare) {
      if (std::optional<LaggingMaximum> found = match(compare))
        maxima.push_back(*found);
    });
    for (LaggingMaximum &each : maxima) {
      OpBuilder b(each.exceeds); // after all operations that it reads
      Location loc = each.reduce.getLoc();
      Value factor = each.factor;
      if (!factor)
        factor = arith::ConstantOp::create(b, loc, b.getF32FloatAttr(1.0f));
      Value raised = RaiseMaxOp::create(b, loc, each.old.getType(), each.old, each.lag,
                                        each.reduce.getSource(), factor, /*offset=*/Value());
      for (tile::SelectOp select : each.taken) {
        select.replaceAllUsesWith(raised);
        select.erase();
      }
      each.exceeds.erase();
      each.all.erase();
      if (each.limit->use_empty())
        each.limit.erase();
      if (Operation *product = each.scaled.getDefiningOp(); product != each.reduce)
        product->erase();
      each.reduce->erase();
    }
    getOperation()->walk([&](tile::ReduceOp reduce) {
      if (isOfIntegers(reduce))
        asIntegersAttr.set(reduce);
    });
  }
};

} // namespace
