// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows an index back to the operands, as a sum of positions and scalars.

#include "passes/Tile/TilePositions.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

#include <optional>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

/// The sum or difference of two positions; nothing if consecutive elements would not have
/// consecutive indices.
static std::optional<TilePosition> combine(const std::optional<TilePosition> &left,
                                           const std::optional<TilePosition> &right,
                                           bool subtracts) {
  if (!left || !right || left->condition || right->condition || (left->dim && right->dim) ||
      (subtracts && right->dim) ||
      left->terms.size() + right->terms.size() > TilePositions::mostTerms)
    return std::nullopt;
  TilePosition sum = *left;
  if (right->dim)
    sum.dim = right->dim;
  for (TilePosition::Term term : right->terms)
    sum.terms.push_back({term.value, term.isNegative != subtracts});
  return sum;
}

static std::optional<TilePosition> scalar(Value value) {
  return TilePosition{std::nullopt, {{value, false}}, {}, {}, true};
}

std::optional<TilePosition> TilePositions::getOfOperand(Value operand, unsigned levels) {
  if (levels-- == 0)
    return std::nullopt;
  if (!isTile(operand.getType()))
    return scalar(operand);
  Operation *op = operand.getDefiningOp();
  if (auto full = dyn_cast_or_null<FullOp>(op))
    return scalar(full.getValue());
  if (auto iota = dyn_cast_or_null<IotaOp>(op))
    return TilePosition{
        static_cast<int64_t>(iota.getDim()), {{iota.getStart(), false}}, {}, {}, true};
  if (auto expand = dyn_cast_or_null<ExpandOp>(op)) {
    std::optional<TilePosition> position = getOfOperand(expand.getSource(), levels);
    if (position && position->dim && static_cast<int64_t>(expand.getDim()) <= *position->dim)
      ++*position->dim;
    return position;
  }
  if (isa_and_nonnull<arith::AddIOp, arith::SubIOp>(op))
    if (std::optional<TilePosition> left = getOfOperand(op->getOperand(0), levels))
      return combine(left, getOfOperand(op->getOperand(1), levels), isa<arith::SubIOp>(op));
  return std::nullopt;
}

TilePositions::TilePositions(func::FuncOp function, ValueRange operands) : function(function) {
  Block &body = function.getBody().front();
  for (auto [argument, operand] : llvm::zip_equal(body.getArguments(), operands)) {
    Value same = operand;
    if (auto full = operand.getDefiningOp<FullOp>())
      same = full.getValue();
    if (!isTile(same.getType())) {
      uniform.insert(argument);
      written.map(argument, same);
    } else if (argument.getType().isInteger(32)) {
      if (std::optional<TilePosition> position = getOfOperand(operand))
        arguments[argument] = *position;
    }
  }
  for (Operation &op : body.without_terminator())
    if (op.getNumRegions() == 0 && isMemoryEffectFree(&op) &&
        llvm::all_of(op.getOperands(), [&](Value operand) { return uniform.contains(operand); }))
      uniform.insert(op.result_begin(), op.result_end());
}

std::optional<TilePosition> TilePositions::get(Value value, unsigned levels) const {
  if (levels-- == 0)
    return std::nullopt;
  if (uniform.contains(value))
    return scalar(value);
  if (isa<BlockArgument>(value)) {
    auto found = arguments.find(value);
    return found != arguments.end() ? std::optional(found->second) : std::nullopt;
  }
  Operation *op = value.getDefiningOp();
  if (isa<arith::AddIOp, arith::SubIOp>(op)) {
    std::optional<TilePosition> left = get(op->getOperand(0), levels);
    return left ? combine(left, get(op->getOperand(1), levels), isa<arith::SubIOp>(op)) : left;
  }
  // In some launches the index is the same for all elements, such as 0 for an extent of 1.
  auto select = dyn_cast<arith::SelectOp>(op);
  if (!select || !uniform.contains(select.getCondition()))
    return std::nullopt;
  bool isFixed = uniform.contains(select.getTrueValue());
  Value fixed = isFixed ? select.getTrueValue() : select.getFalseValue();
  if (!uniform.contains(fixed))
    return std::nullopt;
  std::optional<TilePosition> position =
      get(isFixed ? select.getFalseValue() : select.getTrueValue(), levels);
  if (!position || position->condition)
    return std::nullopt;
  position->condition = select.getCondition();
  position->fixed = fixed;
  position->isFixed = isFixed;
  return position;
}

bool TilePositions::isOfFunction(Value value) const {
  return function && value.getParentRegion()->getParentOp() == function.getOperation();
}

Value TilePositions::write(OpBuilder &b, Value scalar) {
  if (!isOfFunction(scalar))
    return scalar;
  // Operands first, with an explicit stack: a function may be a chain of any length.
  SmallVector<Value> stack{scalar};
  while (!stack.empty()) {
    Operation *op = stack.back().getDefiningOp();
    if (!isOfFunction(stack.back()) || written.contains(stack.back())) {
      stack.pop_back();
      continue;
    }
    size_t size = stack.size();
    for (Value operand : op->getOperands())
      if (isOfFunction(operand) && !written.contains(operand))
        stack.push_back(operand);
    if (stack.size() == size)
      b.clone(*op, written);
  }
  return written.lookup(scalar);
}

Value TilePositions::writeStart(OpBuilder &b, Location loc, const TilePosition &position) {
  Value sum;
  for (TilePosition::Term term : position.terms) {
    Value value = write(b, term.value);
    if (term.isNegative) {
      if (!sum)
        sum = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
      sum = arith::SubIOp::create(b, loc, sum, value);
    } else {
      sum = sum ? arith::AddIOp::create(b, loc, sum, value).getResult() : value;
    }
  }
  return sum;
}

Value TilePositions::writeCondition(OpBuilder &b, Location loc, const TilePosition &position) {
  if (!position.condition)
    return arith::ConstantOp::create(b, loc, b.getBoolAttr(false));
  Value condition = write(b, position.condition);
  if (position.isFixed)
    return condition;
  Value isTrue = arith::ConstantOp::create(b, loc, b.getBoolAttr(true));
  return arith::XOrIOp::create(b, loc, condition, isTrue);
}

llvm::SetVector<Value> TilePositions::getSources(ArrayRef<TilePosition> positions) const {
  SmallVector<Value> values;
  for (const TilePosition &position : positions) {
    for (TilePosition::Term term : position.terms)
      values.push_back(term.value);
    if (position.condition)
      values.append({position.condition, position.fixed});
  }
  return getSources(ValueRange(values));
}

llvm::SetVector<Value> TilePositions::getSources(ValueRange values) const {
  llvm::SetVector<Value> reached(values.begin(), values.end()), sources;
  for (size_t i = 0; i < reached.size(); ++i) {
    Value value = reached[i];
    if (!isOfFunction(value))
      sources.insert(value);
    else if (isa<BlockArgument>(value))
      sources.insert(written.lookup(value));
    else
      reached.insert(value.getDefiningOp()->operand_begin(), value.getDefiningOp()->operand_end());
  }
  return sources;
}
