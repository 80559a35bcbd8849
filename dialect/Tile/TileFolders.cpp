// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Folders and canonicalization patterns: identities that need neither parameters nor targets.

#include "dialect/Tile/Tile.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/BitVector.h"

using namespace mlir;
using namespace tilewright::tile;

OpFoldResult ReshapeOp::fold(FoldAdaptor) {
  if (getSource().getType() == getResult().getType())
    return getSource();
  // Row-major order composes: only the first source and the last shape matter.
  if (auto inner = getSource().getDefiningOp<ReshapeOp>()) {
    if (inner.getSource().getType() == getResult().getType())
      return inner.getSource();
    getSourceMutable().assign(inner.getSource());
    return getResult();
  }
  return {};
}

OpFoldResult TransposeOp::fold(FoldAdaptor) {
  auto isIdentity = [](ArrayRef<int64_t> permutation) {
    return llvm::equal(permutation, llvm::seq<int64_t>(0, permutation.size()));
  };
  // Types differ if one is symbolic and the other a tensor.
  Type type = getResult().getType();
  if (isIdentity(getPermutation()) && getSource().getType() == type)
    return getSource();
  auto inner = getSource().getDefiningOp<TransposeOp>();
  if (!inner)
    return {};
  SmallVector<int64_t> composed;
  for (int64_t dim : getPermutation())
    composed.push_back(inner.getPermutation()[dim]);
  if (isIdentity(composed) && inner.getSource().getType() == type)
    return inner.getSource();
  setPermutation(composed);
  getSourceMutable().assign(inner.getSource());
  return getResult();
}

OpFoldResult SliceOp::fold(FoldAdaptor) {
  bool isWhole = getSource().getType() == getResult().getType();
  return isWhole && matchPattern(getOffset(), m_Zero()) ? getSource() : OpFoldResult();
}

OpFoldResult SelectOp::fold(FoldAdaptor) {
  if (getIfTrue() == getIfFalse())
    return getIfTrue();
  // One flag, or a tile of one flag.
  APInt condition;
  auto full = getCondition().getDefiningOp<FullOp>();
  if (matchPattern(full ? full.getValue() : getCondition(), m_ConstantInt(&condition)))
    return condition.isZero() ? getIfFalse() : getIfTrue();
  return {};
}

OpFoldResult CastOp::fold(FoldAdaptor adaptor) {
  Type from = getSource().getType(), to = getResult().getType();
  if (getSaturate())
    return {};
  if (from == to)
    return getSource();
  // Constants of scalars; a parameter's type is not known yet.
  auto value = dyn_cast_or_null<FloatAttr>(adaptor.getSource());
  if (value && isa<FloatType>(to) && !isa<ParamType>(from) && !isa<ParamType>(to)) {
    APFloat converted = value.getValue();
    bool losesInfo;
    converted.convert(cast<FloatType>(to).getFloatSemantics(), APFloat::rmNearestTiesToEven,
                      &losesInfo);
    return FloatAttr::get(to, converted);
  }
  return {};
}

namespace {

/// A splat has the same value in any shape.
template <typename ShapeOp> struct ReshapeFull : OpRewritePattern<ShapeOp> {
  using OpRewritePattern<ShapeOp>::OpRewritePattern;

  LogicalResult matchAndRewrite(ShapeOp op, PatternRewriter &rewriter) const override {
    auto full = op.getSource().template getDefiningOp<FullOp>();
    if (!full)
      return rewriter.notifyMatchFailure(op, "the source is not one scalar");
    rewriter.replaceOpWithNewOp<FullOp>(op, op.getType(), full.getValue());
    return success();
  }
};

/// dot(transpose(a), b) is dot with the flag flipped: hardware transposes operands at no cost.
struct FoldTransposeIntoDot : OpRewritePattern<DotOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DotOp op, PatternRewriter &rewriter) const override {
    // Identities are left to the folder.
    auto getTranspose = [](Value operand) {
      auto transpose = operand.getDefiningOp<TransposeOp>();
      return transpose && transpose.getPermutation()[0] == 1 ? transpose : TransposeOp();
    };
    TransposeOp lhs = getTranspose(op.getLhs()), rhs = getTranspose(op.getRhs());
    if (!lhs && !rhs)
      return rewriter.notifyMatchFailure(op, "no operand is a transpose");
    rewriter.modifyOpInPlace(op, [&] {
      if (lhs) {
        op.getLhsMutable().assign(lhs.getSource());
        op.setTransposeA(!op.getTransposeA());
      }
      if (rhs) {
        op.getRhsMutable().assign(rhs.getSource());
        op.setTransposeB(!op.getTransposeB());
      }
    });
    return success();
  }
};

/// A zero accumulator is the same as none.
struct DropZeroAccumulator : OpRewritePattern<DotOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(DotOp op, PatternRewriter &rewriter) const override {
    auto full = op.getAcc() ? op.getAcc().getDefiningOp<FullOp>() : FullOp();
    if (!full || !matchPattern(full.getValue(), m_AnyZeroFloat()))
      return rewriter.notifyMatchFailure(op, "the accumulator is not a zero tile");
    rewriter.modifyOpInPlace(op, [&] { op.getAccMutable().clear(); });
    return success();
  }
};

/// A value that every block yields unchanged is the initial one.
struct DropUnchangedIterArgs : OpRewritePattern<ForBlocksOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ForBlocksOp loop, PatternRewriter &rewriter) const override {
    Block &body = loop.getBody().front();
    auto yield = cast<YieldOp>(body.getTerminator());
    if (!yield.getFormulas().empty())
      return failure();
    llvm::BitVector unchanged(loop.getInitArgs().size());
    for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
      unchanged[i] = yield.getValues()[i] == argument;
    if (unchanged.none())
      return failure();
    SmallVector<Value> inits, yielded, results(loop.getInitArgs());
    SmallVector<Type> types;
    for (auto [i, init] : llvm::enumerate(loop.getInitArgs())) {
      if (unchanged[i])
        continue;
      inits.push_back(init);
      types.push_back(init.getType());
      yielded.push_back(yield.getValues()[i]);
    }
    auto shorter = ForBlocksOp::create(
        rewriter, loop.getLoc(), types, loop.getLower(), loop.getUpper(), loop.getStart(),
        loop.getLimit(), loop.getList(), loop.getListIndices(), loop.getCount(),
        loop.getOrderCondition(), loop.getMaskOperands(), inits, loop.getMaskAttr(),
        loop.getAgainstPosition(), loop.getBlockPosition(), loop.getRangesAttr(),
        loop.getMaskConditionAttr(), loop.getListSpanAttr(), loop.getListConditionAttr(),
        loop.getOrder());
    shorter->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    rewriter.setInsertionPoint(yield);
    YieldOp::create(rewriter, yield.getLoc(), yielded);
    rewriter.eraseOp(yield);
    for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
      if (unchanged[i])
        rewriter.replaceAllUsesWith(argument, loop.getInitArgs()[i]);
    constexpr unsigned fixed = 2; // the block and the mask
    llvm::BitVector erased(fixed);
    for (unsigned i = 0; i < unchanged.size(); ++i)
      erased.push_back(unchanged[i]);
    body.eraseArguments(erased);
    rewriter.inlineRegionBefore(loop.getBody(), shorter.getBody(), shorter.getBody().end());
    auto next = shorter.getResults().begin();
    for (unsigned i = 0; i < unchanged.size(); ++i)
      if (!unchanged[i])
        results[i] = *next++;
    rewriter.replaceOp(loop, results);
    return success();
  }
};

/// The order of a loop whose condition is a constant is known.
struct FoldOrderCondition : OpRewritePattern<ForBlocksOp> {
  using OpRewritePattern::OpRewritePattern;

  LogicalResult matchAndRewrite(ForBlocksOp loop, PatternRewriter &rewriter) const override {
    APInt isDescending;
    if (!loop.getOrderCondition() ||
        !matchPattern(loop.getOrderCondition(), m_ConstantInt(&isDescending)))
      return failure();
    rewriter.modifyOpInPlace(loop, [&] {
      loop.getOrderConditionMutable().clear();
      loop.setOrder(isDescending.isZero() ? BlockOrder::Ascending : BlockOrder::Descending);
    });
    return success();
  }
};

} // namespace

void ForBlocksOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<DropUnchangedIterArgs, FoldOrderCondition>(context);
}
void ExpandOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReshapeFull<ExpandOp>>(context);
}
void ReshapeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReshapeFull<ReshapeOp>>(context);
}
void TransposeOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<ReshapeFull<TransposeOp>>(context);
}
void DotOp::getCanonicalizationPatterns(RewritePatternSet &patterns, MLIRContext *context) {
  patterns.add<FoldTransposeIntoDot, DropZeroAccumulator>(context);
}
