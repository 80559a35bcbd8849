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

#include "passes/Tgpu/ConvertedOperands.h"

#include "dialect/Tgpu/Tgpu.h"
#include "passes/FirstUser.h"
#include "passes/Tgpu/LayoutInference.h"
#include "passes/Tgpu/ScheduleNames.h"
#include "passes/Tgpu/TransposeTiles.h"
#include "passes/Tgpu/WrittenViews.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
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
  if (!load || !LayoutInference::isStaged(load) || !load->hasOneUse() ||
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
    if (!isa<tile::ExpandOp, tile::FullOp, arith::ConstantOp>(op) &&
        !LayoutInference::isElementwise(op))
      return {};
    for (Value operand : op->getOperands())
      if (isa<RankedTensorType>(operand.getType()))
        values.insert(operand);
  }
  return loads.takeVector();
}

bool tgpu::isReadByColumns(tile::LoadOp load) {
  std::optional<ArrayRef<int64_t>> dims = load.getDims();
  return load->hasAttr(copiedName) && dims && dims->size() == 2 && (*dims)[0] > (*dims)[1];
}

namespace {

/// Whether all uses are operands a whose columns are rows of the tile.
bool isTransposedA(Value value) {
  return llvm::all_of(value.getUses(), [](OpOperand &use) {
    return use.getOperandNumber() == 0 && cast<tile::DotOp>(use.getOwner()).getTransposeA();
  });
}

/// The converted tile is read from its buffer column by column.
void turn(tile::LoadOp load, Value converted) {
  load.setDimsAttr(swapDims(load.getDims(), load.getView()));
  for (Value value : {load.getResult(), converted})
    value.setType(getTransposed(value.getType()));
  for (Operation *user : converted.getUsers())
    cast<tile::DotOp>(user).setTransposeA(false);
}

/// After the product before its first one, during which it can be read and converted, and whose
/// operands' registers it follows.
void moveBehindProduct(tile::LoadOp load, Operation *convert) {
  Operation *first = getFirstUser(convert);
  if (!first)
    return;
  for (Operation *before = first->getPrevNode(); before && before != convert;
       before = before->getPrevNode())
    if (isa<tile::DotOp>(before)) {
      first = before->getNextNode();
      break;
    }
  if (!load->isBeforeInBlock(first))
    return;
  for (Operation *op = load->getNextNode(); op != first; op = op->getNextNode())
    if (!isa<tile::LoadOp>(op) && !isMemoryEffectFree(op)) // it may write what is loaded
      return;
  load->moveBefore(first);
  convert->moveBefore(first);
}

} // namespace

void tgpu::copyConvertedOperands(tile::KernelOp kernel, const Target &target) {
  SmallVector<tile::CastOp> casts;
  kernel.walk([&](tile::CastOp op) {
    if (getConvertedLoad(op.getResult()))
      casts.push_back(op);
  });
  for (tile::CastOp op : casts) {
    tile::LoadOp load = getConvertedLoad(op.getResult());
    // Without wgmma, nothing is gained but rows in pages, which only copies find.
    if (!target.has(Feature::Wgmma) && !load.getView().getDefiningOp<tile::PagedOp>())
      continue;
    load->setAttr(copiedName, UnitAttr::get(kernel.getContext()));
    moveBehindProduct(load, op);
    if (target.has(Feature::Wgmma) && isTransposedA(op.getResult()))
      turn(load, op.getResult());
  }
  if (target.has(Feature::Wgmma))
    kernel.walk([](tile::DotOp dot) {
      for (tile::LoadOp load : getComputedLoads(dot))
        if (LayoutInference::isOfWgmma(tile::getElementType(dot.getLhs().getType())) &&
            LayoutInference::isStaged(load) && load->getParentOfType<LoopLikeOpInterface>())
          load->setAttr(copiedName, UnitAttr::get(load.getContext()));
    });
}

/// Whether the loads of the body are all copies of one iteration: there is a product of tiles that
/// it loads, and no inner loop.
static bool copiesOperands(scf::ForOp loop) {
  bool copies = false, isInnermost = true;
  for (Operation &op : loop.getBody()->without_terminator()) {
    isInnermost &= op.getNumRegions() == 0;
    if (auto dot = dyn_cast<tile::DotOp>(op))
      for (Value operand : {dot.getLhs(), dot.getRhs()})
        copies |= LayoutInference::isStaged(operand) && operand.getParentBlock() == loop.getBody();
  }
  return copies && isInnermost;
}

/// Whether a tensor map describes the view for any launch: whole rows of a workspace do not begin
/// at an odd address, as rows of an argument of any length may.
static bool isWholeRow(tile::LoadOp load) {
  constexpr int64_t leastBits = 32, chunkBits = 128;
  auto tile = dyn_cast<RankedTensorType>(load.getType());
  auto shape = cast<tile::ViewType>(load.getView().getType()).getShape();
  int64_t bits = tile ? getElementBits(tile.getElementType()) : 0;
  return tile && tile.getRank() == 1 && bits >= leastBits && shape.back() == tile.getDimSize(0) &&
         load.getStaticIndices().back() == 0 && tile.getDimSize(0) * bits % chunkBits == 0;
}

void tgpu::copyRowsOfIterations(tile::KernelOp kernel, const Target &target) {
  if (!target.hasRoles())
    return;
  kernel.walk([&](scf::ForOp loop) {
    if (!copiesOperands(loop))
      return;
    WrittenViews written(loop);
    for (auto load : loop.getBody()->getOps<tile::LoadOp>())
      if (LayoutInference::isStaged(load) && isWholeRow(load) && !written.contains(load.getView()))
        load->setAttr(copiedName, UnitAttr::get(kernel.getContext()));
  });
}
