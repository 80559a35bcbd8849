// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-combine-sums: lowers tile.accumulate to a loop and, for launches to which a row of the table
// of strategies applies, adds the form in which each instance adds a single term.

#include "base/Target/Target.h"
#include "passes/Passes.h"
#include "passes/Tile/DivideSum.h"
#include "passes/Tile/StoredSum.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

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
  // Beside the number of terms, as a scalar that does not change.
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

struct TileCombineSumsPass : tilewright::impl::TileCombineSumsBase<TileCombineSumsPass> {
  using TileCombineSumsBase::TileCombineSumsBase;

  void runOnOperation() override {
    if (sums != "auto" && sums != "whole" && sums != "apart") {
      emitError(getOperation().getLoc())
          << "the strategy of sums must be auto, whole or apart, but got '" << sums << "'";
      return signalPassFailure();
    }
    SmallVector<AccumulateOp> ops;
    getOperation().walk([&](AccumulateOp op) { ops.push_back(op); });
    for (AccumulateOp op : ops)
      if (failed(checkSums(op)))
        return signalPassFailure();
    const ApartRow *row = sums == "whole" ? nullptr : findApartRow(target.getValue());
    if (row)
      divide(ops, *row);
    for (AccumulateOp op : ops)
      lowerToLoop(op);
  }

private:
  void divide(ArrayRef<AccumulateOp> ops, const ApartRow &row) {
    SymbolTable symbols(getOperation());
    // tile-to-tgpu rejects unknown targets.
    const Target *chip = Target::find(target.getValue());
    int64_t multiprocessors = chip ? chip->multiprocessors : Target::getMostMultiprocessors();
    SmallVector<LaunchOp> launches;
    getOperation().walk([&](LaunchOp launch) { launches.push_back(launch); });
    for (AccumulateOp op : ops) {
      auto name = op->getParentOfType<KernelOp>().getSymName();
      for (LaunchOp launch : launches) {
        if (launch.getKernel() != name)
          continue;
        std::string reason = divideSum(op, launch, symbols, row, multiprocessors, sums == "apart");
        if (!reason.empty())
          op.emitRemark("has no form that adds terms apart: ") << reason;
      }
    }
  }
};

} // namespace
