// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Follows rows from operation to operation.

#include "passes/Tgpu/Map/IdleRows.h"

#include "dialect/Tile/TileExpr.h"
#include "passes/Tgpu/Analysis/TileQueries.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

class RowFollower {
public:
  explicit RowFollower(tile::ForBlocksOp loop)
      : loop(loop), kernel(loop->getParentOfType<tile::KernelOp>()) {}

  bool run() {
    follow(loop.getKeep(), transposedKeepAttr.isOn(loop) ? 1 : 0);
    for (Value argument : loop.getRegionIterArgs())
      follow(argument, 0);
    for (Value result : loop.getResults())
      follow(result, 0);
    while (isKept && !worklist.empty()) {
      auto [value, dim] = worklist.pop_back_val();
      for (OpOperand &use : value.getUses())
        isKept &= visit(use, dim);
    }
    return isKept;
  }

private:
  /// Rows are along dimension `dim` of the tile. A scalar no longer has rows.
  void follow(Value value, int64_t dim) {
    auto type = dyn_cast<RankedTensorType>(value.getType());
    if (!type || dim >= type.getRank()) {
      isKept = false;
      return;
    }
    auto [it, isNew] = dims.try_emplace(value, dim);
    isKept &= it->second == dim;
    if (isNew)
      worklist.push_back({value, dim});
  }

  bool visit(OpOperand &use, int64_t dim) {
    Operation *op = use.getOwner();
    if (auto yield = dyn_cast<tile::YieldOp>(op))
      return yield->getParentOp() == loop; // what is carried is followed anyway
    if (auto yield = dyn_cast<scf::YieldOp>(op)) {
      auto branch = dyn_cast<scf::IfOp>(yield->getParentOp());
      if (!branch)
        return false;
      follow(branch.getResult(use.getOperandNumber()), dim);
      return true;
    }
    if (tgpu::isElementwise(op)) {
      for (Value result : op->getResults())
        follow(result, dim);
      return true;
    }
    if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
      int64_t along = reduce.getDim();
      if (along == dim)
        return false;
      follow(reduce.getResult(), along < dim ? dim - 1 : dim);
      return true;
    }
    if (auto expand = dyn_cast<tile::ExpandOp>(op)) {
      int64_t added = expand.getDim();
      follow(expand.getResult(), added <= dim ? dim + 1 : dim);
      return true;
    }
    if (auto dot = dyn_cast<tile::DotOp>(op)) {
      bool isRow = dim == 0 && (use.get() == dot.getAcc() ||
                                (use.getOperandNumber() == 0 && !dot.getTransposeA()));
      if (!isRow || (use.getOperandNumber() == 1))
        return false;
      follow(dot.getResult(), 0);
      return true;
    }
    if (auto store = dyn_cast<tile::StoreOp>(op))
      return endsWithRows(store, dim);
    return false;
  }

  /// Whether rows beyond the limit are beyond the view.
  bool endsWithRows(tile::StoreOp store, int64_t dim) {
    int64_t rank = tile::getRank(store.getValue().getType());
    int64_t viewRank = tile::getRank(store.getView().getType());
    int64_t viewDim = store.getDims() ? (*store.getDims())[dim] : viewRank - rank + dim;
    int64_t position = 0;
    for (int64_t index : store.getStaticIndices().take_front(viewDim))
      position += ShapedType::isDynamic(index);
    if (!ShapedType::isDynamic(store.getStaticIndices()[viewDim]) ||
        store.getIndices()[position] != loop.getStart())
      return false;
    auto part = store.getView().getDefiningOp<tile::SubviewOp>();
    if (part && static_cast<int64_t>(part.getDim()) == viewDim && part.getSize() == loop.getLimit())
      return true;
    auto limit = loop.getLimit().getDefiningOp<tile::DimOp>();
    return limit && limit.getView() &&
           areEqual(store.getView(), viewDim, limit.getView(), limit.getDim());
  }

  /// Whether two extents are equal, or the kernel requires that.
  bool areEqual(Value a, int64_t dimA, Value b, int64_t dimB) {
    if (a == b && dimA == dimB)
      return true;
    auto isDim = [&](tile::ExprAttr expr, Value view, int64_t dim) {
      for (auto [argument, name] : llvm::zip(kernel.getBody().getArguments(), kernel.getArgNames()))
        if (argument == view && expr.getKind() == tile::ExprKind::Dim &&
            expr.getName() == cast<StringAttr>(name).getValue() && expr.getValue() == dim)
          return true;
      return false;
    };
    return llvm::any_of(kernel.getConstraints().getAsRange<tile::ExprAttr>(),
                        [&](tile::ExprAttr expr) {
                          if (expr.getKind() != tile::ExprKind::Call ||
                              tile::getFunction(expr) != expr::Function::Equal)
                            return false;
                          tile::ExprAttr x = expr.getOperands()[0], y = expr.getOperands()[1];
                          return (isDim(x, a, dimA) && isDim(y, b, dimB)) ||
                                 (isDim(x, b, dimB) && isDim(y, a, dimA));
                        });
  }

  tile::ForBlocksOp loop;
  tile::KernelOp kernel;
  llvm::DenseMap<Value, int64_t> dims;
  SmallVector<std::pair<Value, int64_t>> worklist;
  bool isKept = true;
};

} // namespace

bool tgpu::hasIdleRows(tile::ForBlocksOp loop) { return RowFollower(loop).run(); }

bool tgpu::hasRowsInEveryTile(tile::ForBlocksOp loop) {
  auto kernel = loop->getParentOfType<tile::KernelOp>();
  auto start = loop.getStart().getDefiningOp<arith::MulIOp>();
  auto limit = loop.getLimit().getDefiningOp<tile::DimOp>();
  APInt size;
  if (!start || !limit || !matchPattern(start.getRhs(), m_ConstantInt(&size)) || size.isZero())
    return false;
  auto id = dyn_cast<BlockArgument>(start.getLhs()),
       view = dyn_cast<BlockArgument>(limit.getView());
  auto numArgs = static_cast<unsigned>(kernel.getArgs().size());
  Block *body = &kernel.getBody().front();
  if (!id || !view || id.getOwner() != body || view.getOwner() != body ||
      id.getArgNumber() < numArgs)
    return false;
  auto extent = cast<tile::ExprAttr>(kernel.getGrid()[id.getArgNumber() - numArgs]);
  if (extent.getKind() != tile::ExprKind::Call ||
      tile::getFunction(extent) != expr::Function::CeilDiv)
    return false;
  tile::ExprAttr rows = extent.getOperands()[0], divisor = extent.getOperands()[1];
  return rows.getKind() == tile::ExprKind::Dim &&
         rows.getName() == cast<StringAttr>(kernel.getArgNames()[view.getArgNumber()]).getValue() &&
         rows.getValue() == static_cast<int64_t>(limit.getDim()) &&
         divisor.getKind() == tile::ExprKind::Int && divisor.getValue() == size.getSExtValue();
}
