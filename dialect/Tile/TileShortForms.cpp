// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Expansion of what authors may write shorter.

#include "dialect/Tile/TileShortForms.h"
#include "dialect/Tile/TileExprCheck.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Func/IR/FuncOps.h"
#include "mlir/IR/Builders.h"

using namespace mlir;
using namespace tilewright::tile;

void tilewright::tile::expandFormulas(Operation *root) {
  root->walk([](Operation *formula) {
    if (!isa<ExprOp, ResultOp>(formula))
      return;
    Block &body = formula->getRegion(0).front();
    Operation *end = body.getTerminator();
    if (isa<ResultOp>(formula)) {
      OpBuilder b(formula);
      func::ReturnOp::create(b, formula->getLoc(), end->getOperands());
      formula->getBlock()->getOperations().splice(std::prev(formula->getIterator()),
                                                  body.getOperations(), body.begin(),
                                                  end->getIterator());
    } else {
      formula->replaceAllUsesWith(end->getOperands());
      formula->getBlock()->getOperations().splice(formula->getIterator(), body.getOperations(),
                                                  body.begin(), end->getIterator());
    }
    formula->erase();
  });
}

void tilewright::tile::expandParts(Operation *root) {
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
