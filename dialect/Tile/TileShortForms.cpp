// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expansion of what authors may write shorter.

#include "dialect/Tile/TileShortForms.h"
#include "dialect/Tile/TileExprCheck.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/Dialect/SCF/IR/SCF.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;

/// Moves the operations of a region of formulas before the operation; returns what it yields.
static SmallVector<Value> moveFormulas(Operation *op, Region &region) {
  Block &body = region.front();
  Operation *end = &body.back();
  SmallVector<Value> values(end->getOperands());
  op->getBlock()->getOperations().splice(op->getIterator(), body.getOperations(), body.begin(),
                                         end->getIterator());
  return values;
}

/// Ends the only block of a region of an operation of scf.
static void endAsScf(Region &region) {
  Operation *end = &region.front().back();
  OpBuilder b(end);
  scf::YieldOp::create(b, end->getLoc(), end->getOperands());
  end->erase();
}

static void expandBranch(BranchOp branch) {
  OpBuilder b(branch);
  Value condition = moveFormulas(branch, branch.getCondition()).front();
  auto expanded = scf::IfOp::create(b, branch.getLoc(), branch.getResultTypes(), condition,
                                    /*addThenBlock=*/false, /*addElseBlock=*/false);
  for (auto [from, to] : {std::pair(&branch.getThenRegion(), &expanded.getThenRegion()),
                          std::pair(&branch.getElseRegion(), &expanded.getElseRegion())}) {
    if (from->empty())
      continue;
    to->takeBody(*from);
    endAsScf(*to);
  }
  expanded->setDiscardableAttrs(branch->getDiscardableAttrDictionary());
  branch.replaceAllUsesWith(expanded.getResults());
}

static void expandLoop(LoopOp loop) {
  OpBuilder b(loop);
  SmallVector<Value> values = moveFormulas(loop, loop.getBounds());
  // Passes that run before parameters are bound know constants of arith as bounds.
  for (Value &bound : MutableArrayRef(values).take_front(3))
    if (auto number = bound.getDefiningOp<ConstantOp>())
      bound = arith::ConstantOp::create(
          b, number.getLoc(), b.getI32IntegerAttr(cast<IntegerAttr>(number.getValue()).getInt()));
  auto expanded = scf::ForOp::create(b, loop.getLoc(), values[0], values[1], values[2],
                                     ArrayRef(values).drop_front(3));
  expanded.getRegion().takeBody(loop.getBody());
  endAsScf(expanded.getRegion());
  expanded->setDiscardableAttrs(loop->getDiscardableAttrDictionary());
  loop.replaceAllUsesWith(expanded.getResults());
}

void tilewright::tile::expandFormulas(Operation *root) {
  // From the inside: a branch or a loop has been expanded where the one around it moves.
  root->walk([](Operation *op) {
    OpBuilder b(op);
    if (auto formula = dyn_cast<ExprOp>(op)) {
      formula.replaceAllUsesWith(moveFormulas(formula, formula.getBody()));
    } else if (auto result = dyn_cast<ResultOp>(op)) {
      func::ReturnOp::create(b, op->getLoc(), moveFormulas(result, result.getBody()));
    } else if (auto yield = dyn_cast<YieldOp>(op); yield && !yield.getFormulas().empty()) {
      YieldOp::create(b, op->getLoc(), moveFormulas(yield, yield.getFormulas()[0]));
    } else if (auto store = dyn_cast<StoreFormOp>(op)) {
      moveFormulas(store, store.getBody());
    } else if (auto branch = dyn_cast<BranchOp>(op)) {
      expandBranch(branch);
    } else if (auto loop = dyn_cast<LoopOp>(op)) {
      expandLoop(loop);
    } else {
      return;
    }
    op->erase();
  });
}

void tilewright::tile::expandParts(Operation *root) {
  root->walk([](SubviewsOp parts) {
    OpBuilder b(parts);
    for (auto [source, result] : llvm::zip(parts.getSources(), parts.getResults())) {
      auto part = SubviewOp::create(b, parts.getLoc(), source.getType(), source, parts.getDim(),
                                    parts.getOffset(), parts.getSize(), parts.getConditionAttr());
      result.replaceAllUsesWith(part.getResult());
    }
    parts.erase();
  });
  root->walk([](SubviewOp part) {
    ExprAttr condition = part.getConditionAttr();
    if (!condition)
      return;
    OpBuilder b(part);
    part.removeConditionAttr();
    Value holds = ParamOp::create(b, part.getLoc(), b.getI1Type(), condition);
    b.setInsertionPointAfter(part);
    auto chosen =
        arith::SelectOp::create(b, part.getLoc(), holds, part.getResult(), part.getSource());
    part.getResult().replaceAllUsesExcept(chosen, chosen);
  });
}

LogicalResult tilewright::tile::expandLaunches(Operation *root) {
  SymbolTableCollection symbols;
  WalkResult walk = root->walk([&](LaunchOp launch) {
    auto kernel = symbols.lookupNearestSymbolFrom<KernelOp>(launch, launch.getKernelAttr());
    if (!launch.getArgNames() || !kernel)
      return WalkResult::advance();
    FailureOr<SmallVector<Value>> values =
        matchByName(launch, Signature(kernel), launch.getArgs(), *launch.getArgNames());
    if (failed(values))
      return WalkResult::interrupt();
    launch.getArgsMutable().assign(*values);
    launch.removeArgNamesAttr();
    return WalkResult::advance();
  });
  return failure(walk.wasInterrupted());
}
