// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What the structure of a kernel tells about a tile.

#include "passes/Tgpu/Analysis/TileQueries.h"

#include "passes/Tgpu/Analysis/RegisterLimits.h"

#include "mlir/Dialect/Arith/IR/Arith.h"
#include "mlir/Dialect/Math/IR/Math.h"

#include <numeric>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

bool tgpu::isRematerialized(Value value) {
  return value.getDefiningOp() &&
         isa<tile::FullOp, tile::IotaOp, arith::ConstantOp>(value.getDefiningOp());
}

bool tgpu::isDivisibleByColumns(WgmmaOp product, RankedTensorType tile) {
  constexpr int64_t part = RegisterLimits::columnsOfTerm, unit = 8;
  int64_t columns = tile.getDimSize(1);
  return !product.getAcc() && !product.getColumns() && product.getTransposeB() &&
         columns >= 2 * part && columns % unit == 0;
}

bool tgpu::isElementwise(Operation *op) {
  if (isa<tile::SelectOp, tile::CastOp, tile::MapOp, tile::RandomOp>(op))
    return true;
  return isa<arith::ArithDialect, math::MathDialect>(op->getDialect()) &&
         !isa<arith::ConstantOp>(op);
}

bool tgpu::isStaged(Value value) {
  auto load = value.getDefiningOp<tile::LoadOp>();
  return load && !load.getPad();
}

/// Up to 16 bytes per thread, consecutive; fewer if more threads can then take part.
Attribute tgpu::getBlocked(MLIRContext *context, ArrayRef<int64_t> shape, int64_t bits,
                           int64_t warps) {
  int64_t columns = shape.empty() ? 1 : shape.back(), rows = shape.size() == 2 ? shape[0] : 1;
  int64_t mostThreads = 0;
  Attribute best;
  for (int64_t vector = std::min<int64_t>(128 / bits, 16); vector >= 1; vector /= 2) {
    if (columns % vector != 0)
      continue;
    int64_t runs = columns / vector, lanes = std::gcd<int64_t>(runs, 32), warpsM = warps;
    while (warpsM > 1 && rows % (32 / lanes * warpsM) != 0)
      warpsM /= 2;
    int64_t warpsN = warps / warpsM;
    int64_t threads = std::gcd(rows, 32 / lanes * warpsM) * std::gcd(runs, lanes * warpsN);
    if (threads <= mostThreads)
      continue;
    mostThreads = threads;
    best = BlockedAttr::get(context, vector, lanes, warpsM, warpsN);
  }
  return best;
}
