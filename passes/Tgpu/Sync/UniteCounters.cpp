// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-unite-counters: merge ring counters that differ by a constant.
//
// tgpu-assign-roles gives every ring a counter of its uses. Counters of rings that are filled in
// the same iterations are equal from tile to tile; in overlapped iterations one is ahead of the
// other by one. The pass replaces a counter that is
//
//   equal     by the other one
//   one less  in the next iteration, by the other one's value in this iteration: the slot and the
//             phase of the next iteration then equal those computed for the other ring
//
// The pass assumes that two arguments of a loop differ by a constant and proves it for the yielded
// values, which is an induction over the iterations.

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUUNITECOUNTERS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Pairs of values that differ by a constant: the first minus the second.
using Differences = llvm::DenseMap<std::pair<Value, Value>, int64_t>;

/// Decomposes x + c with a constant c into (x, c).
std::pair<Value, int64_t> splitConstant(Value value) {
  int64_t offset = 0;
  while (auto add = value.getDefiningOp<arith::AddIOp>()) {
    APInt constant;
    if (!matchPattern(add.getRhs(), m_ConstantInt(&constant)))
      break;
    offset += constant.getSExtValue();
    value = add.getLhs();
  }
  return {value, offset};
}

class Prover {
public:
  /// x - y if it is a constant.
  std::optional<int64_t> subtract(Value x, Value y) {
    if (depth == 0)
      steps = 0;
    if (++steps > mostSteps)
      return std::nullopt;
    ++depth;
    auto [a, more] = splitConstant(x);
    auto [b, less] = splitConstant(y);
    std::optional<int64_t> rest = subtractTerms(a, b);
    --depth;
    if (!rest)
      return std::nullopt;
    return *rest + more - less;
  }

  /// Whether the arguments of a loop differ by `difference` in every iteration, provided that they
  /// do in the first.
  bool staysIn(scf::ForOp loop, unsigned i, unsigned j, int64_t difference) {
    return assume(loop.getRegionIterArg(i), loop.getRegionIterArg(j), difference, [&] {
      return subtract(loop.getYieldedValues()[i], loop.getYieldedValues()[j]) == difference;
    });
  }
  bool staysIn(scf::WhileOp loop, unsigned i, unsigned j, int64_t difference) {
    // The condition passes carried values unchanged, possibly at another position.
    auto passed = [&](unsigned number) { return loop.getConditionOp().getArgs()[number]; };
    auto a = dyn_cast<BlockArgument>(passed(i)), b = dyn_cast<BlockArgument>(passed(j));
    if (!a || !b || a.getOwner() != loop.getBeforeBody() || b.getOwner() != loop.getBeforeBody())
      return false;
    return assume(loop.getAfterArguments()[i], loop.getAfterArguments()[j], difference, [&] {
      ValueRange next = loop.getYieldOp().getResults();
      return subtract(next[a.getArgNumber()], next[b.getArgNumber()]) == difference;
    });
  }

  /// Records a difference that holds from here on.
  void note(Value x, Value y, int64_t difference) { known[{x, y}] = difference; }

private:
  template <typename Proof> bool assume(Value x, Value y, int64_t difference, Proof proof) {
    auto [it, isNew] = known.try_emplace({x, y}, difference);
    if (!isNew)
      return it->second == difference;
    bool holds = proof();
    known.erase({x, y});
    return holds;
  }

  std::optional<int64_t> subtractTerms(Value x, Value y) {
    if (x == y)
      return 0;
    if (auto it = known.find({x, y}); it != known.end())
      return it->second;
    if (auto it = known.find({y, x}); it != known.end())
      return -it->second;
    auto a = dyn_cast<OpResult>(x), b = dyn_cast<OpResult>(y);
    if (!a || !b || a.getOwner() != b.getOwner())
      return std::nullopt;
    unsigned i = a.getResultNumber(), j = b.getResultNumber();
    if (auto branch = dyn_cast<scf::IfOp>(a.getOwner())) {
      auto ofThen = subtract(branch.thenYield().getOperand(i), branch.thenYield().getOperand(j));
      auto ofElse = subtract(branch.elseYield().getOperand(i), branch.elseYield().getOperand(j));
      return ofThen == ofElse ? ofThen : std::nullopt;
    }
    auto loop = dyn_cast<scf::ForOp>(a.getOwner());
    if (!loop)
      return std::nullopt;
    std::optional<int64_t> first = subtract(loop.getInitArgs()[i], loop.getInitArgs()[j]);
    return first && staysIn(loop, i, j, *first) ? first : std::nullopt;
  }

  /// Limits the depth of the recursion and the time of a query. Results are not memoized, since
  /// they may depend on assumptions.
  static constexpr unsigned mostSteps = 1024;
  unsigned steps = 0, depth = 0; ///< of the current query

  Differences known;
};

struct TgpuUniteCountersPass : tilewright::impl::TgpuUniteCountersBase<TgpuUniteCountersPass> {
  void runOnOperation() override {
    getOperation()->walk([&](RolesOp roles) {
      for (Region &body : roles.getBodies())
        unite(body);
    });
  }

private:
  /// Visits loops from the outermost inwards: facts about a loop's arguments hold in nested loops.
  static void unite(Region &region) {
    Prover prover;
    region.walk<WalkOrder::PreOrder>([&](Operation *op) {
      if (auto loop = dyn_cast<scf::ForOp>(op))
        uniteFor(loop, prover);
      else if (auto loop = dyn_cast<scf::WhileOp>(op))
        uniteWhile(loop, prover);
      else if (auto branch = dyn_cast<scf::IfOp>(op))
        uniteIf(branch, prover);
    });
  }

  static bool isCounter(Value value) { return value.getType().isInteger(32); }

  static void uniteWhile(scf::WhileOp loop, Prover &prover) {
    ValueRange arguments = loop.getAfterArguments();
    for (unsigned i = 0; i < arguments.size(); ++i)
      for (unsigned j = i + 1; j < arguments.size(); ++j) {
        auto a = dyn_cast<BlockArgument>(loop.getConditionOp().getArgs()[i]);
        auto b = dyn_cast<BlockArgument>(loop.getConditionOp().getArgs()[j]);
        if (!isCounter(arguments[i]) || !isCounter(arguments[j]) || !a || !b ||
            a.getOwner() != loop.getBeforeBody() || b.getOwner() != loop.getBeforeBody())
          continue;
        auto first =
            prover.subtract(loop.getInits()[a.getArgNumber()], loop.getInits()[b.getArgNumber()]);
        if (!first || !prover.staysIn(loop, i, j, *first))
          continue;
        prover.note(arguments[i], arguments[j], *first);
        if (*first == 0)
          arguments[j].replaceAllUsesWith(arguments[i]);
      }
  }

  /// Results that are equal in both branches need only one value: after the iterations of a tile,
  /// the counter that was one less has become equal.
  static void uniteIf(scf::IfOp branch, Prover &prover) {
    ValueRange results = branch.getResults();
    for (unsigned i = 0; i < results.size(); ++i)
      for (unsigned j = i + 1; j < results.size(); ++j)
        if (isCounter(results[i]) && isCounter(results[j]) && !results[j].use_empty() &&
            prover.subtract(results[i], results[j]) == 0)
          results[j].replaceAllUsesWith(results[i]);
  }

  static void uniteFor(scf::ForOp loop, Prover &prover) {
    auto arguments = loop.getRegionIterArgs();
    auto *yield = loop.getBody()->getTerminator();
    for (unsigned i = 0; i < arguments.size(); ++i)
      for (unsigned j = 0; j < arguments.size(); ++j) {
        if (i == j || !isCounter(arguments[i]) || !isCounter(arguments[j]))
          continue;
        auto first = prover.subtract(loop.getInitArgs()[i], loop.getInitArgs()[j]);
        if (!first || !prover.staysIn(loop, i, j, *first))
          continue;
        prover.note(arguments[i], arguments[j], *first);
        if (*first == 0 && i < j) {
          arguments[j].replaceAllUsesWith(arguments[i]);
          loop.getResult(j).replaceAllUsesWith(loop.getResult(i));
        } else if (*first == 1 && splitConstant(yield->getOperand(j)) ==
                                      std::pair<Value, int64_t>(arguments[j], 1))
          yield->setOperand(j, arguments[i]);
      }
  }
};

} // namespace
