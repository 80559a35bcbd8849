// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-unroll: fully unrolls the loops that an author marks.

#include "dialect/Tile/Calls.h"
#include "dialect/Tile/Tile.h"
#include "passes/Passes.h"
#include "passes/Tile/ConstantEvaluator.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "llvm/Support/MathExtras.h"

#include <optional>

namespace tilewright {
#define GEN_PASS_DEF_TILEUNROLL
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// The values of the induction variable: first + i * step for iteration i.
struct Rounds {
  int64_t first, step;
  uint64_t count;
};

/// Returns nothing, after an error, if a bound is not constant.
std::optional<Rounds> getRounds(scf::ForOp loop) {
  ConstantEvaluator evaluator;
  const std::pair<StringRef, Value> bounds[] = {{"lower bound", loop.getLowerBound()},
                                                {"upper bound", loop.getUpperBound()},
                                                {"step", loop.getStep()}};
  llvm::SmallVector<int64_t> numbers;
  for (auto [name, value] : bounds) {
    auto number = dyn_cast_or_null<IntegerAttr>(evaluator.evaluate(value));
    if (!number) {
      InFlightDiagnostic error = loop.emitError()
                                 << "an unrolled loop must have bounds and a step that are "
                                    "constant after parameters are bound, but got a non-constant "
                                 << name << "; compute it from constants and tile.param";
      if (Operation *op = value.getDefiningOp())
        error.attachNote(op->getLoc()) << "the " << name;
      return std::nullopt;
    }
    numbers.push_back(loop.getUnsignedCmp() ? static_cast<int64_t>(number.getValue().getZExtValue())
                                            : number.getValue().getSExtValue());
  }
  if (numbers[2] <= 0) {
    loop.emitOpError("requires a step that is positive, but got ") << numbers[2];
    return std::nullopt;
  }
  uint64_t length = numbers[1] > numbers[0] ? uint64_t(numbers[1]) - uint64_t(numbers[0]) : 0;
  return Rounds{numbers[0], numbers[2], llvm::divideCeil(length, uint64_t(numbers[2]))};
}

class Unroller {
public:
  LogicalResult run(Operation *root) {
    collect(root);
    while (!pending.empty())
      if (failed(unroll(pending.pop_back_val())))
        return failure();
    return success();
  }

private:
  /// Outer loops first: unrolling them may make the bounds of inner ones constant.
  void collect(Operation *root) {
    root->walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (!unrollAttr.isOn(op))
        return WalkResult::advance();
      pending.push_back(cast<scf::ForOp>(op));
      return WalkResult::skip();
    });
  }

  LogicalResult unroll(scf::ForOp loop) {
    std::optional<Rounds> rounds = getRounds(loop);
    if (!rounds)
      return failure();
    uint64_t size = 0;
    loop.getBody()->walk([&](Operation *) { ++size; });
    made = llvm::SaturatingMultiplyAdd(size, rounds->count, made);
    if (made > kMostOperations)
      return loop.emitError() << "unrolled loops must have at most " << kMostOperations
                              << " operations, but got " << rounds->count << " iterations of "
                              << size << " operations here; leave out the attribute";
    OpBuilder b(loop);
    SmallVector<Value> carried(loop.getInitArgs());
    for (uint64_t i = 0; i < rounds->count; ++i) {
      IRMapping map;
      auto number = static_cast<int64_t>(uint64_t(rounds->first) + i * uint64_t(rounds->step));
      Type type = loop.getInductionVar().getType();
      map.map(loop.getInductionVar(),
              arith::ConstantOp::create(b, loop.getLoc(), b.getIntegerAttr(type, number)));
      map.map(loop.getRegionIterArgs(), carried);
      for (Operation &op : loop.getBody()->without_terminator())
        collect(b.clone(op, map));
      for (auto [value, yielded] : llvm::zip_equal(carried, loop.getYieldedValues()))
        value = map.lookupOrDefault(yielded);
    }
    loop.replaceAllUsesWith(carried);
    loop.erase();
    return success();
  }

  SmallVector<scf::ForOp> pending;
  uint64_t made = 0;
};

struct TileUnrollPass : tilewright::impl::TileUnrollBase<TileUnrollPass> {
  using TileUnrollBase::TileUnrollBase;

  void runOnOperation() override {
    for (Operation &op : llvm::make_early_inc_range(*getOperation().getBody()))
      if (failed(Unroller().run(&op)))
        return signalPassFailure();
  }
};

} // namespace
