// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-share-spread: the work in addition to the instances (tile.spread) of kernels in which no
// role took it. Each block executes its share after its own instance, with all of its warps.

#include "passes/Passes.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/SCF/IR/SCF.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSHARESPREAD
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

struct TgpuShareSpreadPass : tilewright::impl::TgpuShareSpreadBase<TgpuShareSpreadPass> {
  void runOnOperation() override {
    SmallVector<tile::SpreadOp> spreads;
    getOperation()->walk([&](tile::SpreadOp op) { spreads.push_back(op); });
    for (tile::SpreadOp op : spreads)
      if (failed(check(op)))
        return signalPassFailure();
    for (tile::SpreadOp op : spreads)
      share(op);
  }

private:
  static LogicalResult check(tile::SpreadOp op) {
    // The condition may hold in some blocks only, and then the numbers of the others get lost.
    if (Operation *parent = op->getParentOp(); !isa<KernelOp>(parent))
      return op.emitOpError() << "requires all blocks, which do not have the '" << parent->getName()
                              << "' around it; move it to the body of the kernel, or use a "
                                 "separate kernel";
    bool awaits = op.walk([](tile::AwaitOp) { return WalkResult::interrupt(); }).wasInterrupted();
    return awaits ? rejectAwait(op) : success();
  }

  /// A block that waits may keep those that it waits for from starting.
  static LogicalResult rejectAwait(tile::SpreadOp op) {
    InFlightDiagnostic error = op.emitOpError("with tile.await requires a separate role, ");
    auto kernel = op->getParentOfType<KernelOp>();
    const Target &target = getTargetOf(kernel);
    if (!target.hasRoles())
      return error << "on " << Target::getNamesWithRoles() << ", but got " << StringRef(target.name)
                   << "; use such a target, or a separate kernel";
    if (!kernel.walk([](WgmmaOp) { return WalkResult::interrupt(); }).wasInterrupted())
      return error << "but got a kernel without products by wgmma, which has no roles; use a "
                      "separate kernel";
    return error << "but got a kernel without roles; use blocks for which it has them (--report "
                    "names what prevents them), or a separate kernel";
  }

  /// Block i of n executes i, i + n and so on. Blocks are counted in 64 bits: a grid may have more
  /// than 2^31.
  static void share(tile::SpreadOp op) {
    auto kernel = op->getParentOfType<KernelOp>();
    OpBuilder builder(op);
    ImplicitLocOpBuilder b(op.getLoc(), builder);
    auto wide = [&](Value value) -> Value {
      return arith::ExtSIOp::create(b, b.getI64Type(), value);
    };
    Value block, blocks;
    for (auto [dim, id] : llvm::enumerate(kernel.getGridIds())) {
      Value extent = wide(GridExtentOp::create(b, b.getI32Type(), dim)), number = wide(id);
      block = block ? arith::AddIOp::create(b, arith::MulIOp::create(b, block, extent), number)
                    : number;
      blocks = blocks ? arith::MulIOp::create(b, blocks, extent) : extent;
    }
    auto narrow = [&](Value value) -> Value {
      Value most = wide(op.getCount());
      return arith::TruncIOp::create(b, b.getI32Type(), arith::MinSIOp::create(b, value, most));
    };
    Value one = arith::ConstantOp::create(b, b.getI32IntegerAttr(1));
    // A block beyond the count begins at it, and the step of no number is 1.
    Value first = narrow(block);
    Value step = arith::MaxSIOp::create(b, narrow(blocks), one);
    auto loop = scf::ForOp::create(b, first, op.getCount(), step);
    Block &body = op.getBody().front();
    body.getTerminator()->erase();
    op.getNumber().replaceAllUsesWith(loop.getInductionVar());
    Block *into = loop.getBody();
    into->getOperations().splice(into->getTerminator()->getIterator(), body.getOperations());
    op.erase();
  }
};

} // namespace
