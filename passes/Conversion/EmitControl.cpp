// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loops, branches, and calls, which are inlined.

#include "passes/Conversion/KernelEmitter.h"
#include "passes/Conversion/LoweringTable.h"
#include "passes/Conversion/TimelineWriter.h"

#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

static LogicalResult emitFor(KernelEmitter &e, scf::ForOp op) {
  ThreadBuilder &b = e.b;
  auto loop =
      scf::ForOp::create(b, e.getScalar(op.getLowerBound()), e.getScalar(op.getUpperBound()),
                         e.getScalar(op.getStep()), e.flatten(op.getInitArgs()));
  e.set(op.getInductionVar(), {loop.getInductionVar()});
  e.unflatten(op.getRegionIterArgs(), loop.getRegionIterArgs());
  {
    OpBuilder::InsertionGuard guard(b);
    // Without iteration arguments the builder has already added the terminator.
    if (loop.getInitArgs().empty())
      b.setInsertionPoint(loop.getBody()->getTerminator());
    else
      b.setInsertionPointToEnd(loop.getBody());
    e.state<TimelineWriter>().sample(b, op, /*isEnd=*/false);
    if (failed(e.emitBlock(*op.getBody())))
      return failure();
    e.state<TimelineWriter>().sample(b, op, /*isEnd=*/true);
    if (!loop.getInitArgs().empty())
      scf::YieldOp::create(b, e.flatten(op.getBody()->getTerminator()->getOperands()));
  }
  e.unflatten(op.getResults(), loop.getResults());
  return success();
}

/// Whether a single lane executes the last operation of a block with side effects.
static bool endsWithArrival(Block &block) {
  for (Operation &op : llvm::reverse(block.without_terminator()))
    if (!isMemoryEffectFree(&op))
      return isa<ArriveOp>(op);
  return false;
}

/// A single-lane operation must not directly precede a join or back edge: ptxas would treat the
/// merged values as divergent.
static void joinWarp(KernelEmitter &e) {
  if (!e.isOneThread)
    e.b.intrinsic("llvm.nvvm.bar.warp.sync", e.b.i32(-1));
}

static LogicalResult emitIf(KernelEmitter &e, scf::IfOp op) {
  ThreadBuilder &b = e.b;
  auto branch =
      scf::IfOp::create(b, e.getFlatTypes(op.getResultTypes()), e.getScalar(op.getCondition()),
                        /*addThenBlock=*/true, /*addElseBlock=*/!op.getElseRegion().empty());
  for (auto [from, to] : llvm::zip(op->getRegions(), branch->getRegions())) {
    if (from.empty())
      continue;
    OpBuilder::InsertionGuard guard(b);
    b.setInsertionPointToEnd(&to.front());
    if (failed(e.emitBlock(from.front())))
      return failure();
    b.setLoc(op.getLoc());
    if (endsWithArrival(from.front()))
      joinWarp(e);
    if (to.front().empty() || !to.front().back().hasTrait<OpTrait::IsTerminator>())
      scf::YieldOp::create(b, e.flatten(from.front().getTerminator()->getOperands()));
  }
  e.unflatten(op.getResults(), branch.getResults());
  return success();
}

static LogicalResult emitWhile(KernelEmitter &e, scf::WhileOp op) {
  ThreadBuilder &b = e.b;
  auto loop =
      scf::WhileOp::create(b, e.getFlatTypes(op.getResultTypes()), e.flatten(op.getInits()));
  for (auto [from, to] : llvm::zip(op->getRegions(), loop->getRegions())) {
    SmallVector<Type> types = e.getFlatTypes(from.getArgumentTypes());
    OpBuilder::InsertionGuard guard(b);
    Block *block = b.createBlock(&to, {}, types, SmallVector<Location>(types.size(), op.getLoc()));
    e.unflatten(from.getArguments(), block->getArguments());
    if (failed(e.emitBlock(from.front())))
      return failure();
    b.setLoc(op.getLoc());
    Operation *terminator = from.front().getTerminator();
    if (auto condition = dyn_cast<scf::ConditionOp>(terminator)) {
      // All threads agree. The vote makes this known to ptxas, which then keeps the loop's counters
      // in uniform registers.
      Value goesOn = e.getScalar(condition.getCondition());
      if (!e.isOneThread)
        goesOn = b.voteAny(goesOn);
      scf::ConditionOp::create(b, goesOn, e.flatten(condition.getArgs()));
    } else {
      joinWarp(e);
      scf::YieldOp::create(b, e.flatten(terminator->getOperands()));
    }
  }
  e.unflatten(op.getResults(), loop.getResults());
  return success();
}

static LogicalResult emitCall(KernelEmitter &e, func::CallOp call) {
  SmallVector<Values> arguments;
  for (Value operand : call.getOperands())
    arguments.push_back(e.get(operand));
  Values results;
  if (failed(e.inlineCall(call, call.getCallee(), arguments, results)))
    return failure();
  e.unflatten(call.getResults(), results);
  return success();
}

void tgpu::registerControlLowerings(LoweringTable &table) {
  table.add<scf::ForOp>(emitFor);
  table.add<scf::IfOp>(emitIf);
  table.add<scf::WhileOp>(emitWhile);
  table.add<func::CallOp>(emitCall);
}
