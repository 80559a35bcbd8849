// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns and first rounds of warpgroups, arrivals by one thread for many, and bulk copies of rows.

#include "passes/Conversion/KernelEmitter.h"

#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using ViewRegion = KernelEmitter::ViewRegion;

constexpr int64_t kWarpsOfGroup = 4, kThreadsOfTurn = 2 * 32 * kWarpsOfGroup;

/// The warpgroup of the role (or of the block) that this thread is of.
static Value getWarpgroup(KernelEmitter &e) {
  // The shuffle tells ptxas that the warp's number is uniform across its lanes.
  Value whole = e.shuffle("idx", e.warp, e.i32(0));
  return arith::DivUIOp::create(e.b, whole, e.i32(kWarpsOfGroup));
}

static void emitFirstRound(KernelEmitter &e, FirstRoundOp op) {
  Value warpgroup = getWarpgroup(e), own;
  for (auto [number, value] : llvm::enumerate(op.getOwn())) {
    Value each = e.getScalar(value);
    if (!own) {
      own = each;
      continue;
    }
    Value isThis = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, warpgroup, e.i32(number));
    own = arith::SelectOp::create(e.b, isThis, each, own);
  }
  // The value is uniform; the reduction tells ptxas so (see readWord in EmitNextTile.cpp).
  e.set(op.getFirst(),
        {e.intrinsic("llvm.nvvm.redux.sync.min", e.b.getI32Type(), {own, e.i32(-1)})});
}

/// Warpgroup g waits at barrier g, where the warpgroup before it arrives. Warpgroup 1 passes the
/// first turn to warpgroup 0 here.
static LogicalResult emitTurns(KernelEmitter &e, TurnsOp op) {
  if (!op.getId())
    return op.emitError() << "turns must have a number before code is generated; run "
                             "tgpu-plan-shared-memory";
  // The first warp of the role that takes them, as warps are numbered here.
  int64_t firstWarp = 0;
  if (isa<KernelOp>(op->getParentOp()) && !op->use_empty())
    for (Operation *at = *op->user_begin(); Operation *parent = at->getParentOp(); at = parent)
      if (auto roles = dyn_cast<RolesOp>(parent)) {
        for (int64_t warps : roles.getWarps().take_front(at->getParentRegion()->getRegionNumber()))
          firstWarp += warps;
        break;
      }
  if (firstWarp % kWarpsOfGroup != 0)
    return op.emitError()
           << "the role that takes turns must begin at a warpgroup, but it begins at "
              "warp "
           << firstWarp;
  Value isSecond = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, getWarpgroup(e),
                                         e.i32(firstWarp / kWarpsOfGroup + 1));
  auto branch = scf::IfOp::create(e.b, isSecond, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
  e.intrinsic("llvm.nvvm.barrier.cta.arrive.aligned.count",
              ValueRange{e.i32(*op.getId()), e.i32(kThreadsOfTurn)});
  return success();
}

/// The barrier at which this warpgroup waits for its turn, or of the next one.
static Value getBarrierOfTurn(KernelEmitter &e, TurnsOp turns, bool takes) {
  Value &number = e.barriersOfTurns[{turns.getOperation(), takes}];
  if (number)
    return number;
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(e.endOfEntry);
  Value group = arith::DivUIOp::create(e.b, e.warp, e.i32(kWarpsOfGroup));
  if (!takes) {
    Value next = e.add(group, e.i32(1));
    Value isLast = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, next,
                                         e.i32(static_cast<int64_t>(turns.getWarpgroups())));
    group = arith::SelectOp::create(e.b, isLast, e.i32(0), next);
  }
  // The shuffle makes the number uniform and opaque: ptxas would recompute it from the warp's
  // number in each iteration, in up to four instructions.
  number = e.shuffle("idx", e.add(group, e.i32(static_cast<int64_t>(*turns.getId()))), e.i32(0));
  return number;
}

static LogicalResult emitTurn(KernelEmitter &e, Operation *op, Value turnsValue, bool takes) {
  auto turns = turnsValue.getDefiningOp<TurnsOp>();
  if (!turns || !turns.getId())
    return op->emitError() << "the turns must be the result of tgpu.turns, numbered";
  // One instruction whose barrier is a register's. A branch to one with a constant for each
  // warpgroup would reserve fewer barriers, but stands between warpgroups in every round.
  e.intrinsic(takes ? "llvm.nvvm.barrier.cta.sync.aligned.count"
                    : "llvm.nvvm.barrier.cta.arrive.aligned.count",
              ValueRange{getBarrierOfTurn(e, turns, takes), e.i32(kThreadsOfTurn)});
  return success();
}

static LogicalResult emitArrive(KernelEmitter &e, ArriveOp op) {
  Value address = e.barrierOf(op.getBarriers(), e.getScalar(op.getUse()));
  auto arrive = [&] {
    e.inlineAsm("mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", nullptr, {address});
  };
  if (op.getPer() == ArriveScope::Thread || e.isOneThread) {
    arrive();
    return success();
  }
  // The other threads' work lies before the convergence of their warp, or before a barrier.
  e.intrinsic("llvm.nvvm.bar.warp.sync", e.i32(-1));
  int64_t threads = op.getPer() == ArriveScope::Warp        ? 32
                    : op.getPer() == ArriveScope::Warpgroup ? 32 * kWarpsOfGroup
                                                            : 32 * e.numWarps;
  Value number =
      threads == 32 ? e.lane : arith::RemUIOp::create(e.b, e.thread, e.i32(threads)).getResult();
  Value isFirst = arith::CmpIOp::create(e.b, arith::CmpIPredicate::eq, number, e.i32(0));
  auto branch = scf::IfOp::create(e.b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
  arrive();
  return success();
}

/// Bytes beyond the view are not copied; the barrier counts them as if they were.
static LogicalResult emitBulkLoad(KernelEmitter &e, BulkLoadOp op) {
  constexpr int64_t pieceBytes = 16;
  auto type = cast<SharedType>(op.getBuffer().getType());
  ViewRegion region = e.getRegion(op.getView(), op.getIndices(), op.getStaticIndices(),
                                  std::nullopt, type.getShape());
  Value full = e.barrierOf(op.getBarriers(), e.getScalar(op.getUse()));
  int64_t elementBytes = region.view.bytes, allBytes = getBytes(type);
  Value zeroBytes = e.i32(0);
  Value left = arith::SubIOp::create(e.b, region.extent.back(), region.index.back());
  left = arith::MinSIOp::create(e.b, arith::MaxSIOp::create(e.b, left, zeroBytes),
                                e.i32(type.getShape().back()));
  if (region.inside)
    left = arith::SelectOp::create(e.b, region.inside, left, zeroBytes);
  Value bytes = e.add(e.mul(left, e.i32(elementBytes)), e.i32(pieceBytes - 1));
  bytes = arith::AndIOp::create(e.b, bytes, e.i32(-pieceBytes));
  Value missing = arith::SubIOp::create(e.b, e.i32(allBytes), bytes);
  Value buffer = e.windowAddress(e.getScalar(op.getBuffer()));
  auto onlyIf = [&](Value count, llvm::function_ref<void()> body) {
    Value isSome = arith::CmpIOp::create(e.b, arith::CmpIPredicate::ne, count, zeroBytes);
    auto branch = scf::IfOp::create(e.b, isSome, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(e.b);
    e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  };
  e.byOneThread([&] {
    onlyIf(bytes, [&] {
      e.inlineAsm(
          "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, "
          "[$3];",
          "r,l,r,r,~{memory}", nullptr, {buffer, region.origin, bytes, full});
    });
    onlyIf(missing, [&] {
      e.inlineAsm("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
                  nullptr, {full, missing});
    });
  });
  return success();
}

static LogicalResult emitTakeTurn(KernelEmitter &e, TakeTurnOp op) {
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
