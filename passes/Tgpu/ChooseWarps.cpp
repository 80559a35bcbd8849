// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many warps a kernel gets where nobody says.

#include "passes/Tgpu/ChooseWarps.h"

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/RegisterPressure.h"

#include "mlir/Dialect/Arith/IR/Arith.h"

using namespace mlir;
using namespace tilewright;

/// Registers of a thread of `threads` for a tile; what products alone load goes to shared memory,
/// and constants, positions and rows spread over a tile are made where they are used.
static int64_t getRegisters(Value value, int64_t threads) {
  auto tile = dyn_cast<RankedTensorType>(value.getType());
  Operation *def = value.getDefiningOp();
  if (!tile || tile.getRank() != 2 || tgpu::isMadeWhereUsed(value))
    return 0;
  bool isLoaded =
      def && isa<tile::LoadOp>(def) &&
      llvm::all_of(value.getUsers(), [](Operation *op) { return isa<tile::DotOp>(op); });
  return isLoaded
             ? 0
             : tile.getNumElements() * tgpu::getElementBits(tile.getElementType()) / 32 / threads;
}

/// The most warpgroups that share blocks of 64 rows evenly.
static int64_t getGroups(int64_t blocks) {
  constexpr int64_t most = 3;
  for (int64_t groups = most; groups > 1; --groups)
    if (blocks >= groups && blocks % groups == 0)
      return groups;
  return 1;
}

int64_t tgpu::chooseWarps(tile::KernelOp kernel, StringRef target) {
  constexpr int64_t fewWarps = 4, manyWarps = 8, rowsOfGroup = 64, lanes = 32;
  RankedTensorType largest;
  bool hasWgmma = target == "sm_90a";
  kernel.walk([&](tile::DotOp dot) {
    auto type = dyn_cast<RankedTensorType>(dot.getType());
    if (!type || type.getRank() != 2)
      return;
    Type element = tile::getElementType(dot.getLhs().getType());
    hasWgmma &= element.isF16() || element.isBF16();
    if (!largest || type.getNumElements() > largest.getNumElements())
      largest = type;
  });
  if (!largest)
    return fewWarps;
  if (hasWgmma)
    return fewWarps * getGroups(largest.getDimSize(0) / rowsOfGroup);
  int64_t pressure = getPressure(kernel.getBody().front(), {}, [&](Value value) {
    return getRegisters(value, fewWarps * lanes);
  });
  return pressure > registersForTiles ? manyWarps : fewWarps;
}
