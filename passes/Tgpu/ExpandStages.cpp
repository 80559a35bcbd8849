// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-expand-stages: obeys the places that tgpu-plan-stages, or an author, gave the operations of
// a loop. Stage 1 of a round runs in the next round of the pipeline. All parts of a chain of loops
// are one pipeline:
//
//   if there is a round
//     prologue     stage 0 of the first round, by a body that is right for every round
//     part 0       rounds first + 1 ...: stage 0 of the round, stage 1 of the one before
//     part 1       the same, with the body of that part
//     ...
//     epilogue     stage 1 of the last round
//
// A loop whose operations are all of one stage only takes their order.
//
// So stage 1 of a part's last round is run by the next part. It must be the same operations there,
// on values that correspond; what goes from stage 0 to stage 1 is carried through the seams. Where
// stage 0 is what the parts have in common, a part runs stage 1 of its rounds, and stage 0 of the
// round after each: the seams lie a round later.
//
// Legal is an order in which every operation follows what it reads:
//   1. of the same stage and round: by its place.
//   2. stage 1 reads what stage 0 made a round of the pipeline before: always. The other way round:
//      never, within a round of the loop.
//   3. stage 0 reads what the loop carries from stage 1 of the round before, which runs in the same
//      round of the pipeline: by its place.
//   4. A product ends in the stage in which it is issued. So none is pending at the end of a round
//      of the pipeline, where registers that it reads (operand a, accumulators) get their next
//      values.

#include "passes/Passes.h"
#include "passes/Tgpu/IdleRounds.h"
#include "passes/Tgpu/StageParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "llvm/ADT/MapVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUEXPANDSTAGES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Waits count the groups that were committed since the one that they wait for.
class PendingGroups {
public:
  void note(Operation *op, Operation *copy) {
    if (isa<WgmmaOp>(op))
      committed[op->getResult(0)] = commits + 1; // the commit follows
    if (isa<WgmmaCommitOp>(op))
      ++commits;
    auto wait = dyn_cast<WgmmaWaitOp>(copy);
    if (!wait)
      return;
    int64_t latest = 0;
    for (Value tile : op->getOperands())
      latest = std::max(latest, committed.lookup(tile));
    wait.setPending(commits - latest);
  }

private:
  int64_t commits = 0;
  llvm::DenseMap<Value, int64_t> committed;
};

/// What stood between two barriers may have moved: one is enough.
void dropRepeated(Operation *op) {
  auto sync = dyn_cast<SyncOp>(op);
  auto before = dyn_cast_or_null<SyncOp>(op->getPrevNode());
  if (sync && before && sync.getBarrier() == before.getBarrier())
    sync.erase();
}

/// Those that the part's warpgroups take in each round, or null.
Value getTurns(const Part &part) {
  const auto *take = llvm::find_if(part.ops, llvm::IsaPred<TakeTurnOp>);
  return take == part.ops.end() ? Value() : cast<TakeTurnOp>(*take).getTurns();
}

class Expander {
public:
  /// `leads`: the parts have stage 0 in common.
  Expander(ArrayRef<Part> parts, bool leads)
      : parts(parts), leads(leads), upper(parts.back().loop.getUpperBound()),
        b(parts.front().loop.getLoc(), parts.front().loop.getContext()) {}

  void run() {
    scf::ForOp front = parts.front().loop, back = parts.back().loop;
    b.setInsertionPoint(back);
    Value lower = front.getLowerBound();
    if (Value turns = getTurns(parts.front()))
      writeMissedTurns(front, turns, upper, /*roundsWithout=*/1); // the prologue
    Value hasRounds = arith::CmpIOp::create(b, arith::CmpIPredicate::slt, lower, upper);
    auto branch = scf::IfOp::create(b, back.getResultTypes(), hasRounds, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    b.setInsertionPointToEnd(branch.elseBlock());
    scf::YieldOp::create(b, front.getInitArgs());

    b.setInsertionPointToEnd(branch.thenBlock());
    const Part &general = getGeneral();
    carried.assign(front.getInitArgs().begin(), front.getInitArgs().end());
    crossed.clear();
    IRMapping first;
    first.map(general.loop.getInductionVar(), lower);
    first.map(general.loop.getRegionIterArgs(), carried);
    writeStage(general, 0, first);
    advance(general, 0, first);

    Value begin = arith::AddIOp::create(b, lower, front.getStep());
    for (const Part &part : parts) {
      // The prologue was its only round; where parts begin and end a round later, the epilogue is.
      bool isInPrologue = !leads && part.loop == front && front->hasAttr(oneBeforeName);
      bool isInEpilogue = leads && part.loop == back && back->hasAttr(oneAfterName);
      if (!isInPrologue && !isInEpilogue)
        begin = writePart(part, begin);
    }

    IRMapping last;
    mapSecond(general, last);
    writeStage(general, 1, last);
    SmallVector<Value> results(carried);
    for (auto [i, yielded] : llvm::enumerate(general.loop.getYieldedValues()))
      if (general.stagesOfYielded[i] == 1)
        results[i] = last.lookupOrDefault(yielded);
    scf::YieldOp::create(b, results);
    back.replaceAllUsesWith(branch.getResults());
    for (const Part &part : llvm::reverse(parts))
      part.loop.erase();
  }

private:
  const Part &getGeneral() {
    for (const Part &part : parts)
      if (part.loop->hasAttr(generalName))
        return part;
    return parts.front();
  }

  /// What is known before a round of the pipeline, to stage 1 of the round before.
  void mapSecond(const Part &part, IRMapping &map) {
    for (auto [i, argument] : llvm::enumerate(part.loop.getRegionIterArgs()))
      if (part.stagesOfYielded[i] == 1)
        map.map(argument, carried[i]);
    for (auto [value, known] : llvm::zip_equal(part.crossing, crossed))
      map.map(value, known);
  }

  /// The state behind a stage.
  void advance(const Part &part, int64_t stage, IRMapping &map) {
    for (auto [i, yielded] : llvm::enumerate(part.loop.getYieldedValues()))
      if (part.stagesOfYielded[i] == stage)
        carried[i] = map.lookupOrDefault(yielded);
    if (stage == 0) {
      crossed.clear();
      for (Value value : part.crossing)
        crossed.push_back(map.lookupOrDefault(value));
    }
  }

  void writeStage(const Part &part, int64_t stage, IRMapping &map) {
    PendingGroups groups;
    for (Operation *op : part.ops)
      if (getStage(op) == stage && !isa<TakeTurnOp, PassTurnOp>(op))
        write(op, map, groups);
  }

  void write(Operation *op, IRMapping &map, PendingGroups &groups) {
    Operation *copy = b.clone(*op, map);
    copy->removeAttr(placeName);
    groups.note(op, copy);
    dropRepeated(copy);
  }

  /// Returns where the next part begins.
  Value writePart(const Part &part, Value begin) {
    scf::ForOp loop = part.loop;
    // The part may have ended with the round that the prologue took, or before.
    Value end = loop.getUpperBound();
    if (leads) {
      Value next = arith::AddIOp::create(b, end, loop.getStep());
      end = arith::MinSIOp::create(b, next, upper);
    }
    end = arith::MaxSIOp::create(b, end, begin);
    size_t count = carried.size();
    SmallVector<Value> inits(carried);
    llvm::append_range(inits, crossed);
    auto rest = scf::ForOp::create(b, begin, end, loop.getStep(), inits);
    rest->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    OpBuilder::InsertionGuard guard(b);
    if (inits.empty())
      rest.getBody()->getTerminator()->erase();
    b.setInsertionPointToEnd(rest.getBody());
    auto arguments = rest.getRegionIterArgs();
    carried.assign(arguments.begin(), arguments.begin() + count);
    crossed.assign(arguments.begin() + count, arguments.end());
    IRMapping maps[2];
    mapSecond(part, maps[1]);
    maps[0].map(loop.getInductionVar(), rest.getInductionVar());
    for (auto [i, argument] : llvm::enumerate(loop.getRegionIterArgs()))
      if (part.stagesOfYielded[i] == 0)
        maps[0].map(argument, carried[i]);
    PendingGroups groups;
    for (Operation *op : part.ops) {
      int64_t stage = getStage(op);
      write(op, maps[stage], groups);
      if (stage == 0)
        continue;
      // What stage 1 yields is what stage 0 of the next round finds.
      for (auto [i, yielded] : llvm::enumerate(loop.getYieldedValues()))
        if (yielded.getDefiningOp() == op)
          maps[0].map(loop.getRegionIterArgs()[i], maps[1].lookup(yielded));
    }
    for (int64_t stage : {0, 1})
      advance(part, stage, maps[stage]);
    SmallVector<Value> yielded(carried);
    llvm::append_range(yielded, crossed);
    scf::YieldOp::create(b, yielded);
    auto results = rest.getResults();
    carried.assign(results.begin(), results.begin() + count);
    crossed.assign(results.begin() + count, results.end());
    return end;
  }

  ArrayRef<Part> parts;
  bool leads;
  Value upper; ///< of the last part
  ImplicitLocOpBuilder b;
  /// Of each iteration argument, and of each value that crosses: its value at this place.
  SmallVector<Value> carried, crossed;
};

void reorder(const Part &part) {
  PendingGroups groups;
  for (Operation *op : part.ops) {
    op->moveBefore(part.loop.getBody()->getTerminator());
    op->removeAttr(placeName);
    groups.note(op, op);
    dropRepeated(op);
  }
}

struct TgpuExpandStagesPass : tilewright::impl::TgpuExpandStagesBase<TgpuExpandStagesPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>())
      for (const LoopChain &chain : getLoopChains(kernel)) {
        if (!hasPlaces(chain))
          continue;
        FailureOr<SmallVector<Part>> parts = readParts(chain);
        if (failed(parts))
          return signalPassFailure();
        bool isOneStage = llvm::all_of(*parts, [](const Part &part) {
          return llvm::all_equal(llvm::map_range(part.ops, getStage));
        });
        if (isOneStage) {
          scf::ForOp front = parts->front().loop, back = parts->back().loop;
          if (Value turns = getTurns(parts->front()))
            writeMissedTurns(front, turns, back.getUpperBound(), /*roundsWithout=*/0);
          for (const Part &part : *parts)
            reorder(part);
        } else if (shareSecondStage(*parts))
          Expander(*parts, /*leads=*/false).run();
        else {
          uniteCrossing(*parts);
          Expander(*parts, /*leads=*/true).run();
        }
      }
  }
};

} // namespace
