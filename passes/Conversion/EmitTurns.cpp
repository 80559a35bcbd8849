// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns and first rounds of warpgroups, arrivals by one thread for many, and bulk copies of rows.

#include "passes/Conversion/KernelEmitter.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

constexpr int64_t kWarpsOfGroup = 4, kThreadsOfTurn = 2 * 32 * kWarpsOfGroup;

/// The warpgroup of the role (or of the block) that this thread is of.
Value KernelEmitter::getWarpgroup() {
  // The warp, known to be the same in all of its lanes.
  Value whole = shuffle("idx", warp, i32(0));
  return arith::DivUIOp::create(b, whole, i32(kWarpsOfGroup));
}

void KernelEmitter::emitFirstRound(FirstRoundOp op) {
  Value warpgroup = getWarpgroup(), own;
  for (auto [number, value] : llvm::enumerate(op.getOwn())) {
    Value each = getScalar(value);
    if (!own) {
      own = each;
      continue;
    }
    Value isThis = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, warpgroup, i32(number));
    own = arith::SelectOp::create(b, isThis, each, own);
  }
  // The same in all lanes; of a reduction ptxas knows it (see readWord).
  set(op.getFirst(), {intrinsic("llvm.nvvm.redux.sync.min", b.getI32Type(), {own, i32(-1)})});
}

/// Barrier g lets warpgroup g go; the one before arrives there. The first turn of warpgroup 0 is
/// passed to it by warpgroup 1, here.
LogicalResult KernelEmitter::emitTurns(TurnsOp op) {
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
  Value isSecond = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, getWarpgroup(),
                                         i32(firstWarp / kWarpsOfGroup + 1));
  auto branch = scf::IfOp::create(b, isSecond, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  intrinsic("llvm.nvvm.barrier.cta.arrive.aligned.count",
            ValueRange{i32(*op.getId()), i32(kThreadsOfTurn)});
  return success();
}

LogicalResult KernelEmitter::emitTurn(Operation *op, Value turnsValue, bool takes) {
  auto turns = turnsValue.getDefiningOp<TurnsOp>();
  if (!turns || !turns.getId())
    return op->emitError() << "the turns must be the result of tgpu.turns, numbered";
  // One instruction whose barrier is a register's. A branch to one with a constant for each
  // warpgroup would reserve fewer barriers, but stands between warpgroups in every round.
  intrinsic(takes ? "llvm.nvvm.barrier.cta.sync.aligned.count"
                  : "llvm.nvvm.barrier.cta.arrive.aligned.count",
            ValueRange{getBarrierOfTurn(turns, takes), i32(kThreadsOfTurn)});
  return success();
}

/// The barrier at which this warpgroup waits for its turn, or of the next one.
Value KernelEmitter::getBarrierOfTurn(TurnsOp turns, bool takes) {
  Value &number = barriersOfTurns[{turns.getOperation(), takes}];
  if (number)
    return number;
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(endOfEntry);
  Value group = arith::DivUIOp::create(b, warp, i32(kWarpsOfGroup));
  if (!takes) {
    Value next = add(group, i32(1));
    Value isLast = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, next,
                                         i32(static_cast<int64_t>(turns.getWarpgroups())));
    group = arith::SelectOp::create(b, isLast, i32(0), next);
  }
  // By an exchange, the same in all lanes: what ptxas can compute from the warp it computes in
  // every round, in up to four instructions.
  number = shuffle("idx", add(group, i32(static_cast<int64_t>(*turns.getId()))), i32(0));
  return number;
}

LogicalResult KernelEmitter::emitArrive(ArriveOp op) {
  Value address = barrierOf(op.getBarriers(), getScalar(op.getUse()));
  auto arrive = [&] {
    inlineAsm("mbarrier.arrive.shared::cta.b64 _, [$0];", "r,~{memory}", nullptr, {address});
  };
  if (op.getPer() == ArriveScope::Thread || isOneThread) {
    arrive();
    return success();
  }
  // The other threads' work lies before the convergence of their warp, or before a barrier.
  intrinsic("llvm.nvvm.bar.warp.sync", i32(-1));
  int64_t threads = op.getPer() == ArriveScope::Warp        ? 32
                    : op.getPer() == ArriveScope::Warpgroup ? 32 * kWarpsOfGroup
                                                            : 32 * numWarps;
  Value number = threads == 32 ? lane : arith::RemUIOp::create(b, thread, i32(threads)).getResult();
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, number, i32(0));
  auto branch = scf::IfOp::create(b, isFirst, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  arrive();
  return success();
}

/// What lies beyond the view does not come; the barrier is told of it as if it did.
LogicalResult KernelEmitter::emitBulkLoad(BulkLoadOp op) {
  constexpr int64_t pieceBytes = 16;
  auto type = cast<SharedType>(op.getBuffer().getType());
  Region region = getRegion(op.getView(), op.getIndices(), op.getStaticIndices(), std::nullopt,
                            type.getShape());
  Value full = barrierOf(op.getBarriers(), getScalar(op.getUse()));
  int64_t elementBytes = region.view.bytes, allBytes = getBytes(type);
  Value zeroBytes = i32(0);
  Value left = arith::SubIOp::create(b, region.extent.back(), region.index.back());
  left = arith::MinSIOp::create(b, arith::MaxSIOp::create(b, left, zeroBytes),
                                i32(type.getShape().back()));
  if (region.inside)
    left = arith::SelectOp::create(b, region.inside, left, zeroBytes);
  Value bytes = add(mul(left, i32(elementBytes)), i32(pieceBytes - 1));
  bytes = arith::AndIOp::create(b, bytes, i32(-pieceBytes));
  Value missing = arith::SubIOp::create(b, i32(allBytes), bytes);
  Value buffer = windowAddress(getScalar(op.getBuffer()));
  auto onlyIf = [&](Value count, llvm::function_ref<void()> body) {
    Value isSome = arith::CmpIOp::create(b, arith::CmpIPredicate::ne, count, zeroBytes);
    auto branch = scf::IfOp::create(b, isSome, /*withElseRegion=*/false);
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPoint(branch.thenBlock()->getTerminator());
    body();
  };
  byOneThread([&] {
    onlyIf(bytes, [&] {
      inlineAsm("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [$0], [$1], $2, "
                "[$3];",
                "r,l,r,r,~{memory}", nullptr, {buffer, region.origin, bytes, full});
    });
    onlyIf(missing, [&] {
      inlineAsm("mbarrier.complete_tx.relaxed.cta.shared::cta.b64 [$0], $1;", "r,r,~{memory}",
                nullptr, {full, missing});
    });
  });
  return success();
}
