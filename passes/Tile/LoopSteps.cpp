// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The steps of loops that binding makes constant.

#include "passes/Tile/LoopSteps.h"

#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/DenseMap.h"

using namespace mlir;

namespace {

/// Computes values from constants without changing any operation.
class Evaluator {
public:
  /// Null where it cannot.
  Attribute evaluate(Value value, unsigned depth = 0) {
    Attribute constant;
    if (matchPattern(value, m_Constant(&constant)))
      return constant;
    Operation *op = value.getDefiningOp();
    if (!op || op->getNumRegions() != 0 || !isPure(op) || depth == maxDepth)
      return {};
    auto [entry, isNew] = known.try_emplace(value);
    if (!isNew)
      return entry->second;
    // Of some operations, such as a select, not all operands must be constant.
    SmallVector<Attribute> operands;
    for (Value operand : op->getOperands())
      operands.push_back(evaluate(operand, depth + 1));
    // A fold may change the operation; the copy goes.
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

private:
  static constexpr unsigned maxDepth = 64;
  llvm::DenseMap<Value, Attribute> known;
};

} // namespace

LogicalResult tilewright::checkLoopSteps(Operation *op) {
  Evaluator evaluator;
  WalkResult walk = op->walk([&](scf::ForOp loop) {
    auto step = dyn_cast_or_null<IntegerAttr>(evaluator.evaluate(loop.getStep()));
    if (!step)
      return WalkResult::advance();
    const llvm::APInt &value = step.getValue();
    if (loop.getUnsignedCmp() ? !value.isZero() : value.isStrictlyPositive())
      return WalkResult::advance();
    loop.emitOpError("requires a step that is positive, but got ") << value.getSExtValue();
    return WalkResult::interrupt();
  });
  return failure(walk.wasInterrupted());
}
