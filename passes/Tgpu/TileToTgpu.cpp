// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-to-tgpu: every bound tile.kernel of the module becomes a tgpu.kernel.

#include "passes/Passes.h"
#include "passes/Tgpu/ChooseWarps.h"
#include "passes/Tgpu/KernelMapper.h"
#include "passes/Tgpu/PrepareKernel.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilewright {
#define GEN_PASS_DEF_TILETOTGPU
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;

namespace {

/// Binding turns symbolic tiles into tensors, also where no parameter is named.
LogicalResult checkTiles(tile::KernelOp kernel) {
  WalkResult result = kernel.walk([](Operation *op) {
    return llvm::any_of(op->getResultTypes(), [](Type type) { return isa<tile::TileType>(type); })
               ? WalkResult::interrupt()
               : WalkResult::advance();
  });
  if (!result.wasInterrupted())
    return success();
  return kernel.emitOpError("has tiles that are not bound; run tile-specialize first");
}

struct TileToTgpuPass : tilewright::impl::TileToTgpuBase<TileToTgpuPass> {
  using TileToTgpuBase::TileToTgpuBase;

  void runOnOperation() override {
    if (target != "sm_80" && target != "sm_90a") {
      getOperation().emitError() << "target must be sm_80 or sm_90a, but got '" << target.getValue()
                                 << "'";
      return signalPassFailure();
    }
    bool isPowerOfTwo = (warps & (warps - 1)) == 0;
    if (warps < 0 || warps > 32 || !(isPowerOfTwo || (target == "sm_90a" && warps % 4 == 0))) {
      getOperation().emitError() << "number of warps must be a power of two from 1 to 32, on "
                                    "sm_90a or a multiple of 4, or 0 to have it chosen, but got "
                                 << warps.getValue();
      return signalPassFailure();
    }
    for (auto kernel : llvm::to_vector(getOperation().getOps<tile::KernelOp>())) {
      if (failed(checkTiles(kernel)))
        return signalPassFailure();
      tgpu::widenProducts(kernel);
      tgpu::roundInnerExtents(kernel);
      int64_t wanted = warps ? warps : tgpu::chooseWarps(kernel, target);
      int64_t usable = tgpu::getUsableWarps(kernel, wanted);
      constexpr int64_t rowsOfWarp = 16;
      if (target == "sm_90a")
        tgpu::orientProducts(kernel, rowsOfWarp * usable);
      if (failed(tgpu::KernelMapper(kernel, target, usable).run()))
        return signalPassFailure();
    }
  }
};

} // namespace
