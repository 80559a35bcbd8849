// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates constraints over arrays in host memory by base/Numeric/ElementRule.h.

#include "lib/Interpreter/ElementConstraints.h"

#include "base/Numeric/ElementRule.h"

#include <cstring>

using namespace mlir;

namespace tilewright::interpreter {

static numeric::IndexArray arrayOf(StringRef name, const View &view) {
  std::vector<int64_t> extents(view.extents.begin(), view.extents.end());
  auto read = [&view, extents](int64_t first, int64_t count, int64_t *to) {
    auto width = static_cast<int64_t>(byteWidth(view.type));
    auto copy = [&](int64_t offset, int64_t done, int64_t length) {
      std::memcpy(reinterpret_cast<uint8_t *>(to) + done * width, view.data + offset * width,
                  static_cast<size_t>(length * width));
      return true;
    };
    if (!numeric::forEachStretch(extents, view.strides.data(), first, count, copy))
      return false;
    if (view.type == ElementType::I32)
      numeric::widenInPlace(to, count);
    return true;
  };
  return {name.str(), extents, read};
}

static std::optional<numeric::ElementRule> ruleOf(tile::ExprAttr constraint) {
  if (constraint.getKind() != tile::ExprKind::Call)
    return std::nullopt;
  return numeric::parseElementRule(std::string_view(constraint.getName()));
}

bool readsElements(tile::ExprAttr constraint) { return ruleOf(constraint).has_value(); }

LogicalResult checkElements(Operation *op, tile::ExprAttr constraint,
                            llvm::ArrayRef<BoundArgument> arguments,
                            const tile::ExprEnvironment &environment) {
  tile::Signature signature(op);
  ArrayRef<tile::ExprAttr> operands = constraint.getOperands();
  auto argumentOf = [&](tile::ExprAttr operand) -> const BoundArgument & {
    return arguments[signature.findArg(operand.getName())];
  };
  const BoundArgument &argument = argumentOf(operands[0]);
  if (argument.isAbsent || llvm::is_contained(argument.view.extents, 0))
    return success();

  numeric::ElementCheck check;
  check.rule = *ruleOf(constraint);
  check.text = tile::toString(constraint);
  check.array = arrayOf(operands[0].getName(), argument.view);
  if (check.rule == numeric::ElementRule::WithinFirst)
    check.counts = arrayOf(operands[3].getName(), argumentOf(operands[3]).view);
  int64_t *const numbers[] = {nullptr, &check.low, &check.high, nullptr, &check.size};
  for (auto [operand, number] : llvm::zip(operands, numbers)) {
    if (!number)
      continue;
    llvm::Expected<int64_t> value = tile::evaluateInt(operand, environment);
    if (!value)
      return op->emitOpError() << "has a constraint '" << check.text
                               << "' that cannot be computed: "
                               << llvm::toString(value.takeError());
    *number = *value;
  }
  if (std::optional<std::string> broken = numeric::findBrokenRule(check))
    return op->emitOpError() << *broken;
  return success();
}

} // namespace tilewright::interpreter
