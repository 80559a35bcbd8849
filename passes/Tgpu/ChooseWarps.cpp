// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How many warps a kernel gets where nobody says.

#include "passes/Tgpu/ChooseWarps.h"

using namespace mlir;
using namespace tilewright;

int64_t tgpu::chooseWarps(tile::KernelOp kernel, StringRef target) {
  constexpr int64_t fewWarps = 4, manyWarps = 8, rowsOfGroup = 64, mostGroups = 2;
  constexpr int64_t mostOfThread = 128, lanes = 32;
  RankedTensorType largest;
  // Accumulators of one body live at the same time, or nearly: scores and outputs, say.
  llvm::DenseMap<Block *, int64_t> elementsOf;
  int64_t most = 0;
  bool hasWgmma = target == "sm_90a";
  kernel.walk([&](tile::DotOp dot) {
    auto type = dyn_cast<RankedTensorType>(dot.getType());
    if (!type || type.getRank() != 2)
      return;
    Type element = tile::getElementType(dot.getLhs().getType());
    hasWgmma &= element.isF16() || element.isBF16();
    int64_t &elements = elementsOf[dot->getBlock()];
    elements += type.getNumElements();
    most = std::max(most, elements);
    if (!largest || type.getNumElements() > largest.getNumElements())
      largest = type;
  });
  if (!largest)
    return fewWarps;
  if (hasWgmma)
    return fewWarps * std::clamp<int64_t>(largest.getDimSize(0) / rowsOfGroup, 1, mostGroups);
  return most > fewWarps * lanes * mostOfThread ? manyWarps : fewWarps;
}
