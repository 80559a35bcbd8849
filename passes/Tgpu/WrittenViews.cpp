// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which arguments a piece of a kernel writes.

#include "passes/Tgpu/WrittenViews.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Value tgpu::getViewRoot(Value view) {
  while (Operation *op = view.getDefiningOp()) {
    if (!isa<tile::SubviewOp, tile::RepeatOp>(op))
      break;
    view = op->getOperand(0);
  }
  return view;
}

bool tgpu::readsCapture(Operation *op) {
  auto load = dyn_cast<LoadOp>(op);
  return load && getViewRoot(load.getView()).getDefiningOp<tile::CapturedOp>();
}

WrittenViews::WrittenViews(Operation *scope) {
  scope->walk([&](Operation *op) {
    llvm::TypeSwitch<Operation *>(op)
        .Case<StoreOp, AtomicAddOp, tile::StoreOp, tile::AtomicAddOp, tile::ScatterAddOp,
              tile::AddAtOp>([&](auto write) { written.insert(getViewRoot(write.getView())); })
        .Case([&](EndTurnOp end) { written.insert(getViewRoot(end.getTurns())); })
        .Case([&](TmaStoreOp write) {
          if (auto map = write.getMap().getDefiningOp<TensorMapOp>())
            written.insert(getViewRoot(map.getView()));
        });
  });
}

bool WrittenViews::contains(Value view) const { return written.contains(getViewRoot(view)); }

bool WrittenViews::canComputeAhead(Operation *op) const {
  auto isTile = [](Type type) { return isa<RankedTensorType>(type); };
  if (op->getNumRegions() != 0 || llvm::any_of(op->getResultTypes(), isTile) ||
      llvm::any_of(op->getOperandTypes(), isTile))
    return false;
  // Captures are never written.
  auto at = dyn_cast<tile::AtOp>(op);
  return at ? !at.getView() || !contains(at.getView()) : isMemoryEffectFree(op);
}
