// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception

#include "passes/Tile/UniformFactor.h"

#include "dialect/Tile/Tile.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

Value UniformFactor::materialize(OpBuilder &builder, Location loc) const {
  return scalar ? scalar : arith::ConstantOp::create(builder, loc, constant);
}

UniformFactor tilewright::getUniformFactor(Value tile) {
  if (auto full = tile.getDefiningOp<FullOp>())
    return {full.getValue(), nullptr};
  auto constant = tile.getDefiningOp<arith::ConstantOp>();
  auto splat = constant ? dyn_cast<SplatElementsAttr>(constant.getValue()) : SplatElementsAttr();
  if (splat && isa<FloatType>(splat.getElementType()))
    return {nullptr, splat.getSplatValue<FloatAttr>()};
  return {};
}

std::optional<ScaledTile> tilewright::matchScaledTile(arith::MulFOp op) {
  if (!isTile(op.getType()))
    return std::nullopt;
  if (UniformFactor factor = getUniformFactor(op.getRhs()))
    return ScaledTile{op.getLhs(), op.getRhs(), factor};
  if (UniformFactor factor = getUniformFactor(op.getLhs()))
    return ScaledTile{op.getRhs(), op.getLhs(), factor};
  return std::nullopt;
}
