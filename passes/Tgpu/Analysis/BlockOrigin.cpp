// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Tgpu/Analysis/BlockOrigin.h"

#include "passes/Tgpu/Analysis/WrittenViews.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;

static bool isLastIndex(tile::LoadOp load, OpOperand &use) {
  return ShapedType::isDynamic(load.getStaticIndices().back()) &&
         load.getIndices().getBeginOperandIndex() + load.getIndices().size() - 1 ==
             use.getOperandNumber();
}

bool tgpu::mayBeginAnywhere(tile::ForBlocksOp op) {
  WalkResult writes = op.getBody().walk([](Operation *inner) {
    bool isHarmless = isa<tile::LoadOp, tile::AtOp>(inner) ||
                      inner->hasTrait<OpTrait::HasRecursiveMemoryEffects>() ||
                      isMemoryEffectFree(inner);
    return isHarmless ? WalkResult::advance() : WalkResult::interrupt();
  });
  if (writes.wasInterrupted())
    return false;
  // Values that are positions, or integers derived from them.
  llvm::SetVector<Value> positions;
  positions.insert(op.getBlockStart());
  for (size_t i = 0; i < positions.size(); ++i)
    for (OpOperand &use : positions[i].getUses()) {
      Operation *user = use.getOwner();
      if (auto load = dyn_cast<tile::LoadOp>(user)) {
        auto paged = load.getView().getDefiningOp<tile::PagedOp>();
        if (isLastIndex(load, use) || (paged && paged.getTable()))
          return false;
      } else if (auto map = dyn_cast<tile::MapOp>(user)) {
        if (hasOperation(user, map.getFunctionAttr(), llvm::IsaPred<tile::AtOp, tile::RandomOp>))
          return false;
      } else if (isa<tile::AtOp, tile::RandomOp>(user) || user->getNumRegions() != 0) {
        return false;
      } else {
        for (Value result : user->getResults())
          if (getElementTypeOrSelf(result).isIntOrIndex())
            positions.insert(result);
      }
    }
  return true;
}

bool tgpu::isFromMemory(Value value, Operation *loop) {
  constexpr size_t mostValues = 256;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size() && i < mostValues; ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (!op)
      continue;
    if (isa<tile::AtOp>(op)) {
      if (!loop || !loop->isAncestor(op))
        return true;
      continue;
    }
    reached.insert_range(op->getOperands());
  }
  return false;
}
