// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-skip-idle-rounds: splits a loop with a first iteration for each warpgroup. The iterations
// before it become a separate loop, which only waits for slots and releases them.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/IdleRounds.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/IRMapping.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"
#include "llvm/ADT/SetVector.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSKIPIDLEROUNDS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// Whether each warpgroup executes the operation independently. Other operations may exchange
/// elements between all warps of a role, such as a reduction along dimension 0, and synchronize at
/// its barriers.
bool isByWarpgroup(Operation *op) {
  if (auto reduce = dyn_cast<tile::ReduceOp>(op)) {
    auto type = dyn_cast<RankedTensorType>(reduce.getSource().getType());
    return type && isa_and_nonnull<WgmmaAttr, ByThreadAttr>(type.getEncoding()) &&
           reduce.getDim() == 1;
  }
  if (auto convert = dyn_cast<ConvertOp>(op))
    return !convert.getScratch();
  if (isa<WgmmaOp, WgmmaCommitOp, WgmmaWaitOp, ReadOp, LoadOp, SlotOp, ColumnsOp, JoinColumnsOp,
          ThreadSumOp, scf::ForOp, scf::IfOp, scf::YieldOp>(op))
    return true;
  if (isa<tile::FullOp, tile::IotaOp, tile::ExpandOp, tile::SelectOp, tile::CastOp, tile::MapOp,
          tile::RandomOp, tile::AtOp, tile::DimOp, tile::SubviewOp, tile::PagedOp,
          tile::CapturedOp>(op))
    return true;
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect());
}

/// Whether warpgroups synchronize in the loop only through the barriers of its rings.
bool runsByWarpgroup(scf::ForOp loop) {
  Block *body = loop.getBody();
  return !body->walk([&](Operation *op) {
                bool isOfRing = isa<WaitOp, ArriveOp>(op) && op->getBlock() == body;
                return isOfRing || isByWarpgroup(op) ? WalkResult::advance()
                                                     : WalkResult::interrupt();
              })
              .wasInterrupted();
}

bool isScalar(Type type) { return type.isIntOrIndex(); }

/// Adds the operations of the body that a value depends on. Returns false if one of them is not
/// scalar.
bool addSlice(Block *body, Value value, llvm::DenseSet<Operation *> &slice) {
  SmallVector<Value> worklist{value};
  while (!worklist.empty()) {
    Value needed = worklist.pop_back_val();
    Operation *op = needed.getDefiningOp();
    if (!op || op->getBlock() != body) {
      auto argument = dyn_cast<BlockArgument>(needed);
      if (argument && argument.getOwner() == body && !isScalar(argument.getType()))
        return false;
      continue;
    }
    if (!llvm::all_of(op->getResultTypes(), isScalar) || op->getNumRegions() > 0 ||
        !isMemoryEffectFree(op))
      return false;
    if (slice.insert(op).second)
      llvm::append_range(worklist, op->getOperands());
  }
  return true;
}

struct TgpuSkipIdleRoundsPass : tilewright::impl::TgpuSkipIdleRoundsBase<TgpuSkipIdleRoundsPass> {
  void runOnOperation() override {
    llvm::SetVector<scf::ForOp> loops;
    SmallVector<FirstRoundOp> firsts;
    getOperation()->walk([&](FirstRoundOp first) {
      firsts.push_back(first);
      for (Operation *user : first->getUsers())
        if (auto loop = dyn_cast<scf::ForOp>(user); loop && loop.getLowerBound() == first)
          loops.insert(loop);
    });
    for (scf::ForOp loop : loops)
      if (!skip(loop))
        loop.setLowerBound(getFirstOfAll(loop.getLowerBound()));
    for (FirstRoundOp first : firsts)
      if (first->use_empty())
        first.erase();
  }

private:
  static bool skip(scf::ForOp loop) {
    auto schedule = scheduleAttr.get(loop);
    if (!schedule || schedule.getSkeleton() != Skeleton::ProducerConsumer ||
        !loop->getParentOfType<RolesOp>() || !runsByWarpgroup(loop))
      return false;
    // Keep the counters that must advance, such as ring uses, and the operands of barrier
    // operations.
    Block *body = loop.getBody();
    llvm::DenseSet<Operation *> kept;
    SmallVector<unsigned> counted;
    for (auto [i, yielded] : llvm::enumerate(loop.getYieldedValues())) {
      if (!isScalar(yielded.getType()))
        continue; // carried tiles do not change in skipped iterations
      counted.push_back(i);
      if (!addSlice(body, yielded, kept))
        return false;
    }
    for (Operation &op : *body)
      if (isa<WaitOp, ArriveOp>(op)) {
        for (Value operand : op.getOperands())
          if (!addSlice(body, operand, kept))
            return false;
        kept.insert(&op);
      }

    OpBuilder b(loop);
    Location loc = loop.getLoc();
    SmallVector<Value> inits;
    for (unsigned i : counted)
      inits.push_back(loop.getInitArgs()[i]);
    auto idle = scf::ForOp::create(b, loc, getFirstOfAll(loop.getLowerBound()),
                                   loop.getLowerBound(), loop.getStep(), inits);
    idleRoundsAttr.set(idle);
    if (inits.empty())
      idle.getBody()->getTerminator()->erase();
    b.setInsertionPointToEnd(idle.getBody());
    IRMapping map;
    map.map(loop.getInductionVar(), idle.getInductionVar());
    for (auto [number, i] : llvm::enumerate(counted))
      map.map(loop.getRegionIterArgs()[i], idle.getRegionIterArgs()[number]);
    for (Operation &op : *body)
      if (kept.contains(&op))
        b.clone(op, map);
    SmallVector<Value> yielded;
    for (unsigned i : counted)
      yielded.push_back(map.lookupOrDefault(loop.getYieldedValues()[i]));
    scf::YieldOp::create(b, loc, yielded);
    for (auto [number, i] : llvm::enumerate(counted))
      loop.getInitArgsMutable()[i].assign(idle.getResult(number));
    return true;
  }
};

} // namespace
