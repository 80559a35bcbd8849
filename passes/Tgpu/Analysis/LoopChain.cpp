// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Finds chains of loops and reads the places of their operations.

#include "passes/Tgpu/Analysis/LoopChain.h"

#include "mlir/IR/Matchers.h"
#include "llvm/ADT/SetVector.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// The loop that continues where this one ends, if it is the only user of the results.
static scf::ForOp getNext(scf::ForOp loop) {
  if (loop.getNumResults() == 0 || !loop.getResult(0).hasOneUse())
    return {};
  auto next = dyn_cast<scf::ForOp>(*loop.getResult(0).user_begin());
  if (!next || next->getBlock() != loop->getBlock() ||
      next.getLowerBound() != loop.getUpperBound() || !matchPattern(loop.getStep(), m_One()) ||
      !matchPattern(next.getStep(), m_One()) || // otherwise a part's end need not be an iteration
      !llvm::equal(next.getInitArgs(), loop.getResults()) ||
      next.getUnsignedCmp() != loop.getUnsignedCmp() ||
      scheduleAttr.get(next) != scheduleAttr.get(loop))
    return {};
  bool isOnlyUser =
      llvm::all_of(loop.getResults(), [](OpResult result) { return result.hasOneUse(); });
  return isOnlyUser ? next : scf::ForOp();
}

LoopChain tgpu::getLoopChain(scf::ForOp first) {
  LoopChain chain;
  for (scf::ForOp part = first; part; part = getNext(part))
    chain.push_back(part);
  return chain;
}

SmallVector<LoopChain> tgpu::getLoopChains(Operation *scope) {
  SmallVector<LoopChain> chains;
  llvm::DenseSet<Operation *> followers;
  scope->walk([&](scf::ForOp loop) {
    auto schedule = scheduleAttr.get(loop);
    bool isScheduled = schedule && schedule.getSkeleton() == Skeleton::ProducerConsumer;
    if (!isScheduled || followers.contains(loop) || !loop->getParentOfType<RolesOp>())
      return;
    chains.push_back(getLoopChain(loop));
    followers.insert(chains.back().begin(), chains.back().end());
  });
  return chains;
}

std::optional<Place> Place::get(Operation *op) {
  if (PlaceAttr place = placeAttr.get(op))
    return Place{place[0], place[1]};
  return std::nullopt;
}

void Place::set(Operation *op) const { placeAttr.set(op, ArrayRef<int64_t>{stage, order}); }

std::optional<Product> Product::get(WgmmaOp op) {
  auto commit = dyn_cast_or_null<WgmmaCommitOp>(op->getNextNode());
  auto wait = op->hasOneUse() ? dyn_cast<WgmmaWaitOp>(*op->user_begin()) : WgmmaWaitOp();
  if (!commit || !wait || wait->getBlock() != op->getBlock() || wait.getTiles().size() != 1)
    return std::nullopt;
  return Product{op, commit, wait};
}

bool tgpu::isOnlyYielded(WgmmaWaitOp wait) {
  return llvm::all_of(wait->getUsers(),
                      [](Operation *user) { return user->hasTrait<OpTrait::IsTerminator>(); });
}

bool tgpu::hasPlaces(const LoopChain &chain) {
  return llvm::any_of(chain, [](scf::ForOp loop) {
    return llvm::any_of(*loop.getBody(), [](Operation &op) { return placeAttr.isOn(&op); });
  });
}

int64_t tgpu::countProducts(scf::ForOp loop) {
  llvm::SmallDenseMap<Region *, int64_t> products;
  loop->walk([&](WgmmaOp product) {
    Region *region = product->getParentRegion();
    while (auto branch = dyn_cast<scf::IfOp>(region->getParentOp()))
      if (specialCaseAttr.isOn(branch))
        break;
      else
        region = branch->getParentRegion();
    ++products[region];
  });
  int64_t most = 0;
  for (auto [region, count] : products)
    most = std::max(most, count);
  return most;
}

llvm::SmallPtrSet<Operation *, 4> tgpu::getProducts(Value value, scf::ForOp loop) {
  llvm::SmallPtrSet<Operation *, 4> products;
  SetVector<Value> reached;
  reached.insert(value);
  for (size_t i = 0; i < reached.size(); ++i) {
    Operation *op = reached[i].getDefiningOp();
    if (!op || !loop->isProperAncestor(op))
      continue;
    if (isa<WgmmaOp>(op))
      products.insert(op);
    else if (auto branch = dyn_cast<scf::IfOp>(op); branch && branch.elseBlock())
      for (auto yield : {branch.thenYield(), branch.elseYield()})
        reached.insert(yield.getOperand(cast<OpResult>(reached[i]).getResultNumber()));
    else
      reached.insert_range(op->getOperands());
  }
  return products;
}

bool tgpu::addsCombinedProducts(scf::ForOp loop) {
  int64_t sums = llvm::count_if(loop.getRegionIterArgs(), [](BlockArgument carried) {
    auto tile = dyn_cast<RankedTensorType>(carried.getType());
    return tile && isa_and_present<WgmmaAttr>(tile.getEncoding());
  });
  bool isCombined = false;
  loop->walk([&](WgmmaOp product) { isCombined |= getProducts(product.getA(), loop).size() > 1; });
  return isCombined && sums > 1;
}

bool tgpu::exchangesProducts(scf::ForOp loop) {
  return loop
      ->walk([&](WriteSharedOp write) {
        return getProducts(write.getValue(), loop).empty() ? WalkResult::advance()
                                                           : WalkResult::interrupt();
      })
      .wasInterrupted();
}

Region *tgpu::getRole(Operation *op) {
  Region *region = op->getParentRegion();
  while (region && !isa<RolesOp>(region->getParentOp()))
    region = region->getParentRegion();
  return region;
}
