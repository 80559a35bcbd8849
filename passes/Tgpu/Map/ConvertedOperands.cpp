// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands that are stored in 8 bits and multiplied in 16, such as the keys and values of a
// quantized cache. A copy moves them as they are, so that a tensor map describes it, and half of
// the bytes of a 16-bit tile pass through memory and shared memory. wgmma reads operand a from
// registers, where the conversion leaves it; operand b would have to be written to shared memory
// again. The same holds for operand a where it is computed of several tiles, such as words of 4-bit
// digits and a row of scales.
//
// Rows of factors that an iteration reads beside the operands of its products, such as the decay of
// each row of a chunk, are copied with them. A read from memory takes longer than a product, and
// where iterations depend on each other, nothing else hides it. (Loops over blocks copy rows ahead
// in any case.)

#include "passes/Tgpu/Map/ConvertedOperands.h"

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/Analysis/TileQueries.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static bool isOperandOfProduct(OpOperand &use) {
  return isa<tile::DotOp>(use.getOwner()) && use.getOperandNumber() < 2;
}

tile::LoadOp tgpu::getConvertedLoad(Value value) {
  constexpr unsigned storedBits = 8, rank = 2;
  auto cast = value.getDefiningOp<tile::CastOp>();
  auto load = cast ? cast.getSource().getDefiningOp<tile::LoadOp>() : tile::LoadOp();
  if (!load || !tgpu::isStaged(load) || !load->hasOneUse() ||
      tile::getRank(load.getType()) != rank || load->getBlock() != cast->getBlock() ||
      getElementBits(tile::getElementType(load.getType())) != storedBits ||
      !load->getParentOfType<LoopLikeOpInterface>() || cast->use_empty() ||
      !llvm::all_of(cast->getUses(), isOperandOfProduct))
    return {};
  return load;
}

SmallVector<tile::LoadOp> tgpu::getComputedLoads(tile::DotOp dot) {
  // An operand from outside a loop, as Q is, would take registers as long as the loop runs.
  auto cast = dot.getLhs().getDefiningOp<tile::CastOp>();
  if (dot.getTransposeA() || !cast || cast->getBlock() != dot->getBlock())
    return {};
  llvm::SetVector<tile::LoadOp> loads;
  llvm::SetVector<Value> values;
  values.insert(dot.getLhs());
  for (size_t i = 0; i < values.size(); ++i) {
    Operation *op = values[i].getDefiningOp();
    if (!op)
      return {};
    if (auto load = dyn_cast<tile::LoadOp>(op)) {
      loads.insert(load);
      continue;
    }
    if (!isa<tile::ExpandOp, tile::FullOp, arith::ConstantOp>(op) && !tgpu::isElementwise(op))
      return {};
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        values.insert(operand);
  }
  return loads.takeVector();
}

bool tgpu::isReadByColumns(tile::LoadOp load) {
  std::optional<ArrayRef<int64_t>> dims = load.getDims();
  return copiedAttr.isOn(load) && dims && dims->size() == 2 && (*dims)[0] > (*dims)[1];
}
