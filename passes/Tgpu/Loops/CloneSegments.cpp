// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-clone-segments: splits a loop that branches on a range of its iterations into consecutive
// loops, each with one side of the branch. Each loop continues with the values that the one before
// it carried (accumulators, the ring's use number), so rings run across the boundaries: a copy
// started for a later iteration does not depend on which loop that iteration is in.

#include "passes/Passes.h"
#include "passes/Tgpu/Loops/TakeSide.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/Matchers.h"
#include "mlir/IR/PatternMatch.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUCLONESEGMENTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using arith::CmpIPredicate;

namespace {

/// A branch of the body that is taken in the iterations begin <= iv < end.
struct Split {
  scf::IfOp branch;
  Value begin, end;
};

/// The loop-invariant value that a condition compares the induction variable with, or null.
Value getBound(scf::ForOp loop, Value condition, CmpIPredicate predicate) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  if (!compare || compare.getPredicate() != predicate ||
      compare.getLhs() != loop.getInductionVar() || !loop.isDefinedOutsideOfLoop(compare.getRhs()))
    return {};
  return compare.getRhs();
}

std::optional<Split> findSplit(scf::ForOp loop) {
  for (auto branch : loop.getBody()->getOps<scf::IfOp>()) {
    auto both = branch.getCondition().getDefiningOp<arith::AndIOp>();
    if (!both)
      continue;
    for (auto [first, second] :
         {std::pair(both.getLhs(), both.getRhs()), std::pair(both.getRhs(), both.getLhs())}) {
      Value begin = getBound(loop, first, CmpIPredicate::sge);
      Value end = getBound(loop, second, CmpIPredicate::slt);
      if (begin && end)
        return Split{branch, begin, end};
    }
  }
  return std::nullopt;
}

struct TgpuCloneSegmentsPass : tilewright::impl::TgpuCloneSegmentsBase<TgpuCloneSegmentsPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    // Inner loops first, since outer ones clone them.
    getOperation()->walk([&](scf::ForOp loop) { loops.push_back(loop); });
    for (scf::ForOp loop : loops)
      // The step must be one, so that each boundary is an iteration. Code that is rarely executed
      // is not triplicated.
      if (matchPattern(loop.getStep(), m_One()) && !loop.getUnsignedCmp() &&
          !tgpu::rareAttr.isOn(loop))
        if (std::optional<Split> split = findSplit(loop))
          clone(loop, *split);
  }

private:
  void clone(scf::ForOp loop, Split split) {
    IRRewriter rewriter(loop);
    Location loc = loop.getLoc();
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
    // Folds to `low` or to the end where the bound equals it: the first or the last loop is then
    // empty.
    auto clamp = [&](Value low, Value x) -> Value {
      if (x == upper)
        return upper;
      Value isBefore = arith::CmpIOp::create(rewriter, loc, CmpIPredicate::sle, x, low);
      Value below = arith::MinSIOp::create(rewriter, loc, x, upper);
      return arith::SelectOp::create(rewriter, loc, isBefore, low, below);
    };
    Value begin = clamp(lower, split.begin), end = clamp(begin, split.end);
    SmallVector<Value> carried(loop.getInitArgs());
    struct Segment {
      Value lower, upper;
      bool isTaken;
    };
    for (auto [low, high, isTaken] :
         {Segment{lower, begin, false}, Segment{begin, end, true}, Segment{end, upper, false}}) {
      IRMapping map;
      auto part = cast<scf::ForOp>(rewriter.clone(*loop, map));
      part.setLowerBound(low);
      part.setUpperBound(high);
      part.getInitArgsMutable().assign(carried);
      if (!isTaken && tgpu::specialCaseAttr.isOn(split.branch))
        tgpu::generalAttr.set(part);
      if (low == lower && tgpu::oneBeforeAttr.isOn(split.branch))
        tgpu::oneBeforeAttr.set(part);
      if (high == upper && tgpu::oneAfterAttr.isOn(split.branch))
        tgpu::oneAfterAttr.set(part);
      tgpu::takeSide(rewriter, cast<scf::IfOp>(map.lookup(split.branch.getOperation())), isTaken);
      carried.assign(part.result_begin(), part.result_end());
      rewriter.setInsertionPointAfter(part);
    }
    rewriter.replaceOp(loop, carried);
  }
};

} // namespace
