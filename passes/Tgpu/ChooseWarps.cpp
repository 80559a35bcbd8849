// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the default number of warps of a kernel.

#include "passes/Tgpu/ChooseWarps.h"

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/RegisterLimits.h"
#include "passes/Tgpu/RegisterPressure.h"

using namespace mlir;
using namespace tilewright;

int64_t tgpu::getWarpgroups(int64_t blocks) {
  constexpr int64_t most = 3;
  for (int64_t groups = most; groups > 1; --groups)
    if (blocks >= groups && blocks % groups == 0)
      return groups;
  return 1;
}

/// Warps of a kernel without products: the fewest whose registers hold its tiles.
static int64_t chooseForRows(function_ref<int64_t(int64_t)> getPressureOf) {
  using Limits = tgpu::RegisterLimits;
  for (int64_t limit : {Limits::ofRows + 0, Limits::mostOfRows + 0})
    for (int64_t warps : {4, 8, 16, 32})
      if (Limits::timesTilesOfRows * getPressureOf(warps) <=
          std::min(limit, Target::registers / (Target::lanes * warps)))
        return warps;
  return 32; // the tiles fit no block
}

int64_t tgpu::chooseWarps(tile::KernelOp kernel, const Target &target) {
  constexpr int64_t fewWarps = 4, manyWarps = 8;
  RankedTensorType largest;
  bool hasWgmma = target.has(Feature::Wgmma);
  kernel.walk([&](tile::DotOp dot) {
    auto type = dyn_cast<RankedTensorType>(dot.getType());
    if (!type || type.getRank() != 2)
      return;
    Type element = tile::getElementType(dot.getLhs().getType());
    hasWgmma &= element.isF16() || element.isBF16();
    if (!largest || type.getNumElements() > largest.getNumElements())
      largest = type;
  });
  auto getPressureOf = [&](int64_t warps) {
    return RegisterModel::beforeMapping(warps * Target::lanes)
        .getPressure(kernel.getBody().front());
  };
  if (!largest)
    return chooseForRows(getPressureOf);
  if (hasWgmma)
    return fewWarps * getWarpgroups(largest.getDimSize(0) / tgpu::rowsOfWarpgroup);
  return getPressureOf(fewWarps) > RegisterLimits::forTiles ? manyWarps : fewWarps;
}
