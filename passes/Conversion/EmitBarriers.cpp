// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Named barriers and mbarriers.
//
// Use k of a ring of n stages belongs to barrier k mod n and its phase k div n. A wait for the
// parity of the phase before the first one returns at once, so `acquire` needs no case for the
// first round.

#include "passes/Conversion/Barriers.h"

#include "passes/Conversion/Exchange.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/SharedAccess.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

constexpr int64_t kBarrierBytes = 8;

void tgpu::byOneThread(KernelEmitter &e, llvm::function_ref<void()> body) {
  if (e.isOneThread)
    return body();
  e.b.onlyIf(e.b.equal(e.b.threads.thread, e.b.i32(0)), body);
}

//===----------------------------------------------------------------------===//
// Named barriers
//===----------------------------------------------------------------------===//

static LogicalResult emitNamedBarrier(KernelEmitter &e, NamedBarrierOp op) {
  if (!op.getId())
    return op.emitError() << "a named barrier must have a number before code is generated; run "
                             "tgpu-plan-shared-memory";
  e.set(op.getBarrier(), {e.b.i32(*op.getId())});
  return success();
}

/// Null, with a diagnostic, if code cannot name the barrier.
static NamedBarrierOp getNumbered(Operation *op, Value barrier) {
  auto named = barrier.getDefiningOp<NamedBarrierOp>();
  if (named && named.getId())
    return named;
  op->emitError() << "the barrier must be the result of tgpu.named_barrier, numbered";
  return {};
}

/// `how` is "sync" or "arrive".
static LogicalResult meetAt(ThreadBuilder &b, Operation *op, Value barrierValue, StringRef how) {
  NamedBarrierOp named = getNumbered(op, barrierValue);
  if (!named)
    return failure();
  if (named.getPerWarpgroup()) {
    Value group = arith::DivUIOp::create(b, b.readThread(), b.i32(Target::threadsOfGroup));
    b.intrinsic(("llvm.nvvm.barrier.cta." + how + ".aligned.count").str(),
                ValueRange{b.add(b.i32(*named.getId()), group), b.i32(Target::threadsOfGroup)});
    return success();
  }
  // Constant operands, so that ptxas reserves only the barriers that are used.
  b.intrinsic(("llvm.nvvm.barrier.cta." + how + ".aligned.count").str(),
              ValueRange{b.i32(*named.getId()), b.i32(32 * named.getWarps())});
  return success();
}

static LogicalResult emitAny(KernelEmitter &e, AnyOp op) {
  ThreadBuilder &b = e.b;
  Values list = e.getElements(op.getTile());
  Value any = list.front();
  for (Value next : ArrayRef(list).drop_front())
    any = arith::OrIOp::create(b, any, next);
  Value result;
  if (op.getBarrier()) {
    NamedBarrierOp named = getNumbered(op, op.getBarrier());
    if (!named)
      return failure();
    result = b.intrinsic("llvm.nvvm.barrier.cta.red.or.aligned.count", b.getI1Type(),
                         {b.i32(*named.getId()), b.i32(32 * named.getWarps()), any});
  } else {
    result =
        b.intrinsic("llvm.nvvm.barrier.cta.red.or.aligned.all", b.getI1Type(), {b.i32(0), any});
  }
  // All lanes already agree, but ptxas knows this only of a vote. Otherwise it treats branches on
  // the result as divergent and duplicates the shuffles after them.
  e.set(op.getResult(), {b.voteAny(result)});
  return success();
}

//===----------------------------------------------------------------------===//
// mbarriers
//===----------------------------------------------------------------------===//

/// Whether more barriers are initialized before anything can use these. All warps meet once, after
/// the last: meeting eight times cost a kernel 0.13 us.
static bool isBeforeOtherBarriers(AllocBarriersOp op) {
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    if (isa<AllocBarriersOp>(next))
      return true;
    if (!isa<AllocOp, AllocRingOp, NamedBarrierOp, TensorMapOp>(next) && !isMemoryEffectFree(next))
      return false;
  }
  return false;
}

static LogicalResult emitAllocBarriers(KernelEmitter &e, AllocBarriersOp op) {
  ThreadBuilder &b = e.b;
  int64_t stages = cast<BarriersType>(op.getBarriers().getType()).getStages();
  if (failed(bindToShared(e, op, op.getOffset())))
    return failure();
  Value base = e.getScalar(op.getBarriers());
  bool isLast = !isBeforeOtherBarriers(op);
  byOneThread(e, [&] {
    for (int64_t stage = 0; stage < stages; ++stage)
      b.inlineAsm(
          "mbarrier.init.shared::cta.b64 [$0], $1;", "r,r,~{memory}", nullptr,
          {getWindowAddress(b, b.advance(base, stage * kBarrierBytes)), b.i32(op.getArrivals())});
    if (isLast)
      b.inlineAsm("fence.mbarrier_init.release.cluster; fence.proxy.async.shared::cta;",
                  "~{memory}", nullptr, {});
  });
  if (isLast)
    syncWarps(e);
  return success();
}

Value tgpu::getBarrier(KernelEmitter &e, Value barriers, Value use) {
  ThreadBuilder &b = e.b;
  int64_t stages = cast<BarriersType>(barriers.getType()).getStages();
  Value base = getWindowAddress(b, e.getScalar(barriers));
  if (stages == 1)
    return base;
  Value stage = arith::RemUIOp::create(b, use, b.i32(stages));
  return b.add(base, b.mul(stage, b.i32(kBarrierBytes)));
}

static void waitFor(KernelEmitter &e, Value barriers, Value use, bool forRelease) {
  ThreadBuilder &b = e.b;
  int64_t stages = cast<BarriersType>(barriers.getType()).getStages();
  Value address = getBarrier(e, barriers, use);
  Value phase = stages == 1 ? use : arith::DivUIOp::create(b, use, b.i32(stages)).getResult();
  if (forRelease)
    phase = b.add(phase, b.i32(1));
  Value parity = arith::AndIOp::create(b, phase, b.i32(1));
  auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
  OpBuilder::InsertionGuard guard(b);
  b.createBlock(&loop.getBefore());
  Value done = b.inlineAsm("{ .reg .pred p; mbarrier.try_wait.parity.shared::cta.b64 p, [$1], $2; "
                           "selp.b32 $0, 1, 0, p; }",
                           "=r,r,r,~{memory}", b.getI32Type(), {address, parity});
  scf::ConditionOp::create(b, b.equal(done, b.i32(0)), ValueRange());
  b.createBlock(&loop.getAfter());
  scf::YieldOp::create(b);
}

static void emitExpect(KernelEmitter &e, ExpectOp op) {
  Value address = getBarrier(e, op.getBarriers(), e.getScalar(op.getUse()));
  byOneThread(e, [&] {
    e.b.inlineAsm("mbarrier.arrive.expect_tx.shared::cta.b64 _, [$0], $1;", "r,r,~{memory}",
                  nullptr, {address, e.b.i32(op.getBytes())});
  });
}

static LogicalResult emitSync(KernelEmitter &e, SyncOp op) {
  if (op.getBarrier())
    return meetAt(e.b, op, op.getBarrier(), "sync");
  syncWarps(e);
  return success();
}

static LogicalResult emitSignal(KernelEmitter &e, SignalOp op) {
  return meetAt(e.b, op, op.getBarrier(), "arrive");
}

static void emitWait(KernelEmitter &e, WaitOp op) {
  waitFor(e, op.getBarriers(), e.getScalar(op.getUse()), /*forRelease=*/false);
}

static void emitAcquire(KernelEmitter &e, AcquireOp op) {
  readPagesAhead(e, op);
  waitFor(e, op.getBarriers(), e.getScalar(op.getUse()), /*forRelease=*/true);
}

void tgpu::registerBarrierLowerings(LoweringTable &table) {
  table.add<NamedBarrierOp>(emitNamedBarrier);
  table.add<SyncOp>(emitSync);
  table.add<SignalOp>(emitSignal);
  table.add<AnyOp>(emitAny);
  table.add<AllocBarriersOp>(emitAllocBarriers);
  table.add<WaitOp>(emitWait);
  table.add<AcquireOp>(emitAcquire);
  table.add<ExpectOp>(emitExpect);
}
