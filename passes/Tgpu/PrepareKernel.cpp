// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Products that the matrix unit lacks, and how many warps can share those that it has.

#include "passes/Tgpu/PrepareKernel.h"

#include "mlir/IR/Builders.h"
#include "mlir/IR/BuiltinTypes.h"

using namespace mlir;
using namespace tilewright;

static bool isOfBits(Type type, unsigned bits) {
  auto element = dyn_cast<FloatType>(tile::getElementType(type));
  return element && element.getWidth() == bits;
}

void tgpu::widenProducts(tile::KernelOp kernel) {
  // Where the operand is made, so that what a loop only reads is converted outside of it.
  llvm::DenseMap<Value, Value> widened;
  kernel.walk([&](tile::DotOp dot) {
    if (!isOfBits(dot.getLhs().getType(), 8))
      return;
    for (OpOperand &operand : dot->getOpOperands().take_front(2)) {
      Value source = operand.get();
      Value &wide = widened[source];
      if (!wide) {
        OpBuilder b(dot.getContext());
        b.setInsertionPointAfterValue(source);
        auto type = cast<RankedTensorType>(source.getType());
        wide = tile::CastOp::create(b, dot.getLoc(), type.clone(b.getF16Type()), source);
      }
      operand.set(wide);
    }
  });
}

int64_t tgpu::getUsableWarps(tile::KernelOp kernel, int64_t warps) {
  kernel.walk([&](tile::DotOp dot) {
    bool isTf32 = dot.getPrecision() == tile::DotPrecision::TF32;
    if (!isOfBits(dot.getLhs().getType(), 16) && !isTf32)
      return;
    auto shape = cast<RankedTensorType>(dot.getType()).getShape();
    auto fits = [&] {
      for (int64_t warpsM = 1; warpsM <= warps; warpsM *= 2)
        if (shape[0] % (16 * warpsM) == 0 && shape[1] % (8 * (warps / warpsM)) == 0)
          return true;
      return false;
    };
    while (warps > 1 && !fits())
      warps /= 2;
  });
  return warps;
}
