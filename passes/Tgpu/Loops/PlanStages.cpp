// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-plan-stages: assigns each operation of a loop a pipeline stage and a position. A loop gets
// the first skeleton that applies:
//
//   sums        all products are added to carried sums: the next iteration waits for them
//               (SumsInFlight.h)
//   overlap     an iteration overlaps with the next one (OverlapRounds.h)
//   one order   if iterations cannot overlap because they write to shared memory for other
//               threads, or if `in_flight` is 2: all operations are in stage 0 (OrderRound.h)
//
// With `late_products`, products of tiles that warps exchange through shared memory then become
// stage 1 of such an order (LateProducts.h).
//
// Skeleton exclusive, selected by `in_flight` 0 with `turns`, keeps the order of operations. One
// warpgroup at a time executes the section between its products, while the others multiply. With
// `turns` 2, one warpgroup at a time multiplies, from the last product of an iteration to the first
// one of the next, while the others compute.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"
#include "passes/Tgpu/Analysis/LoopChain.h"
#include "passes/Tgpu/Loops/LateProducts.h"
#include "passes/Tgpu/Loops/OrderRound.h"
#include "passes/Tgpu/Loops/OverlapRounds.h"
#include "passes/Tgpu/Loops/SumsInFlight.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUPLANSTAGES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The value of `in_flight` that includes a product of the next iteration; see OrderRound.h.
constexpr int64_t ofNextRound = 2;

struct TgpuPlanStagesPass : tilewright::impl::TgpuPlanStagesBase<TgpuPlanStagesPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      for (const LoopChain &chain : getLoopChains(kernel)) {
        if (failed(checkInFlight(chain.front())))
          return signalPassFailure();
        plan(chain);
      }
      if (auto schedule = roleScheduleAttr.get(kernel); schedule && schedule.getLateProducts() > 0)
        planLateProducts(kernel);
    }
  }

private:
  static LogicalResult checkInFlight(scf::ForOp loop) {
    int64_t inFlight = scheduleAttr.get(loop).getInFlight(), products = 0;
    loop->walk([&](WgmmaOp) { ++products; });
    if (inFlight <= (products > 1 ? 2 : 1))
      return success();
    return loop.emitError() << "a loop may have at most "
                            << (products > 1 ? "two products" : "one product")
                            << " in flight, but got " << inFlight;
  }

  static void plan(const LoopChain &chain) {
    if (hasPlaces(chain)) // set by the author
      return;
    auto schedule = scheduleAttr.get(chain.front());
    if (schedule.getInFlight() == 0) {
      Value turns = getTurns(chain.front(), schedule);
      return schedule.getTurns() == 2 ? takeTurnsAtProducts(chain, turns)
                                      : takeTurnsBetweenProducts(chain, turns);
    }
    // The prologue may execute an iteration of any part, so one body must be valid for all.
    bool hasGeneral = chain.size() == 1 ||
                      llvm::any_of(chain, [](scf::ForOp loop) { return generalAttr.isOn(loop); });
    if (!hasGeneral || leaveSumsInFlight(chain))
      return;
    Value turns = getTurns(chain.front(), schedule);
    // Either all products of a stage are in flight, or one product of the next iteration is.
    bool isPlanned = schedule.getInFlight() < ofNextRound;
    if (isPlanned)
      for (scf::ForOp loop : chain)
        isPlanned &= overlapRounds(loop, turns);
    if (!isPlanned) {
      for (scf::ForOp loop : chain)
        clearRounds(loop);
      orderRounds(chain, schedule.getInFlight());
    }
    if (turns && turns.use_empty())
      turns.getDefiningOp()->erase();
  }

  /// Skeleton exclusive: a warpgroup's turn begins at the end of the products whose results other
  /// products of the iteration read, and ends when the first of these others is issued. Applies to
  /// all parts or to none, and to no section in which warpgroups meet: the one that has the turn
  /// would wait for the others there.
  static void takeTurnsBetweenProducts(const LoopChain &chain, Value turns) {
    if (!turns)
      return;
    SmallVector<std::pair<Operation *, Operation *>> sections;
    for (scf::ForOp loop : chain) {
      Operation *begin = nullptr, *end = nullptr;
      bool meets = false;
      llvm::SmallPtrSet<Operation *, 32> dependents;
      for (Operation &op : loop.getBody()->without_terminator()) {
        bool isDependent = llvm::any_of(op.getOperands(), [&](Value operand) {
          return dependents.contains(operand.getDefiningOp());
        });
        if (auto product = dyn_cast<WgmmaOp>(op); product && isDependent) {
          end = product;
          break;
        }
        auto wait = dyn_cast<WgmmaWaitOp>(op);
        if (wait && !isOnlyYielded(wait))
          begin = wait;
        if (isDependent || wait)
          dependents.insert(&op);
        meets |= isa<SyncOp>(op);
      }
      if (!begin || !end || meets)
        return turns.getDefiningOp()->erase();
      sections.emplace_back(begin, end);
    }
    scf::ForOp front = chain.front(), back = chain.back();
    writeMissedTurns(front, turns, back.getUpperBound(), /*roundsWithout=*/0);
    for (auto [begin, end] : sections) {
      OpBuilder b(end);
      PassTurnOp::create(b, end->getLoc(), turns);
      b.setInsertionPointAfter(begin);
      TakeTurnOp::create(b, begin->getLoc(), turns);
    }
  }

  /// The first products of an iteration, all but the last one. Empty unless each is committed and
  /// waited for alone.
  static SmallVector<WgmmaOp> getFirstProducts(scf::ForOp loop) {
    auto products = llvm::to_vector(loop.getBody()->getOps<WgmmaOp>());
    if (products.size() < 2)
      return {};
    products.pop_back();
    for (WgmmaOp product : products) {
      auto commit = dyn_cast<WgmmaCommitOp>(product->getNextNode());
      auto wait = commit ? dyn_cast<WgmmaWaitOp>(commit->getNextNode()) : WgmmaWaitOp();
      if (!wait || wait.getTiles().size() != 1 || wait.getTiles().front() != product.getResult())
        return {};
    }
    return products;
  }

  /// Whether an operation writes nothing that a product may read.
  static bool mayRunBeforeWait(Operation &op) {
    return isMemoryEffectFree(&op) || isa<WgmmaOp, WgmmaCommitOp, WaitOp, ArriveOp, ReadOp>(op);
  }

  /// Whether the waits for the first products, and the releases behind them, may move behind the
  /// last of these: until then, nothing needs a result, writes what a product reads, or waits for a
  /// slot that becomes free by one of the releases.
  static bool canIssueTogether(ArrayRef<WgmmaOp> products) {
    Operation *end = products.back()->getNextNode();
    llvm::SmallPtrSet<Value, 4> waited;
    for (Operation &op : *end->getBlock()) {
      if (&op == end)
        return true;
      auto wait = dyn_cast<WaitOp>(op);
      bool isSecondUse = wait && !waited.insert(wait.getBarriers()).second;
      if (!products.front()->isBeforeInBlock(&op))
        continue;
      auto isBefore = [&](Operation *user) {
        return op.getBlock()->findAncestorOpInBlock(*user)->isBeforeInBlock(end);
      };
      if (isa<WgmmaWaitOp>(op) ? llvm::any_of(op.getUsers(), isBefore)
                               : isSecondUse || !mayRunBeforeWait(op))
        return false;
    }
    llvm_unreachable("the products are in one block");
  }

  /// Products that are added to each other are issued one after the other, before the first wait.
  /// What releases the memory that one reads follows its wait.
  static void issueTogether(ArrayRef<WgmmaOp> products) {
    Operation *at = products.back()->getNextNode();
    for (auto [i, product] : llvm::enumerate(products.drop_back())) {
      auto wait = cast<WgmmaWaitOp>(product->getNextNode()->getNextNode());
      SmallVector<Operation *> moved{wait};
      for (Operation *op = wait->getNextNode(); op != products[i + 1]; op = op->getNextNode())
        if (isa<ArriveOp>(op))
          moved.push_back(op);
      wait.setPending(static_cast<int64_t>(products.size() - 1 - i));
      for (Operation *op : moved) {
        op->moveAfter(at);
        at = op;
      }
    }
  }

  /// A turn begins before the last product of an iteration, and ends when the first ones of the
  /// next iteration are issued, which the matrix unit executes while the next warpgroup begins.
  /// Applies to all parts or to none, and to iterations in which no warpgroups meet.
  static void takeTurnsAtProducts(const LoopChain &chain, Value turns) {
    if (!turns)
      return;
    SmallVector<SmallVector<WgmmaOp>> firsts;
    for (scf::ForOp loop : chain) {
      firsts.push_back(getFirstProducts(loop));
      if (firsts.back().empty() || !loop.getBody()->getOps<SyncOp>().empty() ||
          loop->getBlock() != chain.front()->getBlock())
        return turns.getDefiningOp()->erase();
    }
    if (!llvm::all_of(firsts, canIssueTogether))
      return turns.getDefiningOp()->erase();
    for (ArrayRef<WgmmaOp> first : firsts)
      issueTogether(first);
    scf::ForOp front = chain.front(), back = chain.back();
    writeMissedTurns(front, turns, back.getUpperBound(), /*roundsWithout=*/0);
    OpBuilder b(front);
    TakeTurnOp::create(b, front.getLoc(), turns);
    for (auto [number, first] : llvm::enumerate(firsts)) {
      scf::ForOp loop = chain[number];
      Operation *end = first.back()->getNextNode();
      b.setInsertionPointAfter(end);
      PassTurnOp::create(b, end->getLoc(), turns);
      WgmmaOp last = llvm::to_vector(loop.getBody()->getOps<WgmmaOp>()).back();
      b.setInsertionPoint(last);
      auto take = TakeTurnOp::create(b, last.getLoc(), turns);
      keepPlaceAttr.set(take);
    }
    b.setInsertionPointAfter(back);
    PassTurnOp::create(b, back.getLoc(), turns);
  }

  /// Applies to all parts or to none.
  static void orderRounds(const LoopChain &chain, int64_t inFlight) {
    if (!llvm::all_of(chain, canOrderRound))
      return;
    SmallVector<SmallVector<OrderedOp>> rounds;
    for (scf::ForOp loop : chain)
      rounds.push_back(orderRound(loop, inFlight >= ofNextRound));
    for (const SmallVector<OrderedOp> &round : rounds)
      for (auto [order, placed] : llvm::enumerate(round))
        Place{placed.stage, static_cast<int64_t>(order)}.set(placed.op);
  }

  /// The turns of the role that runs the loop, if it has several warpgroups and the schedule
  /// enables turns.
  static Value getTurns(scf::ForOp loop, ScheduleAttr schedule) {
    auto roles = loop->getParentOfType<RolesOp>();
    int64_t warps = getExecutingWarps(loop);
    if (!schedule.getTurns() || loop.getUnsignedCmp() || warps < 2 * Target::warpsOfGroup)
      return {};
    OpBuilder b(roles);
    return TurnsOp::create(b, loop.getLoc(), b.getIndexType(), warps / Target::warpsOfGroup,
                           IntegerAttr());
  }
};

} // namespace
