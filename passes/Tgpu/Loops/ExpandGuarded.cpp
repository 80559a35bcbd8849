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

/// The chains of one tile, and its counters, in the order of the values that cross stages.
class GuardedTile {
public:
  /// Adds a chain if it is the first one, or of the same tile: then its counters begin with the
  /// same values.
  bool add(ArrayRef<Part> chain) {
    SmallVector<CountedRun> first = *getRuns(chain.front());
    bool isSame =
        runs.empty() || (runs.front().top->getBlock() == first.front().top->getBlock() &&
                         llvm::equal(runs, first, [](const CountedRun &x, const CountedRun &y) {
                           return x.first == y.first;
                         }));
    if (!isSame)
      return false;
    chains.emplace_back(parts.size(), chain.size());
    llvm::append_range(parts, chain);
    for (const Part &part : chain) {
      SmallVector<CountedRun> others = *getRuns(part);
      tops.insert(others.front().top);
      if (runs.empty())
        runs = others;
      for (auto [own, other] : llvm::zip_equal(runs, others)) {
        own.loops.insert_range(other.loops);
        if (own.top->isBeforeInBlock(other.top))
          std::tie(own.top, own.last) = std::pair(other.top, other.last);
      }
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
    for (auto [begin, size] : chains) {
      ArrayRef<Part> chain = ArrayRef(parts).slice(begin, size);
      // As in a prologue, the general body executes the first iteration of a tile, whichever that
      // is. Then the others are never the first.
      bool hasOne = size > 1 && generalAttr.isOn(chain.front().loop);
      if (hasOne)
        extendFirst(chain);
      for (const Part &part : chain)
        rewrite(part, /*mayBegin=*/!hasOne || &part == chain.begin());
    }
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

  /// Lets the first part of a chain execute the first iteration of the tile.
  void extendFirst(ArrayRef<Part> chain) {
    scf::ForOp front = chain.front().loop, back = chain.back().loop;
    OpBuilder b(front);
    Location loc = front.getLoc();
    unsigned number = *getCarriedNumber(chain.front().crossing.front(), front);
    Value isLater = createIsLater(b, loc, front.getInitArgs()[number]);
    Value second = arith::AddIOp::create(b, loc, front.getLowerBound(), front.getStep());
    Value some = arith::MinSIOp::create(b, loc, second, back.getUpperBound());
    Value end = front.getUpperBound();
    Value extended = arith::MaxSIOp::create(b, loc, end, some);
    Value begin = arith::SelectOp::create(b, loc, isLater, end, extended);
    for (size_t i = 0; i + 1 < chain.size(); ++i) {
      scf::ForOp part = chain[i].loop, next = chain[i + 1].loop;
      b.setInsertionPoint(part);
      if (i > 0)
        begin = arith::MaxSIOp::create(b, loc, part.getUpperBound(), begin);
      part.setUpperBound(begin);
      next.setLowerBound(begin);
    }
  }

  /// `mayBegin`: whether the first iteration of the tile may be one of the part.
  void rewrite(const Part &part, bool mayBegin) {
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
    auto emit = [&](OpBuilder &b, bool isLater) {
      IRMapping maps[2];
      PendingGroups groups;
      if (isLater)
        maps[1] = mapPrevious(b, part, part.crossing.getArrayRef());
      for (Operation *op : rest)
        if (int64_t stage = getStage(op); stage == 0 || isLater)
          write(b, op, maps[stage], groups);
      return llvm::map_to_vector(results,
                                 [&](OpOperand *result) { return maps[0].lookup(result->get()); });
    };
    OpBuilder b(yield);
    SmallVector<Value> values;
    if (mayBegin) {
      auto side = [&](bool isLater) {
        return [&, isLater](OpBuilder &b, Location loc) {
          scf::YieldOp::create(b, loc, emit(b, isLater));
        };
      };
      Location loc = part.loop.getLoc();
      Value isLater = createIsLater(b, loc, part.crossing.front());
      auto branch = scf::IfOp::create(b, loc, isLater, side(true), side(false));
      values.assign(branch.result_begin(), branch.result_end());
    } else {
      values = emit(b, true);
    }
    for (auto [operand, value] : llvm::zip_equal(results, values))
      operand->set(value);
    for (Operation *op : llvm::reverse(rest))
      op->erase();
  }

  SmallVector<Part> parts;
  SmallVector<std::pair<size_t, size_t>> chains; ///< begin and size among the parts
  SmallVector<CountedRun> runs;
  llvm::SmallSetVector<Operation *, 4> tops; ///< the outermost loops, in one block
};

bool partMeetsInMemory(const Part &part) {
  std::optional<SmallVector<CountedRun>> runs = getRuns(part);
  if (!runs || runs->empty() || llvm::is_contained(part.stagesOfNext, 1) ||
      llvm::any_of(part.ops, [&](Operation *op) {
        return isa<TakeTurnOp, PassTurnOp>(op) || part.endsSums(op);
      }))
    return false;
  return llvm::all_equal(
      llvm::map_range(*runs, [](CountedRun &run) { return run.top.getOperation(); }));
}

} // namespace

bool tgpu::meetInMemory(ArrayRef<Part> chain) { return llvm::all_of(chain, partMeetsInMemory); }

LogicalResult tgpu::expandGuarded(ArrayRef<SmallVector<Part>> chains) {
  SmallVector<GuardedTile, 1> tiles;
  for (const SmallVector<Part> &chain : chains)
    if (llvm::none_of(tiles, [&](GuardedTile &tile) { return tile.add(chain); }))
      tiles.emplace_back().add(chain);
  for (GuardedTile &tile : tiles)
    if (failed(tile.check()))
      return failure();
  for (GuardedTile &tile : tiles)
    tile.run();
  return success();
}
