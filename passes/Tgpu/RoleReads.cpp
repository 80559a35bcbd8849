// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the role that computes reads of captures for each row of a tile, such as where the keys of
// its document begin. It is read while the tile before ends: read where the tile begins, all warps
// would wait for memory before their first product.

#include "passes/Tgpu/RoleWriter.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// One value of each row, from memory.
static bool isReadByRow(Operation &op) {
  if (op.getNumResults() != 1)
    return false;
  auto type = dyn_cast<RankedTensorType>(op.getResult(0).getType());
  if (!type || type.getRank() != 1)
    return false;
  if (auto each = dyn_cast<tile::MapOp>(op))
    return hasOperation(&op, each.getFunctionAttr(), llvm::IsaPred<tile::AtOp>);
  return readsCapture(&op);
}

/// Whether the value follows from what is told of a tile, in a few operations that only compute.
bool RoleWriter::canReadAhead(Value value) {
  constexpr size_t mostValues = 64;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (llvm::is_contained(told, reached[i]))
      continue;
    if (!op) {
      if (!llvm::is_contained(old.getArgs(), reached[i]))
        return false;
      continue;
    }
    if (op->getBlock() != &old.getBody().front() || op->getNumRegions() != 0 ||
        reached.size() > mostValues || !(isMemoryEffectFree(op) || isReadByRow(*op)))
      return false;
    reached.insert_range(getInputs(op));
  }
  return true;
}

void RoleWriter::findReadsAhead() {
  // They live beside the results of the tile before.
  constexpr size_t mostReads = 4;
  readsAhead.clear();
  for (Operation &op : old.getBody().front())
    if (readsAhead.size() < mostReads && isReadByRow(op) && canReadAhead(op.getResult(0)))
      readsAhead.push_back(&op);
}

/// What the role is told of a tile, as values of the old kernel.
void RoleWriter::mapTold(ValueRange words) {
  for (auto [value, word] : llvm::zip_equal(told, words.slice(1, told.size())))
    map.map(value,
            value.getType().isInteger(1)
                ? arith::CmpIOp::create(b, arith::CmpIPredicate::ne, word, i32(0)).getResult()
                : word);
}

/// The reads of the tile of which the words tell. That there is none says a number of -1 and zeros
/// otherwise: what is read then is of no use, but inside of captures, as everything that is read.
SmallVector<Value> RoleWriter::writeReadsAhead(const IRMapping &outside, ValueRange words) {
  if (readsAhead.empty())
    return {};
  IRMapping ofTile = std::move(map);
  map = outside;
  mapTold(words);
  SmallVector<Value> read;
  for (Operation *op : readsAhead) {
    b.setLoc(op->getLoc());
    writeScalar(op->getResult(0));
    read.push_back(map.lookup(op->getResult(0)));
  }
  map = std::move(ofTile);
  return read;
}
