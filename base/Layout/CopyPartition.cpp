// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Copies of a tile by threads, in chunks.

#include "base/Layout/CopyPartition.h"

using namespace tilewright;
using namespace tilewright::layout;

Result<CopyPartition> CopyPartition::plan(const SharedLayout &buffer, int threads, int chunkBytes) {
  if (threads < 1 || threads > 1024)
    return Status::failure("a copy is shared by 1 to 1024 threads, but got " +
                           std::to_string(threads));
  if (chunkBytes != 4 && chunkBytes != 8 && chunkBytes != 16)
    return Status::failure("cp.async copies 4, 8 or 16 bytes, but got " +
                           std::to_string(chunkBytes));
  if (chunkBytes % buffer.bytesPerElement() != 0 || buffer.panelBytes() % chunkBytes != 0 ||
      buffer.rowPitch() % chunkBytes != 0)
    return Status::failure("rows of " + std::to_string(buffer.panelBytes()) + " bytes, " +
                           std::to_string(buffer.rowPitch()) +
                           " apart, must be whole chunks of whole elements, but got chunks of " +
                           std::to_string(chunkBytes) + " bytes");
  return CopyPartition(buffer, threads, chunkBytes);
}

int64_t CopyPartition::numChunks() const {
  return buffer.rows() * buffer.cols() * buffer.bytesPerElement() / chunk;
}

int CopyPartition::numIssues() const {
  return static_cast<int>((numChunks() + threads - 1) / threads);
}

bool CopyPartition::isInLines() const {
  int64_t width = buffer.panelBytes();
  return buffer.rowPitch() == width && width < lineBytes && lineBytes % width == 0 &&
         buffer.rows() * width % lineBytes == 0 && buffer.hasFullPanels();
}

CopyChunk CopyPartition::chunkNumber(int64_t number) const {
  int64_t width = buffer.panelBytes(), row, byte;
  if (isInLines()) {
    int64_t line = number * chunk / lineBytes, inLine = number * chunk % lineBytes;
    int64_t panel = line % buffer.numPanels(), lineOfPanel = line / buffer.numPanels();
    row = lineOfPanel * (lineBytes / width) + inLine / width;
    byte = panel * width + inLine % width;
  } else {
    int64_t rowBytes = buffer.cols() * buffer.bytesPerElement();
    row = number * chunk / rowBytes;
    byte = number * chunk % rowBytes;
  }
  int64_t col = byte / buffer.bytesPerElement();
  return {row, col, buffer.byteOffset(row, col)};
}

std::optional<CopyChunk> CopyPartition::chunkOf(int thread, int issue) const {
  int64_t number = int64_t(issue) * threads + thread;
  if (number >= numChunks())
    return std::nullopt;
  return chunkNumber(number);
}

std::optional<int64_t> CopyPartition::rowsPerIssue() const {
  std::optional<int64_t> rows;
  for (int64_t number = threads; number < numChunks(); ++number) {
    CopyChunk before = chunkNumber(number - threads), now = chunkNumber(number);
    int64_t step = now.row - before.row;
    if (now.col != before.col || now.byteOffset - before.byteOffset != step * buffer.rowPitch() ||
        step != rows.value_or(step))
      return std::nullopt;
    rows = step;
  }
  return rows.value_or(0);
}
