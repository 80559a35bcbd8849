// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-to-tgpu: converts every bound tile.kernel of the module to a tgpu.kernel.

#include "passes/Passes.h"
#include "passes/Tgpu/Map/ChooseWarps.h"
#include "passes/Tgpu/Map/ConvertedOperands.h"
#include "passes/Tgpu/Map/KernelMapper.h"
#include "passes/Tgpu/Map/PrepareKernel.h"
#include "passes/Tgpu/Map/TransposeTiles.h"
#include "passes/Tile/BindParameters.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"

namespace tilewright {
#define GEN_PASS_DEF_TILETOTGPU
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;

namespace {

/// Binding converts all symbolic tiles to tensors, including those that name no parameter.
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
    const Target *machine = Target::find(target.getValue());
    if (!machine) {
      getOperation().emitError() << Target::getRejection(target.getValue());
      return signalPassFailure();
    }
    bool hasWgmma = machine->has(Feature::Wgmma);
    bool isPowerOfTwo = (warps & (warps - 1)) == 0;
    if (warps < 0 || warps > Target::warpsOfBlock ||
        !(isPowerOfTwo || (hasWgmma && warps % Target::warpsOfGroup == 0))) {
      getOperation().emitError() << "number of warps must be a power of two from 1 to "
                                 << Target::warpsOfBlock << ", on "
                                 << Target::getNamesWith(Feature::Wgmma)
                                 << " also a multiple of 4, or 0 for an automatic choice, but got "
                                 << warps.getValue();
      return signalPassFailure();
    }
    for (auto kernel : llvm::to_vector(getOperation().getOps<tile::KernelOp>())) {
      if (failed(checkTiles(kernel)))
        return signalPassFailure();
      tgpu::noteMasksOfBlocks(kernel);
      tgpu::widenProducts(kernel, *machine, warps);
      tgpu::roundInnerExtents(kernel);
      if (hasWgmma && tgpu::transposeFewRowsAttr.isOn(kernel))
        tgpu::transposeTilesOfFewRows(kernel);
      tgpu::copyConvertedOperands(kernel, *machine);
      tgpu::copyRowsOfIterations(kernel, *machine);
      int64_t wanted = warps ? warps : tgpu::chooseWarps(kernel, *machine);
      int64_t usable = tgpu::getUsableWarps(kernel, wanted);
      constexpr int64_t rowsOfWarp = 16;
      if (hasWgmma)
        tgpu::orientProducts(kernel, rowsOfWarp * usable);
      NamedAttrList kept; // the first two for reports
      for (StringRef key : std::initializer_list<StringRef>{
               blocksAttrName, strategyAttrName, tgpu::awaitsLaunchAttr.name,
               tgpu::allowsLaunchAttr.name, tgpu::allowsRunAttr.name, tgpu::mostStagesAttr.name})
        if (Attribute value = kernel->getAttr(key))
          kept.append(key, value);
      StringAttr name = kernel.getSymNameAttr();
      if (failed(tgpu::KernelMapper(kernel, *machine, usable).run()))
        return signalPassFailure();
      Operation *mapped = SymbolTable::lookupSymbolIn(getOperation(), name);
      for (NamedAttribute attribute : kept)
        mapped->setAttr(attribute.getName(), attribute.getValue());
    }
  }
};

} // namespace
