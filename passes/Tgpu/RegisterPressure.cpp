// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Live ranges of tiles, operation by operation.

#include "passes/Tgpu/RegisterPressure.h"

#include "mlir/IR/Operation.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tilewright;

int64_t tgpu::getPressure(Block &block, ArrayRef<Value> inherited,
                          function_ref<int64_t(Value)> registers,
                          function_ref<bool(Operation *)> counts) {
  llvm::MapVector<Value, Operation *> lastUse;
  for (Value value : inherited)
    lastUse[value] = nullptr;
  for (BlockArgument argument : block.getArguments())
    lastUse[argument] = nullptr;
  for (Operation &op : block) {
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (auto it = lastUse.find(operand); it != lastUse.end())
          it->second = &op;
    });
    for (Value result : op.getResults())
      lastUse[result] = nullptr;
  }
  llvm::DenseMap<Operation *, SmallVector<Value>> dying;
  int64_t live = 0;
  auto define = [&](Value value) {
    if (Operation *last = lastUse.lookup(value)) {
      live += registers(value);
      dying[last].push_back(value);
    }
  };
  llvm::for_each(inherited, define);
  llvm::for_each(block.getArguments(), define);
  int64_t most = counts ? 0 : live;
  for (Operation &op : block) {
    ArrayRef<Value> last = dying[&op];
    bool isCounted = !counts || counts(&op);
    if (isCounted)
      most = std::max(most, live);
    for (Value value : last)
      live -= registers(value);
    for (Region &region : op.getRegions())
      for (Block &nested : region)
        if (int64_t inner = getPressure(nested, last, registers, counts))
          most = std::max(most, live + inner);
    llvm::for_each(op.getResults(), define);
    if (isCounted)
      most = std::max(most, live);
  }
  return most;
}
