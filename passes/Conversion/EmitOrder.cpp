// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns of blocks: counters in memory by which additions get an order.
//
// Bulk reductions are of the async proxy, loads and stores of a counter are not. So a fence between
// the proxies is needed on both sides: before the counter is released, after the reductions that
// this thread waited for have completed, and after its acquisition, before the next one starts.

#include "passes/Conversion/GlobalAccess.h"
#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Calls `body` with the address of the counter, where there is one.
template <typename TurnOp>
static LogicalResult atTurn(KernelEmitter &e, TurnOp op, llvm::function_ref<void(Value)> body) {
  ThreadBuilder &b = e.b;
  if (!e.isOneThread)
    return op.emitOpError("is executed by one thread: its role may only copy and compute scalars");
  auto [address, inside] = getElementPlace(b, getView(e, op.getTurns()),
                                           getIndices(e, op.getIndices(), op.getStaticIndices()));
  if (inside)
    b.onlyIf(inside, [&, address = address] { body(address); });
  else
    body(address);
  return success();
}

static LogicalResult emitAwaitTurn(KernelEmitter &e, AwaitTurnOp op) {
  ThreadBuilder &b = e.b;
  return atTurn(e, op, [&](Value address) {
    Value number = e.getScalar(op.getNumber());
    auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
    {
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&loop.getBefore());
      Value count = b.inlineAsm("ld.acquire.gpu.global.b32 $0, [$1];", "=r,l,~{memory}",
                                b.getI32Type(), {address});
      scf::ConditionOp::create(b, b.notEqual(count, number), ValueRange());
      b.createBlock(&loop.getAfter());
      scf::YieldOp::create(b);
    }
    b.inlineAsm("fence.proxy.async.global;", "~{memory}", nullptr, {});
  });
}

static LogicalResult emitEndTurn(KernelEmitter &e, EndTurnOp op) {
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
