// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-overlap-launches: marks kernels that launches of a program follow or precede.

#include "base/Target/Target.h"
#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEOVERLAPLAUNCHES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

struct TileOverlapLaunchesPass
    : tilewright::impl::TileOverlapLaunchesBase<TileOverlapLaunchesPass> {
  using TileOverlapLaunchesBase::TileOverlapLaunchesBase;

  void runOnOperation() override {
    const Target *chip = Target::find(target.getValue());
    if (!chip || !chip->has(Feature::DependentLaunch)) {
      for (auto kernel : getOperation().getOps<KernelOp>()) {
        tgpu::awaitsLaunchAttr.remove(kernel);
        tgpu::allowsLaunchAttr.remove(kernel);
        tgpu::allowsRunAttr.remove(kernel);
      }
      return;
    }
    for (auto program : getOperation().getOps<ProgramOp>()) {
      // Launches with conditions, too: whichever are executed, the first one has none before it.
      auto launches = llvm::to_vector(program.getBody().getOps<LaunchOp>());
      for (auto [i, launch] : llvm::enumerate(launches)) {
        auto kernel =
            SymbolTable::lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
        if (!kernel)
          continue;
        bool isLast = i + 1 == launches.size();
        if (i > 0)
          tgpu::awaitsLaunchAttr.set(kernel);
        if (!isLast)
          tgpu::allowsLaunchAttr.set(kernel);
        else if (i > 0)
          tgpu::allowsRunAttr.set(kernel);
      }
    }
  }
};

} // namespace
