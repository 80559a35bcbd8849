// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-analyze-masks: derives functions that compute the bounds of masks, for loops and for
// tile.kept_range, which becomes a call.

#include "dialect/Tile/Tile.h"
#include "passes/MaskRanges.h"
#include "passes/Passes.h"
#include "passes/Tile/MaskDerivation.h"

#include "mlir/IR/Matchers.h"
#include "mlir/IR/Remarks.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEANALYZEMASKS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// Whether a value is the sum of these arguments, sign-extended; the empty sum is zero. `levels`
/// bounds the recursion over both operands.
bool isSumOfArguments(Value value, SmallVectorImpl<int64_t> &arguments, unsigned levels = 8) {
  if (matchPattern(value, m_Zero()))
    return true;
  if (levels-- == 0)
    return false;
  if (auto add = value.getDefiningOp<arith::AddIOp>())
    return isSumOfArguments(add.getLhs(), arguments, levels) &&
           isSumOfArguments(add.getRhs(), arguments, levels);
  if (auto extend = value.getDefiningOp<arith::ExtSIOp>())
    value = extend.getIn();
  // 0 - (0 - x), since a mask subtracts the diagonal.
  auto subtract = value.getDefiningOp<arith::SubIOp>();
  auto inner = subtract ? subtract.getRhs().getDefiningOp<arith::SubIOp>() : arith::SubIOp();
  if (inner && matchPattern(subtract.getLhs(), m_Zero()) && matchPattern(inner.getLhs(), m_Zero()))
    return isSumOfArguments(inner.getRhs(), arguments, levels);
  auto argument = dyn_cast<BlockArgument>(value);
  if (argument)
    arguments.push_back(argument.getArgNumber());
  return static_cast<bool>(argument);
}

/// Whether the interval `against` begins with the current block of a loop, and ends where a number
/// of its positions do, or the loop's interval: the loop visits blocks that hold a position.
bool isKnownToHaveRows(KeptRangeOp op) {
  auto block = dyn_cast<BlockArgument>(op.getStart());
  auto loop = block ? dyn_cast<ForBlocksOp>(block.getOwner()->getParentOp()) : ForBlocksOp();
  if (!loop || block != loop.getBlockStart())
    return false;
  APInt count;
  auto isBehindBlock = [&](Value value) {
    auto add = value.getDefiningOp<arith::AddIOp>();
    return add && bitEnumContainsAny(add.getOverflowFlags(), arith::IntegerOverflowFlags::nsw) &&
           add.getLhs() == block && matchPattern(add.getRhs(), m_ConstantInt(&count)) &&
           count.isStrictlyPositive();
  };
  auto least = op.getLimit().getDefiningOp<arith::MinSIOp>();
  if (!least)
    return isBehindBlock(op.getLimit());
  return (isBehindBlock(least.getLhs()) && least.getRhs() == loop.getUpper()) ||
         (isBehindBlock(least.getRhs()) && least.getLhs() == loop.getUpper());
}

struct TileAnalyzeMasksPass : tilewright::impl::TileAnalyzeMasksBase<TileAnalyzeMasksPass> {
  void runOnOperation() override {
    SymbolTable symbols(getOperation());
    // Operations with the same mask share the function if the positions have the same operand
    // numbers, and tile.kept_range if the same is known of its intervals.
    llvm::DenseMap<std::tuple<Operation *, int64_t, int64_t>, func::FuncOp> loops;
    llvm::DenseMap<std::tuple<Operation *, int64_t, int64_t, Attribute, int>, func::FuncOp> ranges;
    getOperation().walk([&](ForBlocksOp loop) {
      if (!loop.getMask() || loop.getRanges())
        return;
      auto mask = symbols.lookup<func::FuncOp>(*loop.getMask());
      int64_t against = loop.getAgainstPosition(), block = loop.getBlockPosition();
      if (!mask || mask.isDeclaration())
        return;
      func::FuncOp &derived = loops[{mask, against, block}];
      if (!derived)
        derived = derive(mask, against, block, symbols);
      loop.setRangesAttr(FlatSymbolRefAttr::get(derived.getSymNameAttr()));
    });
    SmallVector<KeptRangeOp> ops;
    getOperation().walk([&](KeptRangeOp op) { ops.push_back(op); });
    for (KeptRangeOp op : ops) {
      if (!op.getMask()) {
        replaceByAll(op);
        continue;
      }
      auto mask = symbols.lookup<func::FuncOp>(*op.getMask());
      if (!mask || mask.isDeclaration()) {
        op.emitOpError() << "needs the body of its mask function " << op.getMaskAttr()
                         << ", but got a declaration; link the file that defines it";
        return signalPassFailure();
      }
      IntegerAttr lower;
      (void)matchPattern(op.getLower(), m_Constant(&lower));
      bool hasRows = isKnownToHaveRows(op);
      func::FuncOp &derived =
          ranges[{mask, op.getAgainstPosition(), op.getBlockPosition(), lower, hasRows}];
      if (!derived)
        derived = deriveKeptRange(op, mask, lower, hasRows, symbols);
      if (!derived)
        return signalPassFailure();
      replaceByCall(op, derived);
    }
    // tile.equivalent operations served the analysis only; the first operand is the value.
    getOperation().walk([](EquivalentOp op) {
      op.replaceAllUsesWith(op.getFirst());
      op.erase();
    });
  }

private:
  func::FuncOp derive(func::FuncOp mask, int64_t against, int64_t block, SymbolTable &symbols) {
    Builder builder(mask->getContext());
    SmallVector<Type> results(4, builder.getI32Type());
    results.push_back(builder.getI1Type());
    MaskDerivation derivation(mask, against, block, "_ranges", results, symbols);
    const Bounds &kept = derivation.kept;
    func::FuncOp ranges = derivation.function;
    auto [mayBegin, mayEnd] = derivation.bounds->finish(kept.may);
    auto [mustBegin, mustEnd] = derivation.bounds->finish(kept.must);
    derivation.finish({mayBegin, mayEnd, mustBegin, mustEnd, derivation.bounds->finishTight(kept)});

    if (kept.may.known.endsAtUpper && kept.must.known.endsAtUpper && !kept.must.known.isEmpty)
      endsAtUpperAttr.setOfResult(ranges, MustEnd);
    SmallVector<int64_t> shifts;
    if (kept.edge && !derivation.isByRemainder && isSumOfArguments(kept.edge, shifts))
      rowEdgeAttr.setOfResult(ranges, MustEnd, shifts);

    if (!derivation.obstacles.empty())
      ranges->setLoc(FusedLoc::get({derivation.obstacles.front()->getLoc()},
                                   builder.getStringAttr(maskNotFollowedName), &getContext()));
    for (Operation *op : derivation.obstacles)
      remark::missed(op->getLoc(), remark::RemarkOpts::name("mask-not-followed")
                                       .category("tile-analyze-masks")
                                       .function(mask.getSymName()))
          << remark::reason("{0} depends on a position in a way that is not analyzed, so it "
                            "neither excludes blocks nor makes them full",
                            op->getName());
    return ranges;
  }

  /// Null, after an error, if the limits are not known to be tight.
  func::FuncOp deriveKeptRange(KeptRangeOp op, func::FuncOp mask, IntegerAttr lower, bool hasRows,
                               SymbolTable &symbols) {
    Type i32 = IntegerType::get(&getContext(), 32);
    MaskDerivation derivation(mask, op.getAgainstPosition(), op.getBlockPosition(), "_kept",
                              {i32, i32}, symbols, lower);
    if (!matchPattern(derivation.bounds->finishTight(derivation.kept), m_One())) {
      InFlightDiagnostic error = op.emitOpError();
      error << "needs a mask that keeps each position between its limits for some position of "
               "'against', but this is not known of "
            << op.getMaskAttr()
            << " when the kernel is compiled; write it as a conjunction of comparisons of sums of "
               "positions, marked overflow<nsw>";
      for (Operation *obstacle : derivation.obstacles)
        error.attachNote(obstacle->getLoc())
            << "'" << obstacle->getName()
            << "' depends on a position in a way that is not analyzed";
      symbols.erase(derivation.function);
      return {};
    }
    auto [first, end] = derivation.bounds->finishLimits(derivation.kept, hasRows);
    derivation.finish({first, end});
    return derivation.function;
  }

  static void replaceByCall(KeptRangeOp op, func::FuncOp derived) {
    OpBuilder builder(op);
    SmallVector<Value> operands{op.getStart(), op.getLimit(), op.getLower(), op.getUpper()};
    llvm::append_range(operands, op.getMaskOperands());
    op->replaceAllUsesWith(func::CallOp::create(builder, op.getLoc(), derived, operands));
    op.erase();
  }

  static void replaceByAll(KeptRangeOp op) {
    OpBuilder builder(op);
    Value isNonEmpty = arith::CmpIOp::create(builder, op.getLoc(), arith::CmpIPredicate::slt,
                                             op.getStart(), op.getLimit());
    Value end =
        arith::SelectOp::create(builder, op.getLoc(), isNonEmpty, op.getUpper(), op.getLower());
    op->replaceAllUsesWith(ValueRange{op.getLower(), end});
    op.erase();
  }
};

} // namespace
