// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Views whose rows lie in pages.

#include "dialect/Tile/Tile.h"
#include "dialect/Tile/TileExprCheck.h"

#include <optional>

using namespace mlir;
using namespace tilewright::tile;

/// Whether a load runs along dimension 0 of its view.
static bool coversRows(LoadOp load) {
  if (std::optional<ArrayRef<int64_t>> dims = load.getDims())
    return llvm::is_contained(*dims, 0);
  return getRank(load.getType()) == getRank(load.getView().getType());
}

LogicalResult PagedOp::verify() {
  if (!getTable() && (!getTableIndices().empty() || getEachAttr() || getConditionAttr()))
    return emitOpError("must have a table for its indices, 'each' or 'when', but got none");
  if (getTable()) {
    int64_t rank = getRank(getTable().getType()), wanted = getTableIndices().size() + 1;
    if (rank != wanted || !getElementType(getTable().getType()).isInteger(32))
      return emitOpError() << "table must be a view of rank " << wanted
                           << " (one more than its indices) of i32, but got "
                           << getTable().getType();
    if (!getEachAttr())
      return emitOpError(
          "has a table without 'each'; state how many rows are together, at least 1");
    if (failed(checkParameterExpr(*this, getEachAttr(), "'each' of its table", ExprKind::Int)) ||
        failed(checkParameterExpr(*this, getConditionAttr(), "the condition of its table",
                                  ExprKind::Flag)))
      return failure();
    if (getEachAttr().isConstant() && !getConditionAttr() && getEachAttr().getValue() < 1)
      return emitOpError() << "needs an 'each' of at least 1 row, but got "
                           << getEachAttr().getValue();
  }
  Type pool = getPool().getType(), result = getType();
  SmallVector<Dim> dims(getDims(pool)), got(getDims(result));
  bool matches = dims.size() >= 2 && got.size() + 1 == dims.size() && got.front().isUnknown() &&
                 getElementType(pool) == getElementType(result);
  for (size_t d = 2; matches && d < dims.size(); ++d)
    matches = dims[d] == got[d - 1];
  if (!matches)
    return emitOpError() << "result must be a view like the pool, with '?' in place of its first "
                            "two dimensions, but got "
                         << pool << " and " << result;
  for (Operation *user : getResult().getUsers()) {
    if (isa<DimOp>(user))
      continue;
    auto load = dyn_cast<LoadOp>(user);
    if (load ? coversRows(load) : !isa<TileDialect>(user->getDialect()))
      continue;
    InFlightDiagnostic diagnostic = emitOpError()
                                    << "result may be used by 'tile.load' along dimension 0 and by "
                                       "'tile.dim' only, but got '"
                                    << user->getName() << "'";
    diagnostic.attachNote(user->getLoc()) << "this use";
    return diagnostic;
  }
  return success();
}

void PagedOp::dropTable() {
  getTableMutable().clear();
  getTableIndicesMutable().clear();
  removeEachAttr();
  removeConditionAttr();
}

int64_t PagedOp::getRowsTogether() { return getTable() ? getEachAttr().getValue() : 0; }
