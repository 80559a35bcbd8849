// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the default number of warps of a kernel.

#include "passes/Tgpu/Map/ChooseWarps.h"

#include "dialect/Tgpu/Tgpu.h"
#include "passes/Tgpu/Analysis/RegisterLimits.h"
#include "passes/Tgpu/Analysis/RegisterPressure.h"
#include "passes/Tgpu/Map/ConvertedOperands.h"
#include "passes/Tgpu/Map/LayoutInference.h"
#include "passes/Tile/ByteProducts.h"

#include <numeric>

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
  int64_t columns = 0; // of all results
  bool hasWgmma = target.has(Feature::Wgmma), converts = false, isOfBytes = true;
  kernel.walk([&](tile::DotOp dot) {
    converts |= static_cast<bool>(getConvertedLoad(dot.getLhs()));
    auto type = dyn_cast<RankedTensorType>(dot.getType());
    if (!type || type.getRank() != 2)
      return;
    Type element = tile::getElementType(dot.getLhs().getType());
    columns += type.getDimSize(1);
    isOfBytes &= isProductOfBytes(dot, target, /*warps=*/0);
    hasWgmma &= tgpu::LayoutInference::isOfWgmma(element);
    if (!largest || type.getNumElements() > largest.getNumElements())
      largest = type;
  });
  auto getPressureOf = [&](int64_t warps) {
    return RegisterModel::beforeMapping(warps * Target::lanes)
        .getPressure(kernel.getBody().front());
  };
  if (!largest)
    return chooseForRows(getPressureOf);
  // With so few elements a thread, a second warpgroup saves no time, but rows that are reduced over
  // warps, as those of transposed tiles are, wait for more of them: 0.97 of the time to decode one
  // sequence of 1,024 keys with one.
  constexpr int64_t elementsOfFewRows = 16;
  if (hasWgmma && !converts &&
      largest.getNumElements() <= elementsOfFewRows * Target::threadsOfGroup)
    return fewWarps;
  if (!hasWgmma)
    return getPressureOf(fewWarps) > RegisterLimits::forTiles ? manyWarps : fewWarps;
  int64_t blocks = largest.getDimSize(0) / tgpu::rowsOfWarpgroup;
  // Warpgroups divide the rows of all products of transposed tiles, or mma.sync would take some.
  constexpr int64_t columnsOfFewRows = 32;
  kernel.walk([&](tile::DotOp dot) {
    auto type = dyn_cast<RankedTensorType>(dot.getType());
    if (type && type.getRank() == 2 && type.getDimSize(1) <= columnsOfFewRows)
      blocks = std::gcd(blocks, type.getDimSize(0) / tgpu::rowsOfWarpgroup);
  });
  // Loops of products of bytes are in order, so that threads of four warpgroups, which have 112
  // registers, hold results of these columns.
  constexpr int64_t most = 4, columnsOfMost = 192;
  if (isOfBytes && blocks == most && columns <= columnsOfMost)
    return fewWarps * most;
  return fewWarps * getWarpgroups(blocks);
}
