// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-check-debug: rejects tile.print and tile.assert where no kernel executes them.

#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilewright {
#define GEN_PASS_DEF_TILECHECKDEBUG
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

struct TileCheckDebugPass : tilewright::impl::TileCheckDebugBase<TileCheckDebugPass> {
  using TileCheckDebugBase::TileCheckDebugBase;

  void runOnOperation() override {
    WalkResult walk = getOperation()->walk([](Operation *op) {
      auto function = isa<PrintOp, AssertOp>(op) ? op->getParentOfType<func::FuncOp>() : nullptr;
      if (!function)
        return WalkResult::advance();
      op->emitOpError() << "must be in a kernel, or in a function of tiles that it calls, but got "
                           "one in @"
                        << function.getSymName() << "; move it to what calls or applies @"
                        << function.getSymName();
      return WalkResult::interrupt();
    });
    if (walk.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
