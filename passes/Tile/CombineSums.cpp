// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-combine-sums: lowers tile.accumulate to a loop and tile.contribute to an atomic addition
// and, for launches to which a row of the table of strategies applies, adds the forms in which each
// instance adds a single term, or in which instances add in order.

#include "base/Target/Target.h"
#include "dialect/Tile/TileExpr.h"
#include "passes/Passes.h"
#include "passes/Tile/DivideSum.h"
#include "passes/Tile/OrderSum.h"
#include "passes/Tile/StoredSum.h"
#include "passes/Tile/SumStrategies.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/AttrTypeSubElements.h"

namespace tilewright {
#define GEN_PASS_DEF_TILECOMBINESUMS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

void lowerToLoop(AccumulateOp op) {
  OpBuilder b(op);
  Location loc = op.getLoc();
  // Next to the number of terms, as a scalar that does not change.
  if (Operation *count = op.getCount().getDefiningOp())
    b.setInsertionPointAfter(count);
  Value first = arith::MulIOp::create(b, loc, op.getId(), op.getCount());
  b.setInsertionPoint(op);
  Value zero = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(0));
  Value one = arith::ConstantOp::create(b, loc, b.getI32IntegerAttr(1));
  auto loop = scf::ForOp::create(b, loc, zero, op.getCount(), one, op.getInitArgs());
  if (op.getNumResults() == 0 && !loop.getBody()->empty())
    loop.getBody()->back().erase();
  b.setInsertionPointToStart(loop.getBody());
  Value number = arith::AddIOp::create(b, loc, first, loop.getInductionVar());
  Block &body = op.getBody().front();
  SmallVector<Value> values{number};
  values.append(loop.getRegionIterArgs().begin(), loop.getRegionIterArgs().end());
  for (auto [argument, value] : llvm::zip(body.getArguments(), values))
    argument.replaceAllUsesWith(value);
  Operation *yield = body.getTerminator();
  b.setInsertionPointToEnd(loop.getBody());
  SmallVector<Value> results(yield->getOperands());
  yield->erase();
  loop.getBody()->getOperations().splice(loop.getBody()->end(), body.getOperations());
  b.setInsertionPointToEnd(loop.getBody());
  scf::YieldOp::create(b, loc, results);
  op.replaceAllUsesWith(loop.getResults());
  op.erase();
}

LogicalResult checkFunctions(KernelOp kernel) {
  bool readsOrder = false;
  AttrTypeWalker walker;
  walker.addWalk([&](ExprAttr expr) {
    readsOrder |=
        expr.getKind() == ExprKind::Call && getFunction(expr) == expr::Function::AddsInOrder;
  });
  kernel->walk([&](Operation *op) { walker.walk(op->getAttrDictionary()); });
  if (readsOrder)
    return kernel.emitOpError("reads adds_in_order(), which is allowed only in programs; use the "
                              "flag after 'in order if' of tile.contribute");
  return success();
}

struct TileCombineSumsPass : tilewright::impl::TileCombineSumsBase<TileCombineSumsPass> {
  using TileCombineSumsBase::TileCombineSumsBase;

  void runOnOperation() override {
    FailureOr<SumStrategies> strategies =
        SumStrategies::parse(sums.getValue(), [&] { return emitError(getOperation().getLoc()); });
    if (failed(strategies))
      return signalPassFailure();
    StringRef apart = strategies->apart, order = strategies->order;
    // tile-to-tgpu rejects unknown targets.
    const Target *chip = Target::find(target.getValue());
    multiprocessors = chip ? chip->multiprocessors : Target::getMostMultiprocessors();
    SymbolTable symbols(getOperation());
    SmallVector<AccumulateOp> ops;
    getOperation().walk([&](AccumulateOp op) { ops.push_back(op); });
    for (AccumulateOp op : ops)
      if (failed(checkSums(op)))
        return signalPassFailure();

    OrderChoice choice{order == "unordered" ? nullptr : findOrderRow(target.getValue()),
                       order == "ordered", multiprocessors};
    // The CPU can add in order, too, and does if it is asked to.
    if (choice.isForced && target.getValue() == "cpu")
      choice.row = getAnyOrderRow();
    SmallVector<ContributeOp> contributions;
    getOperation().walk([&](ContributeOp op) {
      if (op->getParentOfType<KernelOp>())
        contributions.push_back(op);
    });
    for (auto kernel : getOperation().getOps<KernelOp>())
      if (failed(checkFunctions(kernel)))
        return signalPassFailure();
    for (ContributeOp op : contributions)
      if (failed(orderSum(op, symbols, choice)))
        return signalPassFailure();
    lowerUnordered(getOperation());

    const ApartRow *row = apart == "whole" ? nullptr : findApartRow(target.getValue());
    if (row)
      divide(ops, *row, symbols, apart == "apart");
    for (AccumulateOp op : ops)
      lowerToLoop(op);
  }

private:
  void divide(ArrayRef<AccumulateOp> ops, const ApartRow &row, SymbolTable &symbols,
              bool isForced) {
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](LaunchOp launch) { launches.push_back(launch); });
    for (AccumulateOp op : ops) {
      auto name = op->getParentOfType<KernelOp>().getSymName();
      for (LaunchOp launch : launches) {
        if (launch.getKernel() != name)
          continue;
        std::string reason = divideSum(op, launch, symbols, row, multiprocessors, isForced);
        if (!reason.empty())
          op.emitRemark("has no form that adds terms apart: ") << reason;
      }
    }
  }

  int64_t multiprocessors = 0;
};

} // namespace
