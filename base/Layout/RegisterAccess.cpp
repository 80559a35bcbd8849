// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Plans of ldmatrix, stmatrix and vector accesses.

#include "base/Layout/RegisterAccess.h"

using namespace tilewright;
using namespace tilewright::layout;

namespace {

Coord plus(const Coord &a, const Coord &b) { return {a[0] + b[0], a[1] + b[1]}; }

/// The row and column of the buffer where an element of the tile lies.
Coord toBuffer(const RegisterLayout &tile, const Placement &placement, const Coord &element) {
  Coord inBuffer = tile.rank() == 2 ? element : Coord{0, element[0]};
  if (placement.exchanged)
    std::swap(inBuffer[0], inBuffer[1]);
  return plus(inBuffer, placement.origin);
}

Status checkInside(const RegisterLayout &tile, const SharedLayout &buffer,
                   const Placement &placement) {
  Coord last = {tile.shape()[0] - 1, tile.rank() == 2 ? tile.shape()[1] - 1 : 0};
  Coord end = toBuffer(tile, placement, last);
  if (placement.origin[0] >= 0 && placement.origin[1] >= 0 && end[0] < buffer.rows() &&
      end[1] < buffer.cols())
    return Status::success();
  auto pair = [](int64_t a, int64_t b) { return std::to_string(a) + ", " + std::to_string(b); };
  return Status::failure("a tile must lie inside its buffer of " +
                         pair(buffer.rows(), buffer.cols()) + " elements, but got one from [" +
                         pair(placement.origin[0], placement.origin[1]) + "] to [" +
                         pair(end[0], end[1]) + "]");
}

/// Whether `bytes` starting at an element are contiguous in the buffer and aligned to their number.
bool keepsTogether(const SharedLayout &buffer, const Coord &first, int64_t bytes) {
  int64_t offset = buffer.byteOffset(first);
  int64_t more = bytes / buffer.bytesPerElement() - 1;
  if (first[1] + more >= buffer.cols() || offset % bytes != 0)
    return false;
  for (int64_t i = 1; i <= more; ++i)
    if (buffer.byteOffset(first[0], first[1] + i) != offset + i * buffer.bytesPerElement())
      return false;
  return true;
}

/// Whether the words of a thread are arranged as in ldmatrix, packed along `packed`.
bool isMatrixTile(const RegisterLayout &tile, int packed, int perWord) {
  if (tile.registersPerThread() % perWord != 0)
    return false;
  for (int lane = 0; lane < kLanes; ++lane) {
    Coord expected = {0, 0};
    expected[packed] = lane % 4 * perWord;
    expected[1 - packed] = lane / 4;
    if (tile.lanePart(lane) != expected)
      return false;
  }
  for (int reg = 0; reg < tile.registersPerThread(); ++reg) {
    Coord expected = tile.registerPart(reg - reg % perWord);
    expected[packed] += reg % perWord;
    if (tile.registerPart(reg) != expected)
      return false;
  }
  return true;
}

/// Whether the matrices of every issue have the same relative positions as those of the first.
bool areTranslations(const RegisterLayout &tile, int perWord,
                     const std::vector<MatrixIssue> &issues) {
  auto between = [&](const MatrixIssue &issue, int matrix) {
    Coord a = tile.registerPart(issue.words[0] * perWord);
    Coord b = tile.registerPart(issue.words[matrix] * perWord);
    return Coord{b[0] - a[0], b[1] - a[1]};
  };
  for (const MatrixIssue &issue : issues)
    for (int matrix = 1; matrix < issue.numMatrices; ++matrix)
      if (between(issue, matrix) != between(issues[0], matrix))
        return false;
  return true;
}

/// Four words per issue if the positions are regular, so that one address serves all issues: two
/// neighbors and the two words `apart` after them. Operand b with an odd number of atoms along k
/// pairs atoms of neighboring columns.
std::vector<MatrixIssue> groupWords(const RegisterLayout &tile, int perWord) {
  int words = tile.registersPerThread() / perWord;
  std::vector<MatrixIssue> issues;
  for (int apart = 2; 2 * apart <= words; apart += 2) {
    if (words % (2 * apart) != 0)
      continue;
    issues.clear();
    for (int block = 0; block < words; block += 2 * apart)
      for (int word = block; word < block + apart; word += 2)
        issues.push_back({{word, word + 1, word + apart, word + apart + 1}, 4});
    if (areTranslations(tile, perWord, issues))
      return issues;
  }
  for (int each : {2, 1}) {
    issues.clear();
    for (int word = 0; word < words; word += each)
      issues.push_back({{word, word + each - 1, 0, 0}, each});
    if (words % each == 0 && areTranslations(tile, perWord, issues))
      break;
  }
  return issues;
}

template <typename Access> std::optional<OffsetDelta> findDelta(const Access &access, int issue) {
  for (int64_t flip = 0; flip < 128; flip += 16) {
    OffsetDelta delta{flip, 0};
    bool holds = true, first = true;
    for (int warp = 0; warp < access.numWarps() && holds; ++warp)
      for (int lane = 0; lane < kLanes && holds; ++lane) {
        int64_t add =
            access.byteOffset(issue, warp, lane) - (access.byteOffset(0, warp, lane) ^ flip);
        if (first)
          delta.add = add;
        first = false;
        holds = add == delta.add;
      }
    if (holds)
      return delta;
  }
  return std::nullopt;
}

} // namespace

//===----------------------------------------------------------------------===//
// ldmatrix, stmatrix
//===----------------------------------------------------------------------===//

Result<MatrixAccess> MatrixAccess::plan(const RegisterLayout &tile, const SharedLayout &buffer,
                                        Placement placement) {
  int bits = buffer.elementBits();
  if (tile.rank() != 2 || bits > 32)
    return Status::failure(
        "ldmatrix and stmatrix require a tile of rank 2 with elements of 8, 16 or 32 bits, but "
        "got rank " +
        std::to_string(tile.rank()) + " and " + std::to_string(bits) + " bits");
  if (Status status = checkInside(tile, buffer, placement); !status)
    return status;

  MatrixAccess access(tile, buffer, placement);
  int perWord = 32 / bits;
  if (isMatrixTile(tile, 1, perWord))
    access.packedDim = 1;
  else if (isMatrixTile(tile, 0, perWord))
    access.packedDim = 0;
  else
    return Status::failure("ldmatrix and stmatrix move fragments of matrix instructions only, but "
                           "got the layout " +
                           tile.str());
  int contiguousDim = placement.exchanged ? 0 : 1;
  access.trans = access.packedDim != contiguousDim;
  if (access.trans && bits != 16)
    return Status::failure("ldmatrix and stmatrix transpose elements of 16 bits only, but got " +
                           std::to_string(bits) + " bits");

  access.list = groupWords(tile, perWord);
  for (size_t issue = 0; issue < access.list.size(); ++issue)
    for (int warp = 0; warp < tile.numWarps(); ++warp)
      for (int lane = 0; lane < 8 * access.list[issue].numMatrices; ++lane)
        if (!keepsTogether(buffer, access.rowStart(static_cast<int>(issue), warp, lane), 16))
          return Status::failure("ldmatrix and stmatrix require a buffer with rows of 16 "
                                 "contiguous, aligned bytes; choose another swizzle or pad");
  return access;
}

Coord MatrixAccess::rowStart(int issue, int warp, int lane) const {
  const MatrixIssue &matrices = list[issue];
  lane %= 8 * matrices.numMatrices;
  int word = matrices.words[lane / 8];
  int perWord = 32 / buffer.elementBits();
  Coord element = plus(tile.warpPart(warp), tile.registerPart(word * perWord));
  element[trans ? packedDim : 1 - packedDim] += lane % 8;
  return toBuffer(tile, placement, element);
}

int64_t MatrixAccess::byteOffset(int issue, int warp, int lane) const {
  return buffer.byteOffset(rowStart(issue, warp, lane));
}

std::optional<OffsetDelta> MatrixAccess::delta(int issue) const { return findDelta(*this, issue); }

//===----------------------------------------------------------------------===//
// Vectors
//===----------------------------------------------------------------------===//

Result<VectorAccess> VectorAccess::plan(const RegisterLayout &tile, const SharedLayout &buffer,
                                        Placement placement, int maxBytes) {
  if (Status status = checkInside(tile, buffer, placement); !status)
    return status;
  VectorAccess access(tile, buffer, placement);
  int elementBytes = static_cast<int>(buffer.bytesPerElement());
  int contiguousDim = tile.rank() == 2 ? (placement.exchanged ? 0 : 1) : 0;
  bool alongRows = tile.rank() == 2 || !placement.exchanged;
  int run = alongRows ? tile.vectorLength(contiguousDim) : 1;

  int length = 1;
  while (run % (2 * length) == 0 && 2 * length * elementBytes <= maxBytes)
    length *= 2;
  auto fits = [&] {
    for (int warp = 0; warp < tile.numWarps(); ++warp)
      for (int lane = 0; lane < kLanes; ++lane)
        for (int reg = 0; reg < tile.registersPerThread(); reg += length)
          if (!keepsTogether(buffer, toBuffer(tile, placement, tile.element(warp, lane, reg)),
                             length * elementBytes))
            return false;
    return true;
  };
  while (length > 1 && !fits())
    length /= 2;

  access.vectorBytes = length * elementBytes;
  for (int reg = 0; reg < tile.registersPerThread(); reg += length)
    access.list.push_back({reg, length});
  return access;
}

int64_t VectorAccess::byteOffset(int issue, int warp, int lane) const {
  Coord element = tile.element(warp, lane, list[issue].firstRegister);
  return buffer.byteOffset(toBuffer(tile, placement, element));
}

std::optional<OffsetDelta> VectorAccess::delta(int issue) const { return findDelta(*this, issue); }
