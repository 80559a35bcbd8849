// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-sum-by-thread: loop-carried rows of sums are kept as partial sums per thread until the loop
// ends.
//
// The rule is that of a linear recurrence: with sum = f * sum + reduce(x) in each iteration, and f
// the same for all threads of a row, the sum over threads of the partial sums is the sum.

#include "passes/Passes.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSUMBYTHREAD
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

template <typename OpT> bool isReassociable(OpT op) {
  return op && arith::bitEnumContainsAll(op.getFastmath(), arith::FastMathFlags::reassoc);
}

/// A loop-carried value, from the iteration argument to the yielded value.
class Recurrence {
public:
  Recurrence(scf::ForOp loop, unsigned index)
      : loop(loop), index(index), carried(loop.getRegionIterArg(index)) {}

  /// Whether it can be kept by thread.
  bool match();
  void rewrite();

private:
  bool collect();
  bool visit(Value value);
  bool isUsedOnlyHere() const;

  scf::ForOp loop;
  unsigned index;
  Value carried;
  llvm::SetVector<Value> sums; ///< everything that becomes by_thread, the argument included
  SmallVector<tile::ReduceOp> reductions;
  llvm::SetVector<OpOperand *> factors;
  Attribute layout; ///< by_thread, of the reduced tiles
};

} // namespace

/// Adds the values between the carried row and the yielded value; false if they are not a
/// recurrence. Visits each value once, with a worklist: a chain of operations may have any length,
/// and both sides of a branch may yield the same value.
bool Recurrence::collect() {
  sums.insert(loop.getYieldedValues()[index]);
  for (size_t i = 0; i < sums.size(); ++i)
    if (sums[i] != carried && !visit(sums[i]))
      return false;
  return true;
}

/// Adds the operands of this value; false if it is not a step of a recurrence.
bool Recurrence::visit(Value value) {
  Operation *op = value.getDefiningOp();
  if (!op)
    return false;
  if (auto product = dyn_cast<arith::MulFOp>(op)) {
    if (!isReassociable(product))
      return false;
    // One factor depends on the carried row; the other, of the same layout, is equal for all
    // threads of a row.
    for (OpOperand &other : op->getOpOperands()) {
      Value kept = op->getOperand(1 - other.getOperandNumber());
      if (kept != carried || other.get() == carried)
        continue;
      factors.insert(&other);
      sums.insert(kept);
      return true;
    }
    return false;
  }
  if (auto addition = dyn_cast<arith::AddFOp>(op)) {
    if (!isReassociable(addition))
      return false;
    for (OpOperand &block : op->getOpOperands()) {
      auto reduce = block.get().getDefiningOp<tile::ReduceOp>();
      if (!reduce || reduce.getKind() != tile::ReduceKind::Add || !reduce->hasOneUse())
        continue;
      auto source = cast<RankedTensorType>(reduce.getSource().getType());
      if (!isa_and_nonnull<MmaAttr, WgmmaAttr>(source.getEncoding()))
        continue;
      auto byThread = ByThreadAttr::get(op->getContext(), reduce.getDim(), source.getEncoding());
      if (layout && layout != byThread)
        return false;
      layout = byThread;
      reductions.push_back(reduce);
      sums.insert(op->getOperand(1 - block.getOperandNumber()));
      return true;
    }
    return false;
  }
  auto branch = dyn_cast<scf::IfOp>(op);
  if (!branch)
    return false;
  unsigned number = cast<OpResult>(value).getResultNumber();
  sums.insert(branch.thenYield().getOperand(number));
  sums.insert(branch.elseYield().getOperand(number));
  return true;
}

/// Every value between the argument and the yielded value has no other use, since another use would
/// need the sum of a row.
bool Recurrence::isUsedOnlyHere() const {
  auto leadsOn = [&](OpOperand &use) {
    Operation *user = use.getOwner();
    if (auto yield = dyn_cast<scf::YieldOp>(user)) {
      if (yield->getParentOp() == loop)
        return use.getOperandNumber() == index;
      auto branch = dyn_cast<scf::IfOp>(yield->getParentOp());
      return branch && sums.contains(branch.getResult(use.getOperandNumber()));
    }
    return user->getNumResults() == 1 && sums.contains(user->getResult(0)) &&
           !factors.contains(&use);
  };
  return llvm::all_of(sums, [&](Value sum) { return llvm::all_of(sum.getUses(), leadsOn); });
}

bool Recurrence::match() {
  auto type = dyn_cast<RankedTensorType>(carried.getType());
  if (!type || !isa_and_nonnull<SliceAttr>(type.getEncoding()))
    return false;
  if (!matchPattern(loop.getInitArgs()[index], m_AnyZeroFloat())) {
    auto full = loop.getInitArgs()[index].getDefiningOp<tile::FullOp>();
    if (!full || !matchPattern(full.getValue(), m_AnyZeroFloat()))
      return false;
  }
  return collect() && layout && isUsedOnlyHere();
}

void Recurrence::rewrite() {
  auto row = cast<RankedTensorType>(carried.getType());
  auto byThread = cast<ByThreadAttr>(layout);
  int64_t dim = byThread.getDim();
  SmallVector<int64_t> shape(row.getShape());
  shape.insert(shape.begin() + dim, getThreadsAlong(byThread.getParent(), dim));
  auto type = RankedTensorType::get(shape, row.getElementType(), layout);

  for (tile::ReduceOp reduce : reductions) {
    OpBuilder b(reduce);
    Value sum = ThreadSumOp::create(b, reduce.getLoc(), type, reduce.getSource(), dim);
    reduce.getResult().replaceAllUsesWith(sum);
    reduce.erase();
  }
  for (OpOperand *factor : factors) {
    OpBuilder b(factor->getOwner());
    factor->set(tile::ExpandOp::create(b, factor->getOwner()->getLoc(), type, factor->get(), dim));
  }
  for (Value sum : sums)
    sum.setType(type);

  OpBuilder b(loop);
  Location loc = loop.getLoc();
  Value zero = arith::ConstantOp::create(b, loc, b.getZeroAttr(row.getElementType()));
  loop.getInitArgsMutable()[index].set(tile::FullOp::create(b, loc, type, zero));
  Value result = loop.getResult(index);
  result.setType(type);
  b.setInsertionPointAfter(loop);
  auto whole = tile::ReduceOp::create(b, loc, row, tile::ReduceKind::Add, result, dim);
  result.replaceAllUsesExcept(whole.getResult(), whole);
}

namespace {
struct TgpuSumByThreadPass : tilewright::impl::TgpuSumByThreadBase<TgpuSumByThreadPass> {
  void runOnOperation() override {
    getOperation()->walk([](scf::ForOp loop) {
      for (unsigned index = 0; index < loop.getNumRegionIterArgs(); ++index) {
        Recurrence recurrence(loop, index);
        if (recurrence.match())
          recurrence.rewrite();
      }
    });
  }
};
} // namespace
