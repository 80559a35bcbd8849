// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Assigns the wait for sums to stage 1.

#include "passes/Tgpu/Loops/SumsInFlight.h"

#include "mlir/IR/Builders.h"

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
struct RoundSums {
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
std::optional<RoundSums> findSums(scf::ForOp loop) {
  RoundSums found;
  bool isSimple = true;
  size_t waits = 0;
  loop->walk([&](Operation *op) {
    waits += isa<WgmmaWaitOp>(op);
    if (auto product = dyn_cast<WgmmaOp>(op)) {
      std::optional<Sum> sum = findSum(loop, product);
      isSimple &= sum.has_value();
      if (sum)
        found.sums.push_back(*sum);
    }
    if (isa<SyncOp, WriteSharedOp>(op)) // may wait for, or overwrite, operands of a product
      isSimple = false;
  });
  if (!isSimple || found.sums.empty() || waits != found.sums.size())
    return std::nullopt;
  for (Operation *op = found.sums.front().wait->getNextNode(); op; op = op->getNextNode())
    if (auto arrive = dyn_cast<ArriveOp>(op))
      found.arrivals.push_back(arrive);
  return found;
}

/// The products of an iteration form one group, which one operation waits for.
void divide(scf::ForOp loop, const RoundSums &found) {
  const Sum &last = found.sums.back();
  SmallVector<Value> products;
  SmallVector<Type> types;
  for (const Sum &sum : found.sums) {
    WgmmaOp product = sum.product;
    products.push_back(product.getResult());
    types.push_back(loop.getRegionIterArg(sum.carried).getType());
  }
  OpBuilder b(last.wait);
  auto all = WgmmaWaitOp::create(b, loop.getLoc(), types, 0, products);
  for (auto [sum, tile] : llvm::zip_equal(found.sums, all.getResults())) {
    WgmmaWaitOp wait = sum.wait;
    wait->getResult(0).replaceAllUsesWith(tile);
    wait->erase();
    if (WgmmaCommitOp commit = sum.commit; commit != last.commit)
      commit->erase();
  }
  int64_t order = 0;
  auto put = [&](int64_t stage, Operation *op) { Place{stage, order++}.set(op); };
  for (Operation &op : loop.getBody()->without_terminator()) {
    bool isLate = &op == all || llvm::is_contained(found.arrivals, &op);
    if (!isLate)
      put(0, &op);
    if (&op != all)
      continue;
    put(1, all);
    for (ArriveOp arrival : found.arrivals)
      put(1, arrival);
  }
}

} // namespace

bool tgpu::leaveSumsInFlight(const LoopChain &chain) {
  SmallVector<RoundSums> sums;
  for (scf::ForOp loop : chain) {
    std::optional<RoundSums> found = findSums(loop);
    if (!found)
      return false;
    sums.push_back(std::move(*found));
  }
  for (auto [loop, found] : llvm::zip_equal(chain, sums))
    divide(loop, found);
  return true;
}
