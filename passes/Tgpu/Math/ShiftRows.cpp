// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tgpu-shift-rows: what a mapped function adds to all elements of a row alike is subtracted from
// the maximum that is subtracted from them, and what it adds to all elements of a column alike
// becomes a tile of its own.

#include "passes/FastMath.h"
#include "passes/Passes.h"
#include "passes/Tgpu/Analysis/LoopChain.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"
#include "passes/Tgpu/Math/MapTerms.h"

#include "dialect/Tgpu/Tgpu.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Interfaces/SideEffectInterfaces.h"

namespace tilewright {
#define GEN_PASS_DEF_TGPUSHIFTROWS
#include "passes/Passes.h.inc"
} // namespace tilewright

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// x = map(..); new = raise_max old to x times f; x * f - expand(new).
struct ShiftedMaximum {
  RaiseMaxOp raise;
  tile::MapOp map;
  arith::MulFOp product;
  tile::ExpandOp maxima;
  arith::SubFOp below;
};

std::optional<ShiftedMaximum> match(RaiseMaxOp raise) {
  ShiftedMaximum found;
  found.raise = raise;
  found.map = raise.getSource().getDefiningOp<tile::MapOp>();
  if (!found.map || raise.getOffset())
    return std::nullopt;
  for (Operation *user : found.map->getUsers()) {
    if (user == raise)
      continue;
    if (found.product || !isa<arith::MulFOp>(user))
      return std::nullopt;
    found.product = cast<arith::MulFOp>(user);
  }
  if (!found.product || !found.product->hasOneUse() || !mayReassociate(found.product))
    return std::nullopt;
  Value factors = found.product.getLhs() == found.map.getResult() ? found.product.getRhs()
                                                                  : found.product.getLhs();
  auto full = factors.getDefiningOp<tile::FullOp>();
  found.below = dyn_cast<arith::SubFOp>(*found.product->user_begin());
  if (!full || full.getValue() != raise.getFactor() || !found.below ||
      !mayReassociate(found.below) || found.below.getLhs() != found.product.getResult())
    return std::nullopt;
  found.maxima = found.below.getRhs().getDefiningOp<tile::ExpandOp>();
  if (!found.maxima || found.maxima.getDim() != 1 || found.maxima.getSource() != raise.getResult())
    return std::nullopt;
  return found;
}

/// Whether a thread of the role has registers for a tile of columns in all iterations of the loop,
/// in addition to the carried values and the elements. It holds two rows of each of its columns,
/// which share one value.
bool hasRegistersForColumns(scf::ForOp loop, RankedTensorType elements) {
  Region *role = getRole(loop);
  if (!role)
    return false;
  int64_t available = cast<RolesOp>(role->getParentOp()).getRegisters()[role->getRegionNumber()];
  constexpr int64_t threadsOfGroup = 128;
  int64_t threads = threadsOfGroup * cast<WgmmaAttr>(elements.getEncoding()).getWarpgroups();
  int64_t needed = getRegistersOf(elements, threads) * 3 / 2 + RegisterLimits::forScalars;
  RegisterModel model = RegisterModel::atProducts(threads);
  for (Value carried : loop.getRegionIterArgs())
    needed += model.getRegisters(carried);
  return needed <= available;
}

struct TgpuShiftRows : tilewright::impl::TgpuShiftRowsBase<TgpuShiftRows> {
  void runOnOperation() override {
    SmallVector<ShiftedMaximum> maxima;
    getOperation()->walk([&](RaiseMaxOp raise) {
      if (std::optional<ShiftedMaximum> found = match(raise))
        maxima.push_back(*found);
    });
    for (ShiftedMaximum &each : maxima)
      shift(each);
  }

private:
  void shift(ShiftedMaximum &found) {
    tile::MapOp map = found.map;
    auto function = getOperation().lookupSymbol<func::FuncOp>(map.getFunction());
    if (!function || !function.getBody().hasOneBlock())
      return;
    auto loop = dyn_cast<scf::ForOp>(map->getParentOp());
    auto type = cast<RankedTensorType>(map.getResult().getType());
    auto typeOfRows = cast<RankedTensorType>(found.raise.getResult().getType());
    SymbolTable symbols(getOperation());
    auto rest = function.clone();
    symbols.insert(rest, std::next(function->getIterator()));
    TermSplitter splitter(map, rest, typeOfRows, loop, loop && hasRegistersForColumns(loop, type));
    Operation *end = rest.getBody().front().getTerminator();
    Terms terms = splitter.split(end->getOperand(0));
    Value rows = splitter.getRows(terms);
    // A tile of columns that is computed in every iteration would cost what the rows save.
    bool hasColumns = terms.columns && !(loop && loop.isDefinedOutsideOfLoop(terms.columns));
    if (!rows || !terms.varying || hasColumns) {
      splitter.eraseUnused();
      rest.erase();
      return;
    }
    OpBuilder b(map);
    Location loc = map.getLoc();
    auto flags = arith::FastMathFlags::reassoc | arith::FastMathFlags::contract;
    Value source;
    if (auto argument = dyn_cast<BlockArgument>(terms.varying)) {
      source = map.getOperands()[argument.getArgNumber()];
      rest.erase();
    } else {
      end->setOperand(0, terms.varying);
      for (Operation &op : llvm::make_early_inc_range(llvm::reverse(*end->getBlock())))
        if (isOpTriviallyDead(&op))
          op.erase();
      source = tile::MapOp::create(b, loc, type, rest.getSymName(), map.getOperands());
    }
    if (terms.columns)
      source = terms.subtractsColumns
                   ? arith::SubFOp::create(b, loc, source, terms.columns, flags).getResult()
                   : arith::AddFOp::create(b, loc, source, terms.columns, flags).getResult();

    // max(y + r) f = max(y) f + r f, and (y + r) f - m = y f - (m - r f).
    b.setInsertionPoint(found.raise);
    Value raised = RaiseMaxOp::create(b, loc, typeOfRows, found.raise.getOld(),
                                      found.raise.getLag(), source, found.raise.getFactor(), rows);
    Value factors = tile::FullOp::create(b, loc, typeOfRows, found.raise.getFactor());
    Value shifts = arith::MulFOp::create(b, loc, rows, factors, flags);
    Value left = arith::SubFOp::create(b, loc, raised, shifts, flags);
    found.raise.getResult().replaceAllUsesWith(raised);
    Value maxima = tile::ExpandOp::create(b, loc, found.maxima.getType(), left, 1);
    found.below.getRhsMutable().assign(maxima);
    if (found.maxima->use_empty())
      found.maxima.erase();
    map.getResult().replaceAllUsesWith(source);
    found.raise.erase();
    map.erase();
    splitter.eraseUnused();
  }
};

} // namespace
