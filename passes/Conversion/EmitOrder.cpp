// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns of blocks: counters in memory by which additions get an order.
//
// Bulk reductions are of the async proxy, loads and stores of a counter are not. So a fence between
// the proxies is needed on both sides: before the counter is released, after the reductions that
// this thread waited for have completed, and after its acquisition, before the next one starts.

#include "passes/Conversion/KernelEmitter.h"

#include "passes/Conversion/LoweringTable.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using View = KernelEmitter::View;

/// Calls `body` with the address of the counter, where there is one.
template <typename TurnOp>
static LogicalResult atTurn(KernelEmitter &e, TurnOp op, llvm::function_ref<void(Value)> body) {
  if (!e.isOneThread)
    return op.emitOpError("is executed by one thread: its role may only copy and compute scalars");
  View view = e.getView(op.getTurns());
  Value inside, offset = e.i64(0);
  size_t dynamic = 0;
  for (auto [d, known] : llvm::enumerate(op.getStaticIndices())) {
    Value index =
        ShapedType::isDynamic(known) ? e.getScalar(op.getIndices()[dynamic++]) : e.i32(known);
    inside = e.conjunction(inside, e.less(index, view.extents[d]));
    offset = e.add(offset, e.mul(e.toI64(index), view.strides[d]));
  }
  Value address = e.advance(view.base, e.mul(offset, e.i64(view.bytes)));
  if (!inside) {
    body(address);
    return success();
  }
  auto branch = scf::IfOp::create(e.b, inside, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(e.b);
  e.b.setInsertionPoint(branch.thenBlock()->getTerminator());
  body(address);
  return success();
}

static LogicalResult emitAwaitTurn(KernelEmitter &e, AwaitTurnOp op) {
  return atTurn(e, op, [&](Value address) {
    Value number = e.getScalar(op.getNumber());
    auto loop = scf::WhileOp::create(e.b, TypeRange(), ValueRange());
    {
      OpBuilder::InsertionGuard guard(e.b);
      e.b.createBlock(&loop.getBefore());
      Value count = e.inlineAsm("ld.acquire.gpu.global.b32 $0, [$1];", "=r,l,~{memory}",
                                e.b.getI32Type(), {address});
      scf::ConditionOp::create(
          e.b, arith::CmpIOp::create(e.b, arith::CmpIPredicate::ne, count, number), ValueRange());
      e.b.createBlock(&loop.getAfter());
      scf::YieldOp::create(e.b);
    }
    e.inlineAsm("fence.proxy.async.global;", "~{memory}", nullptr, {});
  });
}

static LogicalResult emitEndTurn(KernelEmitter &e, EndTurnOp op) {
  return atTurn(e, op, [&](Value address) {
    e.inlineAsm("fence.proxy.async.global; st.release.gpu.global.b32 [$0], $1;", "l,r,~{memory}",
                nullptr, {address, e.add(e.getScalar(op.getNumber()), e.i32(1))});
  });
}

void tgpu::registerOrderLowerings(LoweringTable &table) {
  table.add<AwaitTurnOp>(emitAwaitTurn);
  table.add<EndTurnOp>(emitEndTurn);
}
