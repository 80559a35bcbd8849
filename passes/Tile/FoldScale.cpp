// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-fold-scale: combines uniform factors of tiles and moves them into exponents. It makes two
// walks instead of using the greedy driver, whose folders may build constants that a symbolic tile
// cannot hold.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tile/MapFactors.h"
#include "passes/Tile/UniformFactor.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEFOLDSCALE
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

class Folder {
public:
  explicit Folder(bool assumeFastMath) : assumeFastMath(assumeFastMath) {}

  void moveIntoExponent(Operation *exponential);
  void gather(arith::MulFOp outer);

private:
  template <typename OpTy> bool mayReassociate(OpTy op) const {
    return assumeFastMath || bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::reassoc);
  }
  static void eraseIfDead(Operation *op) {
    if (op && isOpTriviallyDead(op))
      op->erase();
  }

  bool assumeFastMath;
};

// exp((x - expand(m)) * c)  =>  exp(x * c - expand(m * c))
void Folder::moveIntoExponent(Operation *exponential) {
  auto product = exponential->getOperand(0).getDefiningOp<arith::MulFOp>();
  std::optional<ScaledTile> scaled = product ? matchScaledTile(product) : std::nullopt;
  auto difference = scaled ? scaled->tile.getDefiningOp<arith::SubFOp>() : arith::SubFOp();
  auto expand = difference ? difference.getRhs().getDefiningOp<ExpandOp>() : ExpandOp();
  // With other uses the old operations would remain, and the rewrite would only add operations.
  if (!expand || !product->hasOneUse() || !difference->hasOneUse() || !mayReassociate(product) ||
      !mayReassociate(difference))
    return;

  OpBuilder builder(product);
  Location loc = product.getLoc();
  auto flags = arith::FastMathFlagsAttr::get(builder.getContext(),
                                             (product.getFastmath() & difference.getFastmath()) |
                                                 arith::FastMathFlags::contract);
  Value row = expand.getSource();
  Value rowFactor =
      FullOp::create(builder, loc, row.getType(), scaled->factor.materialize(builder, loc));
  Value scaledRow = arith::MulFOp::create(builder, loc, row, rowFactor, product.getFastmathAttr());
  Value offset = ExpandOp::create(builder, loc, expand.getType(), scaledRow, expand.getDimAttr());
  Value scaledTile =
      arith::MulFOp::create(builder, loc, difference.getLhs(), scaled->uniform, flags);
  Value argument = arith::SubFOp::create(builder, loc, scaledTile, offset, flags);
  exponential->setOperand(0, argument);
  product.erase();
  difference.erase();
  eraseIfDead(expand);
}

// (x * a) * b  =>  x * (a * b)
void Folder::gather(arith::MulFOp outer) {
  std::optional<ScaledTile> second = matchScaledTile(outer);
  auto inner = second ? second->tile.getDefiningOp<arith::MulFOp>() : arith::MulFOp();
  std::optional<ScaledTile> first = inner ? matchScaledTile(inner) : std::nullopt;
  if (!first || !inner->hasOneUse() || !mayReassociate(inner) || !mayReassociate(outer))
    return;

  OpBuilder builder(outer);
  Location loc = outer.getLoc();
  // The intersection of both products' flags, but keep the outer product's permission to contract
  // with a sum.
  auto flags = arith::FastMathFlagsAttr::get(
      builder.getContext(), (inner.getFastmath() & outer.getFastmath()) |
                                (outer.getFastmath() & arith::FastMathFlags::contract));
  Value factor = arith::MulFOp::create(builder, loc, first->factor.materialize(builder, loc),
                                       second->factor.materialize(builder, loc), flags);
  Value uniform = FullOp::create(builder, loc, outer.getType(), factor);
  Value product = arith::MulFOp::create(builder, loc, first->tile, uniform, flags);
  outer.getResult().replaceAllUsesWith(product);
  Operation *uniforms[] = {first->uniform.getDefiningOp(), second->uniform.getDefiningOp()};
  outer.erase();
  inner.erase();
  eraseIfDead(uniforms[0]);
  if (uniforms[1] != uniforms[0])
    eraseIfDead(uniforms[1]);
}

/// The operand or constant that a map or call returns without computing anything, or null.
Value getTrivial(Operation *op, FlatSymbolRefAttr symbol, SymbolTableCollection &symbols) {
  auto function = symbols.lookupNearestSymbolFrom<func::FuncOp>(op, symbol);
  if (!function || !function.getBody().hasOneBlock() || op->getNumResults() != 1)
    return {};
  Operation *end = function.getBody().front().getTerminator();
  if (end->getNumOperands() != 1)
    return {};
  Value returned = end->getOperand(0);
  Type type = op->getResult(0).getType();
  if (auto argument = dyn_cast<BlockArgument>(returned)) {
    Value source = op->getOperand(argument.getArgNumber());
    return source.getType() == type ? source : Value();
  }
  auto constant = returned.getDefiningOp<arith::ConstantOp>();
  if (!constant)
    return {};
  OpBuilder b(op);
  Value scalar = arith::ConstantOp::create(b, op->getLoc(), constant.getValue());
  return isTile(type) ? FullOp::create(b, op->getLoc(), type, scalar).getResult() : scalar;
}

/// Replaces a product with one by the other operand; arith's folders do not look through tile.full.
void dropFactorsOfOne(Value tile) {
  auto full = tile.getDefiningOp<FullOp>();
  if (!full || !matchPattern(full.getValue(), m_OneFloat()))
    return;
  for (Operation *user : llvm::make_early_inc_range(tile.getUsers()))
    if (auto product = dyn_cast<arith::MulFOp>(user)) {
      product.getResult().replaceAllUsesWith(product.getLhs() == tile ? product.getRhs()
                                                                      : product.getLhs());
      product.erase();
    }
}

void replaceTrivial(Operation *op, SymbolTableCollection &symbols) {
  auto map = dyn_cast<MapOp>(op);
  FlatSymbolRefAttr symbol = map ? map.getFunctionAttr() : cast<func::CallOp>(op).getCalleeAttr();
  Value value = getTrivial(op, symbol, symbols);
  if (!value)
    return;
  op->getResult(0).replaceAllUsesWith(value);
  op->erase();
  dropFactorsOfOne(value);
  if (Operation *source = value.getDefiningOp(); source && isOpTriviallyDead(source))
    source->erase();
}

struct TileFoldScalePass : tilewright::impl::TileFoldScaleBase<TileFoldScalePass> {
  using TileFoldScaleBase::TileFoldScaleBase;

  void runOnOperation() override {
    if (auto module = dyn_cast<ModuleOp>(getOperation()))
      takeFactorsOutOfMaps(module);
    SymbolTableCollection symbols;
    SmallVector<Operation *> applied;
    getOperation()->walk([&](Operation *op) {
      // Calls in functions are simplified when their caller is applied.
      if (isa<MapOp>(op) || (isa<func::CallOp>(op) && op->getParentOfType<KernelOp>()))
        applied.push_back(op);
    });
    for (Operation *op : applied)
      replaceTrivial(op, symbols);
    Folder folder(assumeFastMath);
    // Exponents first: this makes products adjacent, which are then combined. A chain is combined
    // from its start, so that each product sees the result of the previous one.
    SmallVector<Operation *> exponentials;
    getOperation()->walk([&](Operation *op) {
      if (isa<math::ExpOp, math::Exp2Op>(op))
        exponentials.push_back(op);
    });
    for (Operation *op : exponentials)
      folder.moveIntoExponent(op);
    SmallVector<arith::MulFOp> products;
    getOperation()->walk([&](arith::MulFOp op) { products.push_back(op); });
    for (arith::MulFOp op : products)
      folder.gather(op);
  }
};

} // namespace
