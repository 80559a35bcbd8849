// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expands stages that meet in memory: a branch in each iteration, and one after the loops.

#include "passes/Tgpu/Loops/ExpandGuarded.h"

#include "passes/Tgpu/Loops/CountedRun.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The parts of one tile, and its counters, in the order of the values that cross stages.
class GuardedTile {
public:
  GuardedTile(const Part &part, SmallVector<CountedRun> runs) : parts{part}, runs(std::move(runs)) {
    tops.insert(this->runs.front().top);
  }

  /// Adds a part if it is of the same tile: then its counters begin with the same values.
  bool add(const Part &part, ArrayRef<CountedRun> others) {
    bool isSame = runs.front().top->getBlock() == others.front().top->getBlock() &&
                  llvm::equal(runs, others, [](const CountedRun &x, const CountedRun &y) {
                    return x.first == y.first;
                  });
    if (!isSame)
      return false;
    parts.push_back(part);
    tops.insert(others.front().top);
    for (auto [own, other] : llvm::zip_equal(runs, others)) {
      own.loops.insert_range(other.loops);
      if (own.top->isBeforeInBlock(other.top))
        std::tie(own.top, own.last) = std::pair(other.top, other.last);
    }
    return true;
  }

  LogicalResult check() {
    if (failed(requireSecondStage(parts)))
      return failure();
    for (const CountedRun &run : runs)
      for (Operation *loop : run.loops)
        if (llvm::none_of(parts, [&](const Part &part) { return loop->isAncestor(part.loop); }))
          return loop->emitOpError()
                 << "must have stages, too, but got none: it advances a counter of loops of the "
                    "same tile, whose stage 1 runs one iteration later; give its operations "
                    "places, or the counter to these loops alone";
    return success(
        llvm::all_of(parts, [&](const Part &part) { return succeeded(checkPart(part)); }));
  }

  void run() {
    const Part &any = parts.front();
    OpBuilder b(any.loop.getContext());
    b.setInsertionPointAfter(runs.front().top);
    SmallVector<Value> last;
    for (const CountedRun &run : runs)
      last.push_back(run.last);
    Location loc = any.loop.getLoc();
    Value hasRounds = createIsLater(b, loc, last.front());
    scf::IfOp::create(b, loc, hasRounds, [&](OpBuilder &b, Location loc) {
      IRMapping map = mapPrevious(b, any, last);
      PendingGroups groups;
      for (Operation *op : any.ops)
        if (getStage(op) == 1)
          write(b, op, map, groups);
      scf::YieldOp::create(b, loc);
    });
    for (const Part &part : parts)
      rewrite(part);
  }

private:
  LogicalResult checkPart(const Part &part) {
    PendingGroups groups;
    bool hasBegun = false;
    for (Operation *op : part.ops) {
      if (getStage(op) == 1 && !std::exchange(hasBegun, true) && groups.areInFlight())
        return op->emitOpError() << "must begin stage 1 when no product is in flight, since a "
                                    "branch begins there, but got one in flight; wait for it first";
      groups.note(op);
      if (getStage(op) == 0)
        continue;
      for (Value operand : op->getOperands())
        if (!part.contains(operand) && llvm::any_of(tops, [&](Operation *top) {
              return top->isAncestor(operand.getParentBlock()->getParentOp());
            }))
          return op->emitOpError()
                 << "of stage 1 must read what is the same after the loops of its tile, but got a "
                    "value of a loop around its own; compute it before these loops";
    }
    if (groups.areInFlight())
      return part.loop->emitOpError() << "must wait for all products in their iteration, since a "
                                         "branch ends there, but got one in flight; wait for it";
    return success();
  }

  /// Whether the counter is not the first of the tile, which is uniform.
  Value createIsLater(OpBuilder &b, Location loc, Value counter) {
    return arith::CmpIOp::create(b, loc, arith::CmpIPredicate::ne, counter, runs.front().first);
  }

  /// Maps the counters that cross stages to those of the iteration before.
  IRMapping mapPrevious(OpBuilder &b, const Part &part, ValueRange counters) {
    IRMapping map;
    Location loc = part.loop.getLoc();
    for (auto [value, counter] : llvm::zip_equal(part.crossing, counters)) {
      Value one = arith::ConstantOp::create(b, loc, b.getIntegerAttr(counter.getType(), 1));
      map.map(value, arith::SubIOp::create(b, loc, counter, one).getResult());
    }
    return map;
  }

  static void write(OpBuilder &b, Operation *op, IRMapping &map, PendingGroups &groups) {
    Operation *copy = b.clone(*op, map);
    placeAttr.remove(copy);
    groups.note(op, copy);
    dropRepeated(copy);
  }

  void rewrite(const Part &part) {
    ArrayRef<Operation *> ops = part.ops;
    const auto *begin = llvm::find_if(ops, [](Operation *op) { return getStage(op) == 1; });
    ArrayRef<Operation *> rest(begin, ops.end());
    PendingGroups groups;
    for (Operation *op : ArrayRef(ops.begin(), begin))
      moveToEnd(op, part.loop, groups);
    Operation *yield = part.loop.getBody()->getTerminator();
    SmallVector<OpOperand *> results; // in the order of their places
    for (Operation *op : rest)
      for (OpOperand &operand : yield->getOpOperands())
        if (operand.get().getDefiningOp() == op)
          results.push_back(&operand);
    OpBuilder b(yield);
    Location loc = part.loop.getLoc();
    Value isLater = createIsLater(b, loc, part.crossing.front());
    auto emit = [&](bool later) {
      return [&, later](OpBuilder &b, Location loc) {
        IRMapping maps[2];
        PendingGroups groups;
        if (later)
          maps[1] = mapPrevious(b, part, part.crossing.getArrayRef());
        for (Operation *op : rest)
          if (int64_t stage = getStage(op); stage == 0 || later)
            write(b, op, maps[stage], groups);
        SmallVector<Value> values;
        for (OpOperand *result : results)
          values.push_back(maps[0].lookup(result->get()));
        scf::YieldOp::create(b, loc, values);
      };
    };
    auto branch = scf::IfOp::create(b, loc, isLater, emit(true), emit(false));
    for (auto [operand, value] : llvm::zip_equal(results, branch.getResults()))
      operand->set(value);
    for (Operation *op : llvm::reverse(rest))
      op->erase();
  }

  SmallVector<Part> parts;
  SmallVector<CountedRun> runs;
  llvm::SmallSetVector<Operation *, 4> tops; ///< the outermost loops, in one block
};

/// The counters that cross the stages of a part. Nothing if another value does.
std::optional<SmallVector<CountedRun>> getRuns(const Part &part) {
  SmallVector<CountedRun> runs;
  for (Value value : part.crossing) {
    std::optional<unsigned> number = getCarriedNumber(value, part.loop);
    std::optional<CountedRun> run =
        number ? CountedRun::get(part.loop, *number) : std::optional<CountedRun>();
    if (!run)
      return std::nullopt;
    runs.push_back(std::move(*run));
  }
  return runs;
}

} // namespace

bool tgpu::meetsInMemory(const Part &part) {
  std::optional<SmallVector<CountedRun>> runs = getRuns(part);
  if (!runs || runs->empty() || llvm::is_contained(part.stagesOfNext, 1) ||
      llvm::any_of(part.ops, [&](Operation *op) {
        return isa<TakeTurnOp, PassTurnOp>(op) || part.endsSums(op);
      }))
    return false;
  return llvm::all_equal(
      llvm::map_range(*runs, [](CountedRun &run) { return run.top.getOperation(); }));
}

LogicalResult tgpu::expandGuarded(ArrayRef<Part> parts) {
  SmallVector<GuardedTile, 1> tiles;
  for (const Part &part : parts) {
    SmallVector<CountedRun> runs = *getRuns(part);
    if (llvm::none_of(tiles, [&](GuardedTile &tile) { return tile.add(part, runs); }))
      tiles.emplace_back(part, std::move(runs));
  }
  for (GuardedTile &tile : tiles)
    if (failed(tile.check()))
      return failure();
  for (GuardedTile &tile : tiles)
    tile.run();
  return success();
}
