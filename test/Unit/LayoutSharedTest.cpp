// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared buffers: each byte belongs to one element; the xor of addresses and the layout that TMA
// writes; copies by threads; and accesses with known bank conflicts.

#include "LayoutTesting.h"
#include "base/Layout/BankConflicts.h"

#include <cstring>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

const int64_t rowCounts[] = {1, 8, 16, 64, 80, 96, 128};

/// Every element has distinct bytes, and the inverse finds it from each of them.
void expectBijection(const SharedLayout &buffer) {
  int64_t bytes = buffer.bytesPerElement(), wrong = 0, padding = 0;
  std::vector<int> used(buffer.sizeInBytes());
  for (int64_t row = 0; row < buffer.rows(); ++row)
    for (int64_t col = 0; col < buffer.cols(); ++col) {
      int64_t offset = buffer.byteOffset(row, col);
      ASSERT_GE(offset, 0);
      ASSERT_LE(offset + bytes, buffer.sizeInBytes());
      wrong += offset % bytes != 0;
      for (int64_t i = 0; i < bytes; ++i) {
        ++used[offset + i];
        wrong += buffer.elementAt(offset + i) != std::optional<Coord>(Coord{row, col});
      }
    }
  for (int64_t offset = 0; offset < buffer.sizeInBytes(); ++offset) {
    wrong += used[offset] > 1;
    wrong += (used[offset] == 1) != buffer.elementAt(offset).has_value();
    padding += used[offset] == 0;
  }
  EXPECT_EQ(wrong, 0);
  // At the end of each row of a panel, and the unused part of the last panel.
  int64_t pad = (buffer.rowPitch() - buffer.panelBytes()) * buffer.numPanels();
  int64_t unused = buffer.numPanels() * buffer.panelBytes() - buffer.cols() * bytes;
  EXPECT_EQ(padding, (pad + unused) * buffer.rows());
}

TEST(LayoutShared, EveryLayoutIsABijection) {
  for (int bits : {8, 16, 32, 64})
    for (int64_t rows : rowCounts)
      for (int64_t cols : {8, 40, 64, 80, 96, 128}) {
        for (Swizzle swizzle : swizzles) {
          Result<SharedLayout> buffer = SharedLayout::swizzled(rows, cols, bits, swizzle);
          int64_t width = static_cast<int64_t>(swizzle);
          ASSERT_EQ(buffer.ok(), width == 0 || cols * bits / 8 % 16 == 0);
          if (buffer)
            expectBijection(*buffer);
        }
        int64_t pad = conflictFreePad(cols, bits);
        expectBijection(need(SharedLayout::padded(rows, cols, bits, pad)));
        if (cols * bits % 128 == 0)
          expectBijection(need(SharedLayout::panels(rows, cols, bits, 16)));
      }
}

// The manual's table of a 128-byte swizzle: row r has chunk c at position c xor r.
TEST(LayoutShared, PatternsAreTheTablesOfTheManual) {
  SharedLayout b128 = need(SharedLayout::swizzled(16, 64, 16, Swizzle::B128));
  SharedLayout b64 = need(SharedLayout::swizzled(16, 32, 16, Swizzle::B64));
  SharedLayout b32 = need(SharedLayout::swizzled(16, 16, 16, Swizzle::B32));
  for (int64_t row = 0; row < 16; ++row)
    for (int64_t chunk = 0; chunk < 8; ++chunk) {
      EXPECT_EQ(b128.byteOffset(row, chunk * 8), row * 128 + (chunk ^ (row % 8)) * 16);
      if (chunk < 4) {
        EXPECT_EQ(b64.byteOffset(row, chunk * 8), row * 64 + (chunk ^ (row / 2 % 4)) * 16);
      }
      if (chunk < 2) {
        EXPECT_EQ(b32.byteOffset(row, chunk * 8), row * 32 + (chunk ^ (row / 4 % 2)) * 16);
      }
    }
}

TEST(LayoutShared, OffsetsAgreeWithTheXorOfAddresses) {
  for (Swizzle swizzle : swizzles)
    for (int64_t rows : {8, 64, 80})
      for (int64_t cols : {64, 192}) {
        SharedLayout buffer = need(SharedLayout::swizzled(rows, cols, 16, swizzle));
        SharedLayout plain = need(SharedLayout::panels(rows, cols, 16, buffer.panelBytes()));
        for (int64_t base = 0; base < 8 * buffer.alignment(); base += buffer.alignment())
          for (int64_t row = 0; row < rows; ++row)
            for (int64_t col = 0; col < cols; ++col)
              ASSERT_EQ(swizzleAddress(base + plain.byteOffset(row, col), swizzle),
                        base + buffer.byteOffset(row, col));
      }
  for (Swizzle swizzle : swizzles)
    for (int64_t address = 0; address < 4096; ++address)
      ASSERT_EQ(swizzleAddress(swizzleAddress(address, swizzle), swizzle), address);
}

TEST(LayoutShared, ChoosesSwizzle) {
  EXPECT_EQ(SharedLayout::widestSwizzle(64, 16), Swizzle::B128);
  EXPECT_EQ(SharedLayout::widestSwizzle(96, 16), Swizzle::B64);
  EXPECT_EQ(SharedLayout::widestSwizzle(80, 16), Swizzle::B32);
  EXPECT_EQ(SharedLayout::widestSwizzle(96, 32), Swizzle::B128);
  EXPECT_EQ(SharedLayout::widestSwizzle(40, 16), Swizzle::None);
  EXPECT_EQ(need(SharedLayout::swizzled(64, 64, 16, Swizzle::B128)).alignment(), 1024);
  EXPECT_EQ(need(SharedLayout::swizzled(64, 64, 16, Swizzle::B64)).alignment(), 512);
  EXPECT_EQ(need(SharedLayout::swizzled(64, 64, 16, Swizzle::B32)).alignment(), 256);
  EXPECT_EQ(need(SharedLayout::swizzled(64, 64, 16, Swizzle::None)).alignment(), 128);
}

TEST(LayoutShared, TheLastPanelMayBePartlyUsed) {
  SharedLayout buffer = need(SharedLayout::swizzled(32, 80, 16, Swizzle::B128));
  EXPECT_EQ(buffer.cols(), 80);
  EXPECT_EQ(buffer.numPanels(), 2);
  EXPECT_EQ(buffer.sizeInBytes(), 2 * 32 * 128);
  EXPECT_FALSE(buffer.hasFullPanels());
  EXPECT_EQ(buffer.byteOffset(0, 64), 32 * 128);
  EXPECT_EQ(buffer.elementAt(32 * 128 + 2 * 16), std::nullopt); // column 80
}

TEST(LayoutShared, RejectsWhatDoesNotFit) {
  EXPECT_EQ(SharedLayout::swizzled(64, 100, 16, Swizzle::B128).message(),
            "rows of a swizzled buffer must be a multiple of 16 bytes, but got 200 bytes");
  EXPECT_EQ(SharedLayout::panels(64, 96, 16, 128).message(),
            "rows must be a multiple of the 128 bytes of a panel, but got 192 bytes");
  EXPECT_EQ(SharedLayout::swizzled(64, 96, 4, Swizzle::None).message(),
            "elements of a shared buffer must have 8, 16, 32 or 64 bits, but got 4");
  EXPECT_EQ(SharedLayout::padded(0, 96, 16, 0).message(),
            "a shared buffer must not be empty, but got 0 by 96");
  EXPECT_EQ(SharedLayout::padded(8, 96, 16, 3).message(),
            "a pad must be a whole number of elements, but got 3 bytes for elements of 16 bits");
}

//===----------------------------------------------------------------------===//
// TMA
//===----------------------------------------------------------------------===//

/// A TMA load writes boxes of at most 256 rows, one panel wide, row by row, and xors each address.
TEST(LayoutShared, BoxesWriteTheLayout) {
  for (Swizzle swizzle : swizzles)
    for (int64_t rows : {8, 64, 80, 256, 384, 512})
      for (int64_t cols : {64, 96, 128}) {
        Result<SharedLayout> buffer = SharedLayout::swizzled(rows, cols, 16, swizzle);
        if (!buffer)
          continue;
        if (buffer->numPanels() > 1) {
          EXPECT_EQ(buffer->panelStride() % 128, 0);
        }
        std::vector<int64_t> shared(buffer->sizeInBytes() / 2, -1);
        for (int64_t panel = 0; panel < buffer->numPanels(); ++panel)
          for (int64_t row = 0; row < rows; ++row)
            for (int64_t col = 0; col < buffer->panelCols(); ++col) {
              int64_t address =
                  panel * buffer->panelStride() + (row * buffer->panelCols() + col) * 2;
              shared[swizzleAddress(address, swizzle) / 2] =
                  row * cols + panel * buffer->panelCols() + col;
            }
        for (int64_t row = 0; row < rows; ++row)
          for (int64_t col = 0; col < cols; ++col)
            ASSERT_EQ(shared[buffer->byteOffset(row, col) / 2], row * cols + col);
      }
}

//===----------------------------------------------------------------------===//
// cp.async
//===----------------------------------------------------------------------===//

TEST(LayoutShared, CopiesMoveEveryChunkOnceAndWithoutConflicts) {
  int swizzled = 0;
  for (int threads : {32, 96, 128, 256})
    for (int64_t rows : {16, 64, 80, 96, 128})
      for (int64_t cols : {32, 64, 80, 96, 128, 192}) {
        Swizzle swizzle = SharedLayout::widestSwizzle(cols, 16);
        SharedLayout buffer = need(SharedLayout::swizzled(rows, cols, 16, swizzle));
        CopyPartition copy = need(CopyPartition::plan(buffer, threads));
        std::set<std::pair<int64_t, int64_t>> seen;
        for (int issue = 0; issue < copy.numIssues(); ++issue)
          for (int thread = 0; thread < threads; ++thread) {
            std::optional<CopyChunk> chunk = copy.chunkOf(thread, issue);
            if (!chunk)
              continue;
            ASSERT_TRUE(seen.insert({chunk->row, chunk->col}).second);
            ASSERT_EQ(chunk->byteOffset, buffer.byteOffset(chunk->row, chunk->col));
            ASSERT_EQ(chunk->byteOffset % 16, 0);
            ASSERT_EQ(chunk->col % 8, 0);
          }
        ASSERT_EQ(static_cast<int64_t>(seen.size()), copy.numChunks());
        ASSERT_EQ(copy.isEven(), rows * cols / 8 % threads == 0);
        EXPECT_TRUE(wavefronts(copy).conflictFree()) << rows << " by " << cols;
        ++swizzled;
      }
  EXPECT_EQ(swizzled, 4 * 5 * 6);
}

TEST(LayoutShared, CopiesReadGlobalRowsInWholeStretches) {
  for (int64_t cols : {64, 80, 96, 128}) {
    SharedLayout buffer =
        need(SharedLayout::swizzled(64, cols, 16, SharedLayout::widestSwizzle(cols, 16)));
    CopyPartition copy = need(CopyPartition::plan(buffer, 128));
    // The 512 bytes of a warp are in the minimum number of 32-byte sectors.
    for (int issue = 0; issue < copy.numIssues(); ++issue)
      for (int warp = 0; warp < 4; ++warp) {
        std::set<int64_t> sectors;
        int64_t bytes = 0;
        for (int lane = 0; lane < 32; ++lane)
          if (auto chunk = copy.chunkOf(warp * 32 + lane, issue)) {
            sectors.insert((chunk->row * cols + chunk->col) * 2 / 32);
            bytes += 16;
          }
        EXPECT_EQ(static_cast<int64_t>(sectors.size()) * 32, bytes);
      }
  }
}

TEST(LayoutShared, ThreadsAdvanceByWholeRows) {
  SharedLayout buffer = need(SharedLayout::swizzled(128, 64, 16, Swizzle::B128));
  EXPECT_EQ(need(CopyPartition::plan(buffer, 128)).rowsPerIssue(), 16);
  EXPECT_EQ(need(CopyPartition::plan(buffer, 32)).rowsPerIssue(),
            std::nullopt); // 4 rows: chunks move
  EXPECT_EQ(need(CopyPartition::plan(need(SharedLayout::swizzled(64, 128, 16, Swizzle::B128)), 128))
                .rowsPerIssue(),
            8);
}

TEST(LayoutShared, RejectsChunksThatDoNotFit) {
  SharedLayout odd = need(SharedLayout::padded(8, 12, 16, 0));
  EXPECT_EQ(CopyPartition::plan(odd, 128).message(),
            "rows of 24 bytes, 24 apart, must be whole chunks of whole elements, but got chunks of "
            "16 bytes");
  EXPECT_TRUE(CopyPartition::plan(odd, 128, 8).ok());
  EXPECT_EQ(CopyPartition::plan(odd, 128, 2).message(),
            "cp.async copies 4, 8 or 16 bytes, but got 2");
  EXPECT_EQ(CopyPartition::plan(odd, 0).message(),
            "a copy is shared by 1 to 1024 threads, but got 0");
}

//===----------------------------------------------------------------------===//
// Bank conflicts
//===----------------------------------------------------------------------===//

std::vector<int64_t> strided(int64_t stride, int lanes = 32) {
  std::vector<int64_t> offsets;
  for (int lane = 0; lane < lanes; ++lane)
    offsets.push_back(lane * stride);
  return offsets;
}

TEST(LayoutShared, CountsKnownConflicts) {
  auto expect = [](const std::vector<int64_t> &offsets, int bytes, int64_t actual, int64_t ideal) {
    Wavefronts got = warpAccess(offsets, bytes);
    EXPECT_EQ(got.actual, actual);
    EXPECT_EQ(got.ideal, ideal);
  };
  expect(strided(4), 4, 1, 1);
  expect(strided(8), 4, 2, 1);    // every other bank
  expect(strided(128), 4, 32, 1); // one bank
  expect(strided(132), 4, 1, 1);  // padded by a word
  expect(strided(0), 4, 1, 1);    // a broadcast
  expect(strided(2), 2, 1, 1);    // two lanes to a word
  expect(strided(8), 8, 2, 2);
  expect(strided(16), 16, 4, 4);
  expect(strided(128), 16, 32, 4); // each phase 8 rows of one bank group
  expect(strided(144), 16, 4, 4);
  expect(std::vector<int64_t>(32, -1), 4, 0, 0);
  expect({0, -1, 128}, 4, 2, 1);
  EXPECT_EQ(warpAccess({}, 4).factor(), 1.0);
  EXPECT_EQ(warpAccess(strided(128), 16).factor(), 8.0);
  EXPECT_EQ(matrixAccess(strided(128, 8)).actual, 8);
  EXPECT_EQ(matrixAccess(strided(16, 32)).actual, 4);
}

} // namespace
