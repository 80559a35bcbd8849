// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-split-terms: a product whose result threads add to a sum is computed by columns, so that a
// part is added while the next one is multiplied.

#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/TileQueries.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/IR/Builders.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSPLITTERMS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

constexpr int64_t columnsOfPart = RegisterLimits::columnsOfTerm;

/// A product that is waited for as soon as it is issued, and the addition of its result.
struct Term {
  WgmmaOp product;
  WgmmaCommitOp commit;
  WgmmaWaitOp wait;
  arith::AddFOp sum;
  Value addend; ///< the other operand of the sum

  static std::optional<Term> get(WgmmaOp product);
  void split();
};

} // namespace

std::optional<Term> Term::get(WgmmaOp product) {
  // With work between the two, the product already has something that it overlaps with.
  auto commit = dyn_cast_if_present<WgmmaCommitOp>(product->getNextNode());
  auto wait = commit ? dyn_cast_if_present<WgmmaWaitOp>(commit->getNextNode()) : WgmmaWaitOp();
  if (!wait || wait.getPending() != 0 || wait.getTiles().size() != 1 ||
      wait.getTiles().front() != product.getResult() || !product.getResult().hasOneUse())
    return std::nullopt;
  Value result = wait.getResult(0);
  auto sum = result.hasOneUse() ? dyn_cast<arith::AddFOp>(*result.user_begin()) : arith::AddFOp();
  if (!sum || sum->getBlock() != wait->getBlock())
    return std::nullopt;
  Value addend = sum.getLhs() == result ? sum.getRhs() : sum.getLhs();
  Operation *made = addend.getDefiningOp();
  if (made && made->getBlock() == wait->getBlock() && !made->isBeforeInBlock(wait))
    return std::nullopt;
  auto type = cast<RankedTensorType>(sum.getType());
  if (!isDivisibleByColumns(product, type) || !isa<WgmmaAttr>(type.getEncoding()))
    return std::nullopt;
  return Term{product, commit, wait, sum, addend};
}

void Term::split() {
  auto whole = cast<RankedTensorType>(sum.getType());
  int64_t columns = whole.getDimSize(1);
  auto typeAt = [&](int64_t from) {
    return RankedTensorType::get({whole.getDimSize(0), std::min(columnsOfPart, columns - from)},
                                 whole.getElementType(), whole.getEncoding());
  };
  OpBuilder b(wait);
  auto issue = [&](int64_t from, Value old) {
    auto copy = cast<WgmmaOp>(b.clone(*product));
    copy.setColumns(from);
    copy.getResult().setType(PendingType::get(b.getContext(), typeAt(from)));
    if (old && old.getType() == typeAt(from)) {
      copy.getAccMutable().assign(old);
      copy.setOverwriting(true);
    }
    b.clone(*commit);
    return copy.getResult();
  };
  SmallVector<Value> sums;
  Value pending = issue(0, Value());
  Value added; // the last part that was added
  for (int64_t from = 0; from < columns; from += columnsOfPart) {
    bool isLast = from + columnsOfPart >= columns;
    Value next = isLast ? Value() : issue(from + columnsOfPart, added);
    RankedTensorType type = typeAt(from);
    auto end =
        WgmmaWaitOp::create(b, wait.getLoc(), TypeRange{type}, isLast ? 0 : 1, ValueRange{pending});
    // Slots are released between the last wait and the sum.
    if (isLast)
      b.setInsertionPoint(sum);
    auto before = ColumnsOp::create(b, sum.getLoc(), type, from, addend);
    sums.push_back(
        arith::AddFOp::create(b, sum.getLoc(), before, end.getResult(0), sum.getFastmath()));
    pending = next;
    added = end.getResult(0);
  }
  Value joined = JoinColumnsOp::create(b, sum.getLoc(), whole, sums);
  sum.replaceAllUsesWith(joined);
  for (Operation *op :
       {sum.getOperation(), wait.getOperation(), commit.getOperation(), product.getOperation()})
    op->erase();
}

namespace {

struct TgpuSplitTermsPass : tilewright::impl::TgpuSplitTermsBase<TgpuSplitTermsPass> {
  void runOnOperation() override {
    SmallVector<Term> terms;
    getOperation()->walk([&](WgmmaOp product) {
      if (std::optional<Term> term = Term::get(product))
        terms.push_back(*term);
    });
    for (Term &term : terms)
      term.split();
  }
};

} // namespace
