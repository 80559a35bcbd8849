// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Writes the role "spread", which executes the body of tile.spread (SpreadWork.h). It does not
// follow the tiles of the other roles: each thread block has a share of the numbers, and awaits the
// sums that all blocks add. It processes some rows at a time in registers, since other roles use
// the shared memory.
//
// The last numbers are complete when the last tiles end. Then the few warps of this role would be
// the only ones that work, so the compute roles execute these numbers after their last tile.

#include "passes/Tgpu/Analysis/TileQueries.h"
#include "passes/Tgpu/Roles/RoleWriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

/// A lane holds four adjacent columns of tiles of any element type.
static constexpr int64_t bitsOfSpreadLayout = 32;
/// The fraction of the numbers that is processed after the tiles.
static constexpr int64_t partBehindTiles = 8;

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

void RoleWriter::writeSpread() {
  tile::SpreadOp spread = slice.spread->op;
  b.setLoc(spread.getLoc());
  writeScalar(spread.getCount());
  Value count = map.lookup(spread.getCount());
  Value behind = arith::DivSIOp::create(b, count, i32(partBehindTiles));
  Value split = arith::SubIOp::create(b, count, behind);
  bool isBehind = role == Role::Compute;
  auto share = ShareOp::create(b, b.getI32Type(), b.getI32Type(), isBehind ? behind : split);
  Value first = share.getFirst();
  if (isBehind)
    first = arith::AddIOp::create(b, split, first);
  auto loop = scf::ForOp::create(b, first, isBehind ? count : split, share.getStep());
  b.setInsertionPointToStart(loop.getBody());
  map.map(spread.getNumber(), loop.getInductionVar());
  writeSpreadBlock(spread.getBody().front());
}

/// First scalars and awaits, then the tiles, whose operations are repeated for each part.
void RoleWriter::writeSpreadBlock(Block &block) {
  for (Operation &op : block.without_terminator()) {
    b.setLoc(op.getLoc());
    for (Value input : getInputs(&op))
      if (!isa<RankedTensorType>(input.getType()) &&
          !slice.spread->op.getBody().isAncestor(input.getParentRegion()))
        writeScalar(input);
    if (auto await = dyn_cast<tile::AwaitOp>(op)) {
      AwaitTurnOp::create(b, map.lookup(await.getNumber()), map.lookup(await.getTurns()),
                          getAll(await.getIndices()), await.getStaticIndicesAttr(), /*last=*/true);
    } else if (SpreadWork::isScalar(&op)) {
      b.clone(op, map);
    } else if (auto branch = dyn_cast<scf::IfOp>(op)) {
      auto copy = scf::IfOp::create(b, map.lookup(branch.getCondition()), /*withElseRegion=*/false);
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToStart(copy.thenBlock());
      writeSpreadBlock(*branch.thenBlock());
    }
  }
  if (slice.spread->block != &block)
    return;
  // After the tiles, few rows at a time: with a whole tile of D 40, 24 values per lane, ptxas had
  // too few registers for the products of the tiles (C7512).
  int64_t registers = role == Role::Spread ? schedule.getLoadRegisters() : 0;
  int64_t rows = slice.spread->getRows(getSpreadWarps(), registers);
  auto loop = scf::ForOp::create(b, i32(0), i32(slice.spread->shape[0]), i32(rows));
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPointToStart(loop.getBody());
  writeSpreadRows(loop.getInductionVar(), rows);
}

void RoleWriter::writeSpreadRows(Value first, int64_t rows) {
  SmallVector<int64_t> shape{rows, slice.spread->shape[1]};
  auto getType = [&](Value tile) {
    Type element = cast<RankedTensorType>(tile.getType()).getElementType();
    return RankedTensorType::get(
        shape, element,
        tgpu::getBlocked(b.getContext(), shape, bitsOfSpreadLayout, getSpreadWarps()));
  };
  // The indices of an access, where those along the rows of its tile start at `first`.
  auto getIndices = [&](auto access) {
    SmallVector<Value> indices = getAll(access.getIndices());
    ArrayRef<int64_t> known = access.getStaticIndices();
    Value &row = indices[llvm::count_if(known.drop_back(2), ShapedType::isDynamic)];
    row = arith::AddIOp::create(b, row, first);
    return indices;
  };
  IRMapping local = map;
  for (Operation &op : slice.spread->block->without_terminator()) {
    auto isTile = llvm::IsaPred<RankedTensorType>;
    if (llvm::none_of(op.getOperandTypes(), isTile) && llvm::none_of(op.getResultTypes(), isTile))
      continue;
    b.setLoc(op.getLoc());
    for (Value operand : op.getOperands())
      if (auto full = operand.getDefiningOp<tile::FullOp>(); full && !local.contains(operand)) {
        writeScalar(full.getValue());
        local.map(operand, tile::FullOp::create(b, getType(full), map.lookup(full.getValue())));
      }
    if (auto load = dyn_cast<LoadOp>(op)) {
      Value pad = load.getPad() ? map.lookup(load.getPad()) : Value();
      local.map(load.getResult(),
                LoadOp::create(b, getType(load), map.lookup(load.getView()), getIndices(load),
                               load.getStaticIndicesAttr(), load.getDimsAttr(), pad));
    } else if (auto store = dyn_cast<StoreOp>(op)) {
      StoreOp::create(b, local.lookup(store.getValue()), map.lookup(store.getView()),
                      getIndices(store), store.getStaticIndicesAttr(), store.getDimsAttr());
    } else {
      Operation *copy = b.clone(op, local);
      for (Value result : copy->getResults())
        result.setType(getType(result));
    }
  }
}
