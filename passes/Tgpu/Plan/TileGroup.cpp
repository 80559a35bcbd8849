// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Chooses the order of tiles by the bytes of the operands that depend on each grid id.

#include "passes/Tgpu/Plan/TileGroup.h"

#include "passes/Tgpu/Roles/GridIds.h"

#include <cmath>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;

namespace {

/// The ids of the grid, as bits, on which the place of a copied tile depends: the first two.
uint64_t getFirstIds(CopyAsyncOp copy) {
  uint64_t ids = 0;
  for (Value index : copy.getIndices())
    ids |= getGridIds(index);
  return ids & 3;
}

/// Whether loops copy only rows that depend on the second id alone and are shorter than a line of
/// the L2, as in attention with narrow heads.
bool readsNarrowRowsOfSecondId(const RoleSlice &slice) {
  constexpr int64_t bitsOfLine = 128 * 8;
  auto isNarrow = [](CopyAsyncOp copy) {
    auto view = cast<tile::ViewType>(copy.getView().getType());
    int64_t row = view.getShape().back();
    return getFirstIds(copy) == 2 && ShapedType::isStatic(row) &&
           row * view.getElementType().getIntOrFloatBitWidth() < bitsOfLine;
  };
  bool hasLoop = false;
  for (const CopyGroup &group : slice.groups)
    if (group.getLoop()) {
      hasLoop = true;
      if (!llvm::all_of(group.copies, isNarrow))
        return false;
    }
  return hasLoop;
}

} // namespace

int64_t tgpu::chooseGroup(KernelOp kernel, const RoleSlice &slice) {
  // Bytes of the operands that depend on the first id alone, and on the second alone.
  double bytesOf[2] = {0, 0};
  for (const CopyGroup &group : slice.groups)
    for (CopyAsyncOp copy : group.copies) {
      for (int id : {0, 1})
        if (getFirstIds(copy) == uint64_t(1) << id)
          bytesOf[id] +=
              static_cast<double>(getBytes(cast<SharedType>(copy.getBuffer().getType())));
    }
  // One H200: with rows of 128 bytes and more, blocks that begin together best read the operand of
  // one step of the second id; with shorter ones, in attention of D 24 to 56, those of four steps,
  // which is 1.00 to 1.04 of the speed.
  constexpr int64_t stepsOfNarrowRows = 4;
  if (bytesOf[0] == 0 && readsNarrowRowsOfSecondId(slice))
    return stepsOfNarrowRows;
  if (bytesOf[0] == 0 || bytesOf[1] == 0)
    return 1;
  // A rectangle of g by multiprocessors / g tiles reads the one operand g times and the other
  // multiprocessors / g times.
  double best = std::sqrt(getTargetOf(kernel).multiprocessors * bytesOf[0] / bytesOf[1]);
  return int64_t(1) << std::lround(std::log2(std::max(1.0, best)));
}
