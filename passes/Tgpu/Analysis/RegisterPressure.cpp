// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Registers of values, and live ranges of tiles, operation by operation.

#include "passes/Tgpu/Analysis/RegisterPressure.h"

#include "passes/Tgpu/Analysis/OperandReads.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "llvm/ADT/MapVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Measures a block, given what is live around it, and `inherited` values of which the block has
/// the last uses.
static int64_t measure(Block &block, ArrayRef<Value> inherited,
                       function_ref<int64_t(Value)> registers, PressureObserver observer,
                       int64_t live) {
  llvm::MapVector<Value, Operation *> lastUse;
  for (Value value : inherited)
    lastUse[value] = nullptr;
  for (BlockArgument argument : block.getArguments())
    lastUse[argument] = nullptr;
  for (Operation &op : block) {
    op.walk([&](Operation *inner) {
      for (Value operand : inner->getOperands())
        if (auto it = lastUse.find(operand); it != lastUse.end())
          it->second = &op;
    });
    for (Value result : op.getResults())
      lastUse[result] = nullptr;
  }
  llvm::DenseMap<Operation *, SmallVector<Value>> dying;
  auto define = [&](Value value) {
    if (Operation *last = lastUse.lookup(value)) {
      live += registers(value);
      dying[last].push_back(value);
    }
  };
  llvm::for_each(inherited, define);
  llvm::for_each(block.getArguments(), define);
  int64_t most = live;
  for (Operation &op : block) {
    int64_t before = live;
    ArrayRef<Value> last = dying[&op];
    for (Value value : last)
      live -= registers(value);
    for (Region &region : op.getRegions())
      for (Block &nested : region)
        most = std::max(most, measure(nested, last, registers, observer, live));
    llvm::for_each(op.getResults(), define);
    most = std::max(most, live);
    if (observer)
      observer(&op, std::max(before, live));
  }
  return most;
}

bool tgpu::isMadeWhereUsed(Value value) {
  return isa_and_nonnull<tile::FullOp, tile::IotaOp, tile::ExpandOp, arith::ConstantOp>(
      value.getDefiningOp());
}

int64_t tgpu::getRegistersOf(Type type, int64_t threads) {
  auto tile = dyn_cast<RankedTensorType>(type);
  if (!tile)
    return 1;
  // Every thread that holds elements of the parent's row holds the slice's element.
  auto slice = dyn_cast_or_null<SliceAttr>(tile.getEncoding());
  if (slice)
    return std::max<int64_t>(1, tile.getNumElements() / 32);
  // Every warp of a row, or of a column, of the grid of warps holds the operand.
  if (auto operand = dyn_cast_or_null<OperandAttr>(tile.getEncoding()))
    if (auto mma = dyn_cast<MmaAttr>(operand.getParent()))
      threads = 32 * (operand.getOperand() == MatrixOperand::A ? mma.getWarpsM() : mma.getWarpsN());
  return (tile.getNumElements() * getElementBits(tile.getElementType()) / 32 + threads - 1) /
         threads;
}

/// Operands of products that are, or stay, in shared memory.
bool RegisterModel::isOutsideRegisters(Value value) const {
  Operation *def = value.getDefiningOp();
  switch (stage) {
  case Stage::BeforeMapping:
    return isa_and_nonnull<tile::LoadOp>(def) &&
           llvm::all_of(value.getUsers(), llvm::IsaPred<tile::DotOp>);
  case Stage::AtProducts: {
    auto read = dyn_cast_or_null<ReadOp>(def);
    return read && isReadByProduct(read) &&
           getElementBits(tile::getElementType(read.getType())) == 16;
  }
  case Stage::BesideReads:
    return isa_and_nonnull<ReadOp>(def);
  }
  return false;
}

int64_t RegisterModel::getRegisters(Value value) const {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  bool isCounted = tile && (tile.getRank() == 2 || stage == Stage::BesideReads);
  if (!isCounted || isMadeWhereUsed(value) || isOutsideRegisters(value))
    return 0;
  if (stage == Stage::BeforeMapping)
    return tile.getNumElements() * getElementBits(tile.getElementType()) / 32 / threads;
  if (stage == Stage::AtProducts && tile.getElementType().isInteger(1))
    return tile.getNumElements() / 32 / threads;
  return getRegistersOf(tile, threads);
}

int64_t RegisterModel::getPressure(Block &block, PressureObserver observer) const {
  llvm::DenseMap<Value, int64_t> known;
  auto registers = [&](Value value) {
    auto [it, isNew] = known.try_emplace(value, 0);
    if (isNew)
      it->second = getRegisters(value);
    return it->second;
  };
  return measure(block, /*inherited=*/{}, registers, observer, /*live=*/0);
}
