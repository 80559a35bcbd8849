// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Turns of blocks: counters in memory by which additions get an order.
//
// Bulk reductions are of the async proxy, loads and stores of a counter are not. So a fence between
// the proxies stands on both sides: before the counter is released, when the reductions that this
// thread waited for are complete, and behind its acquisition, before the next one is started.

#include "passes/Conversion/KernelEmitter.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

/// Calls `body` with the address of the counter, where there is one.
template <typename TurnOp>
LogicalResult KernelEmitter::atTurn(TurnOp op, llvm::function_ref<void(Value)> body) {
  if (!isOneThread)
    return op.emitOpError("is executed by one thread: its role may only copy and compute scalars");
  View view = getView(op.getTurns());
  Value inside, offset = i64(0);
  size_t dynamic = 0;
  for (auto [d, known] : llvm::enumerate(op.getStaticIndices())) {
    Value index = ShapedType::isDynamic(known) ? getScalar(op.getIndices()[dynamic++]) : i32(known);
    inside = conjunction(inside, less(index, view.extents[d]));
    offset = add(offset, mul(toI64(index), view.strides[d]));
  }
  Value address = advance(view.base, mul(offset, i64(view.bytes)));
  if (!inside) {
    body(address);
    return success();
  }
  auto branch = scf::IfOp::create(b, inside, /*withElseRegion=*/false);
  OpBuilder::InsertionGuard guard(b);
  b.setInsertionPoint(branch.thenBlock()->getTerminator());
  body(address);
  return success();
}

LogicalResult KernelEmitter::emitAwaitTurn(AwaitTurnOp op) {
  return atTurn(op, [&](Value address) {
    Value number = getScalar(op.getNumber());
    auto loop = scf::WhileOp::create(b, TypeRange(), ValueRange());
    {
      OpBuilder::InsertionGuard guard(b);
      b.createBlock(&loop.getBefore());
      Value count = inlineAsm("ld.acquire.gpu.global.b32 $0, [$1];", "=r,l,~{memory}",
                              b.getI32Type(), {address});
      scf::ConditionOp::create(b, arith::CmpIOp::create(b, arith::CmpIPredicate::ne, count, number),
                               ValueRange());
      b.createBlock(&loop.getAfter());
      scf::YieldOp::create(b);
    }
    inlineAsm("fence.proxy.async.global;", "~{memory}", nullptr, {});
  });
}

LogicalResult KernelEmitter::emitEndTurn(EndTurnOp op) {
  return atTurn(op, [&](Value address) {
    inlineAsm("fence.proxy.async.global; st.release.gpu.global.b32 [$0], $1;", "l,r,~{memory}",
              nullptr, {address, add(getScalar(op.getNumber()), i32(1))});
  });
}
