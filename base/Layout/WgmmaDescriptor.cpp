// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix descriptors of wgmma.

#include "base/Layout/WgmmaDescriptor.h"

#include <cassert>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

constexpr int64_t kStepBytes = 32; // extent of k in one instruction
constexpr int64_t kCoreBytes = 16; // 8 of these are a core matrix

/// The width of the pattern: that of a row of a panel.
int64_t widthOf(Swizzle swizzle) {
  return swizzle == Swizzle::None ? kCoreBytes : panelBytes(swizzle);
}

Status checkElementBits(int elementBits) {
  if (elementBits == 8 || elementBits == 16 || elementBits == 32)
    return Status::success();
  return Status::failure("operands of wgmma have elements of 8, 16 or 32 bits, but got " +
                         std::to_string(elementBits));
}

} // namespace

//===----------------------------------------------------------------------===//
// Descriptors
//===----------------------------------------------------------------------===//

uint64_t MatrixDescriptor::encode() const {
  assert(startAddress % 16 == 0 && leadingOffset % 16 == 0 && strideOffset % 16 == 0 &&
         "addresses and offsets are multiples of 16");
  auto field = [](uint32_t bytes) { return uint64_t(bytes >> 4 & 0x3fff); };
  uint64_t mode = 0;
  switch (swizzle) {
  case Swizzle::None:
    mode = 0;
    break;
  case Swizzle::B128:
    mode = 1;
    break;
  case Swizzle::B64:
    mode = 2;
    break;
  case Swizzle::B32:
    mode = 3;
    break;
  }
  return field(startAddress) | field(leadingOffset) << 16 | field(strideOffset) << 32 |
         uint64_t(baseOffset & 7) << 49 | mode << 62;
}

MatrixDescriptor MatrixDescriptor::decode(uint64_t bits) {
  auto field = [&](int shift) { return static_cast<uint32_t>(bits >> shift & 0x3fff) << 4; };
  constexpr Swizzle modes[] = {Swizzle::None, Swizzle::B128, Swizzle::B64, Swizzle::B32};
  return {field(0), field(16), field(32), static_cast<uint32_t>(bits >> 49 & 7), modes[bits >> 62]};
}

int64_t layout::descriptorRead(const MatrixDescriptor &descriptor, Major major, int elementBits,
                               int64_t mn, int64_t k) {
  int64_t bytes = elementBits / 8, width = widthOf(descriptor.swizzle);
  int64_t leading = descriptor.leadingOffset, stride = descriptor.strideOffset;
  bool swizzled = descriptor.swizzle != Swizzle::None;
  int64_t offset = 0;
  if (major == Major::K) {
    offset = mn % 8 * width + mn / 8 * stride;
    offset += swizzled ? k * bytes : k * bytes / kCoreBytes * leading + k * bytes % kCoreBytes;
  } else {
    offset = mn * bytes % width + k % 8 * width;
    offset += mn * bytes / width * (swizzled ? leading : stride);
    offset += k / 8 * (swizzled ? stride : leading);
  }
  return swizzleAddress(descriptor.startAddress + offset, descriptor.swizzle);
}

//===----------------------------------------------------------------------===//
// Shapes
//===----------------------------------------------------------------------===//

Status layout::checkWgmmaShape(int64_t n, int elementBits) {
  if (Status status = checkElementBits(elementBits); !status)
    return status;
  if (n >= 8 && n <= 256 && n % 8 == 0)
    return Status::success();
  return Status::failure("n of a wgmma must be a multiple of 8 from 8 to 256, but got " +
                         std::to_string(n));
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

Result<WgmmaOperand> WgmmaOperand::plan(const SharedLayout &buffer, Major major) {
  if (Status status = checkElementBits(buffer.elementBits()); !status)
    return status;
  if (major == Major::MN && buffer.elementBits() != 16)
    return Status::failure("an operand of wgmma whose rows are contiguous must have elements of 16 "
                           "bits, but got " +
                           std::to_string(buffer.elementBits()) + "; transpose it");
  if (buffer.rowPitch() != buffer.panelBytes() || buffer.panelBytes() != widthOf(buffer.swizzle()))
    return Status::failure("rows of an operand of wgmma must be contiguous panels as wide as the "
                           "swizzle, or 16 bytes without a swizzle, but got rows of " +
                           std::to_string(buffer.panelBytes()) + " bytes, " +
                           std::to_string(buffer.rowPitch()) + " apart");
  WgmmaOperand operand(buffer, major);
  int64_t depth = wgmmaDepth(buffer.elementBits());
  if (operand.extentMN() % 8 != 0 || buffer.rows() % 8 != 0)
    return Status::failure("rows of an operand of wgmma must be a multiple of 8, but got " +
                           std::to_string(operand.extentMN()));
  if (operand.extentK() % depth != 0)
    return Status::failure("k of an operand of wgmma must be a multiple of " +
                           std::to_string(depth) + ", but got " +
                           std::to_string(operand.extentK()));
  return operand;
}

int64_t WgmmaOperand::extentMN() const { return order == Major::K ? buffer.rows() : buffer.cols(); }
int64_t WgmmaOperand::extentK() const { return order == Major::K ? buffer.cols() : buffer.rows(); }

Status WgmmaOperand::checkOrigin(int64_t mn) const {
  int64_t unit = order == Major::K ? 8 : buffer.panelCols();
  if (mn >= 0 && mn < extentMN() && mn % unit == 0)
    return Status::success();
  return Status::failure("an operand of wgmma must begin at a row that is a multiple of " +
                         std::to_string(unit) + " and less than " + std::to_string(extentMN()) +
                         ", but got " + std::to_string(mn));
}

int64_t WgmmaOperand::byteOffset(int64_t mn, int64_t step) const {
  assert(checkOrigin(mn) && step >= 0 && step < numSteps() && "no operand begins here");
  if (order == Major::K) {
    int64_t inRow = step * kStepBytes;
    return inRow / buffer.panelBytes() * buffer.panelStride() + mn * buffer.rowPitch() +
           inRow % buffer.panelBytes();
  }
  return mn / buffer.panelCols() * buffer.panelStride() +
         step * wgmmaDepth(buffer.elementBits()) * buffer.rowPitch();
}

MatrixDescriptor WgmmaOperand::descriptor(uint32_t bufferAddress, int64_t mn, int64_t step) const {
  assert(bufferAddress % buffer.alignment() == 0 && "the buffer is not aligned to its pattern");
  MatrixDescriptor descriptor;
  descriptor.startAddress = bufferAddress + static_cast<uint32_t>(byteOffset(mn, step));
  descriptor.swizzle = buffer.swizzle();
  // The strides from one group of 8 rows of a panel to the next, and from one panel to the next.
  auto group = static_cast<uint32_t>(8 * buffer.rowPitch());
  auto panel = static_cast<uint32_t>(buffer.panelStride());
  bool swizzled = buffer.swizzle() != Swizzle::None;
  if (order == Major::K) {
    descriptor.strideOffset = group;
    descriptor.leadingOffset = swizzled ? kCoreBytes : panel;
  } else {
    descriptor.strideOffset = swizzled ? group : panel;
    descriptor.leadingOffset = swizzled ? panel : group;
  }
  return descriptor;
}
