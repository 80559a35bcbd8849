// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The time that an iteration takes of the units of a multiprocessor.

#include "passes/Tgpu/Plan/IterationCosts.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Math/IR/Math.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Adds the costs of an operation, without its regions.
static void add(IterationCosts &costs, Operation *op, const Target &target) {
  if (auto product = dyn_cast<WgmmaOp>(op)) {
    auto tile = cast<PendingType>(product.getResult().getType()).getTile();
    auto shape = cast<SharedType>(product.getB().getType()).getShape();
    int64_t depth = shape[product.getTransposeB() ? 1 : 0];
    ++costs.products;
    costs.ofProducts +=
        2.0 * static_cast<double>(tile.getNumElements() * depth) / target.operationsOfClock;
  } else if (isa<math::MathDialect>(op->getDialect()) && op->getNumResults() == 1) {
    if (auto tile = dyn_cast<RankedTensorType>(op->getResult(0).getType()))
      costs.ofFunctions += static_cast<double>(tile.getNumElements()) / target.exponentialsOfClock;
  }
}

IterationCosts IterationCosts::get(scf::ForOp loop, const Target &target) {
  IterationCosts costs;
  loop->walk([&](Operation *op) { add(costs, op, target); });
  return costs;
}

IterationCosts IterationCosts::getOfGeneral(scf::ForOp loop, const Target &target) {
  IterationCosts costs;
  loop->walk<WalkOrder::PreOrder>([&](Block *block) {
    auto branch = dyn_cast<scf::IfOp>(block->getParentOp());
    if (branch && specialCaseAttr.isOn(branch) && block == branch.thenBlock())
      return WalkResult::skip();
    for (Operation &op : *block)
      add(costs, &op, target);
    return WalkResult::advance();
  });
  return costs;
}
