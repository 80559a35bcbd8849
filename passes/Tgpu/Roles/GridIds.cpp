// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows a value to the grid ids from which it is computed.

#include "passes/Tgpu/Roles/GridIds.h"

#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Roles/RolePart.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Visits a value and those from which it is computed.
static void forEachSource(Value value, llvm::function_ref<void(Value)> visit) {
  llvm::DenseSet<Value> seen;
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value next = worklist.pop_back_val();
    if (!seen.insert(next).second)
      continue;
    visit(next);
    // Iteration arguments and induction variables do not distinguish operands, except in loops that
    // compute only scalars.
    Operation *op = next.getDefiningOp();
    auto isTile = [](Type type) { return isa<RankedTensorType>(type); };
    if (!op || (op->getNumRegions() != 0 && llvm::any_of(op->getResultTypes(), isTile)))
      continue;
    llvm::append_range(worklist, getInputs(op));
  }
}

uint64_t tgpu::getGridIds(Value value) {
  auto kernel = value.getParentRegion()->getParentOfType<KernelOp>();
  uint64_t ids = 0;
  forEachSource(value, [&](Value source) {
    for (auto [i, id] : llvm::enumerate(kernel.getGridIds()))
      if (id == source && i < 64)
        ids |= uint64_t(1) << i;
  });
  return ids;
}

bool tgpu::tripsVaryByTile(scf::ForOp loop) {
  return getGridIds(getFirstOfAll(loop.getLowerBound())) != 0 ||
         getGridIds(loop.getUpperBound()) != 0;
}

bool tgpu::readsTrips(scf::ForOp loop) {
  bool reads = false;
  for (Value bound : {getFirstOfAll(loop.getLowerBound()), loop.getUpperBound()})
    forEachSource(
        bound, [&](Value source) { reads |= isa_and_nonnull<tile::AtOp>(source.getDefiningOp()); });
  return reads;
}
