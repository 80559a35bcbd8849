// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-step-products: products go in steps where tiles leave few registers to their operands.

#include "passes/Passes.h"
#include "passes/Tgpu/OperandReads.h"
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

/// A product goes in steps where tiles take more than the first number of registers of a thread;
/// all products of a kernel do where more than the second at one of them. Both are drawn from what
/// ptxas 13.0 spills of this project's kernels, and from their times on an H200.
constexpr int64_t stepAbove = 112, stepAllAbove = 136;

/// Registers that a tile of a mapped kernel takes.
int64_t getTileRegisters(Value value, int64_t threads) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  if (!tile || tile.getRank() != 2 || isMadeWhereUsed(value))
    return 0;
  auto read = value.getDefiningOp<ReadOp>();
  if (read && isReadByProduct(read) && getElementBits(tile.getElementType()) == 16)
    return 0;
  // A mask takes a bit of a register, whatever it takes in memory.
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
    constexpr int64_t lanes = 32;
    int64_t threads = lanes * mma.getWarpsM() * mma.getWarpsN();

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

    // Beside a product that is alone there is nothing among which its operands could be read.
    bodies.remove_if([](auto &body) { return body.second.size() < 2; });
    int64_t most = 0;
    for (auto &[body, products] : bodies)
      for (MmaOp product : products)
        most = std::max(most, pressure.lookup(product));
    for (auto &[body, products] : bodies)
      for (MmaOp product : products)
        if (pressure.lookup(product) > stepAbove || most > stepAllAbove)
          product.setStepwise(true);
  }
};

} // namespace
