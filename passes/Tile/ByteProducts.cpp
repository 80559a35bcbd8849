// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What wgmma asks of a product of bytes.

#include "passes/Tile/ByteProducts.h"

#include "base/Target/Target.h"
#include "dialect/Tgpu/Tgpu.h"

using namespace mlir;
using namespace tilewright;

bool tilewright::isProductOfBytes(tile::DotOp dot, const Target &target, int64_t warps,
                                  bool withSum) {
  constexpr int64_t depthOfInstruction = 32, mostInstructions = 4, mostColumns = 256, unit = 8;
  auto lhs = cast<RankedTensorType>(dot.getLhs().getType());
  auto result = cast<RankedTensorType>(dot.getType());
  int64_t depth = lhs.getDimSize(1);
  auto element = dyn_cast<FloatType>(lhs.getElementType());
  auto isCopied = [](Value operand) {
    auto load = operand.getDefiningOp<tile::LoadOp>();
    return load && !load.getPad();
  };
  bool isLoad = static_cast<bool>(dot.getLhs().getDefiningOp<tile::LoadOp>());
  return element && element.getWidth() == 8 && target.has(Feature::Wgmma) &&
         warps % Target::warpsOfGroup == 0 && !dot.getTransposeA() && dot.getTransposeB() &&
         (withSum || !dot.getAcc()) && (!isLoad || isCopied(dot.getLhs())) &&
         isCopied(dot.getRhs()) && depth % depthOfInstruction == 0 &&
         depth <= mostInstructions * depthOfInstruction &&
         result.getDimSize(0) % tgpu::rowsOfWarpgroup == 0 && result.getDimSize(1) % unit == 0 &&
         result.getDimSize(1) <= mostColumns;
}
