// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Matrix descriptors of wgmma: their bits, and that the hardware's formula finds each element where
// TMA wrote it.

#include "LayoutTesting.h"
#include "base/Layout/WgmmaDescriptor.h"

using namespace tilewright;
using namespace tilewright::layout;

namespace {

/// A buffer for wgmma: panels as wide as the swizzle, or 16 bytes.
Result<SharedLayout> makeBuffer(int64_t rows, int64_t cols, int bits, Swizzle swizzle) {
  return swizzle == Swizzle::None ? SharedLayout::panels(rows, cols, bits, 16)
                                  : SharedLayout::swizzled(rows, cols, bits, swizzle);
}

TEST(LayoutWgmma, DescriptorsKeepTheirFields) {
  MatrixDescriptor descriptor;
  descriptor.startAddress = 0x1a430;
  descriptor.leadingOffset = 16 * 0x2001;
  descriptor.strideOffset = 16 * 0x40;
  descriptor.baseOffset = 5;
  for (Swizzle swizzle : swizzles) {
    descriptor.swizzle = swizzle;
    MatrixDescriptor back = MatrixDescriptor::decode(descriptor.encode());
    EXPECT_EQ(back.startAddress, descriptor.startAddress);
    EXPECT_EQ(back.leadingOffset, descriptor.leadingOffset);
    EXPECT_EQ(back.strideOffset, descriptor.strideOffset);
    EXPECT_EQ(back.baseOffset, descriptor.baseOffset);
    EXPECT_EQ(back.swizzle, descriptor.swizzle);
  }
  descriptor.swizzle = Swizzle::B64;
  EXPECT_EQ(descriptor.encode(),
            0x1a43ull | 0x2001ull << 16 | 0x40ull << 32 | 5ull << 49 | 2ull << 62);
}

// 64 x 64 elements of 16 bits at address 0, K-major, 128 bytes: stride 1024, leading unused.
TEST(LayoutWgmma, EncodesTheCommonOperand) {
  SharedLayout buffer = need(SharedLayout::swizzled(64, 64, 16, Swizzle::B128));
  WgmmaOperand operand = need(WgmmaOperand::plan(buffer, Major::K));
  EXPECT_EQ(operand.descriptor(0).encode(), 0x4000004000010000ull);
  EXPECT_EQ(operand.numSteps(), 4);
  // An instruction's k is 32 bytes: 2 units of the address field.
  EXPECT_EQ(operand.descriptor(0x400, 0, 3).encode(), 0x4000004000010000ull + 0x40 + 6);
  // MN-major: 64 rows of k; stride from 8 rows to the next, leading from panel to panel.
  WgmmaOperand transposed =
      need(WgmmaOperand::plan(need(SharedLayout::swizzled(64, 128, 16, Swizzle::B128)), Major::MN));
  EXPECT_EQ(transposed.descriptor(0).encode(), 0x4000004002000000ull);
  EXPECT_EQ(transposed.byteOffset(0, 1), 16 * 128);
  EXPECT_EQ(transposed.byteOffset(64, 0), 64 * 128);
}

/// Every instruction along k, from every 64 rows, reads each of its elements from the byte where
/// TMA wrote it.
int expectReads(const SharedLayout &buffer, Major major, int64_t instructionMN) {
  int bits = buffer.elementBits(), checked = 0;
  WgmmaOperand operand = need(WgmmaOperand::plan(buffer, major));
  int64_t depth = wgmmaDepth(bits);
  EXPECT_EQ(operand.numSteps() * depth, operand.extentK());
  const uint32_t base = static_cast<uint32_t>(7 * buffer.alignment());
  for (int64_t origin = 0; origin + instructionMN <= operand.extentMN(); origin += instructionMN) {
    if (!operand.checkOrigin(origin))
      continue;
    for (int64_t step = 0; step < operand.numSteps(); ++step) {
      MatrixDescriptor descriptor =
          MatrixDescriptor::decode(operand.descriptor(base, origin, step).encode());
      EXPECT_EQ(operand.descriptor(base, origin, step).encode(),
                operand.descriptor(base).encode() + (operand.byteOffset(origin, step) >> 4));
      for (int64_t mn = 0; mn < instructionMN; ++mn)
        for (int64_t k = 0; k < depth; ++k, ++checked) {
          int64_t row = origin + mn, col = step * depth + k;
          if (major == Major::MN)
            std::swap(row, col);
          int64_t got = descriptorRead(descriptor, major, bits, mn, k);
          if (got != base + buffer.byteOffset(row, col)) {
            ADD_FAILURE() << "mn " << mn << " k " << k << " from " << origin << " step " << step;
            return checked;
          }
        }
    }
  }
  return checked;
}

TEST(LayoutWgmma, KMajorDescriptorsReadWhatTmaWrote) {
  for (int bits : {8, 16, 32})
    for (Swizzle swizzle : swizzles)
      for (int64_t rowBytes : {32, 64, 128, 160, 192, 256})
        for (int64_t rows : {64, 80, 128, 192, 256}) {
          Result<SharedLayout> buffer = makeBuffer(rows, rowBytes * 8 / bits, bits, swizzle);
          if (!buffer)
            continue;
          SCOPED_TRACE(std::to_string(bits) + " bits, swizzle " +
                       std::to_string(static_cast<int>(swizzle)) + ", row bytes " +
                       std::to_string(rowBytes));
          // As a: 64 rows at a time. As b: the largest n.
          if (rows % 64 == 0) {
            EXPECT_EQ(expectReads(*buffer, Major::K, 64), rows * rowBytes * 8 / bits);
          }
          EXPECT_EQ(expectReads(*buffer, Major::K, rows), rows * rowBytes * 8 / bits);
        }
}

TEST(LayoutWgmma, MnMajorDescriptorsReadWhatTmaWrote) {
  for (Swizzle swizzle : swizzles)
    for (int64_t depth : {16, 32, 48, 64, 80, 128})
      for (int64_t mn : {16, 64, 80, 96, 128, 192, 256}) {
        Result<SharedLayout> buffer = makeBuffer(depth, mn, 16, swizzle);
        if (!buffer)
          continue;
        SCOPED_TRACE("swizzle " + std::to_string(static_cast<int>(swizzle)) + ", k " +
                     std::to_string(depth) + ", mn " + std::to_string(mn));
        if (mn % 64 == 0) {
          EXPECT_EQ(expectReads(*buffer, Major::MN, 64), mn * depth);
        }
        EXPECT_EQ(expectReads(*buffer, Major::MN, mn), mn * depth);
      }
}

TEST(LayoutWgmma, ChecksShapes) {
  for (int64_t n = -8; n <= 300; ++n)
    EXPECT_EQ(checkWgmmaShape(n, 16).ok(), n >= 8 && n <= 256 && n % 8 == 0) << n;
  EXPECT_EQ(checkWgmmaShape(12, 16).message(),
            "n of a wgmma must be a multiple of 8 from 8 to 256, but got 12");
  EXPECT_EQ(checkWgmmaShape(64, 64).message(),
            "operands of wgmma have elements of 8, 16 or 32 bits, but got 64");
  EXPECT_EQ(wgmmaDepth(8), 32);
  EXPECT_EQ(wgmmaDepth(16), 16);
  EXPECT_EQ(wgmmaDepth(32), 8);
}

TEST(LayoutWgmma, RejectsWhatWgmmaCannotRead) {
  auto message = [](Result<SharedLayout> buffer, Major major) {
    return WgmmaOperand::plan(need(std::move(buffer)), major).message();
  };
  EXPECT_EQ(
      message(SharedLayout::swizzled(64, 128, 8, Swizzle::B128), Major::MN),
      "an operand of wgmma whose rows are contiguous must have elements of 16 bits, but got 8; "
      "transpose it");
  EXPECT_EQ(message(SharedLayout::padded(64, 64, 16, 16), Major::K),
            "rows of an operand of wgmma must be contiguous panels as wide as the swizzle, or 16 "
            "bytes without a swizzle, but got rows of 128 bytes, 144 apart");
  EXPECT_EQ(message(SharedLayout::swizzled(64, 64, 16, Swizzle::None), Major::K),
            "rows of an operand of wgmma must be contiguous panels as wide as the swizzle, or 16 "
            "bytes without a swizzle, but got rows of 128 bytes, 128 apart");
  EXPECT_EQ(message(SharedLayout::swizzled(60, 64, 16, Swizzle::B128), Major::K),
            "rows of an operand of wgmma must be a multiple of 8, but got 60");
  EXPECT_EQ(message(SharedLayout::swizzled(24, 64, 16, Swizzle::B128), Major::MN),
            "k of an operand of wgmma must be a multiple of 16, but got 24");
  EXPECT_EQ(message(SharedLayout::swizzled(64, 64, 64, Swizzle::B128), Major::K),
            "operands of wgmma have elements of 8, 16 or 32 bits, but got 64");
  WgmmaOperand operand =
      need(WgmmaOperand::plan(need(SharedLayout::swizzled(64, 128, 16, Swizzle::B128)), Major::MN));
  EXPECT_EQ(operand.checkOrigin(32).message(), "an operand of wgmma must begin at a row that is a "
                                               "multiple of 64 and less than 128, but got 32");
}

} // namespace
