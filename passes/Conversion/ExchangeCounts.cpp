// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Exchanges of elements between warps, by the rules of EmitTiles.cpp and EmitReduce.cpp.

#include "passes/Conversion/ExchangeCounts.h"

#include "base/Layout/Relations.h"
#include "passes/Conversion/TileLayouts.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"
#include "llvm/ADT/TypeSwitch.h"

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

int64_t tgpu::countExchanges(Operation *op) {
  auto getLayout = [](Value tile) {
    return getRegisterLayout(cast<RankedTensorType>(tile.getType()));
  };
  auto moves = [&](Value source, Value result) {
    auto from = getLayout(source), to = getLayout(result);
    bool isSameShape = from && to && from->shape() == to->shape();
    return !isSameShape || layout::convert(*from, *to).kind != layout::Conversion::Kind::Registers;
  };
  return llvm::TypeSwitch<Operation *, int64_t>(op)
      .Case([&](ConvertOp convert) {
        return convert.getScratch() && moves(convert.getSource(), convert.getResult());
      })
      .Case([&](tile::ReduceOp reduce) {
        auto from = getLayout(reduce.getSource());
        return from && from->rank() == 2 &&
               layout::reductionPlan(*from, static_cast<int>(reduce.getDim())).acrossWarps();
      })
      .Case(
          [&](tile::ReshapeOp reshape) { return moves(reshape.getSource(), reshape.getResult()); })
      .Case([](tile::TransposeOp transpose) {
        return transpose.getPermutation().size() > 2 &&
               !llvm::is_sorted(transpose.getPermutation());
      })
      .Case([](tile::ExpandOp expand) { return tile::getRank(expand.getType()) > 2; })
      .Case([](tile::SliceOp) { return 1; })
      .Case([](tile::ScanOp scan) {
        auto type = cast<RankedTensorType>(scan.getSource().getType());
        return static_cast<int64_t>(llvm::Log2_64_Ceil(type.getDimSize(scan.getDim())));
      })
      .Default(int64_t(0));
}

bool tgpu::isFollowedBySync(Operation *op) {
  for (Operation *next = op->getNextNode(); next; next = next->getNextNode()) {
    if (auto sync = dyn_cast<SyncOp>(next)) {
      if (!sync.getBarrier())
        return true; // of the block: outside of roles
      auto barrier = sync.getBarrier().getDefiningOp<NamedBarrierOp>();
      return barrier && !barrier.getPerWarpgroup();
    }
    bool isPlain = isa<tile::FullOp, tile::IotaOp, tile::ExpandOp, tile::SelectOp, tile::CastOp,
                       ThreadSumOp, SlotOp, WriteSharedOp, FenceAsyncOp, WaitOp, ArriveOp>(next) ||
                   isa<arith::ArithDialect, math::MathDialect>(next->getDialect());
    if (!isPlain || next->getNumRegions() > 0 || countExchanges(next) > 0)
      return false;
  }
  return false;
}

int64_t tgpu::countBarriersOfExchanges(Operation *op) {
  int64_t count = 2 * countExchanges(op);
  return count > 0 && isa<tile::ReduceOp>(op) && isFollowedBySync(op) ? count - 1 : count;
}
