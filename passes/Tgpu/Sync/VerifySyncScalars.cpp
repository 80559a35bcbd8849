// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-verify-sync: evaluates the scalars of a launch, such as loop bounds and use numbers.

#include "passes/Tgpu/Analysis/WrittenViews.h"
#include "passes/Tgpu/Sync/VerifySync.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/Support/MathExtras.h"

#include <limits>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using namespace tilewright::tgpu::sync;

/// Evaluates an operation on integers, which are sign-extended. Returns nothing for undefined
/// results, such as of a division by zero.
static std::optional<int64_t> evaluateScalar(const SlicedOp &op, int64_t a, int64_t b) {
  constexpr int64_t least = std::numeric_limits<int64_t>::min();
  using Kind = ScalarKind;
  auto wrap = [](uint64_t value) { return static_cast<int64_t>(value); };
  uint64_t ua = a, ub = b;
  uint64_t mask = op.width < 64 ? (uint64_t(1) << op.width) - 1 : ~uint64_t(0);
  ua &= mask, ub &= mask;
  if (op.kind >= Kind::DivS && op.kind <= Kind::FloorDivS &&
      (b == 0 || ub == 0 || (a == least && b == -1)))
    return std::nullopt;
  if (op.kind >= Kind::ShiftLeft && op.kind <= Kind::ShiftRightU && ub >= op.width)
    return std::nullopt;
  switch (op.kind) {
  case Kind::Add:
    return wrap(uint64_t(a) + uint64_t(b));
  case Kind::Sub:
    return wrap(uint64_t(a) - uint64_t(b));
  case Kind::Mul:
    return wrap(uint64_t(a) * uint64_t(b));
  case Kind::And:
    return a & b;
  case Kind::Or:
    return a | b;
  case Kind::Xor:
    return a ^ b;
  case Kind::MinS:
    return std::min(a, b);
  case Kind::MaxS:
    return std::max(a, b);
  case Kind::MinU:
    return wrap(std::min(ua, ub));
  case Kind::MaxU:
    return wrap(std::max(ua, ub));
  case Kind::Compare: {
    auto predicate = static_cast<arith::CmpIPredicate>(op.predicate);
    return arith::applyCmpPredicate(predicate, APInt(op.width, ua), APInt(op.width, ub)) ? -1 : 0;
  }
  case Kind::DivS:
    return a / b;
  case Kind::RemS:
    return a % b;
  case Kind::DivU:
    return wrap(ua / ub);
  case Kind::RemU:
    return wrap(ua % ub);
  case Kind::CeilDivU:
    return wrap(llvm::divideCeil(ua, ub));
  case Kind::CeilDivS:
    return a / b + (a % b != 0 && (a < 0) == (b < 0));
  case Kind::FloorDivS:
    return a / b - (a % b != 0 && (a < 0) != (b < 0));
  case Kind::ShiftLeft:
    return wrap(uint64_t(a) << ub);
  case Kind::ShiftRightS:
    return a >> ub;
  case Kind::ShiftRightU:
    return wrap(ua >> ub);
  case Kind::ExtendU:
    return wrap(ua);
  case Kind::Same:
    return a;
  case Kind::Select:
  case Kind::Other:
    break;
  }
  return std::nullopt;
}

/// Extends the sign of an integer of that many bits.
static int64_t extend(int64_t number, unsigned width) {
  return width < 64 ? llvm::SignExtend64(static_cast<uint64_t>(number), width) : number;
}

void Scalars::compute(const SlicedOp &op) {
  int64_t a = numbers[op.operands[0]], b = numbers[op.operands[1]];
  std::optional<int64_t> value =
      op.kind == ScalarKind::Select ? (a ? b : numbers[op.operands[2]]) : evaluateScalar(op, a, b);
  // Treat undefined values as data-dependent.
  bool isCondition = op.resultWidth == 1;
  numbers[op.result] =
      extend(value.value_or(answers.onData && isCondition ? -1 : 0), op.resultWidth);
}

void Scalars::raise(const SlicedOp &op, int64_t by) {
  numbers[op.result] = extend(numbers[op.result] + by, op.resultWidth);
}

void Scalars::set(Value value, int64_t number) {
  unsigned place = slice.getPlace(value);
  if (place == 0)
    return;
  auto type = dyn_cast<IntegerType>(value.getType());
  numbers[place] = type ? extend(number, type.getWidth()) : number;
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
    if (!launch.isAbsent(view) && !known.isUnknown() && !known.isSymbol())
      return known.extent;
    if (auto part = view.getDefiningOp<tile::SubviewOp>()) {
      if (static_cast<int64_t>(part.getDim()) == dim)
        parts.push_back(part);
      view = part.getSource();
    } else if (auto repeat = view.getDefiningOp<tile::RepeatOp>()) {
      if (static_cast<int64_t>(repeat.getDim()) == dim && get(repeat.getCondition()))
        return std::numeric_limits<int32_t>::max();
      view = repeat.getSource();
    } else if (auto paged = view.getDefiningOp<tile::PagedOp>()) {
      if (dim == 0)
        return std::max<int64_t>(get(paged.getSize()), 0);
      ++dim;
      view = paged.getPool();
    } else {
      return launch.getExtent(getArrayRoot(view), dim);
    }
  }
}

ArrayRoot sync::getArrayRoot(Value view) {
  view = getViewRoot(view);
  if (auto captured = view.getDefiningOp<tile::CapturedOp>())
    return {Value(), captured.getCapture()};
  return {view, StringRef()};
}

llvm::DenseSet<Value> sync::findNumbers(KernelOp kernel) {
  llvm::DenseSet<Value> numbers, others;
  kernel.walk([&](tile::AtOp at) {
    if (at.getView() && !at.getStaticIndices().empty())
      (at.getIndices().empty() ? numbers : others).insert(getArrayRoot(at.getView()).view);
  });
  for (Value other : others)
    numbers.erase(other);
  numbers.erase(Value()); // captures
  return numbers;
}

int64_t Scalars::getElement(tile::AtOp at) {
  SmallVector<int64_t> indices, dynamic = get(at.getIndices());
  size_t next = 0;
  for (int64_t fixed : at.getStaticIndices())
    indices.push_back(ShapedType::isDynamic(fixed) ? dynamic[next++] : fixed);
  ArrayRoot array = at.getView() ? getArrayRoot(at.getView())
                                 : ArrayRoot{Value(), at.getCapture().value_or(StringRef())};
  return launch.getElement(array, indices);
}

void Scalars::compute(Operation &op) {
  // Treat unknown values as data-dependent.
  for (Value result : op.getResults())
    if (isa<IntegerType>(result.getType()))
      set(result, answers.onData && result.getType().isInteger(1) ? -1 : 0);
  if (op.getNumResults() != 1 || !op.getResult(0).getType().isIntOrIndex())
    return;
  Value result = op.getResult(0);
  if (auto dim = dyn_cast<tile::DimOp>(op)) {
    auto at = static_cast<int64_t>(dim.getDim());
    return set(result, dim.getView()
                           ? getExtent(dim.getView(), at)
                           : launch.getExtent({Value(), dim.getCapture().value_or("")}, at));
  }
  if (auto at = dyn_cast<tile::AtOp>(op)) {
    if (!result.getType().isInteger(1))
      set(result, getElement(at));
    return;
  }
}
