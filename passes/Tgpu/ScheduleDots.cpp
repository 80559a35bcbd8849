// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-schedule-dots: a loop that adds a product to what it carries need not wait for it in the
// same round. With one product in flight:
//
//   round 0     wait full 0; wgmma; commit
//   round i     wait full i; wgmma; commit; wait until one is pending; arrive empty i - 1
//   after it    wait until none is pending; arrive empty of the last
//
// The accumulator goes around the loop pending, so that nothing can read it. A loop without rounds
// yields what it began with.

#include "passes/Passes.h"
#include "passes/Tgpu/ScheduleNames.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/IR/ImplicitLocOpBuilder.h"
#include "mlir/IR/Matchers.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSCHEDULEDOTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// A product that is added to what the loop carries, and the arrivals that wait for it.
struct Chain {
  WgmmaOp product;
  WgmmaCommitOp commit;
  WgmmaWaitOp wait;
  SmallVector<ArriveOp> arrivals; ///< behind the wait
  unsigned carried = 0;           ///< number of the iteration argument
};

/// The chain of a loop whose only product it is; none where something else needs the product, or
/// comes between it and its end.
std::optional<Chain> findChain(scf::ForOp loop) {
  Chain chain;
  bool isSimple = true;
  loop->walk([&](Operation *op) {
    if (auto product = dyn_cast<WgmmaOp>(op)) {
      isSimple &= !chain.product && product->getBlock() == loop.getBody();
      chain.product = product;
    }
    if (isa<SyncOp, WriteSharedOp>(op)) // may wait for, or overwrite, what a product reads
      isSimple = false;
  });
  if (!isSimple || !chain.product || !chain.product->hasOneUse())
    return std::nullopt;
  chain.wait = dyn_cast<WgmmaWaitOp>(*chain.product->user_begin());
  chain.commit = dyn_cast_or_null<WgmmaCommitOp>(chain.product->getNextNode());
  auto carried = dyn_cast_or_null<BlockArgument>(chain.product.getAcc());
  if (!chain.wait || chain.wait->getBlock() != loop.getBody() || chain.wait.getPending() != 0 ||
      chain.wait.getTiles().size() != 1 || chain.commit != chain.wait->getPrevNode() || !carried ||
      carried.getOwner() != loop.getBody() || !carried.hasOneUse())
    return std::nullopt;
  chain.carried = carried.getArgNumber() - 1;
  Value sum = chain.wait.getResult(0);
  if (!sum.hasOneUse() || loop.getYieldedValues()[chain.carried] != sum)
    return std::nullopt;
  for (Operation *op = chain.wait->getNextNode(); op; op = op->getNextNode())
    if (auto arrive = dyn_cast<ArriveOp>(op))
      chain.arrivals.push_back(arrive);
  return chain;
}

bool isZero(Value tile) {
  auto full = tile.getDefiningOp<tile::FullOp>();
  return full && matchPattern(full.getValue(), m_AnyZeroFloat());
}

class LoopRewriter {
public:
  LoopRewriter(scf::ForOp loop, Chain chain)
      : loop(loop), chain(std::move(chain)), b(loop.getLoc(), loop.getContext()) {}

  void run() {
    b.setInsertionPoint(loop);
    Value lower = loop.getLowerBound(), upper = loop.getUpperBound();
    auto less = loop.getUnsignedCmp() ? arith::CmpIPredicate::ult : arith::CmpIPredicate::slt;
    Value hasRounds = arith::CmpIOp::create(b, less, lower, upper);
    auto branch = scf::IfOp::create(b, loop.getResultTypes(), hasRounds, /*addThenBlock=*/true,
                                    /*addElseBlock=*/true);
    b.setInsertionPointToEnd(branch.elseBlock());
    SmallVector<Value> inits(loop.getInitArgs());
    if (auto full = inits[chain.carried].getDefiningOp<tile::FullOp>())
      inits[chain.carried] = b.clone(*full)->getResult(0); // not kept in registers for this
    scf::YieldOp::create(b, inits);

    b.setInsertionPointToEnd(branch.thenBlock());
    IRMapping map;
    map.map(loop.getInductionVar(), lower);
    map.map(loop.getRegionIterArgs(), loop.getInitArgs());
    SmallVector<Value> first = writeRound(map, /*isFirst=*/true, {});
    Value second = arith::AddIOp::create(b, lower, loop.getStep());
    auto rest = scf::ForOp::create(b, second, upper, loop.getStep(), first);
    rest.setUnsignedCmp(loop.getUnsignedCmp());
    rest->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
    {
      OpBuilder::InsertionGuard guard(b);
      b.setInsertionPointToEnd(rest.getBody());
      IRMapping inner;
      inner.map(loop.getInductionVar(), rest.getInductionVar());
      size_t count = loop.getNumRegionIterArgs();
      inner.map(loop.getRegionIterArgs(), rest.getRegionIterArgs().take_front(count));
      scf::YieldOp::create(
          b, writeRound(inner, /*isFirst=*/false, rest.getRegionIterArgs().drop_front(count)));
    }
    SmallVector<Value> results(rest.getResults().take_front(loop.getNumResults()));
    Value pending = results[chain.carried];
    results[chain.carried] =
        WgmmaWaitOp::create(b, TypeRange{loop.getResult(chain.carried).getType()}, 0,
                            ValueRange{pending})
            .getResult(0);
    arrive(rest.getResults().drop_front(loop.getNumResults()));
    scf::YieldOp::create(b, results);
    loop.replaceAllUsesWith(branch.getResults());
    loop.erase();
  }

private:
  /// What the next round begins with: what the loop carries, then the uses of which the arrivals
  /// are still to come. `owed` are those of the round before.
  SmallVector<Value> writeRound(IRMapping &map, bool isFirst, ValueRange owed) {
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (&op == chain.wait) {
        if (!isFirst) {
          WgmmaWaitOp::create(b, TypeRange(), 1, ValueRange());
          arrive(owed);
        }
        continue;
      }
      if (auto arrival = dyn_cast<ArriveOp>(op);
          arrival && llvm::is_contained(chain.arrivals, arrival))
        continue;
      if (&op == chain.product) {
        writeProduct(map, isFirst);
        continue;
      }
      b.clone(op, map);
    }
    SmallVector<Value> next;
    for (auto [i, value] : llvm::enumerate(loop.getYieldedValues()))
      next.push_back(map.lookupOrDefault(i == chain.carried ? chain.product.getResult() : value));
    for (ArriveOp arrival : chain.arrivals)
      next.push_back(map.lookupOrDefault(arrival.getUse()));
    return next;
  }

  void writeProduct(IRMapping &map, bool isFirst) {
    WgmmaOp op = chain.product;
    Value acc = map.lookupOrDefault(op.getAcc());
    if (isFirst && isZero(acc))
      acc = nullptr;
    auto copy = WgmmaOp::create(b, op.getType(), map.lookupOrDefault(op.getA()),
                                map.lookupOrDefault(op.getB()), op.getTransposeA(),
                                op.getTransposeB(), acc);
    map.map(op.getResult(), copy.getResult());
  }

  void arrive(ValueRange uses) {
    for (auto [arrival, use] : llvm::zip_equal(chain.arrivals, uses))
      ArriveOp::create(b, arrival.getBarriers(), use, arrival.getPer());
  }

  scf::ForOp loop;
  Chain chain;
  ImplicitLocOpBuilder b;
};

struct TgpuScheduleDotsPass : tilewright::impl::TgpuScheduleDotsBase<TgpuScheduleDotsPass> {
  void runOnOperation() override {
    SmallVector<scf::ForOp> loops;
    getOperation().walk([&](scf::ForOp loop) {
      auto schedule = loop->getAttrOfType<ScheduleAttr>(scheduleName);
      if (schedule && schedule.getSkeleton() == Skeleton::ProducerConsumer &&
          schedule.getInFlight() > 0)
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops) {
      int64_t inFlight = loop->getAttrOfType<ScheduleAttr>(scheduleName).getInFlight();
      // Of several products, tgpu-plan-stages decides.
      int64_t products = 0;
      loop->walk([&](WgmmaOp) { ++products; });
      if (inFlight > (products > 1 ? 2 : 1)) {
        loop.emitError() << "at most " << (products > 1 ? "two products" : "one product")
                         << " of a loop stay"
                         << (products > 1 ? "" : "s") << " in flight so far, but got "
                         << inFlight;
        return signalPassFailure();
      }
      if (std::optional<Chain> chain = findChain(loop))
        LoopRewriter(loop, std::move(*chain)).run();
    }
  }
};

} // namespace
