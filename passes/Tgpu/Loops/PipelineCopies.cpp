// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-pipeline-copies: loops of skeleton multistage. Iteration i multiplies the contents of stage
// i mod S of the rings while the copies of iteration i + S - 1 are in flight:
//
//   before the loop    copy iteration 0, commit | ... | copy iteration S - 2, commit
//   in iteration i     wait until the copies of iteration i are done; sync
//                      copy iteration i + S - 1, commit
//                      the rest of the body
//
// The single barrier of an iteration has two purposes: it makes the copies of iteration i visible
// to all warps, and it orders the reads of iteration i - 1 before the copies that overwrite its
// stage. Every iteration commits a group, possibly an empty one, so that the number of groups in
// flight is known.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Loops/CopySlice.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/PatternMatch.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUPIPELINECOPIES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

class LoopPipeliner {
public:
  LoopPipeliner(scf::ForOp loop, int64_t stages, CopySlice slice)
      : loop(loop), stages(stages), slice(std::move(slice)), rewriter(loop.getContext()),
        loc(loop.getLoc()) {}

  void run() {
    removeWaits();
    makeRings();
    addUse();
    writePrologue();
    writeBody();
    for (CopyAsyncOp copy : slice.copies)
      copy.erase();
    for (auto [buffer, ring] : rings)
      buffer.getDefiningOp()->erase();
  }

private:
  /// Removes the waits of the body: copies are waited for at its beginning, before a barrier.
  void removeWaits() {
    bool wrote = false;
    for (Operation &op : llvm::make_early_inc_range(loop.getBody()->without_terminator())) {
      if (isa<CopyCommitOp, CopyWaitOp>(op)) {
        op.erase();
        continue;
      }
      auto sync = dyn_cast<SyncOp>(op);
      // A barrier that ordered only the copies.
      if (sync && !sync.getBarrier() && !wrote)
        sync.erase();
      else if (sync)
        wrote = false;
      else
        wrote |= writesShared(&op);
    }
  }

  void makeRings() {
    for (Value buffer : slice.buffers) {
      rewriter.setInsertionPoint(buffer.getDefiningOp());
      auto type = RingType::get(loop.getContext(), stages, cast<SharedType>(buffer.getType()));
      rings[buffer] = AllocRingOp::create(rewriter, loc, type, IntegerAttr()).getRing();
    }
  }

  Value i32(int64_t value) {
    return arith::ConstantOp::create(rewriter, loc, rewriter.getI32IntegerAttr(int32_t(value)));
  }

  /// Adds an iteration counter to the loop.
  void addUse() {
    rewriter.setInsertionPoint(loop);
    Value zero = i32(0);
    auto addOne = [&](OpBuilder &builder, Location at, ArrayRef<BlockArgument> added) {
      Value one = arith::ConstantOp::create(builder, at, builder.getI32IntegerAttr(1));
      Value next = arith::AddIOp::create(builder, at, added.front(), one);
      return SmallVector<Value>{next};
    };
    // Cannot fail: scf.for accepts additional iteration arguments.
    DictionaryAttr attributes = loop->getDiscardableAttrDictionary();
    auto longer = *cast<LoopLikeOpInterface>(*loop).replaceWithAdditionalYields(
        rewriter, ValueRange{zero}, /*replaceInitOperandUsesInLoop=*/false, addOne);
    loop = cast<scf::ForOp>(longer.getOperation());
    loop->setDiscardableAttrs(attributes); // keep the attribute visible in the output
    use = loop.getRegionIterArgs().back();
  }

  Value ahead(Value start, int64_t rounds) {
    Value step = loop.getStep();
    for (int64_t i = 0; i < rounds; ++i)
      start = arith::AddIOp::create(rewriter, loc, start, step);
    return start;
  }

  /// Copies for the iteration that begins at `position`, if the loop executes it.
  void copyRound(Value position, Value number) {
    auto predicate = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
    Value exists = arith::CmpIOp::create(rewriter, loc, predicate, position, loop.getUpperBound());
    auto branch = scf::IfOp::create(rewriter, loc, exists, /*withElseRegion=*/false);
    {
      OpBuilder::InsertionGuard guard(rewriter);
      rewriter.setInsertionPoint(branch.thenBlock()->getTerminator());
      IRMapping map;
      map.map(loop.getInductionVar(), position);
      for (Operation *op : slice.scalars)
        rewriter.clone(*op, map);
      for (auto [buffer, ring] : rings)
        map.map(buffer, SlotOp::create(rewriter, loc, buffer.getType(), ring, number));
      for (CopyAsyncOp copy : slice.copies)
        rewriter.clone(*copy, map);
    }
    CopyCommitOp::create(rewriter, loc);
  }

  void writePrologue() {
    // Copies that the kernel waits for before the loop may arrive while those of the first
    // iterations are in flight.
    Operation *wait = nullptr, *sync = nullptr;
    bool isNested = loop->getParentOfType<scf::ForOp>() != nullptr;
    for (Operation *op = loop->getPrevNode(); op && !isNested; op = op->getPrevNode()) {
      if (auto candidate = dyn_cast<SyncOp>(op); candidate && !candidate.getBarrier() && !sync) {
        sync = op;
      } else if (isa<CopyWaitOp>(op) && sync) {
        wait = op;
        break;
      } else if (!(isa<ReadOp>(op) && !sync) && !isa<func::CallOp>(op) && !isMemoryEffectFree(op)) {
        break;
      }
    }
    if (wait && cast<CopyWaitOp>(wait).getPending() == 0) {
      // Move reads that follow the barrier after it again.
      SmallVector<Operation *> reads;
      for (Operation *op = sync->getNextNode(); op != loop; op = op->getNextNode())
        if (isa<ReadOp>(op))
          reads.push_back(op);
      bool isMovable = llvm::all_of(reads, [&](Operation *read) {
        return llvm::all_of(read->getUsers(), [&](Operation *user) {
          return loop->isAncestor(user) || loop->isBeforeInBlock(user);
        });
      });
      if (isMovable) {
        wait->moveBefore(loop);
        sync->moveBefore(loop);
        for (Operation *read : reads)
          read->moveBefore(loop);
        cast<CopyWaitOp>(wait).setPending(stages - 1);
        rewriter.setInsertionPoint(wait);
      } else {
        rewriter.setInsertionPoint(loop);
      }
    } else {
      rewriter.setInsertionPoint(loop);
      // Warps may still read slots that the previous execution of the loop filled last.
      if (isNested)
        SyncOp::create(rewriter, loc, Value());
    }
    for (int64_t i = 0; i + 1 < stages; ++i) {
      Value number = i32(i);
      copyRound(ahead(loop.getLowerBound(), i), number);
    }
  }

  void writeBody() {
    rewriter.setInsertionPointToStart(loop.getBody());
    for (auto &[buffer, ring] : rings) {
      Value slot = SlotOp::create(rewriter, loc, buffer.getType(), ring, use);
      rewriter.replaceUsesWithIf(
          buffer, slot, [&](OpOperand &operand) { return !isa<CopyAsyncOp>(operand.getOwner()); });
    }
    CopyWaitOp::create(rewriter, loc, stages - 2);
    SyncOp::create(rewriter, loc, Value());
    Value number = arith::AddIOp::create(rewriter, loc, use, i32(stages - 1));
    copyRound(ahead(loop.getInductionVar(), stages - 1), number);
  }

  scf::ForOp loop;
  int64_t stages;
  CopySlice slice;
  IRRewriter rewriter;
  Location loc;
  llvm::MapVector<Value, Value> rings; ///< by the buffer that each replaces
  Value use;                           ///< iteration number
};

struct TgpuPipelineCopiesPass : tilewright::impl::TgpuPipelineCopiesBase<TgpuPipelineCopiesPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    // Outermost loops first: operations that an inner loop places before itself stay there.
    getOperation()->walk<WalkOrder::PreOrder>([&](scf::ForOp loop) {
      auto schedule = scheduleAttr.get(loop);
      if (schedule && schedule.getSkeleton() == Skeleton::Multistage)
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops) {
      FailureOr<CopySlice> slice = CopySlice::get(loop, /*explain=*/true);
      if (failed(slice))
        return signalPassFailure();
      // All threads copy together.
      loop.setLowerBound(getFirstOfAll(loop.getLowerBound()));
      int64_t stages = scheduleAttr.get(loop).getStages();
      LoopPipeliner(loop, stages, std::move(*slice)).run();
    }
  }
};

} // namespace
