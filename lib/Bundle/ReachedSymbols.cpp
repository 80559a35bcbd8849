// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows the uses of symbols.

#include "lib/Bundle/ReachedSymbols.h"

#include "dialect/Tile/Tile.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/SymbolTable.h"

using namespace mlir;
using namespace tilewright;

void tilewright::collectReached(ModuleOp module, Operation *op,
                                llvm::DenseSet<Operation *> &reached) {
  SymbolTable symbols(module);
  llvm::SmallVector<Operation *> pending{op};
  while (!pending.empty()) {
    Operation *next = pending.pop_back_val();
    auto uses = SymbolTable::getSymbolUses(next);
    if (!uses)
      continue;
    for (SymbolTable::SymbolUse use : *uses) {
      Operation *symbol = symbols.lookup(use.getSymbolRef().getRootReference());
      if (symbol && reached.insert(symbol).second)
        pending.push_back(symbol);
    }
  }
}

OwningOpRef<ModuleOp> tilewright::copyReached(ModuleOp module, Operation *op) {
  llvm::DenseSet<Operation *> reached{op};
  collectReached(module, op, reached);
  OwningOpRef<ModuleOp> copy = ModuleOp::create(module.getLoc(), module.getName());
  (*copy)->setAttrs(module->getAttrDictionary());
  OpBuilder builder = OpBuilder::atBlockEnd(copy->getBody());
  for (Operation &each : *module.getBody())
    if (reached.contains(&each) || isa<tile::CaptureOp>(each))
      builder.clone(each);
  return copy;
}
