// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: evaluates the scalars of a launch, such as loop bounds and use numbers.

#include "passes/Tgpu/VerifySync.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/TypeSwitch.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

/// Evaluates an arith operation on integers, which are sign-extended (a unary operation gets its
/// operand twice). Returns nothing for undefined results, such as of a division by zero, and for
/// unsupported operations.
static std::optional<int64_t> evaluateScalar(Operation *op, int64_t a, int64_t b) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  bool divides = b != 0 && !(a == least && b == -1);
  auto wrap = [](uint64_t value) { return static_cast<int64_t>(value); };
  uint64_t ua = a, ub = b;
  unsigned width = op->getOperand(0).getType().getIntOrFloatBitWidth();
  uint64_t mask = width < 64 ? (uint64_t(1) << width) - 1 : ~uint64_t(0);
  ua &= mask, ub &= mask;
  return TypeSwitch<Operation *, std::optional<int64_t>>(op)
      .Case<arith::AddIOp>([&](auto) { return wrap(uint64_t(a) + uint64_t(b)); })
      .Case<arith::SubIOp>([&](auto) { return wrap(uint64_t(a) - uint64_t(b)); })
      .Case<arith::MulIOp>([&](auto) { return wrap(uint64_t(a) * uint64_t(b)); })
      .Case<arith::AndIOp>([&](auto) { return a & b; })
      .Case<arith::OrIOp>([&](auto) { return a | b; })
      .Case<arith::XOrIOp>([&](auto) { return a ^ b; })
      .Case<arith::MinSIOp>([&](auto) { return std::min(a, b); })
      .Case<arith::MaxSIOp>([&](auto) { return std::max(a, b); })
      .Case<arith::MinUIOp>([&](auto) { return wrap(std::min(ua, ub)); })
      .Case<arith::MaxUIOp>([&](auto) { return wrap(std::max(ua, ub)); })
      .Case<arith::CmpIOp>([&](arith::CmpIOp cmp) -> int64_t {
        APInt x(width, ua), y(width, ub);
        return arith::applyCmpPredicate(cmp.getPredicate(), x, y) ? -1 : 0;
      })
      .Case<arith::DivSIOp, arith::RemSIOp, arith::DivUIOp, arith::RemUIOp, arith::CeilDivSIOp,
            arith::CeilDivUIOp, arith::FloorDivSIOp>([&](auto) -> std::optional<int64_t> {
        if (!divides || ub == 0)
          return std::nullopt;
        if (isa<arith::DivSIOp>(op))
          return a / b;
        if (isa<arith::RemSIOp>(op))
          return a % b;
        if (isa<arith::DivUIOp>(op))
          return wrap(ua / ub);
        if (isa<arith::RemUIOp>(op))
          return wrap(ua % ub);
        if (isa<arith::CeilDivUIOp>(op))
          return wrap(llvm::divideCeil(ua, ub));
        int64_t quotient = a / b, rest = a % b;
        bool isNegative = (a < 0) != (b < 0);
        if (isa<arith::CeilDivSIOp>(op))
          return quotient + (rest != 0 && !isNegative);
        return quotient - (rest != 0 && isNegative);
      })
      .Case<arith::ShLIOp, arith::ShRSIOp, arith::ShRUIOp>([&](auto) -> std::optional<int64_t> {
        if (ub >= width)
          return std::nullopt;
        if (isa<arith::ShLIOp>(op))
          return wrap(uint64_t(a) << ub);
        return isa<arith::ShRSIOp>(op) ? a >> ub : wrap(ua >> ub);
      })
      .Case<arith::ExtUIOp>([&](auto) { return wrap(ua); })
      .Case<arith::ExtSIOp, arith::TruncIOp>([&](auto) { return a; })
      .Default([](Operation *) { return std::nullopt; });
}

void Scalars::set(Value value, int64_t number) {
  if (auto type = dyn_cast<IntegerType>(value.getType()); type && type.getWidth() < 64)
    number = llvm::SignExtend64(static_cast<uint64_t>(number), type.getWidth());
  values[value] = number;
}

void Scalars::assign(ValueRange to, ArrayRef<int64_t> numbers) {
  for (auto [value, number] : llvm::zip_equal(to, numbers))
    set(value, number);
}

SmallVector<int64_t> Scalars::get(ValueRange range) const {
  SmallVector<int64_t> numbers;
  for (Value value : range)
    numbers.push_back(get(value));
  return numbers;
}

int64_t Scalars::getExtent(Value view, int64_t dim) {
  SmallVector<tile::SubviewOp> parts; // along dim, the innermost first
  int64_t extent = getExtentOfWhole(view, dim, parts);
  for (tile::SubviewOp part : llvm::reverse(parts)) {
    int64_t offset = get(part.getOffset()), size = get(part.getSize());
    extent = std::max<int64_t>(std::min(size, extent - offset), 0);
  }
  return extent;
}

int64_t Scalars::getExtentOfWhole(Value view, int64_t dim,
                                  SmallVectorImpl<tile::SubviewOp> &parts) {
  while (true) {
    tile::Dim known = tile::getDims(view.getType())[dim];
    if (!shape.isAbsent(view) && !known.isUnknown() && !known.isSymbol())
      return known.extent;
    if (auto part = view.getDefiningOp<tile::SubviewOp>()) {
      if (static_cast<int64_t>(part.getDim()) == dim)
        parts.push_back(part);
      view = part.getSource();
    } else if (auto repeat = view.getDefiningOp<tile::RepeatOp>()) {
      if (static_cast<int64_t>(repeat.getDim()) == dim && get(repeat.getCondition()))
        return std::numeric_limits<int32_t>::max();
      view = repeat.getSource();
    } else {
      return shape.getExtent(view, dim);
    }
  }
}

void Scalars::compute(Operation &op) {
  // Treat unknown values as data-dependent.
  for (Value result : op.getResults())
    if (isa<IntegerType>(result.getType()))
      set(result, answer && result.getType().isInteger(1) ? -1 : 0);
  if (op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrIndex())
    return;
  Value result = op.getResult(0);
  APInt constant;
  if (matchPattern(result, m_ConstantInt(&constant)))
    return set(result, constant.getSExtValue());
  if (auto dim = dyn_cast<tile::DimOp>(op))
    return set(result,
               dim.getView() ? getExtent(dim.getView(), dim.getDim()) : shape.getLongExtent());
  if (auto at = dyn_cast<tile::AtOp>(op)) {
    if (result.getType().isInteger(1))
      return;
    // A scalar like those of the kernel, such as the size of a window, offsets of consecutive
    // sequences, or lists of small numbers.
    ArrayRef<int64_t> fixed = at.getStaticIndices();
    if (fixed.empty())
      return set(result, shape.getInteger());
    int64_t last = fixed.back();
    if (ShapedType::isDynamic(last))
      last = get(at.getIndices().back());
    return set(result, fixed.size() == 1 ? last * shape.getLongExtent() : last + 1);
  }
  if (auto select = dyn_cast<arith::SelectOp>(op))
    return set(result,
               get(get(select.getCondition()) ? select.getTrueValue() : select.getFalseValue()));
  if (isa<arith::IndexCastOp>(op))
    return set(result, get(op.getOperand(0)));
  if (!isa<arith::ArithDialect>(op.getDialect()) || op.getNumOperands() == 0 ||
      !llvm::all_of(op.getOperandTypes(), [](Type type) { return isa<IntegerType>(type); }))
    return;
  int64_t a = get(op.getOperand(0));
  if (auto value = evaluateScalar(&op, a, op.getNumOperands() > 1 ? get(op.getOperand(1)) : a))
    set(result, *value);
}
