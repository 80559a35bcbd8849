// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "lib/Bundle/WrittenViews.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

#include "mlir/IR/SymbolTable.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;

bool tilewright::isWritten(mlir::Value view) {
  llvm::SmallVector<mlir::Value> views{view};
  for (size_t i = 0; i < views.size(); ++i)
    for (mlir::OpOperand &use : views[i].getUses()) {
      Operation *user = use.getOwner();
      if (isa<tile::SubviewOp, tile::RepeatOp, tgpu::TensorMapOp>(user)) {
        views.push_back(user->getResult(0));
        continue;
      }
      if (auto launch = dyn_cast<tile::LaunchOp>(user)) {
        // The first arguments of the body are those of the kernel, mapped or not.
        Operation *kernel = SymbolTable::lookupNearestSymbolFrom(launch, launch.getKernelAttr());
        if (isa_and_present<tile::KernelOp, tgpu::KernelOp>(kernel))
          views.push_back(kernel->getRegion(0).getArgument(use.getOperandNumber()));
        continue;
      }
      auto effects = dyn_cast<MemoryEffectOpInterface>(user);
      if (effects && effects.getEffectOnValue<MemoryEffects::Write>(views[i]))
        return true;
    }
  return false;
}
