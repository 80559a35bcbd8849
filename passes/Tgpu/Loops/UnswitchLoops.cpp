// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-unswitch-loops: versions a loop of a role whose body has branches with invariant conditions.
// One version is for the case that all conditions are true and has no such branches; the other is
// the original loop for all other cases. The first can then be pipelined; the second is kept short:
// it also executes the general body instead of special cases for some iterations (full blocks).
//
// The choice is made outside of all loops of a tile if it is one between tiles.
//
// All other cases share one version, because the branches that other passes create have the common
// case first (a positive scale, a mask whose ranges are tight).

#include "passes/Passes.h"
#include "passes/Tgpu/Loops/TakeSide.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUUNSWITCHLOOPS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Adds the operations of the loop that compute a scalar from loop-invariant values, operands
/// first. Returns false if another operation takes part or the chain of operations is too long.
bool addInvariant(scf::ForOp loop, Value value, llvm::SetVector<Operation *> &slice,
                  unsigned levels = 256) {
  if (loop.isDefinedOutsideOfLoop(value))
    return true;
  Operation *op = value.getDefiningOp();
  if (op && slice.contains(op))
    return true;
  bool isScalar = levels > 0 && op && op->getNumRegions() == 0 && isMemoryEffectFree(op) &&
                  llvm::none_of(op->getOperandTypes(), llvm::IsaPred<RankedTensorType>);
  if (!isScalar)
    return false;
  for (Value operand : op->getOperands())
    if (!addInvariant(loop, operand, slice, levels - 1))
      return false;
  slice.insert(op);
  return true;
}

/// The barriers at which a block of operations waits or arrives.
llvm::DenseSet<Value> findBarriers(Block *block) {
  llvm::DenseSet<Value> barriers;
  block->walk([&](Operation *op) {
    for (Value operand : op->getOperands())
      if (isa<BarriersType>(operand.getType()))
        barriers.insert(operand);
  });
  return barriers;
}

/// The general body is valid for full blocks. In rarely executed loops emit only it, to avoid dead
/// code; not where one branch synchronizes with another role, which would deadlock.
void dropSpecialCases(RewriterBase &rewriter, scf::ForOp loop) {
  SmallVector<scf::IfOp> branches;
  loop.getBody()->walk([&](scf::IfOp branch) {
    if (specialCaseAttr.isOn(branch) && branch.elseBlock() &&
        findBarriers(branch.thenBlock()) == findBarriers(branch.elseBlock()))
      branches.push_back(branch);
  });
  for (scf::IfOp branch : branches) // inner branches first
    takeSide(rewriter, branch, /*isThen=*/false);
}

bool isPipelined(scf::ForOp loop) {
  auto schedule = scheduleAttr.get(loop);
  return schedule && schedule.getSkeleton() == Skeleton::ProducerConsumer;
}

/// The branches in a loop whose conditions are invariant.
SmallVector<scf::IfOp> findInvariant(scf::ForOp loop) {
  SmallVector<scf::IfOp> branches;
  llvm::SetVector<Operation *> slice;
  loop.getBody()->walk([&](scf::IfOp branch) {
    llvm::SetVector<Operation *> ofCondition = slice;
    if (!addInvariant(loop, branch.getCondition(), ofCondition))
      return;
    slice = std::move(ofCondition);
    branches.push_back(branch);
  });
  return branches;
}

/// The outermost loop, within the loop over tiles, in which all these conditions of a loop are
/// invariant, if they choose tiles; else the loop. Once for each iteration of an outer loop, the
/// choice moved the sums of both versions between registers.
scf::ForOp findVersioned(scf::ForOp loop, ArrayRef<scf::IfOp> branches) {
  bool choosesTiles = llvm::all_of(branches, [](scf::IfOp branch) {
    return llvm::any_of(branch.getResultTypes(), llvm::IsaPred<RankedTensorType>);
  });
  scf::ForOp versioned = loop;
  if (!choosesTiles)
    return versioned;
  for (auto outer = loop->getParentOfType<scf::ForOp>();
       outer && !isa<RolesOp>(outer->getParentOp()); outer = outer->getParentOfType<scf::ForOp>()) {
    llvm::SetVector<Operation *> slice;
    for (scf::IfOp branch : branches)
      if (!addInvariant(outer, branch.getCondition(), slice))
        return versioned;
    versioned = outer;
  }
  return versioned;
}

struct TgpuUnswitchLoopsPass : tilewright::impl::TgpuUnswitchLoopsBase<TgpuUnswitchLoopsPass> {
  void runOnOperation() override {
    while (unswitchOne()) {
    }
  }

private:
  /// Splits the first loop that has branches to move out. Other loops are found again afterwards:
  /// the split may have cloned them.
  bool unswitchOne() {
    scf::ForOp versioned;
    // Of all pipelined loops for which this loop is split, of which one may contain another.
    llvm::SetVector<scf::IfOp> branches;
    getOperation()->walk([&](scf::ForOp loop) {
      if (!isPipelined(loop) || !loop->getParentOfType<RolesOp>())
        return;
      SmallVector<scf::IfOp> own = findInvariant(loop);
      if (own.empty())
        return;
      scf::ForOp ofOwn = findVersioned(loop, own);
      if (!versioned)
        versioned = ofOwn;
      if (versioned == ofOwn)
        branches.insert_range(own);
    });
    if (versioned)
      unswitch(versioned, branches.getArrayRef());
    return versioned != nullptr;
  }

  static void unswitch(scf::ForOp loop, ArrayRef<scf::IfOp> branches) {
    llvm::SetVector<Operation *> slice;
    for (scf::IfOp branch : branches) {
      [[maybe_unused]] bool isInvariant = addInvariant(loop, branch.getCondition(), slice);
      assert(isInvariant && "found so");
    }
    IRRewriter rewriter(loop);
    IRMapping outside;
    for (Operation *op : slice)
      rewriter.clone(*op, outside);
    llvm::SetVector<Value> conditions;
    for (scf::IfOp branch : branches)
      conditions.insert(outside.lookupOrDefault(branch.getCondition()));
    Location loc = loop.getLoc();
    Value all = conditions.front();
    for (Value condition : llvm::drop_begin(conditions))
      all = arith::AndIOp::create(rewriter, loc, all, condition);

    auto choice = scf::IfOp::create(rewriter, loc, loop.getResultTypes(), all,
                                    /*addThenBlock=*/true, /*addElseBlock=*/true);
    for (Block *block : {choice.thenBlock(), choice.elseBlock()}) {
      if (!block->empty())
        rewriter.eraseOp(block->getTerminator());
      rewriter.setInsertionPointToEnd(block);
      IRMapping map;
      auto copy = cast<scf::ForOp>(rewriter.clone(*loop, map));
      scf::YieldOp::create(rewriter, loc, copy.getResults());
      if (block == choice.elseBlock()) {
        copy->walk([&](scf::ForOp inner) {
          if (!isPipelined(inner))
            return;
          scheduleAttr.remove(inner);
          rareAttr.set(inner);
        });
        dropSpecialCases(rewriter, copy);
        continue;
      }
      SmallVector<scf::IfOp> taken;
      for (scf::IfOp branch : branches)
        taken.push_back(cast<scf::IfOp>(map.lookup(branch.getOperation())));
      for (scf::IfOp branch : taken) // inner branches first, in the order of the walk
        takeSide(rewriter, branch, /*isThen=*/true);
    }
    rewriter.replaceOp(loop, choice.getResults());
  }
};

} // namespace
