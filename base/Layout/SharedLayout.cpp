// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Tiles in shared memory: panels, swizzles, pads.

#include "base/Layout/SharedLayout.h"

#include <cassert>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

constexpr int64_t kChunkBytes = 16; ///< unit that a swizzle permutes

Status checkExtents(int64_t rows, int64_t cols, int elementBits) {
  if (elementBits != 8 && elementBits != 16 && elementBits != 32 && elementBits != 64)
    return Status::failure("elements of a shared buffer must have 8, 16, 32 or 64 bits, but got " +
                           std::to_string(elementBits));
  if (rows < 1 || cols < 1)
    return Status::failure("a shared buffer must not be empty, but got " + std::to_string(rows) +
                           " by " + std::to_string(cols));
  return Status::success();
}

} // namespace

Result<SharedLayout> SharedLayout::panels(int64_t rows, int64_t cols, int elementBits,
                                          int64_t panelBytes) {
  if (Status status = checkExtents(rows, cols, elementBits); !status)
    return status;
  int64_t rowBytes = cols * elementBits / 8;
  if (panelBytes < elementBits / 8 || panelBytes % (elementBits / 8) != 0 ||
      rowBytes % panelBytes != 0)
    return Status::failure("rows must be a multiple of the " + std::to_string(panelBytes) +
                           " bytes of a panel, but got " + std::to_string(rowBytes) + " bytes");
  SharedLayout layout;
  layout.numRows = rows;
  layout.numCols = cols;
  layout.elementBytes = elementBits / 8;
  layout.panelWidth = layout.pitch = panelBytes;
  return layout;
}

Result<SharedLayout> SharedLayout::swizzled(int64_t rows, int64_t cols, int elementBits,
                                            Swizzle swizzle) {
  if (swizzle == Swizzle::None)
    return padded(rows, cols, elementBits, 0);
  if (Status status = checkExtents(rows, cols, elementBits); !status)
    return status;
  if (int64_t rowBytes = cols * elementBits / 8; rowBytes % kChunkBytes != 0)
    return Status::failure("rows of a swizzled buffer must be a multiple of " +
                           std::to_string(kChunkBytes) + " bytes, but got " +
                           std::to_string(rowBytes) + " bytes");
  int64_t panelCols = 8 * layout::panelBytes(swizzle) / elementBits;
  int64_t wholeCols = (cols + panelCols - 1) / panelCols * panelCols;
  Result<SharedLayout> layout = panels(rows, wholeCols, elementBits, layout::panelBytes(swizzle));
  if (layout) {
    layout->numCols = cols;
    layout->pattern = swizzle;
  }
  return layout;
}

Result<SharedLayout> SharedLayout::padded(int64_t rows, int64_t cols, int elementBits,
                                          int64_t padBytes) {
  if (Status status = checkExtents(rows, cols, elementBits); !status)
    return status;
  if (padBytes < 0 || padBytes % (elementBits / 8) != 0)
    return Status::failure("a pad must be a whole number of elements, but got " +
                           std::to_string(padBytes) + " bytes for elements of " +
                           std::to_string(elementBits) + " bits");
  Result<SharedLayout> layout = panels(rows, cols, elementBits, cols * elementBits / 8);
  if (layout)
    layout->pitch += padBytes;
  return layout;
}

Swizzle SharedLayout::widestSwizzle(int64_t cols, int elementBits) {
  for (Swizzle swizzle : {Swizzle::B128, Swizzle::B64, Swizzle::B32})
    if (cols * elementBits / 8 % layout::panelBytes(swizzle) == 0)
      return swizzle;
  return Swizzle::None;
}

int64_t SharedLayout::alignment() const { return alignmentOf(pattern); }

int64_t SharedLayout::byteOffset(int64_t row, int64_t col) const {
  assert(row >= 0 && row < numRows && col >= 0 && col < numCols && "element outside the buffer");
  int64_t inRow = col * elementBytes;
  int64_t linear = inRow / panelWidth * panelStride() + row * pitch + inRow % panelWidth;
  return swizzleAddress(linear, pattern);
}

std::optional<Coord> SharedLayout::elementAt(int64_t offset) const {
  assert(offset >= 0 && offset < sizeInBytes() && "byte outside the buffer");
  int64_t linear = swizzleAddress(offset, pattern);
  int64_t inPanel = linear % panelStride(), inRow = inPanel % pitch;
  int64_t col = (linear / panelStride() * panelWidth + inRow) / elementBytes;
  if (inRow >= panelWidth || col >= numCols)
    return std::nullopt;
  return Coord{inPanel / pitch, col};
}
