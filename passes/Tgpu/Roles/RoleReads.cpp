// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reads captures for each row of a tile ahead of time, such as where the keys of a row's document
// begin. They are read while the previous tile ends; at the beginning of the tile all warps would
// wait for memory before their first product.

#include "passes/Tgpu/Roles/RoleWriter.h"

#include "passes/Tgpu/Analysis/RegisterLimits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Whether the operation reads one value per row from memory.
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

/// Whether a few operations without side effects compute the value from published words.
bool RoleWriter::canReadAhead(Value value) {
  constexpr size_t mostValues = 64;
  llvm::SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (llvm::is_contained(published, reached[i]))
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
  readsAhead.clear();
  for (Operation &op : old.getBody().front())
    if (readsAhead.size() < RegisterLimits::valuesReadAhead && has(&op) && isReadByRow(op) &&
        canReadAhead(op.getResult(0)))
      readsAhead.push_back(&op);
}

/// Maps the published words of a tile to values of the old kernel.
void RoleWriter::mapPublished(ValueRange words) {
  for (auto [value, word] : llvm::zip_equal(published, words.slice(1, published.size())))
    map.map(value,
            value.getType().isInteger(1)
                ? arith::CmpIOp::create(b, arith::CmpIPredicate::ne, word, i32(0)).getResult()
                : word);
}

/// Emits the reads for the published tile. A tile number of -1 means no tile; the other words are
/// then 0, so the reads stay in bounds and their results are unused.
SmallVector<Value> RoleWriter::writeReadsAhead(const IRMapping &outside, ValueRange words) {
  if (readsAhead.empty())
    return {};
  IRMapping ofTile = std::move(map);
  map = outside;
  mapPublished(words);
  SmallVector<Value> read;
  for (Operation *op : readsAhead) {
    b.setLoc(op->getLoc());
    writeScalar(op->getResult(0));
    read.push_back(map.lookup(op->getResult(0)));
  }
  map = std::move(ofTile);
  return read;
}
