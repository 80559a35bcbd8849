// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns of blocks: counters in memory by which additions get an order.
//
// Bulk reductions use the async proxy, loads and stores of a counter the generic proxy. So a fence
// between the proxies is needed on both sides: before the counter is released, after the reductions
// that this thread waited for have completed, and after its acquisition, before the next one
// starts.

#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"

#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Calls `body` with the address of the counter, if there is one.
template <typename TurnOp>
static LogicalResult atTurn(KernelEmitter &e, TurnOp op, llvm::function_ref<void(Value)> body) {
  ThreadBuilder &b = e.b;
  auto [address, inside] = getElementPlace(b, getView(e, op.getTurns()),
                                           getIndices(e, op.getIndices(), op.getStaticIndices()));
  if (inside)
    b.onlyIf(inside, [&, address = address] { body(address); });
  else
    body(address);
  return success();
}

template <typename TurnOp> static LogicalResult verifyOneThread(KernelEmitter &e, TurnOp op) {
  if (e.isOneThread)
    return success();
  return op.emitOpError("must be in a role of one thread, but got one of several, which has more "
                        "than copies and scalars");
}

/// Polls until the counter has the number. An acquisition empties the L1, so a role that may wait
/// for a long time polls by relaxed loads, with pauses, and acquires once.
static LogicalResult emitWait(KernelEmitter &e, AwaitTurnOp op) {
  ThreadBuilder &b = e.b;
  return atTurn(e, op, [&](Value address) {
    Value number = e.getScalar(op.getNumber());
    auto poll = [&](StringRef load) {
      auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&loop.getBefore());
      Value count = b.inlineAsm(load, "=r,l,~{memory}", b.getI32Type(), {address});
      scf::ConditionOp::create(b, b.notEqual(count, number), ValueRange());
      b.createBlock(&loop.getAfter());
      if (op.getLast())
        b.inlineAsm("nanosleep.u32 256;", "~{memory}", nullptr, {});
      scf::YieldOp::create(b);
    };
    if (op.getLast())
      poll("ld.relaxed.gpu.global.b32 $0, [$1];");
    poll("ld.acquire.gpu.global.b32 $0, [$1];");
    b.inlineAsm("fence.proxy.async.global;", "~{memory}", nullptr, {});
  });
}

static LogicalResult emitAwaitTurn(KernelEmitter &e, AwaitTurnOp op) {
  if (!op.getLast())
    return failed(verifyOneThread(e, op)) ? failure() : emitWait(e, op);
  // One lane of each warp waits; the others follow it.
  ThreadBuilder &b = e.b;
  Value isFirst = arith::CmpIOp::create(b, arith::CmpIPredicate::eq, b.threads.lane, b.i32(0));
  LogicalResult result = success();
  b.onlyIf(isFirst, [&] { result = emitWait(e, op); });
  b.intrinsic("llvm.nvvm.bar.warp.sync", b.i32(-1));
  return result;
}

static LogicalResult emitEndTurn(KernelEmitter &e, EndTurnOp op) {
  if (failed(verifyOneThread(e, op)))
    return failure();
  ThreadBuilder &b = e.b;
  return atTurn(e, op, [&](Value address) {
    b.inlineAsm("fence.proxy.async.global; st.release.gpu.global.b32 [$0], $1;", "l,r,~{memory}",
                nullptr, {address, b.add(e.getScalar(op.getNumber()), b.i32(1))});
  });
}

void tgpu::registerOrderLowerings(LoweringTable &table) {
  table.add<AwaitTurnOp>(emitAwaitTurn);
  table.add<EndTurnOp>(emitEndTurn);
}
