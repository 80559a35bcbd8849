// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-drop-debug: removes what shows or checks values. Passes then see the code of a kernel as if
// it had never been there, so that it cannot change what they choose. The simulator, and code with
// --debug-ops, keep it.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"
#include "llvm/Support/Path.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEDROPDEBUG
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

struct TileDropDebugPass : tilewright::impl::TileDropDebugBase<TileDropDebugPass> {
  using TileDropDebugBase::TileDropDebugBase;

  void runOnOperation() override {
    if (keep) {
      getOperation()->walk([](Operation *op) {
        if (isa<PrintOp, AssertOp>(op))
          addInstance(op);
      });
      return;
    }
    SmallVector<Operation *> found;
    getOperation()->walk([&](Operation *op) {
      if (isa<PrintOp, AssertOp>(op))
        found.push_back(op);
    });
    for (Operation *op : found) {
      op->emitWarning() << "'" << op->getName()
                        << "' is left out of code for GPUs; compile with --debug-ops, or run the "
                           "kernel on the CPU device or the simulator";
      eraseWithOperands(op);
    }
  }

private:
  /// Of a print, the ids come before the values.
  static void addInstance(Operation *op) {
    auto kernel = op->getParentOfType<KernelOp>();
    if (!kernel)
      return; // tile-check-debug rejects it
    if (auto print = dyn_cast<PrintOp>(op)) {
      SmallVector<Value> values(kernel.getGridIds());
      llvm::append_range(values, print.getValues());
      print.getValuesMutable().assign(values);
    } else {
      cast<AssertOp>(op).getInstanceMutable().assign(kernel.getGridIds());
      // Part of the code, unlike a location: kernels of equal text share code.
      if (auto place = op->getLoc()->findInstanceOf<FileLineColLoc>())
        op->setAttr(AssertOp::getPlaceName(),
                    StringAttr::get(op->getContext(),
                                    llvm::sys::path::filename(place.getFilename().getValue()) +
                                        ":" + Twine(place.getLine())));
    }
    op->setAttr(PrintOp::getInstanceName(), kernel.getGridNamesAttr());
  }

  /// What only the operation used would still count as a user for the passes that follow.
  static void eraseWithOperands(Operation *op) {
    llvm::SetVector<Operation *> pending;
    auto erase = [&](Operation *dead) {
      for (Value operand : dead->getOperands())
        if (Operation *def = operand.getDefiningOp())
          pending.insert(def);
      dead->erase();
    };
    erase(op);
    while (!pending.empty())
      if (Operation *next = pending.pop_back_val(); isOpTriviallyDead(next))
        erase(next);
  }
};

} // namespace
