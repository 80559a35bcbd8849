// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Tile/PositiveRange.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/TileExpr.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

using llvm::APFloat;

static std::optional<PositiveRange> makeRange(APFloat least, APFloat greatest) {
  auto isInside = [](const APFloat &bound) { return bound.isFinite() && !bound.isNegative(); };
  if (!isInside(least) || least.isZero() || !isInside(greatest))
    return std::nullopt;
  return PositiveRange{std::move(least), std::move(greatest)};
}

static APFloat toFloat(int64_t integer, const llvm::fltSemantics &semantics,
                       APFloat::roundingMode rounding) {
  APFloat number(semantics);
  number.convertFromAPInt(llvm::APInt(64, static_cast<uint64_t>(integer), /*isSigned=*/true),
                          /*IsSigned=*/true, rounding);
  return number;
}

namespace {
/// What a tile.kernel and a tgpu.kernel have in common; null in other operations.
struct Declaration {
  ArrayAttr constraints, argNames;

  explicit Declaration(Operation *op) {
    for (; op && !constraints; op = op->getParentOp()) {
      if (auto kernel = dyn_cast<KernelOp>(op)) {
        constraints = kernel.getConstraints();
        argNames = kernel.getArgNames();
      } else if (auto mapped = dyn_cast<tgpu::KernelOp>(op)) {
        constraints = mapped.getConstraintsAttr();
        argNames = mapped.getArgNames();
        return; // it may have no constraints
      }
    }
  }
};
} // namespace

/// The range that the constraints `name > 0`, `name >= 1`, `name <= 8` and the like leave.
static std::optional<PositiveRange> findRangeOf(ArrayAttr constraints, StringRef name,
                                                FloatType type) {
  if (!constraints)
    return std::nullopt;
  const llvm::fltSemantics &semantics = type.getFloatSemantics();
  std::optional<APFloat> least, greatest;
  for (auto constraint : constraints.getAsRange<ExprAttr>()) {
    if (constraint.getKind() != ExprKind::Call || constraint.getOperands().size() != 2)
      continue;
    ExprAttr left = constraint.getOperands()[0], right = constraint.getOperands()[1];
    expr::Function function = getFunction(constraint);
    bool isLess = function == expr::Function::Less || function == expr::Function::LessEqual;
    if (!isLess && function != expr::Function::Greater && function != expr::Function::GreaterEqual)
      continue;
    if (left.getKind() == ExprKind::Int) {
      std::swap(left, right);
      isLess = !isLess;
    }
    if (left.getKind() != ExprKind::Name || left.getName() != name ||
        right.getKind() != ExprKind::Int)
      continue;
    int64_t bound = right.getValue();
    bool isStrict = function == expr::Function::Less || function == expr::Function::Greater;
    if (isLess) {
      APFloat upper = toFloat(bound, semantics, APFloat::rmTowardPositive);
      if (!greatest || upper < *greatest)
        greatest = upper;
    } else if (bound > 0 || (bound == 0 && isStrict)) {
      APFloat lower = bound ? toFloat(bound, semantics, APFloat::rmTowardNegative)
                            : APFloat::getSmallest(semantics);
      if (!least || lower > *least)
        least = lower;
    }
  }
  return least && greatest ? makeRange(*least, *greatest) : std::nullopt;
}

/// `levels` bounds the recursion over the operands of products.
static std::optional<PositiveRange> findPositiveRange(Value scalar, unsigned levels) {
  auto type = dyn_cast<FloatType>(scalar.getType());
  if (!type || levels == 0)
    return std::nullopt;
  FloatAttr constant;
  if (matchPattern(scalar, m_Constant(&constant)))
    return makeRange(constant.getValue(), constant.getValue());
  if (auto argument = dyn_cast<BlockArgument>(scalar)) {
    Operation *owner = argument.getOwner()->getParentOp();
    bool isKernel = isa_and_nonnull<KernelOp, tgpu::KernelOp>(owner);
    Declaration kernel(isKernel ? owner : nullptr);
    unsigned number = argument.getArgNumber();
    if (!kernel.argNames || number >= kernel.argNames.size())
      return std::nullopt;
    return findRangeOf(kernel.constraints, cast<StringAttr>(kernel.argNames[number]), type);
  }
  Operation *op = scalar.getDefiningOp();
  if (auto read = dyn_cast<AtOp>(op)) {
    // An element of a view may be out of bounds, and is not constrained.
    if (!read.getCapture() || !read.getStaticIndices().empty())
      return std::nullopt;
    return findRangeOf(Declaration(op).constraints, *read.getCapture(), type);
  }
  auto convert = [&](const PositiveRange &range) {
    PositiveRange result = range;
    bool isInexact = false;
    result.least.convert(type.getFloatSemantics(), APFloat::rmTowardNegative, &isInexact);
    result.greatest.convert(type.getFloatSemantics(), APFloat::rmTowardPositive, &isInexact);
    return makeRange(result.least, result.greatest);
  };
  if (auto conversion = dyn_cast<CastOp>(op)) {
    std::optional<PositiveRange> source = findPositiveRange(conversion.getSource(), levels - 1);
    return source ? convert(*source) : std::nullopt;
  }
  if (auto product = dyn_cast<arith::MulFOp>(op)) {
    std::optional<PositiveRange> left = findPositiveRange(product.getLhs(), levels - 1);
    std::optional<PositiveRange> right =
        left ? findPositiveRange(product.getRhs(), levels - 1) : std::nullopt;
    if (!right)
      return std::nullopt;
    left->least.multiply(right->least, APFloat::rmTowardNegative);
    left->greatest.multiply(right->greatest, APFloat::rmTowardPositive);
    return makeRange(left->least, left->greatest);
  }
  return std::nullopt;
}

std::optional<PositiveRange> tilewright::findPositiveRange(Value scalar) {
  constexpr unsigned mostLevels = 8;
  return ::findPositiveRange(scalar, mostLevels);
}
