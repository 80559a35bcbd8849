// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-differentiate: derives the scalar functions whose derivatives a kernel applies.

#include "passes/Passes.h"
#include "passes/Tile/CaptureGradients.h"
#include "passes/Tile/ScalarGradients.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEDIFFERENTIATE
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

struct TileDifferentiatePass : tilewright::impl::TileDifferentiateBase<TileDifferentiatePass> {
  using TileDifferentiateBase::TileDifferentiateBase;

  void runOnOperation() override {
    ScalarGradients gradients(getOperation());
    SmallVector<MapGradientOp> ops;
    getOperation().walk([&](MapGradientOp op) { ops.push_back(op); });
    for (MapGradientOp op : ops)
      if (failed(checkBound(op)) || failed(lower(op, gradients)))
        return signalPassFailure();
    WalkResult sums = getOperation().walk([&](AddGradientsOp op) {
      return failed(checkBound(op)) ? WalkResult::interrupt() : WalkResult::advance();
    });
    if (sums.wasInterrupted() || failed(lowerCaptureGradients(getOperation(), gradients)))
      signalPassFailure();
  }

private:
  static LogicalResult checkBound(Operation *op) {
    auto kernel = op->getParentOfType<KernelOp>();
    if (!kernel || kernel.getParams().empty())
      return success();
    return op->emitOpError(
        "can be differentiated only after the parameters of its kernel are bound; run "
        "tile-specialize first");
  }

  static LogicalResult lower(MapGradientOp op, ScalarGradients &gradients) {
    auto function = gradients.getSymbols().lookup<func::FuncOp>(op.getFunction());
    FailureOr<Derivative> derivative =
        gradients.ofOperand(function, static_cast<unsigned>(op.getWrt()), op);
    if (failed(derivative))
      return failure();
    OpBuilder b(op);
    Location loc = op.getLoc();
    Type type = op.getType(), element = getElementType(type);
    Value result;
    switch (derivative->kind) {
    case Derivative::Kind::Zero:
      result = FullOp::create(b, loc, type,
                              arith::ConstantOp::create(b, loc, b.getFloatAttr(element, 0)));
      break;
    case Derivative::Kind::Seed:
      result = op.getSeed().getType() == type
                   ? op.getSeed()
                   : CastOp::create(b, loc, type, op.getSeed()).getResult();
      break;
    case Derivative::Kind::Computed:
      SmallVector<Value> operands(op.getArgs());
      operands.push_back(op.getSeed());
      result = MapOp::create(b, loc, type, derivative->function.getSymName(), operands);
      break;
    }
    op.getResult().replaceAllUsesWith(result);
    op.erase();
    return success();
  }
};

} // namespace
