// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-step-products: makes products read their operands stepwise where tiles leave few registers.

#include "passes/Passes.h"
#include "passes/Tgpu/OperandReads.h"
#include "passes/Tgpu/RegisterLimits.h"
#include "passes/Tgpu/RegisterPressure.h"

#include "llvm/ADT/MapVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSTEPPRODUCTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The registers of a tile of a mapped kernel.
int64_t getTileRegisters(Value value, int64_t threads) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  if (!tile || tile.getRank() != 2 || isMadeWhereUsed(value))
    return 0;
  auto read = value.getDefiningOp<ReadOp>();
  if (read && isReadByProduct(read) && getElementBits(tile.getElementType()) == 16)
    return 0;
  // A mask takes one bit of a register per element, whatever its size in memory.
  if (tile.getElementType().isInteger(1))
    return tile.getNumElements() / 32 / threads;
  return getRegistersOf(tile, threads);
}

struct TgpuStepProductsPass : tilewright::impl::TgpuStepProductsBase<TgpuStepProductsPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      stepProducts(kernel);
  }

private:
  static void stepProducts(KernelOp kernel) {
    llvm::MapVector<Block *, SmallVector<MmaOp>> bodies;
    kernel.walk([&](MmaOp product) { bodies[product->getBlock()].push_back(product); });
    if (bodies.empty())
      return;
    auto acc = cast<RankedTensorType>(bodies.front().second.front().getType());
    auto mma = cast<MmaAttr>(acc.getEncoding());
    int64_t threads = Target::lanes * mma.getWarpsM() * mma.getWarpsN();

    llvm::DenseMap<Value, int64_t> known;
    auto registers = [&](Value value) {
      auto [it, isNew] = known.try_emplace(value, 0);
      if (isNew)
        it->second = getTileRegisters(value, threads);
      return it->second;
    };
    llvm::DenseMap<Operation *, int64_t> pressure;
    getPressure(kernel.getBody().front(), {}, registers, [&](Operation *op, int64_t live) {
      if (isa<MmaOp>(op))
        pressure[op] = live;
    });

    // Operand reads of a body's only product have nothing to interleave with.
    bodies.remove_if([](auto &body) { return body.second.size() < 2; });
    int64_t most = 0;
    for (auto &[body, products] : bodies)
      for (MmaOp product : products)
        most = std::max(most, pressure.lookup(product));
    for (auto &[body, products] : bodies)
      for (MmaOp product : products)
        if (pressure.lookup(product) > RegisterLimits::stepAbove ||
            most > RegisterLimits::stepAllAbove)
          product.setStepwise(true);
  }
};

} // namespace
