// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// How a register tile is read from or written to a shared buffer: by ldmatrix and stmatrix, or by
// ordinary vectors. A plan is a list of issues; each says which registers of a thread it moves, and
// from which offset in the buffer.
//
// The buffer may hold the tile as it is, [d0, d1] at row d0 and column d1, or exchanged, at row d1
// and column d0 (`exchanged`): K of shape [keys, depth] is the exchanged tile of operand b = K^T of
// shape [depth, keys].
//
// ldmatrix moves 8x8 matrices of 16-bit pairs: 8 rows of 16 bytes, whose addresses lanes 8 i to
// 8 i + 7 supply for matrix i. Word i of lane l becomes
//
//     plain:       row l / 4, bytes 4 (l % 4) to 4 (l % 4) + 3
//     transposed:  16-bit elements [2 (l % 4), l / 4] and [2 (l % 4) + 1, l / 4]

#ifndef TILEWRIGHT_BASE_LAYOUT_REGISTERACCESS_H
#define TILEWRIGHT_BASE_LAYOUT_REGISTERACCESS_H

#include "base/Layout/SharedLayout.h"

namespace tilewright::layout {

/// offset(issue) = (offset(issue 0) ^ flip) + add, in every thread: one address register and at
/// most one xor for each distinct flip. The xor acts on the offset from an aligned buffer, so it
/// acts on the address as well.
struct OffsetDelta {
  int64_t flip = 0, add = 0;
};

/// The position of a tile in a larger buffer.
struct Placement {
  bool exchanged = false;
  Coord origin = {0, 0}; ///< row and column of the buffer at which the tile begins
};

/// One ldmatrix or stmatrix: .x1, .x2 or .x4 by `numMatrices`, which is the same in all issues of a
/// plan. Matrix i is the 32-bit word words[i] of each thread.
struct MatrixIssue {
  std::array<int, 4> words = {0, 0, 0, 0};
  int numMatrices = 4;
};

class MatrixAccess {
public:
  /// Errors: a layout whose words are not arranged as ldmatrix does it; `transposed` elements
  /// of another width than 16 bits; a tile outside the buffer; rows of 16 bytes that the buffer
  /// does not keep together.
  static Result<MatrixAccess> plan(const RegisterLayout &tile, const SharedLayout &buffer,
                                   Placement placement = {});

  /// The matrices of every issue have the relative positions of those of the first.
  const std::vector<MatrixIssue> &issues() const { return list; }
  /// Whether the instruction is the .trans form.
  bool isTransposed() const { return trans; }

  /// Row and column of the buffer at which the 16-byte row begins whose address a lane supplies.
  /// Lanes beyond 8 * numMatrices repeat the lower ones.
  Coord rowStart(int issue, int warp, int lane) const;
  int64_t byteOffset(int issue, int warp, int lane) const;
  /// No value if the buffer's pattern does not permit it: then compute byteOffset for each issue.
  std::optional<OffsetDelta> delta(int issue) const;

  int numWarps() const { return tile.numWarps(); }

private:
  MatrixAccess(RegisterLayout tile, SharedLayout buffer, Placement placement)
      : tile(std::move(tile)), buffer(std::move(buffer)), placement(placement) {}

  RegisterLayout tile;
  SharedLayout buffer;
  Placement placement;
  bool trans = false;
  int packedDim = 1;
  std::vector<MatrixIssue> list;
};

/// One load or store of `count` elements by each thread.
struct VectorIssue {
  int firstRegister = 0, count = 1;
};

class VectorAccess {
public:
  /// The widest vectors, up to `maxBytes`, that registers and buffer both keep together and
  /// aligned. Errors: a tile outside the buffer.
  static Result<VectorAccess> plan(const RegisterLayout &tile, const SharedLayout &buffer,
                                   Placement placement = {}, int maxBytes = 16);

  const std::vector<VectorIssue> &issues() const { return list; }
  int bytesPerLane() const { return vectorBytes; }
  int64_t byteOffset(int issue, int warp, int lane) const;
  std::optional<OffsetDelta> delta(int issue) const;

  int numWarps() const { return tile.numWarps(); }

private:
  VectorAccess(RegisterLayout tile, SharedLayout buffer, Placement placement)
      : tile(std::move(tile)), buffer(std::move(buffer)), placement(placement) {}

  RegisterLayout tile;
  SharedLayout buffer;
  Placement placement;
  int vectorBytes = 0;
  std::vector<VectorIssue> list;
};

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_REGISTERACCESS_H
