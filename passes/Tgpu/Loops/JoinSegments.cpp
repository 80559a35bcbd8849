// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-join-segments: undoes tgpu-clone-segments where short code matters more than fast code. A
// loop whose body is valid for all iterations of the loop that was split executes all of them.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/LoopChain.h"

#include "mlir/IR/Dominance.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUJOINSEGMENTS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Whether nothing between the loops of a chain has an effect, so that iterations may move to any
/// of them.
bool areAdjacent(const LoopChain &chain) {
  Operation *end = chain.back();
  for (Operation *op = chain.front(); op != end; op = op->getNextNode())
    if (!isMemoryEffectFree(op) && !llvm::is_contained(chain, op))
      return false;
  return true;
}

/// The loop of a chain that can execute all iterations, or null.
scf::ForOp findGeneral(const LoopChain &chain, DominanceInfo &dominance) {
  // Such a fact holds for a part of the iterations only, and other passes may have used it.
  auto isLimited = [](scf::ForOp loop) {
    return oneBeforeAttr.isOn(loop) || oneAfterAttr.isOn(loop);
  };
  if (llvm::any_of(chain, isLimited) || !areAdjacent(chain))
    return {};
  for (scf::ForOp loop : chain)
    if (generalAttr.isOn(loop) &&
        dominance.properlyDominates(scf::ForOp(chain.back()).getUpperBound(), loop))
      return loop;
  return {};
}

void join(LoopChain &chain, scf::ForOp general) {
  general.setLowerBound(chain.front().getLowerBound());
  general.setUpperBound(chain.back().getUpperBound());
  SmallVector<Value> inits(chain.front().getInitArgs());
  if (chain.back() != general)
    chain.back()->replaceAllUsesWith(general);
  general.getInitArgsMutable().assign(inits);
  // Each was used by its successor only.
  for (scf::ForOp loop : llvm::reverse(chain))
    if (loop != general)
      loop.erase();
}

struct TgpuJoinSegmentsPass : tilewright::impl::TgpuJoinSegmentsBase<TgpuJoinSegmentsPass> {
  void runOnOperation() override {
    DominanceInfo dominance(getOperation());
    SmallVector<scf::ForOp> loops;
    getOperation()->walk([&](scf::ForOp loop) { loops.push_back(loop); });
    llvm::DenseSet<Operation *> followers;
    SmallVector<LoopChain> chains;
    for (scf::ForOp loop : loops) { // the first of a block before those that continue it
      // Roles synchronize by the iterations of their own loops.
      if (followers.contains(loop) || loop->getParentOfType<RolesOp>())
        continue;
      chains.push_back(getLoopChain(loop));
      followers.insert(chains.back().begin(), chains.back().end());
    }
    for (LoopChain &chain : chains)
      if (scf::ForOp general = findGeneral(chain, dominance); general && chain.size() > 1)
        join(chain, general);
  }
};

} // namespace
