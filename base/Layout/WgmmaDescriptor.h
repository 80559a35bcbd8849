// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Operands of wgmma in shared memory: the 64-bit matrix descriptor, and the one that a buffer
// needs.
//
//     bits  0-13   address of the first element / 16 (18 bits of address)
//          16-29   leading dimension byte offset / 16
//          32-45   stride dimension byte offset / 16
//          49-51   base offset; 0, because every operand here starts at a repeat of the pattern,
//                  except for columns within a row
//          62-63   swizzle: 0 none, 1 128 bytes, 2 64 bytes, 3 32 bytes
//
// An instruction reads an operand of mn (m = 64, or n) by 32 bytes of k. K-major: k is contiguous.
// MN-major: m or n is, 16-bit elements only. With t = 16 bytes of elements, w = the width of the
// swizzle (16 bytes without), the offset of an element, before the xor of the swizzle, is
//
//     K-major, swizzled       (mn % 8) w + (mn / 8) stride + k bytes              leading unused
//     K-major, none           (mn % 8) 16 + (mn / 8) stride + (k / t) leading + k % t bytes
//     MN-major, swizzled      mn % w bytes + (mn / w) leading + (k % 8) w + (k / 8) stride
//     MN-major, none          mn % t bytes + (mn / t) stride + (k % 8) 16 + (k / 8) leading
//
// In the terms of SharedLayout a K-major operand is a buffer [mn, k], an MN-major one [k, mn].

#ifndef TILEWRIGHT_BASE_LAYOUT_WGMMADESCRIPTOR_H
#define TILEWRIGHT_BASE_LAYOUT_WGMMADESCRIPTOR_H

#include "base/Layout/SharedLayout.h"

namespace tilewright::layout {

enum class Major : uint8_t { K, MN };

/// Offsets in bytes.
struct MatrixDescriptor {
  uint32_t startAddress = 0; ///< in the shared window; below 2^18 and a multiple of 16
  uint32_t leadingOffset = 0, strideOffset = 0;
  uint32_t baseOffset = 0;
  Swizzle swizzle = Swizzle::None;

  uint64_t encode() const;
  static MatrixDescriptor decode(uint64_t bits);
};

/// The address in the shared window from which the hardware reads element (mn, k) of the operand of
/// one instruction: the formulas above. The reference for the plans below.
int64_t descriptorRead(const MatrixDescriptor &descriptor, Major major, int elementBits, int64_t mn,
                       int64_t k);

/// k of one instruction: 32 bytes of elements (8 for tf32).
constexpr int64_t wgmmaDepth(int elementBits) { return 256 / elementBits; }

/// n a multiple of 8 from 8 to 256, elements of 8, 16 or 32 bits.
Status checkWgmmaShape(int64_t n, int elementBits);

class WgmmaOperand {
public:
  /// Errors: MN-major elements of other than 16 bits; elements of 64 bits; a buffer padded, or
  /// without swizzle and not in panels of 16 bytes; mn or rows no multiple of 8; k no multiple of
  /// an instruction's.
  static Result<WgmmaOperand> plan(const SharedLayout &buffer, Major major);

  Major major() const { return order; }
  int64_t extentMN() const;
  int64_t extentK() const;
  /// Instructions along k.
  int64_t numSteps() const { return extentK() / wgmmaDepth(buffer.elementBits()); }

  /// Where the operand of step `step` that begins at row or column `mn` is in the buffer; it is
  /// what to add to the address, or shifted right by 4 to the descriptor.
  /// Precondition: checkOrigin(mn).
  int64_t byteOffset(int64_t mn, int64_t step) const;

  /// Errors: an mn at which no instruction can begin: K-major 8 rows, MN-major a panel.
  Status checkOrigin(int64_t mn) const;

  /// Precondition: bufferAddress is a multiple of the buffer's alignment().
  MatrixDescriptor descriptor(uint32_t bufferAddress, int64_t mn = 0, int64_t step = 0) const;

private:
  WgmmaOperand(SharedLayout buffer, Major order) : buffer(std::move(buffer)), order(order) {}

  SharedLayout buffer;
  Major order;
};

} // namespace tilewright::layout

#endif // TILEWRIGHT_BASE_LAYOUT_WGMMADESCRIPTOR_H
