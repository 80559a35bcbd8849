// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What wgmma asks of a product of bytes.

#include "passes/Tile/ByteProducts.h"

#include "base/Target/Target.h"
#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright;

static constexpr int64_t depthOfInstruction = 32, mostInstructions = 4;

bool tilewright::isProductOfBytes(tile::DotOp dot, const Target &target, int64_t warps,
                                  bool withSum) {
  constexpr int64_t mostColumns = 256, unit = 8;
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

/// Loads some columns of a tile that another load loads.
static tile::LoadOp loadColumns(OpBuilder &b, tile::LoadOp load, int64_t from, int64_t columns) {
  auto tile = cast<RankedTensorType>(load.getType());
  SmallVector<int64_t> fixed(load.getStaticIndices());
  fixed.back() += from;
  auto part = RankedTensorType::get({tile.getDimSize(0), columns}, tile.getElementType());
  b.setInsertionPoint(load);
  return tile::LoadOp::create(b, load.getLoc(), part, load.getView(), load.getIndices(), fixed,
                              DenseI64ArrayAttr(), Value());
}

static bool isOfColumns(tile::LoadOp load) {
  return load && !load.getDims() && !load.getPad() && load->hasOneUse() &&
         tile::getRank(load.getType()) == 2 &&
         !ShapedType::isDynamic(load.getStaticIndices().back());
}

void tilewright::divideDepth(tile::DotOp dot, const Target &target) {
  constexpr int64_t most = mostInstructions * depthOfInstruction;
  auto lhs = dot.getLhs().getDefiningOp<tile::LoadOp>();
  auto rhs = dot.getRhs().getDefiningOp<tile::LoadOp>();
  if (!isOfColumns(lhs) || !isOfColumns(rhs) || dot.getTransposeA() || !dot.getTransposeB())
    return;
  int64_t depth = cast<RankedTensorType>(lhs.getType()).getDimSize(1);
  if (depth <= most)
    return;
  OpBuilder b(dot);
  SmallVector<tile::DotOp> parts;
  for (int64_t from = 0; from < depth; from += most) {
    int64_t columns = std::min(most, depth - from);
    Value left = loadColumns(b, lhs, from, columns), right = loadColumns(b, rhs, from, columns);
    b.setInsertionPoint(dot);
    parts.push_back(tile::DotOp::create(b, dot.getLoc(), dot.getType(), left, right,
                                        /*acc=*/Value(), /*transpose_a=*/false,
                                        /*transpose_b=*/true, dot.getPrecision(),
                                        /*interleaved=*/false));
  }
  bool areOfBytes = !dot.getAcc() && llvm::all_of(parts, [&](tile::DotOp part) {
    return isProductOfBytes(part, target, /*warps=*/0);
  });
  if (!areOfBytes) {
    for (tile::DotOp part : parts) {
      Operation *left = part.getLhs().getDefiningOp(), *right = part.getRhs().getDefiningOp();
      part.erase();
      left->erase();
      right->erase();
    }
    return;
  }
  Value sum = parts.front();
  for (tile::DotOp part : ArrayRef(parts).drop_front())
    sum = arith::AddFOp::create(b, dot.getLoc(), sum, part);
  dot.replaceAllUsesWith(sum);
  dot.erase();
  lhs.erase();
  rhs.erase();
}
