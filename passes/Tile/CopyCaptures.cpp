// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile-copy-captures: marks loads of captured views in loops to be copied through shared memory by
// tensor maps.
//
// A captured tile that each thread loads by itself costs an instruction for each contiguous part of
// a row, and a memory latency in each iteration. If it is copied ahead, ldmatrix reads it. A tensor
// map describes the view as it is, however, without repetition. Whether a dimension repeats is
// known at launch, so the pass adds a constraint that none does; other launches use a variant
// without such copies.

#include "dialect/Tgpu/Tgpu.h"
#include "dialect/Tile/Tile.h"
#include "passes/FirstUser.h"
#include "passes/Passes.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Matchers.h"
#include "mlir/Interfaces/LoopLikeInterface.h"
#include "llvm/ADT/SetVector.h"

#include <optional>

namespace tilewright {
#define GEN_PASS_DEF_TILECOPYCAPTURES
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tile;

namespace {

/// The expression `extent of a capture != constant` for a condition that compares the two for
/// equality; else null.
ExprAttr negate(Value condition) {
  auto compare = condition.getDefiningOp<arith::CmpIOp>();
  APInt constant;
  if (!compare || compare.getPredicate() != arith::CmpIPredicate::eq ||
      !matchPattern(compare.getRhs(), m_ConstantInt(&constant)))
    return {};
  auto dim = compare.getLhs().getDefiningOp<DimOp>();
  FlatSymbolRefAttr capture = dim ? dim.getCaptureAttr() : FlatSymbolRefAttr();
  if (dim && dim.getView())
    if (auto view = dim.getView().getDefiningOp<CapturedOp>())
      capture = view.getCaptureAttr();
  if (!capture)
    return {};
  MLIRContext *context = condition.getContext();
  auto extent = ExprAttr::get(context, ExprKind::Dim, static_cast<int64_t>(dim.getDim()),
                              capture.getValue(), {});
  auto same = ExprAttr::getInt(context, constant.getSExtValue());
  return ExprAttr::get(context, ExprKind::Call, 0, "ne", {extent, same});
}

/// The capture that a load reads unmodified if none of the conditions added to `constraints` holds.
/// Null if a tensor map cannot describe the load.
CapturedOp getCopied(LoadOp load, llvm::SetVector<Attribute> &constraints) {
  auto tile = dyn_cast<RankedTensorType>(load.getType());
  constexpr unsigned leastBits = 16;
  if (!tile || tile.getRank() != 2 || load.getPad() ||
      !load->getParentOfType<LoopLikeOpInterface>() || !tile.getElementType().isIntOrFloat() ||
      tile.getElementType().getIntOrFloatBitWidth() < leastBits)
    return {};
  // The rows of boxes are rows of the view; a transposed tile is read from them column by column.
  int64_t last = cast<ViewType>(load.getView().getType()).getRank() - 1;
  if (std::optional<ArrayRef<int64_t>> dims = load.getDims();
      dims && dims->back() != last && dims->front() != last)
    return {};
  Value view = load.getView();
  llvm::SetVector<Attribute> needed;
  while (auto repeat = view.getDefiningOp<RepeatOp>()) {
    ExprAttr isPlain = negate(repeat.getCondition());
    if (!isPlain)
      return {};
    needed.insert(isPlain);
    view = repeat.getSource();
  }
  auto captured = view.getDefiningOp<CapturedOp>();
  if (captured)
    constraints.insert_range(needed);
  return captured;
}

/// Copies start in program order, and one that waits for its buffer delays later ones: put the one
/// needed first first.
void moveToFirstUser(LoadOp load) {
  if (Operation *first = getFirstUser(load))
    load->moveBefore(first);
}

struct TileCopyCapturesPass : tilewright::impl::TileCopyCapturesBase<TileCopyCapturesPass> {
  void runOnOperation() override {
    for (auto kernel : getOperation().getOps<KernelOp>()) {
      llvm::SetVector<Attribute> constraints;
      constraints.insert_range(kernel.getConstraints());
      kernel.walk([&](LoadOp load) {
        CapturedOp captured = getCopied(load, constraints);
        if (!captured)
          return;
        load.getViewMutable().assign(captured.getResult());
        moveToFirstUser(load);
        tgpu::copiedAttr.set(load);
      });
      kernel.setConstraintsAttr(ArrayAttr::get(&getContext(), constraints.getArrayRef()));
    }
  }
};

} // namespace
