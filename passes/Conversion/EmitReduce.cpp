// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Reductions along a dimension of a tile: within a thread, then among lanes, by shuffles, then
// among warps, through scratch memory.
//
// If warps exchange results, a lane need not have all of its thread's results before: each shuffle
// halves what it has (8 results of 8 lanes take 7 shuffles instead of 24), until one is left, which
// it writes. If there are as many results as lanes, each lane combines those of all warps for one
// of them, and lanes exchange these, instead of reading the results of all warps for each of theirs
// (8 reads and 8 shuffles instead of 64 reads, for 8 warps).

#include "base/Layout/Relations.h"
#include "dialect/Tgpu/Tgpu.h"
#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/Exchange.h"
#include "passes/Conversion/ExchangeCounts.h"
#include "passes/Conversion/IntegerMaxima.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"
#include "passes/Conversion/ThreadCoords.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::RegisterLayout;

/// A linear chain of additions: ptxas interleaves each with the exponentials of a softmax, where a
/// tree would take registers for its partial sums.
/// The registers of by_thread are those of slice, in their order.
static void emitThreadSum(KernelEmitter &e, ThreadSumOp op) {
  const RegisterLayout &from = *e.getLayout(op, op.getSource().getType());
  layout::ReductionPlan plan = layout::reductionPlan(from, static_cast<int>(op.getDim()));
  Values sums(plan.result.registersPerThread());
  for (auto [reg, value] : llvm::enumerate(e.getElements(op.getSource()))) {
    Value &sum = sums[plan.resultRegister[reg]];
    sum = sum ? combine(e.b, tile::ReduceKind::Add, sum, value) : value;
  }
  e.setElements(op.getResult(), sums);
}

/// By a balanced tree: short dependence chains, and smaller errors.
static Value combineInPairs(ThreadBuilder &b, tile::ReduceKind kind, Values values) {
  while (values.size() > 1) {
    Values next;
    for (size_t i = 0; i + 1 < values.size(); i += 2)
      next.push_back(combine(b, kind, values[i], values[i + 1]));
    if (values.size() % 2)
      next.push_back(values.back());
    values = std::move(next);
  }
  return values.front();
}

namespace {

/// The reduction among the lanes and warps of an operation.
class ThreadReducer {
public:
  ThreadReducer(KernelEmitter &e, tile::ReduceOp op, const layout::ReductionPlan &plan,
                const RegisterLayout &from)
      : e(e), b(e.b), op(op), plan(plan), from(from) {
    element = e.getScalarType(op.getSource().getType());
    bytes = std::max<int64_t>(element.getIntOrFloatBitWidth(), 8) / 8;
    length = plan.result.shape()[0];
    for (const layout::WarpGroup &group : plan.warpGroups)
      numParts *= group.extent;
  }

  /// If `halves`, leaves a lane one of its results, which lanes that have the same one then reduce.
  void reduceAmongLanes(Values &results, bool halves) {
    for (int mask : plan.laneMasks) {
      if (!halves || results.size() == 1) {
        for (Value &value : results)
          value = exchange(value, value, mask);
        continue;
      }
      size_t half = results.size() / 2;
      Value isUpper = b.notEqual(arith::AndIOp::create(b, b.threads.lane, b.i32(mask)), b.i32(0));
      for (size_t i = 0; i < half; ++i) {
        Value lower = results[i], upper = results[half + i];
        results[i] = exchange(arith::SelectOp::create(b, isUpper, upper, lower),
                              arith::SelectOp::create(b, isUpper, lower, upper), mask);
      }
      results.resize(half);
    }
  }

  /// From the results of each thread to those of all warps.
  LogicalResult reduceAmongWarps(Values &results) {
    size_t count = results.size();
    // Only down to one: with several left, a kernel of the gated delta rule spilled more.
    bool halves = llvm::isPowerOf2_64(count) && count >> plan.laneMasks.size() <= 1;
    // Computed at entry, if the lane's part of the results is a sum over the bits of the lane.
    auto getRow = [&] {
      return getThreadNumber(
          b, [&](int w, int l) { return getPart(w) * length + (halves ? getOffset(count, l) : 0); },
          from.warpDigits());
    };
    Value row = getRow();
    if (!row && halves) {
      halves = false;
      row = getRow();
    }
    if (!row)
      return op.emitError() << "warps that share " << op.getSource().getType()
                            << " do not form a grid";
    reduceAmongLanes(results, halves);
    if (failed(beginExchange(e, op, /*usesScratch=*/true)))
      return failure();
    Value base = getScratch(e, numParts * length * bytes);
    auto address = [&](Value index) { return b.advance(base, b.mul(index, b.i32(bytes))); };
    for (auto [reg, value] : llvm::enumerate(results))
      storeVector(b, address(b.add(row, getCoord(b, plan.result, 0, static_cast<int>(reg)))),
                  value);
    syncWarps(e);
    // All warps combine in the same order, so they agree to the last bit.
    auto combineAt = [&](Value place) {
      Values parts;
      for (int64_t part = 0; part < numParts; ++part)
        parts.push_back(
            loadVector(b, address(b.add(b.i32(part * length), place)), element, 1).front());
      return combineInPairs(b, op.getKind(), std::move(parts));
    };
    results.assign(count, Value());
    bool isOneEach = length == layout::kLanes && count > 2;
    Value own = isOneEach ? combineAt(b.threads.lane) : Value();
    for (auto [reg, value] : llvm::enumerate(results)) {
      Value place = getCoord(b, plan.result, 0, static_cast<int>(reg));
      value = isOneEach ? shuffle(b, "idx", own, place) : combineAt(place);
    }
    if (!isFollowedBySync(op))
      syncWarps(e);
    return success();
  }

private:
  Value exchange(Value kept, Value sent, int mask) {
    return combine(b, op.getKind(), kept, shuffle(b, "bfly", sent, b.i32(mask)));
  }

  int64_t getPart(int warp) const {
    int64_t part = 0, scale = 1;
    for (const layout::WarpGroup &group : plan.warpGroups) {
      part += warp / group.place % group.extent * scale;
      scale *= group.extent;
    }
    return part;
  }

  /// From the place of a thread's first result to that of the one that the lane keeps.
  int64_t getOffset(size_t count, int lane) const {
    size_t kept = 0;
    for (int mask : plan.laneMasks) {
      count /= 2;
      kept += (lane & mask) != 0 ? count : 0;
    }
    auto getPlace = [&](size_t reg) { return plan.result.registerPart(static_cast<int>(reg))[0]; };
    return getPlace(kept) - getPlace(0);
  }

  KernelEmitter &e;
  ThreadBuilder &b;
  tile::ReduceOp op;
  const layout::ReductionPlan &plan;
  const RegisterLayout &from;
  Type element;
  int64_t bytes, length, numParts = 1; ///< of an element; elements of the result; warps that share
};

} // namespace

static LogicalResult emitReduce(KernelEmitter &e, tile::ReduceOp op) {
  Type type = op.getSource().getType();
  const RegisterLayout &from = *e.getLayout(op, type);
  const RegisterLayout &to = *e.getLayout(op, op.getResult().getType());
  if (from.rank() != 2 || cast<RankedTensorType>(type).getRank() != 2)
    return op.emitError() << "only tiles of rank 2 can be reduced here, but got " << type
                          << "; reshape it to a matrix first";
  layout::ReductionPlan plan = layout::reductionPlan(from, static_cast<int>(op.getDim()));
  std::optional<std::vector<int>> order = getRenaming(plan.result, to);
  if (!order)
    return op.emitError() << "the result must have the layout slice<" << op.getDim()
                          << "> of the operand's layout, but got " << op.getResult().getType()
                          << "; convert it afterwards";

  SmallVector<Values> parts(plan.result.registersPerThread());
  for (auto [reg, value] : llvm::enumerate(e.getElements(op.getSource())))
    parts[plan.resultRegister[reg]].push_back(value);
  Values results;
  if (asIntegersAttr.isOn(op) && op.getKind() == tile::ReduceKind::Max &&
      e.getScalarType(type).isF32() &&
      isa_and_nonnull<WgmmaAttr>(cast<RankedTensorType>(type).getEncoding()) &&
      !plan.acrossWarps()) {
    results = emitIntegerMaxima(e.b, parts, plan.laneMasks);
  } else {
    for (Values &part : parts)
      results.push_back(combineInPairs(e.b, op.getKind(), std::move(part)));
    ThreadReducer reducer(e, op, plan, from);
    if (!plan.acrossWarps())
      reducer.reduceAmongLanes(results, /*halves=*/false);
    else if (failed(reducer.reduceAmongWarps(results)))
      return failure();
  }
  Values ordered;
  for (int reg : *order)
    ordered.push_back(results[reg]);
  e.setElements(op.getResult(), ordered);
  return success();
}

void tgpu::registerReduceLowerings(LoweringTable &table) {
  table.add<tile::ReduceOp>(emitReduce);
  table.add<ThreadSumOp>(emitThreadSum);
}
