// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The layout of a tile in shared memory.
//
// Swizzled: the columns are split into panels as wide as the swizzle (32, 64 or 128 bytes); panels
// follow one another, each with its rows in order; and in the address the bits that number a
// 16-byte chunk are xored with bits above them. A TMA load whose boxes are one panel wide writes
// this layout, and a wgmma descriptor of the same swizzle reads it.
//
//     128 bytes:  bits [6:4] ^= bits [9:7]     repeats after  8 rows, 1024 bytes
//      64 bytes:  bits [5:4] ^= bits [8:7]                    8 rows,  512 bytes
//      32 bytes:  bit   [4]  ^= bit   [7]                     8 rows,  256 bytes
//
//     a panel of 128 bytes, the 16-byte chunks by their logical number:
//       row 0    0 1 2 3 4 5 6 7        row 2    2 3 0 1 6 7 4 5
//       row 1    1 0 3 2 5 4 7 6        row 7    7 6 5 4 3 2 1 0
//
// The xor is one of addresses: offsets agree with it because the buffer is aligned to the repeat.
//
// Units: rows and columns count elements; offsets, widths and pitches are bytes.

#ifndef TILEWRIGHT_BASE_LAYOUT_SHAREDLAYOUT_H
#define TILEWRIGHT_BASE_LAYOUT_SHAREDLAYOUT_H

#include "base/Layout/RegisterLayout.h"
#include "base/Layout/Swizzle.h"

#include <optional>

namespace tilewright::layout {

class SharedLayout {
public:
  /// Precondition of all: elementBits 8, 16, 32 or 64. A rank-1 buffer has one row.

  /// Row after row; with a swizzle, in panels of its width. The last panel may be partly used.
  /// Errors: rows with a swizzle that are not a multiple of 16 bytes.
  static Result<SharedLayout> swizzled(int64_t rows, int64_t cols, int elementBits,
                                       Swizzle swizzle);

  /// Panels of `panelBytes` without a swizzle; 16 is what an unswizzled wgmma descriptor reads.
  static Result<SharedLayout> panels(int64_t rows, int64_t cols, int elementBits,
                                     int64_t panelBytes);

  /// Row after row, `padBytes` unused bytes at the end of each.
  static Result<SharedLayout> padded(int64_t rows, int64_t cols, int elementBits, int64_t padBytes);

  /// The widest swizzle whose panels divide rows of `cols` elements: 128 bytes for 64 elements of
  /// 16 bits, 64 for 96, 32 for 80; None where 32 bytes do not divide either.
  static Swizzle widestSwizzle(int64_t cols, int elementBits);

  int64_t rows() const { return numRows; }
  int64_t cols() const { return numCols; }
  int elementBits() const { return 8 * elementBytes; }
  int64_t bytesPerElement() const { return elementBytes; }
  Swizzle swizzle() const { return pattern; }

  int64_t panelBytes() const { return panelWidth; } ///< without the pad
  int64_t panelCols() const { return panelWidth / elementBytes; }
  int64_t numPanels() const { return (numCols * elementBytes + panelWidth - 1) / panelWidth; }
  bool hasFullPanels() const { return numCols * elementBytes % panelWidth == 0; }
  int64_t rowPitch() const { return pitch; } ///< bytes between consecutive rows of a panel
  int64_t panelStride() const { return numRows * pitch; } ///< bytes between consecutive panels
  int64_t sizeInBytes() const { return numPanels() * panelStride(); }

  /// The required alignment of the buffer: 1024, 512, 256 bytes for the swizzles, 128 without (as
  /// required by TMA).
  int64_t alignment() const;

  /// The offset of an element from the start of the buffer. Precondition: it is in the tile.
  int64_t byteOffset(int64_t row, int64_t col) const;
  int64_t byteOffset(Coord element) const { return byteOffset(element[0], element[1]); }

  /// The element that contains a byte, or none for padding and the unused part of a panel.
  /// Precondition: 0 <= offset < sizeInBytes.
  std::optional<Coord> elementAt(int64_t offset) const;

private:
  SharedLayout() = default;

  int64_t numRows = 0, numCols = 0;
  int elementBytes = 1;
  Swizzle pattern = Swizzle::None;
  int64_t panelWidth = 0, pitch = 0;
};

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_SHAREDLAYOUT_H
