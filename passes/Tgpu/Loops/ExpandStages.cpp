// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-expand-stages: applies the places that tgpu-plan-stages, or an author, gave the operations
// of a loop. Stage 1 of an iteration runs in the next iteration of the pipeline. All parts of a
// chain of loops form one pipeline:
//
//   if there is an iteration
//     prologue     stage 0 of the first iteration, by a body that is valid for every iteration
//     part 0       iterations first + 1 ...: stage 0 of the iteration, stage 1 of the previous one
//     part 1       the same, with the body of that part
//     ...
//     epilogue     stage 1 of the last iteration
//
// A loop whose operations are all in one stage is only reordered. Stages that meet in memory alone
// need neither prologue nor epilogue (ExpandGuarded.h).
//
// Stage 1 of a part's last iteration runs in the next part. So both parts must have the same
// stage-1 operations on corresponding values, and the values that stage 1 reads from stage 0 are
// carried across the boundary. If instead the parts have stage 0 in common, a part runs stage 1 of
// its own iterations and stage 0 of the following ones, and the boundaries are an iteration later.
//
// An order is legal if every operation follows its operands:
//   1. Operands from the same stage and iteration: by place.
//   2. Stage 1 reads results that stage 0 computed one pipeline iteration earlier: always legal.
//      Stage 0 must not read results of stage 1 of the same loop iteration.
//   3. Stage 0 reads iteration arguments that stage 1 of the previous loop iteration yields, which
//      runs in the same pipeline iteration: by place.
//   4. A product ends in the stage that issues it. So none is pending at the end of a pipeline
//      iteration, where the registers it reads (operand a, accumulators) are overwritten. The one
//      exception is a sum that a product of stage 0 extends and nothing else reads: stage 1 may
//      wait for it. The loop carries it as pending, and waits for the previous iteration's group.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Loops/ExpandGuarded.h"
#include "passes/Tgpu/Loops/StageParts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUEXPANDSTAGES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Returns the turns that the part's warpgroups take in each iteration, or null.
Value getTurns(const Part &part) {
  const auto *take = llvm::find_if(part.ops, llvm::IsaPred<TakeTurnOp>);
  return take == part.ops.end() ? Value() : cast<TakeTurnOp>(*take).getTurns();
}

class Expander {
public:
  /// `leads`: the parts have stage 0, not stage 1, in common.
  Expander(ArrayRef<Part> parts, bool leads)
      : parts(parts), leads(leads), isUnsigned(parts.front().loop.getUnsignedCmp()),
        upper(parts.back().loop.getUpperBound()),
        b(parts.front().loop.getLoc(), parts.front().loop.getContext()) {}

  void run() {
    scf::ForOp front = parts.front().loop, back = parts.back().loop;
    b.setInsertionPoint(back);
    Value lower = front.getLowerBound();
    if (Value turns = getTurns(parts.front()))
      writeMissedTurns(front, turns, upper, /*roundsWithout=*/1); // the prologue
    auto less = isUnsigned ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
    Value hasRounds = arith::CmpIOp::create(b, less, lower, upper);
    auto branch = scf::IfOp::create(b, back.getResultTypes(), hasRounds, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    b.setInsertionPointToEnd(branch.elseBlock());
    const Part &general = getGeneral();
    SmallVector<Value> inits(front.getInitArgs());
    for (auto [i, init] : llvm::enumerate(inits))
      if (auto full = init.getDefiningOp<tile::FullOp>(); full && general.isInFlight(i))
        init = b.clone(*full)->getResult(0); // cheaper than a live register
    scf::YieldOp::create(b, inits);

    b.setInsertionPointToEnd(branch.thenBlock());
    carried.assign(front.getInitArgs().begin(), front.getInitArgs().end());
    crossed.clear();
    IRMapping first;
    first.map(general.loop.getInductionVar(), lower);
    first.map(general.loop.getRegionIterArgs(), carried);
    writeStage(general, 0, first);
    dropZeros(general, first);
    advance(general, 0, first);

    Value begin = arith::AddIOp::create(b, lower, front.getStep());
    for (const Part &part : parts) {
      // The prologue executes the part's only iteration or, if the boundaries are an iteration
      // later, the epilogue does.
      bool isInPrologue = !leads && part.loop == front && oneBeforeAttr.isOn(front);
      bool isInEpilogue = leads && part.loop == back && oneAfterAttr.isOn(back);
      if (!isInPrologue && !isInEpilogue)
        begin = writePart(part, begin);
    }

    IRMapping last;
    mapSecond(general, last);
    for (auto [value, pending] : llvm::zip_equal(general.next, carried))
      if (value.getDefiningOp<WgmmaOp>())
        last.map(value, pending);
    writeStage(general, 1, last);
    SmallVector<Value> results(carried);
    for (auto [i, yielded] : llvm::enumerate(general.loop.getYieldedValues()))
      if (general.stagesOfNext[i] == 1 || general.isInFlight(i))
        results[i] = last.lookupOrDefault(yielded);
    scf::YieldOp::create(b, results);
    back.replaceAllUsesWith(branch.getResults());
    for (const Part &part : llvm::reverse(parts))
      part.loop.erase();
  }

private:
  const Part &getGeneral() {
    for (const Part &part : parts)
      if (generalAttr.isOn(part.loop))
        return part;
    return parts.front();
  }

  /// In the prologue, a sum in flight that begins with zeros is the product alone.
  static void dropZeros(const Part &part, IRMapping &map) {
    for (Value value : part.next)
      if (auto product = map.lookupOrDefault(value).getDefiningOp<WgmmaOp>())
        if (auto full = product.getAcc() ? product.getAcc().getDefiningOp<tile::FullOp>() : nullptr;
            full && matchPattern(full.getValue(), m_AnyZeroFloat()))
          product.getAccMutable().clear();
  }

  /// Maps the values known before a pipeline iteration, for stage 1 of the previous loop iteration.
  void mapSecond(const Part &part, IRMapping &map) {
    for (auto [i, argument] : llvm::enumerate(part.loop.getRegionIterArgs()))
      if (part.stagesOfNext[i] == 1)
        map.map(argument, carried[i]);
    for (auto [value, known] : llvm::zip_equal(part.crossing, crossed))
      map.map(value, known);
  }

  /// Updates the carried values after a stage.
  void advance(const Part &part, int64_t stage, IRMapping &map) {
    for (auto [i, value] : llvm::enumerate(part.next))
      if (part.stagesOfNext[i] == stage)
        carried[i] = map.lookupOrDefault(value);
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
    placeAttr.remove(copy);
    groups.note(op, copy);
    dropRepeated(copy);
  }

  /// Writes the loop of a part. Returns the lower bound of the next part.
  Value writePart(const Part &part, Value begin) {
    scf::ForOp loop = part.loop;
    Value end = loop.getUpperBound();
    if (leads) {
      Value next = arith::AddIOp::create(b, end, loop.getStep());
      end = isUnsigned ? arith::MinUIOp::create(b, next, upper).getResult()
                       : arith::MinSIOp::create(b, next, upper).getResult();
    }
    // The part may be empty, or its only iteration may be in the prologue. Nothing begins where a
    // loop of sums alone ends.
    bool isAlone = parts.size() == 1 &&
                   llvm::any_of(part.ops, [&](Operation *op) { return part.endsSums(op); });
    if (!isAlone)
      end = isUnsigned ? arith::MaxUIOp::create(b, end, begin).getResult()
                       : arith::MaxSIOp::create(b, end, begin).getResult();
    size_t count = carried.size();
    SmallVector<Value> inits(carried);
    llvm::append_range(inits, crossed);
    auto rest = scf::ForOp::create(b, begin, end, loop.getStep(), inits);
    rest.setUnsignedCmp(isUnsigned);
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
      if (part.stagesOfNext[i] == 0)
        maps[0].map(argument, carried[i]);
    PendingGroups groups;
    for (Operation *op : part.ops) {
      int64_t stage = getStage(op);
      if (part.endsSums(op)) {
        // The loop carries the sums as pending, so that nothing can read them.
        WgmmaWaitOp::create(b, TypeRange(), groups.getCommits(), ValueRange());
        continue;
      }
      write(op, maps[stage], groups);
      if (stage == 0)
        continue;
      // Stage 0 of the next iteration reads the values that stage 1 yields.
      for (auto [i, value] : llvm::enumerate(part.next))
        if (value.getDefiningOp() == op)
          maps[0].map(loop.getRegionIterArgs()[i], maps[1].lookup(value));
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
  bool leads, isUnsigned;
  Value upper; ///< of the last part
  ImplicitLocOpBuilder b;
  /// The current value of each iteration argument and of each value that crosses stages.
  SmallVector<Value> carried, crossed;
};

void reorder(const Part &part) {
  PendingGroups groups;
  for (Operation *op : part.ops)
    moveToEnd(op, part.loop, groups);
}

struct TgpuExpandStagesPass : tilewright::impl::TgpuExpandStagesBase<TgpuExpandStagesPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      SmallVector<SmallVector<Part>, 1> guarded; // chains that may be of one tile
      for (const LoopChain &chain : getLoopChains(kernel)) {
        if (!hasPlaces(chain))
          continue;
        FailureOr<SmallVector<Part>> parts = readParts(chain);
        if (failed(parts))
          return signalPassFailure();
        if (meetInMemory(*parts))
          guarded.push_back(std::move(*parts));
        else
          expand(*parts);
      }
      if (failed(expandGuarded(guarded)))
        return signalPassFailure();
    }
  }

private:
  static void expand(MutableArrayRef<Part> parts) {
    bool isOneStage = llvm::all_of(parts, [](const Part &part) {
      return llvm::all_equal(llvm::map_range(part.ops, getStage));
    });
    if (isOneStage) {
      scf::ForOp front = parts.front().loop, back = parts.back().loop;
      if (Value turns = getTurns(parts.front()))
        writeMissedTurns(front, turns, back.getUpperBound(), /*roundsWithout=*/0);
      for (const Part &part : parts)
        reorder(part);
    } else if (shareSecondStage(parts)) {
      Expander(parts, /*leads=*/false).run();
    } else {
      uniteCrossing(parts);
      Expander(parts, /*leads=*/true).run();
    }
  }
};

} // namespace
