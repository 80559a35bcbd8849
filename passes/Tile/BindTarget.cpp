// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-bind-target: replaces the functions of expressions whose values depend on targets.

#include "base/Target/Target.h"
#include "dialect/Tile/TileExpr.h"
#include "passes/Passes.h"
#include "passes/Tile/PaddedWidth.h"

#include "mlir/IR/AttrTypeSubElements.h"

namespace tilewright {
#define GEN_PASS_DEF_TILEBINDTARGET
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

struct TileBindTargetPass : tilewright::impl::TileBindTargetBase<TileBindTargetPass> {
  using TileBindTargetBase::TileBindTargetBase;

  void runOnOperation() override {
    // tile-to-tgpu rejects unknown targets.
    const Target *chip = Target::find(target.getValue());
    bool hasRoles = chip && chip->hasRoles(), onGpu = target.getValue() != "cpu";
    // The CPU runs programs as the largest chip would: tests see its order of tiles.
    int64_t multiprocessors = chip ? chip->multiprocessors : Target::getMostMultiprocessors();
    StringRef unknown;
    AttrTypeReplacer replacer;
    replacer.addReplacement([&](ExprAttr expr) -> std::optional<Attribute> {
      if (expr.getKind() != ExprKind::Call)
        return std::nullopt;
      switch (getFunction(expr)) {
      case expr::Function::Multiprocessors:
        return ExprAttr::getInt(&getContext(), multiprocessors);
      case expr::Function::OnGpu:
        return ExprAttr::getFlag(&getContext(), onGpu);
      case expr::Function::HasRoles:
        return ExprAttr::getFlag(&getContext(), hasRoles);
      case expr::Function::Padded:
      case expr::Function::PaddedFor:
        if (ExprAttr width = expandPaddedWidth(expr, hasRoles))
          return width;
        unknown = expr.getOperands().front().getName();
        return std::nullopt;
      default:
        return std::nullopt;
      }
    });
    WalkResult done = getOperation()->walk([&](Operation *op) {
      replacer.replaceElementsIn(op);
      if (unknown.empty())
        return WalkResult::advance();
      op->emitOpError("the first operand of padded_for() must be one of ")
          << listPaddedWidths() << ", but got '" << unknown << "'";
      return WalkResult::interrupt();
    });
    if (done.wasInterrupted())
      signalPassFailure();
  }
};

} // namespace
