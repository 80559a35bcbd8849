// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-step-products: products go in steps where tiles leave few registers to their operands.

#include "passes/Passes.h"
#include "passes/Tgpu/OperandReads.h"
#include "passes/Tgpu/RegisterPressure.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSTEPPRODUCTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Registers of a thread for a tile of a mapped kernel. Constants, positions and rows spread over a
/// tile are made where they are used.
int64_t getRegisters(Value value, int64_t threads) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  Operation *def = value.getDefiningOp();
  bool isMade = def && isa<tile::FullOp, tile::IotaOp, tile::ExpandOp, arith::ConstantOp>(def);
  auto read = value.getDefiningOp<ReadOp>();
  if (!tile || tile.getRank() != 2 || isMade || (read && isReadByProduct(read)))
    return 0;
  // A mask takes a bit of a register, whatever it takes in memory.
  Type element = tile.getElementType();
  int64_t bits = element.isInteger(1) ? 1 : getElementBits(element);
  return tile.getNumElements() * bits / 32 / threads;
}

struct TgpuStepProductsPass : tilewright::impl::TgpuStepProductsBase<TgpuStepProductsPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      llvm::MapVector<Block *, SmallVector<MmaOp>> bodies;
      kernel.walk([&](MmaOp product) { bodies[product->getBlock()].push_back(product); });
      llvm::MapVector<MmaOp, int64_t> pressure;
      int64_t most = 0;
      for (auto &[body, products] : bodies)
        // Beside a product that is alone there is nothing among which its operands could be read.
        for (MmaOp product : products.size() > 1 ? ArrayRef(products) : ArrayRef<MmaOp>())
          most = std::max(most, pressure[product] = getPressureAt(product, kernel));
      for (auto [product, registers] : pressure)
        if (registers > many || most > tooMany)
          product.setStepwise(true);
    }
  }

private:
  /// Registers of a thread that tiles take at a product: above the first its operands are not left
  /// to ptxas, above the second no operands in the kernel. Both are drawn from what ptxas 13.0
  /// spills of this project's kernels, and from their times on an H200.
  static constexpr int64_t many = 112, tooMany = 136;

  static int64_t getPressureAt(MmaOp product, KernelOp kernel) {
    constexpr int64_t lanes = 32;
    int64_t threads = lanes * kernel.getWarps();
    return getPressure(
        kernel.getBody().front(), {}, [&](Value value) { return getRegisters(value, threads); },
        [&](Operation *op) { return op == product; });
  }
};

} // namespace
