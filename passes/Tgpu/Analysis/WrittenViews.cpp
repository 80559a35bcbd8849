// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds the arguments that a part of a kernel writes.

#include "passes/Tgpu/Analysis/WrittenViews.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

Value tgpu::getViewRoot(Value view) {
  while (Operation *op = view.getDefiningOp()) {
    if (!isa<tile::SubviewOp, tile::RepeatOp, tile::PagedOp>(op))
      break;
    view = op->getOperand(0);
  }
  return view;
}

bool tgpu::readsCapture(Operation *op) {
  auto load = dyn_cast<LoadOp>(op);
  return load && getViewRoot(load.getView()).getDefiningOp<tile::CapturedOp>();
}

bool tgpu::hasOperation(Operation *from, FlatSymbolRefAttr function,
                        llvm::function_ref<bool(Operation *)> test) {
  llvm::SetVector<Operation *> functions;
  auto reach = [&](Operation *op, FlatSymbolRefAttr callee) {
    if (Operation *reached = SymbolTable::lookupNearestSymbolFrom(op, callee))
      functions.insert(reached);
  };
  reach(from, function);
  for (size_t i = 0; i < functions.size(); ++i) {
    WalkResult result = functions[i]->walk([&](Operation *op) {
      if (auto call = dyn_cast<func::CallOp>(op))
        reach(op, call.getCalleeAttr());
      return test(op) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (result.wasInterrupted())
      return true;
  }
  return false;
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
  if (auto paged = dyn_cast<tile::PagedOp>(op))
    return !paged.getTable() || !contains(paged.getTable());
  return at ? !at.getView() || !contains(at.getView()) : isMemoryEffectFree(op);
}
