// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-step-products: makes products read their operands stepwise where tiles leave few registers.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"

#include "dialect/Tgpu/Tgpu.h"

#include "llvm/ADT/MapVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSTEPPRODUCTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

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

    llvm::DenseMap<Operation *, int64_t> pressure;
    auto note = [&](Operation *op, int64_t live) {
      if (isa<MmaOp>(op))
        pressure[op] = live;
    };
    RegisterModel::atProducts(threads).getPressure(kernel.getBody().front(), note);

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
