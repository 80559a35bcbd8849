// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-schedule-dots: a loop that adds products to carried accumulators need not wait for them in
// the same iteration. With the products of one iteration in flight:
//
//   iteration 0    wait full 0; wgmma ...; commit
//   iteration i    wait full i; wgmma ...; commit; wait until one is pending; arrive empty i - 1
//   after it       wait until none is pending; arrive empty of the last
//
// The loop carries the accumulators as pending, so no operation can read them. A loop without
// iterations yields its initial values. A product whose operand a the iteration computes in
// registers ends in its iteration.

#include "passes/Passes.h"

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

/// A product that is added to a carried accumulator.
struct Sum {
  WgmmaOp product;
  WgmmaCommitOp commit;
  WgmmaWaitOp wait;
  unsigned carried = 0; ///< number of the iteration argument
};

/// All products of a loop, in order, and the arrivals that depend on their end.
struct Chain {
  SmallVector<Sum> sums;
  SmallVector<ArriveOp> arrivals; ///< after the first wait
};

/// Whether an iteration computes operand a in registers: the next one would write these while the
/// product reads them. ptxas knows that of straight code, but not across iterations.
bool writesOperand(scf::ForOp loop, WgmmaOp product) {
  return isa<RankedTensorType>(product.getA().getType()) &&
         !loop.isDefinedOutsideOfLoop(product.getA());
}

/// Returns nothing if another operation uses the product or is between it and its end, or if it
/// must end before the next iteration.
std::optional<Sum> findSum(scf::ForOp loop, WgmmaOp product) {
  Sum sum;
  sum.product = product;
  auto carried = dyn_cast_or_null<BlockArgument>(product.getAcc());
  if (product->getBlock() != loop.getBody() || !product->hasOneUse() || !carried ||
      carried.getOwner() != loop.getBody() || !carried.hasOneUse() || writesOperand(loop, product))
    return std::nullopt;
  sum.wait = dyn_cast<WgmmaWaitOp>(*product->user_begin());
  sum.commit = dyn_cast_or_null<WgmmaCommitOp>(product->getNextNode());
  if (!sum.wait || sum.wait->getBlock() != loop.getBody() || sum.wait.getPending() != 0 ||
      sum.wait.getTiles().size() != 1 || sum.commit != sum.wait->getPrevNode())
    return std::nullopt;
  sum.carried = carried.getArgNumber() - 1;
  Value result = sum.wait.getResult(0);
  if (!result.hasOneUse() || loop.getYieldedValues()[sum.carried] != result)
    return std::nullopt;
  return sum;
}

/// Returns nothing unless every product of the loop is added to a carried accumulator, and the loop
/// waits for nothing else.
std::optional<Chain> findChain(scf::ForOp loop) {
  Chain chain;
  bool isSimple = true;
  size_t waits = 0;
  loop->walk([&](Operation *op) {
    waits += isa<WgmmaWaitOp>(op);
    if (auto product = dyn_cast<WgmmaOp>(op)) {
      std::optional<Sum> sum = findSum(loop, product);
      isSimple &= sum.has_value();
      if (sum)
        chain.sums.push_back(*sum);
    }
    if (isa<SyncOp, WriteSharedOp>(op)) // may wait for, or overwrite, operands of a product
      isSimple = false;
  });
  if (!isSimple || chain.sums.empty() || waits != chain.sums.size())
    return std::nullopt;
  for (Operation *op = chain.sums.front().wait->getNextNode(); op; op = op->getNextNode())
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
    for (const Sum &sum : chain.sums)
      if (auto full = inits[sum.carried].getDefiningOp<tile::FullOp>())
        inits[sum.carried] = b.clone(*full)->getResult(0); // cheaper than a live register
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
    SmallVector<Value> pending;
    SmallVector<Type> types;
    for (const Sum &sum : chain.sums) {
      pending.push_back(results[sum.carried]);
      types.push_back(loop.getResult(sum.carried).getType());
    }
    auto done = WgmmaWaitOp::create(b, types, 0, pending);
    for (auto [sum, tile] : llvm::zip_equal(chain.sums, done.getResults()))
      results[sum.carried] = tile;
    arrive(rest.getResults().drop_front(loop.getNumResults()));
    scf::YieldOp::create(b, results);
    loop.replaceAllUsesWith(branch.getResults());
    loop.erase();
  }

private:
  /// Returns the values for the next iteration: the carried values, then the use numbers whose
  /// arrivals are pending. `owed` are those of the previous iteration.
  SmallVector<Value> writeRound(IRMapping &map, bool isFirst, ValueRange owed) {
    const Sum &last = chain.sums.back();
    for (Operation &op : loop.getBody()->without_terminator()) {
      if (&op == last.wait && !isFirst) {
        WgmmaWaitOp::create(b, TypeRange(), 1, ValueRange());
        arrive(owed);
      }
      // The products of an iteration form one group.
      if (isa<WgmmaWaitOp>(op) || (isa<WgmmaCommitOp>(op) && &op != last.commit))
        continue;
      if (auto arrival = dyn_cast<ArriveOp>(op);
          arrival && llvm::is_contained(chain.arrivals, arrival))
        continue;
      if (auto product = dyn_cast<WgmmaOp>(op)) {
        writeProduct(product, map, isFirst);
        continue;
      }
      b.clone(op, map);
    }
    SmallVector<Value> next;
    for (Value value : loop.getYieldedValues())
      next.push_back(map.lookupOrDefault(value));
    for (Sum &sum : chain.sums)
      next[sum.carried] = map.lookup(sum.product.getResult());
    for (ArriveOp arrival : chain.arrivals)
      next.push_back(map.lookupOrDefault(arrival.getUse()));
    return next;
  }

  void writeProduct(WgmmaOp op, IRMapping &map, bool isFirst) {
    Value acc = map.lookupOrDefault(op.getAcc());
    if (isFirst && isZero(acc))
      acc = nullptr;
    auto copy = WgmmaOp::create(b, op.getType(), map.lookupOrDefault(op.getA()),
                                map.lookupOrDefault(op.getB()), op.getTransposeA(),
                                op.getTransposeB(), acc, op.getColumnsAttr());
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
      auto schedule = scheduleAttr.get(loop);
      if (schedule && schedule.getSkeleton() == Skeleton::ProducerConsumer &&
          schedule.getInFlight() > 0)
        loops.push_back(loop);
    });
    for (scf::ForOp loop : loops) {
      int64_t inFlight = scheduleAttr.get(loop).getInFlight();
      // tgpu-plan-stages schedules several products that read each other's results.
      int64_t products = 0;
      loop->walk([&](WgmmaOp) { ++products; });
      if (inFlight > (products > 1 ? 2 : 1)) {
        loop.emitError() << "a loop may have at most "
                         << (products > 1 ? "two products" : "one product")
                         << " in flight, but got " << inFlight;
        return signalPassFailure();
      }
      if (std::optional<Chain> chain = findChain(loop))
        LoopRewriter(loop, std::move(*chain)).run();
    }
  }
};

} // namespace
