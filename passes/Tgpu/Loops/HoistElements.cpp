// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-hoist-elements: reads elements that are the same for all tiles of a role before the loop
// over its tiles. Within it, all warps of the role would wait for memory at the beginning of each
// tile.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/WrittenViews.h"

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUHOISTELEMENTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

struct TgpuHoistElementsPass : tilewright::impl::TgpuHoistElementsBase<TgpuHoistElementsPass> {
  void runOnOperation() override {
    getOperation()->walk([](KernelOp kernel) {
      WrittenViews written(kernel);
      kernel.walk([&](RolesOp roles) {
        for (Region &role : roles->getRegions())
          for (Operation &loop : llvm::make_early_inc_range(role.front()))
            if (isa<scf::ForOp, scf::WhileOp>(loop))
              hoist(loop, written);
      });
    });
  }

private:
  static void hoist(Operation &loop, const WrittenViews &written) {
    // Only what every tile reads: the loop over tiles has at least one in nearly all blocks.
    Block &body = loop.getRegions().back().front();
    for (auto at : llvm::make_early_inc_range(body.getOps<tile::AtOp>())) {
      bool isSame = llvm::all_of(at->getOperands(), [&](Value operand) {
        return !loop.isAncestor(operand.getParentBlock()->getParentOp());
      });
      if (isSame && at.getView() && !written.contains(at.getView()))
        at->moveBefore(&loop);
    }
  }
};

} // namespace
