// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Evaluates constants by folding clones of operations.

#include "passes/Tile/ConstantEvaluator.h"

#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;

Attribute ConstantEvaluator::evaluate(Value value, unsigned depth) {
  Attribute constant;
  if (matchPattern(value, m_Constant(&constant)))
    return constant;
  Operation *op = value.getDefiningOp();
  if (!op || op->getNumRegions() != 0 || !isPure(op) || depth == maxDepth)
    return {};
  auto [entry, isNew] = known.try_emplace(value);
  if (!isNew)
    return entry->second;
  // Some operations, such as a select, fold even if not all operands are constant.
  SmallVector<Attribute> operands;
  for (Value operand : op->getOperands())
    operands.push_back(evaluate(operand, depth + 1));
  // Folding may modify the operation, so fold a clone.
  Operation *copy = op->clone();
  SmallVector<OpFoldResult> results;
  Attribute result;
  if (succeeded(copy->fold(operands, results)) && !results.empty()) {
    OpFoldResult folded = results[cast<OpResult>(value).getResultNumber()];
    result = dyn_cast<Attribute>(folded);
    if (auto other = dyn_cast<Value>(folded); other && other.getDefiningOp() != copy)
      result = evaluate(other, depth + 1);
  }
  copy->destroy();
  return known[value] = result;
}
