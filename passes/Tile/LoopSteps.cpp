// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks the steps of loops that binding makes constant.

#include "passes/Tile/LoopSteps.h"

#include "passes/Tile/ConstantEvaluator.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;

LogicalResult tilewright::checkLoopSteps(Operation *op) {
  ConstantEvaluator evaluator;
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
