// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lib/Bundle/KernelSums.h"

#include "dialect/Tile/Tile.h"
#include "lib/Support/ElementTypes.h"

#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;

std::vector<ElementType> tilewright::getSumTypes(tgpu::KernelOp kernel) {
  std::vector<ElementType> types;
  kernel.walk([&](Operation *op) {
    Type element;
    if (isa<tgpu::MmaOp, tgpu::WgmmaOp>(op))
      element = Float32Type::get(op->getContext()); // the only one that they have
    else if (auto dot = dyn_cast<tgpu::FmaDotOp>(op))
      element = cast<RankedTensorType>(dot.getResult().getType()).getElementType();
    std::optional<ElementType> type = element ? toElementType(element) : std::nullopt;
    if (type && !llvm::is_contained(types, *type))
      types.push_back(*type);
  });
  return types;
}

/// Between tgpu.await_turn and tgpu.end_turn. Control flow may be nested deeper there.
static bool hasTurn(Operation *op) {
  for (; !isa<tgpu::RolesOp, tgpu::KernelOp>(op); op = op->getParentOp())
    for (Operation *before = op->getPrevNode(); before; before = before->getPrevNode()) {
      if (isa<tgpu::AwaitTurnOp>(before))
        return true;
      if (isa<tgpu::EndTurnOp>(before))
        return false;
    }
  return false;
}

static bool isOfFloats(Value view) { return isa<FloatType>(tile::getElementType(view.getType())); }

bool tilewright::addsInAnyOrder(tgpu::KernelOp kernel) {
  WalkResult result = kernel.walk([](Operation *op) {
    bool isUnordered = llvm::TypeSwitch<Operation *, bool>(op)
                           .Case([](tgpu::AtomicAddOp add) {
                             return !add.getNumber() && isOfFloats(add.getView());
                           })
                           .Case<tile::ScatterAddOp, tile::AddAtOp>(
                               [](auto add) { return isOfFloats(add.getView()); })
                           .Case([&](tgpu::TmaReduceAddOp add) {
                             auto map = cast<tgpu::TensorMapType>(add.getMap().getType());
                             return isa<FloatType>(map.getElementType()) && !hasTurn(op);
                           })
                           .Default([](Operation *) { return false; });
    return isUnordered ? WalkResult::interrupt() : WalkResult::advance();
  });
  return result.wasInterrupted();
}
