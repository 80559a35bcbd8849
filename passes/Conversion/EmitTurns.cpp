// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns and first iterations of warpgroups, arrivals by one thread for many, and bulk copies of
// rows.

#include "passes/Conversion/Barriers.h"
#include "passes/Conversion/ElementOps.h"
#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"

#include "mlir/Dialect/LLVMIR/LLVMDialect.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

constexpr int64_t kThreadsOfTurn = 2 * Target::threadsOfGroup;

/// The warpgroup of this thread within the role (or the block).
static Value getWarpgroup(ThreadBuilder &b) {
  // The shuffle tells ptxas that the warp's number is uniform across its lanes.
  Value whole = shuffle(b, "idx", b.threads.warp, b.i32(0));
  return arith::DivUIOp::create(b, whole, b.i32(Target::warpsOfGroup));
}

static void emitFirstRound(KernelEmitter &e, FirstRoundOp op) {
  ThreadBuilder &b = e.b;
  Value warpgroup = getWarpgroup(b), own;
  for (auto [number, value] : llvm::enumerate(op.getOwn())) {
    Value each = e.getScalar(value);
    if (!own) {
      own = each;
      continue;
    }
    Value isThis = b.equal(warpgroup, b.i32(number));
    own = arith::SelectOp::create(b, isThis, each, own);
  }
  // The value is uniform; the reduction makes this known to ptxas (see readWord in
  // EmitNextTile.cpp).
  e.set(op.getFirst(), {b.intrinsic("llvm.nvvm.redux.sync.min", b.getI32Type(), {own, b.i32(-1)})});
}

/// Warpgroup g waits at barrier g, where the previous warpgroup arrives. Warpgroup 1 passes the
/// first turn to warpgroup 0 here.
static LogicalResult emitTurns(KernelEmitter &e, TurnsOp op) {
  ThreadBuilder &b = e.b;
  if (!op.getId())
    return op.emitError() << "turns must have a number before code is generated; run "
                             "tgpu-plan-shared-memory";
  // The first warp of the role that takes them, in the numbering used here.
  int64_t firstWarp = 0;
  if (isa<KernelOp>(op->getParentOp()) && !op->use_empty())
    for (Operation *at = *op->user_begin(); Operation *parent = at->getParentOp(); at = parent)
      if (auto roles = dyn_cast<RolesOp>(parent)) {
        for (int64_t warps : roles.getWarps().take_front(at->getParentRegion()->getRegionNumber()))
          firstWarp += warps;
        break;
      }
  if (firstWarp % Target::warpsOfGroup != 0)
    return op.emitError()
           << "the role that takes turns must begin at a warpgroup, but it begins at "
              "warp "
           << firstWarp;
  Value isSecond = b.equal(getWarpgroup(b), b.i32(firstWarp / Target::warpsOfGroup + 1));
  b.onlyIf(isSecond, [&] {
    b.intrinsic("llvm.nvvm.barrier.cta.arrive.aligned.count",
                ValueRange{b.i32(*op.getId()), b.i32(kThreadsOfTurn)});
  });
  return success();
}

namespace {
/// By the turns, and whether one is taken.
struct BarriersOfTurns : std::map<std::pair<Operation *, bool>, Value> {};
} // namespace

/// The barrier at which this warpgroup waits for its turn, or that of the next one.
static Value getBarrierOfTurn(KernelEmitter &e, TurnsOp turns, bool takes) {
  ThreadBuilder &b = e.b;
  Value &number = e.state<BarriersOfTurns>()[{turns.getOperation(), takes}];
  if (number)
    return number;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(b.threads.endOfEntry);
  Value group = arith::DivUIOp::create(b, b.threads.warp, b.i32(Target::warpsOfGroup));
  if (!takes) {
    Value next = b.add(group, b.i32(1));
    Value isLast = b.equal(next, b.i32(static_cast<int64_t>(turns.getWarpgroups())));
    group = arith::SelectOp::create(b, isLast, b.i32(0), next);
  }
  // The shuffle makes the number uniform and opaque: ptxas would recompute it from the warp's
  // number in each iteration, in up to four instructions.
  number = shuffle(b, "idx", b.add(group, b.i32(static_cast<int64_t>(*turns.getId()))), b.i32(0));
  return number;
}

static LogicalResult emitTurn(KernelEmitter &e, Operation *op, Value turnsValue, bool takes) {
  auto turns = turnsValue.getDefiningOp<TurnsOp>();
  if (!turns || !turns.getId())
    return op->emitError() << "the turns must be the result of tgpu.turns, numbered";
  // One instruction whose barrier is in a register. A branch to one with a constant for each
  // warpgroup would reserve fewer barriers, but would be executed between warpgroups in every
  // iteration.
  e.b.intrinsic(takes ? "llvm.nvvm.barrier.cta.sync.aligned.count"
                      : "llvm.nvvm.barrier.cta.arrive.aligned.count",
                ValueRange{getBarrierOfTurn(e, turns, takes), e.b.i32(kThreadsOfTurn)});
  return success();
}

static void emitArrive(KernelEmitter &e, ArriveOp op) {
  ThreadBuilder &b = e.b;
  Value address = getBarrier(e, op.getBarriers(), e.getScalar(op.getUse()));
  auto arrive = [&] {
    b.inlineAsm("mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", nullptr, {address});
  };
  if (op.getPer() == ArriveScope::Thread || e.isOneThread) {
    arrive();
    return;
  }
  // The work of the other threads precedes the convergence of their warp, or a barrier.
  b.intrinsic("llvm.nvvm.bar.warp.sync", b.i32(-1));
  int64_t threads = op.getPer() == ArriveScope::Warp        ? Target::lanes
                    : op.getPer() == ArriveScope::Warpgroup ? Target::threadsOfGroup
                                                            : Target::lanes * b.threads.numWarps;
  Value number = threads == Target::lanes
                     ? b.threads.lane
                     : arith::RemUIOp::create(b, b.threads.thread, b.i32(threads)).getResult();
  Value isFirst = b.equal(number, b.i32(0));
  b.onlyIf(isFirst, arrive);
}

/// Bytes beyond the view are not copied; the barrier counts them as if they were.
static void emitBulkLoad(KernelEmitter &e, BulkLoadOp op) {
  ThreadBuilder &b = e.b;
  constexpr int64_t pieceBytes = 16;
  auto type = cast<SharedType>(op.getBuffer().getType());
  ViewRegion region = getRegion(e, op.getView(), op.getIndices(), op.getStaticIndices(),
                                std::nullopt, type.getShape());
  Value full = getBarrier(e, op.getBarriers(), e.getScalar(op.getUse()));
  int64_t elementBytes = region.view.bytes, allBytes = getBytes(type);
  Value zeroBytes = b.i32(0);
  Value left = arith::SubIOp::create(b, region.extent.back(), region.index.back());
  left = arith::MinSIOp::create(b, arith::MaxSIOp::create(b, left, zeroBytes),
                                b.i32(type.getShape().back()));
  if (region.inside)
    left = arith::SelectOp::create(b, region.inside, left, zeroBytes);
  Value bytes = b.add(b.mul(left, b.i32(elementBytes)), b.i32(pieceBytes - 1));
  bytes = arith::AndIOp::create(b, bytes, b.i32(-pieceBytes));
  Value missing = arith::SubIOp::create(b, b.i32(allBytes), bytes);
  Value buffer = getWindowAddress(b, e.getScalar(op.getBuffer()));
  byOneThread(e, [&] {
    b.onlyIf(b.notEqual(bytes, zeroBytes), [&] {
      b.inlineAsm(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, "
          "[$3];",
          "r,l,r,r,~{memory}", nullptr, {buffer, region.origin, bytes, full});
    });
    b.onlyIf(b.notEqual(missing, zeroBytes), [&] {
      b.inlineAsm("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
                  nullptr, {full, missing});
    });
  });
}

/// Ends the basic block, by a branch that is never taken, which neither LLVM nor ptxas can know:
/// ptxas moves barriers before and after arithmetic, but not out of their block. Operands and rows
/// since the last product that are used later pass through an empty instruction, or LLVM would
/// compute them after the branch; sums of products are rescaled there.
static void endBlock(KernelEmitter &e, Operation *op) {
  ThreadBuilder &b = e.b;
  for (Operation *before = op->getPrevNode(); before && !isa<WgmmaWaitOp>(before);
       before = before->getPrevNode())
    for (Value value : before->getResults()) {
      auto tile = dyn_cast<RankedTensorType>(value.getType());
      bool isKept = tile && !isa_and_nonnull<WgmmaAttr>(tile.getEncoding()) &&
                    llvm::any_of(value.getUsers(), [&](Operation *user) {
                      return user->getBlock() == op->getBlock() && op->isBeforeInBlock(user);
                    });
      if (isKept)
        e.keepHere(value);
    }
  for (auto slot : op->getBlock()->getOps<SlotOp>()) {
    if (!slot->isBeforeInBlock(op))
      return;
    if (slot.getUse().getParentBlock() != op->getBlock())
      continue;
    // The number of uses so far, which stays below 2^31.
    Value isNegative =
        arith::CmpIOp::create(b, arith::CmpIPredicate::slt, e.getScalar(slot.getUse()), b.i32(0));
    b.onlyIf(isNegative, [&] { LLVM::Trap::create(b); });
    return;
  }
}

static LogicalResult emitTakeTurn(KernelEmitter &e, TakeTurnOp op) {
  if (keepPlaceAttr.isOn(op))
    endBlock(e, op);
  return emitTurn(e, op, op.getTurns(), /*takes=*/true);
}

static LogicalResult emitPassTurn(KernelEmitter &e, PassTurnOp op) {
  return emitTurn(e, op, op.getTurns(), /*takes=*/false);
}

void tgpu::registerTurnLowerings(LoweringTable &table) {
  table.add<FirstRoundOp>(emitFirstRound);
  table.add<TurnsOp>(emitTurns);
  table.add<TakeTurnOp>(emitTakeTurn);
  table.add<PassTurnOp>(emitPassTurn);
  table.add<ArriveOp>(emitArrive);
  table.add<BulkLoadOp>(emitBulkLoad);
}
