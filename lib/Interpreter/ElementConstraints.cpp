// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Element by element, up to the first that breaks a rule.

#include "lib/Interpreter/ElementConstraints.h"

#include <cstring>

using namespace mlir;

namespace tilewright::interpreter {

namespace {

int64_t elementAt(const View &view, llvm::ArrayRef<int64_t> index) {
  int64_t offset = 0;
  for (auto [i, stride] : llvm::zip_equal(index, view.strides))
    offset += i * stride;
  int32_t value;
  std::memcpy(&value, view.data + offset * static_cast<int64_t>(sizeof(value)), sizeof(value));
  return value;
}

/// Steps to the next index in row-major order; false behind the last.
bool advance(const View &view, llvm::MutableArrayRef<int64_t> index) {
  for (unsigned d = view.rank(); d-- > 0;) {
    if (++index[d] < view.extents[d])
      return true;
    index[d] = 0;
  }
  return false;
}

std::string describe(llvm::StringRef name, llvm::ArrayRef<int64_t> index, int64_t value) {
  std::string text = name.str() + "[";
  for (auto [d, i] : llvm::enumerate(index))
    text += (d ? ", " : "") + std::to_string(i);
  return text + "] = " + std::to_string(value);
}

} // namespace

bool readsElements(tile::ExprAttr constraint) {
  if (constraint.getKind() != tile::ExprKind::Call)
    return false;
  llvm::StringRef function = constraint.getName();
  return function == "ascending" || function == "within" || function == "within_first";
}

LogicalResult checkElements(Operation *op, tile::ExprAttr constraint,
                            llvm::ArrayRef<BoundArgument> arguments,
                            const tile::ExprEnvironment &environment) {
  tile::Signature signature(op);
  ArrayRef<tile::ExprAttr> operands = constraint.getOperands();
  StringRef name = operands[0].getName();
  auto argumentOf = [&](tile::ExprAttr operand) -> const BoundArgument & {
    return arguments[signature.findArg(operand.getName())];
  };
  auto refuse = [&](const std::string &got) {
    return op->emitOpError() << "requires '" << tile::toString(constraint) << "', but got " << got;
  };
  const BoundArgument &argument = argumentOf(operands[0]);
  const View &view = argument.view;
  if (argument.isAbsent || llvm::is_contained(view.extents, 0))
    return success();

  if (constraint.getName() == "ascending") {
    for (int64_t i = 1; i < view.extents[0]; ++i) {
      int64_t before = elementAt(view, {i - 1}), value = elementAt(view, {i});
      if (value < before)
        return refuse(describe(name, {i}, value) + " after " + std::to_string(before));
    }
    return success();
  }

  int64_t bounds[2], size = 0;
  for (unsigned i : {0u, 1u}) {
    llvm::Expected<int64_t> bound = tile::evaluateInt(operands[1 + i], environment);
    if (!bound)
      return op->emitOpError() << "has a constraint '" << tile::toString(constraint)
                               << "' that cannot be computed: "
                               << llvm::toString(bound.takeError());
    bounds[i] = *bound;
  }
  const View *counts = nullptr;
  if (constraint.getName() == "within_first") {
    counts = &argumentOf(operands[3]).view;
    llvm::Expected<int64_t> given = tile::evaluateInt(operands[4], environment);
    if (!given || *given < 1)
      return op->emitOpError() << "has a constraint '" << tile::toString(constraint)
                               << "' whose size is not positive";
    size = *given;
  }
  llvm::SmallVector<int64_t> index(view.rank(), 0);
  do {
    // Behind those of a row that count, anything may stand.
    if (counts &&
        (index[0] >= counts->extents[0] || index[1] * size >= elementAt(*counts, {index[0]})))
      continue;
    int64_t value = elementAt(view, index);
    if (value < bounds[0] || value >= bounds[1])
      return refuse(describe(name, index, value) + "; it must be from " +
                    std::to_string(bounds[0]) + " to " + std::to_string(bounds[1] - 1));
  } while (advance(view, index));
  return success();
}

} // namespace tilewright::interpreter
