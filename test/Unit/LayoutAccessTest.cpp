// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// ldmatrix, stmatrix and vectors, emulated on the bytes of a buffer: the registers must match the
// layout; and bank conflicts.

#include "LayoutTesting.h"
#include "base/Layout/BankConflicts.h"

#include <algorithm>
#include <cstring>

using namespace tilewright;
using namespace tilewright::layout;

namespace {

/// A buffer that holds the tile with element [i, j] = its number, little endian.
std::vector<uint8_t> filled(const RegisterLayout &tile, const SharedLayout &buffer,
                            Placement placement) {
  std::vector<uint8_t> bytes(buffer.sizeInBytes(), 0xee);
  for (int64_t i = 0; i < tile.shape()[0]; ++i)
    for (int64_t j = 0; j < (tile.rank() == 2 ? tile.shape()[1] : 1); ++j) {
      int64_t row = tile.rank() == 2 ? i : 0, col = tile.rank() == 2 ? j : i;
      if (placement.exchanged)
        std::swap(row, col);
      int64_t id = idOf(tile, {i, j});
      std::memcpy(&bytes[buffer.byteOffset(row + placement.origin[0], col + placement.origin[1])],
                  &id, buffer.bytesPerElement());
    }
  return bytes;
}

/// The result of ldmatrix in the 32-bit words of a warp, after the PTX manual: matrix i consists of
/// the rows whose addresses lanes 8 i .. 8 i + 7 supply.
std::vector<std::vector<uint32_t>> ldmatrix(const std::vector<uint8_t> &shared,
                                            const std::vector<int64_t> &addresses, int matrices,
                                            bool trans) {
  std::vector<std::vector<uint32_t>> words(kLanes, std::vector<uint32_t>(matrices));
  for (int matrix = 0; matrix < matrices; ++matrix) {
    uint16_t values[8][8];
    for (int row = 0; row < 8; ++row)
      std::memcpy(values[row], &shared[addresses[8 * matrix + row]], 16);
    for (int lane = 0; lane < kLanes; ++lane) {
      int row = lane / 4, col = lane % 4 * 2;
      uint16_t low = trans ? values[col][row] : values[row][col];
      uint16_t high = trans ? values[col + 1][row] : values[row][col + 1];
      words[lane][matrix] = low | uint32_t(high) << 16;
    }
  }
  return words;
}

void expectLoads(const RegisterLayout &tile, const SharedLayout &buffer, Placement placement,
                 bool trans) {
  SCOPED_TRACE(tile.str());
  MatrixAccess access = need(MatrixAccess::plan(tile, buffer, placement));
  EXPECT_EQ(access.isTransposed(), trans);
  std::vector<uint8_t> shared = filled(tile, buffer, placement);
  int bits = buffer.elementBits(), perWord = 32 / bits;
  uint32_t mask = bits == 32 ? ~0u : (1u << bits) - 1;
  std::vector<bool> filledWords(tile.registersPerThread() / perWord);
  for (size_t issue = 0; issue < access.issues().size(); ++issue) {
    MatrixIssue matrices = access.issues()[issue];
    for (int i = 0; i < matrices.numMatrices; ++i) {
      ASSERT_FALSE(filledWords[matrices.words[i]]);
      filledWords[matrices.words[i]] = true;
    }
    std::optional<OffsetDelta> delta = access.delta(issue);
    EXPECT_TRUE(delta.has_value());
    for (int warp = 0; warp < tile.numWarps(); ++warp) {
      std::vector<int64_t> addresses;
      for (int lane = 0; lane < kLanes; ++lane)
        addresses.push_back(access.byteOffset(issue, warp, lane));
      for (int lane = 0; delta && lane < 8 * matrices.numMatrices; ++lane)
        ASSERT_EQ((access.byteOffset(0, warp, lane) ^ delta->flip) + delta->add, addresses[lane]);
      auto words = ldmatrix(shared, addresses, matrices.numMatrices, trans);
      for (int lane = 0; lane < kLanes; ++lane)
        for (int i = 0; i < matrices.numMatrices * perWord; ++i) {
          int reg = matrices.words[i / perWord] * perWord + i % perWord;
          uint32_t got = words[lane][i / perWord] >> (i % perWord * bits) & mask;
          uint32_t expected = uint32_t(idOf(tile, tile.element(warp, lane, reg))) & mask;
          ASSERT_EQ(got, expected) << "warp " << warp << " lane " << lane << " register " << reg;
        }
    }
  }
  EXPECT_EQ(std::count(filledWords.begin(), filledWords.end(), false), 0);
}

std::vector<SharedLayout> buffers(int64_t rows, int64_t cols, int bits) {
  std::vector<SharedLayout> all;
  for (Swizzle swizzle : {Swizzle::None, Swizzle::B32, Swizzle::B64, Swizzle::B128})
    if (auto buffer = SharedLayout::swizzled(rows, cols, bits, swizzle))
      all.push_back(*buffer);
  all.push_back(need(SharedLayout::padded(rows, cols, bits, conflictFreePad(cols, bits))));
  return all;
}

/// Whether ldmatrix from this buffer should be free of conflicts.
bool hasPattern(const SharedLayout &buffer) {
  return buffer.rowPitch() != buffer.panelBytes() ||
         (buffer.swizzle() != Swizzle::None &&
          buffer.swizzle() == SharedLayout::widestSwizzle(buffer.cols(), buffer.elementBits()));
}

//===----------------------------------------------------------------------===//
// Operands
//===----------------------------------------------------------------------===//

TEST(LayoutAccess, LdmatrixLoadsOperandA) {
  for (int bits : {8, 16, 32})
    for (int64_t k : {32, 64, 80, 96, 128}) {
      if (k * bits % 256 != 0)
        continue;
      RegisterLayout a = need(RegisterLayout::mmaOperandA(64, k, 2, 2, bits));
      for (const SharedLayout &buffer : buffers(64, k, bits)) {
        expectLoads(a, buffer, {}, false);
        if (hasPattern(buffer)) {
          EXPECT_TRUE(wavefronts(need(MatrixAccess::plan(a, buffer))).conflictFree()) << k;
        }
      }
    }
}

// A tile stored as [k, rows], as dS for dK = dS^T Q.
TEST(LayoutAccess, LdmatrixTransposesOperandA) {
  for (int64_t rows : {64, 96})
    for (int64_t k : {16, 48, 80}) {
      RegisterLayout a = need(RegisterLayout::mmaOperandA(rows, k, 2, 1, 16));
      for (const SharedLayout &buffer : buffers(k, rows, 16)) {
        expectLoads(a, buffer, {true, {0, 0}}, true);
        if (hasPattern(buffer)) {
          EXPECT_TRUE(
              wavefronts(need(MatrixAccess::plan(a, buffer, {true, {0, 0}}))).conflictFree());
        }
      }
    }
}

// K of attention: operand b is its transpose, [depth, keys], from rows of keys.
TEST(LayoutAccess, LdmatrixLoadsOperandBFromRowsOfColumns) {
  for (int bits : {8, 16, 32})
    for (int64_t depth : {32, 64, 80, 96, 128})
      for (int64_t keys : {16, 48, 64}) {
        if (depth * bits % 256 != 0)
          continue;
        RegisterLayout b = need(RegisterLayout::mmaOperandB(depth, keys, 4, 1, bits));
        for (const SharedLayout &buffer : buffers(keys, depth, bits)) {
          expectLoads(b, buffer, {true, {0, 0}}, false);
          if (hasPattern(buffer)) {
            EXPECT_TRUE(
                wavefronts(need(MatrixAccess::plan(b, buffer, {true, {0, 0}}))).conflictFree());
          }
        }
      }
}

// V of attention: operand b is [keys, depth], as stored.
TEST(LayoutAccess, LdmatrixTransposesOperandB) {
  for (int64_t depth : {16, 64, 80, 96, 128})
    for (int64_t keys : {16, 48, 64}) {
      RegisterLayout b = need(RegisterLayout::mmaOperandB(keys, depth, 2, 2, 16));
      for (const SharedLayout &buffer : buffers(keys, depth, 16)) {
        expectLoads(b, buffer, {}, true);
        if (hasPattern(buffer)) {
          EXPECT_TRUE(wavefronts(need(MatrixAccess::plan(b, buffer))).conflictFree());
        }
      }
    }
}

TEST(LayoutAccess, WithoutAPatternTheOperandsConflict) {
  SharedLayout plain = need(SharedLayout::swizzled(64, 64, 16, Swizzle::None));
  RegisterLayout a = need(RegisterLayout::mmaOperandA(64, 64, 4, 1, 16));
  EXPECT_EQ(wavefronts(need(MatrixAccess::plan(a, plain))).factor(), 8.0);
  SharedLayout b32 = need(SharedLayout::swizzled(64, 64, 16, Swizzle::B32));
  EXPECT_EQ(wavefronts(need(MatrixAccess::plan(a, b32))).factor(), 1.0);
  SharedLayout panels = need(SharedLayout::panels(64, 64, 16, 32));
  EXPECT_EQ(wavefronts(need(MatrixAccess::plan(a, panels))).factor(), 2.0);
}

TEST(LayoutAccess, LoadsAPartOfABuffer) {
  SharedLayout buffer = need(SharedLayout::swizzled(128, 128, 16, Swizzle::B128));
  for (int64_t step = 0; step < 8; ++step) { // one k step at a time, and the lower half
    RegisterLayout a = need(RegisterLayout::mmaOperandA(64, 16, 4, 1, 16));
    expectLoads(a, buffer, {false, {64, 16 * step}}, false);
    RegisterLayout b = need(RegisterLayout::mmaOperandB(16, 64, 4, 1, 16));
    expectLoads(b, buffer, {false, {16 * step, 64}}, true);
  }
}

TEST(LayoutAccess, OperandAComesFourMatricesAtATime) {
  RegisterLayout a = need(RegisterLayout::mmaOperandA(64, 64, 4, 1, 16));
  SharedLayout buffer = need(SharedLayout::swizzled(64, 64, 16, Swizzle::B128));
  MatrixAccess access = need(MatrixAccess::plan(a, buffer));
  EXPECT_EQ(access.issues().size(), 4u);
  // Lanes 0-15 supply the rows of the left half, 16-31 those of the right.
  EXPECT_EQ(access.rowStart(1, 2, 9), (Coord{32 + 9, 16}));
  EXPECT_EQ(access.rowStart(1, 2, 17), (Coord{32 + 1, 24}));
  // Operand b: two steps of k, or with an odd number of them two atoms of columns; else pairs.
  auto issuesOfB = [&](int64_t k, int64_t cols) {
    RegisterLayout b = need(RegisterLayout::mmaOperandB(k, cols, 1, 1, 16));
    return need(MatrixAccess::plan(b, need(SharedLayout::padded(k, cols, 16, 16)))).issues();
  };
  EXPECT_EQ(issuesOfB(32, 8)[0].words, (std::array<int, 4>{0, 1, 2, 3}));
  EXPECT_EQ(issuesOfB(48, 16)[1].words, (std::array<int, 4>{2, 3, 8, 9}));
  EXPECT_EQ(issuesOfB(48, 16).size(), 3u);
  ASSERT_EQ(issuesOfB(48, 24).size(), 9u);
  EXPECT_EQ(issuesOfB(48, 24)[8].numMatrices, 2);
  EXPECT_EQ(issuesOfB(48, 24)[8].words[1], 17);
}

//===----------------------------------------------------------------------===//
// stmatrix and vectors
//===----------------------------------------------------------------------===//

TEST(LayoutAccess, StmatrixStoresAccumulators) {
  // stmatrix is the inverse of ldmatrix: the same plan, with values rounded to 16 bits.
  for (int64_t cols : {64, 80, 96, 128}) {
    RegisterLayout acc = need(RegisterLayout::wgmmaAccumulator(128, cols, 2));
    for (const SharedLayout &buffer : buffers(128, cols, 16)) {
      expectLoads(acc, buffer, {}, false);
      if (hasPattern(buffer)) {
        EXPECT_TRUE(wavefronts(need(MatrixAccess::plan(acc, buffer))).conflictFree());
      }
    }
    for (const SharedLayout &buffer : buffers(cols, 128, 16)) // stored as its transpose
      expectLoads(acc, buffer, {true, {0, 0}}, true);
  }
}

void expectVectors(const RegisterLayout &tile, const SharedLayout &buffer, Placement placement,
                   int bytesPerLane) {
  SCOPED_TRACE(tile.str());
  VectorAccess access = need(VectorAccess::plan(tile, buffer, placement));
  EXPECT_EQ(access.bytesPerLane(), bytesPerLane);
  std::vector<uint8_t> shared = filled(tile, buffer, placement);
  std::vector<int> moved(tile.registersPerThread());
  for (size_t issue = 0; issue < access.issues().size(); ++issue) {
    VectorIssue vector = access.issues()[issue];
    for (int i = 0; i < vector.count; ++i) {
      ++moved[vector.firstRegister + i];
      for (int warp = 0; warp < tile.numWarps(); ++warp)
        for (int lane = 0; lane < kLanes; ++lane) {
          int64_t offset = access.byteOffset(issue, warp, lane), bytes = buffer.bytesPerElement();
          ASSERT_EQ(offset % access.bytesPerLane(), 0);
          int64_t got = 0;
          int64_t expected = idOf(tile, tile.element(warp, lane, vector.firstRegister + i));
          std::memcpy(&got, &shared[offset + i * bytes], bytes);
          if (bytes < 8)
            expected &= (int64_t(1) << (8 * bytes)) - 1;
          ASSERT_EQ(got, expected);
        }
    }
  }
  EXPECT_EQ(moved, std::vector<int>(moved.size(), 1));
}

TEST(LayoutAccess, VectorsMoveWhatTheLayoutHolds) {
  RegisterLayout acc = need(RegisterLayout::mmaAccumulator(64, 64, 2, 2));
  for (int bits : {8, 16, 32, 64})
    for (const SharedLayout &buffer : buffers(64, 64, bits))
      expectVectors(acc, buffer, {}, 2 * bits / 8);
  for (const SharedLayout &buffer : buffers(64, 64, 16))
    expectVectors(acc, buffer, {true, {0, 0}}, 2); // transposed: element by element
  RegisterLayout rows = need(RegisterLayout::blocked({64, 64}, 8, 8, 4, 1));
  for (const SharedLayout &buffer : buffers(64, 64, 16))
    expectVectors(rows, buffer, {}, 16);
  for (const SharedLayout &buffer : buffers(64, 64, 8))
    expectVectors(rows, buffer, {}, 8);
  for (const SharedLayout &buffer : buffers(64, 64, 32))
    expectVectors(rows, buffer, {}, 16);
  RegisterLayout vector = need(RegisterLayout::blocked({512}, 4, 32, 1, 4));
  expectVectors(vector, need(SharedLayout::padded(1, 512, 32, 0)), {}, 16);
  // An odd offset in the buffer reduces the alignment.
  expectVectors(vector, need(SharedLayout::padded(2, 520, 32, 0)), {false, {1, 2}}, 8);
  expectVectors(RegisterLayout::slice(acc, 1), need(SharedLayout::padded(1, 64, 32, 0)), {}, 4);
  expectVectors(RegisterLayout::slice(acc, 1), need(SharedLayout::padded(64, 8, 32, 0)),
                {true, {0, 3}}, 4); // a column
}

TEST(LayoutAccess, ReportsConflictsOfStores) {
  RegisterLayout acc = need(RegisterLayout::mmaAccumulator(64, 64, 4, 1));
  auto factor = [&](const SharedLayout &buffer) {
    return wavefronts(need(VectorAccess::plan(acc, buffer))).factor();
  };
  // 8 rows of 4 words: one bank group without a pattern, all banks with one.
  EXPECT_EQ(factor(need(SharedLayout::padded(64, 64, 16, 0))), 8.0);
  EXPECT_EQ(factor(need(SharedLayout::swizzled(64, 64, 16, Swizzle::B128))), 1.0);
  EXPECT_EQ(factor(need(SharedLayout::padded(64, 64, 16, 16))), 1.0);
}

TEST(LayoutAccess, DeltasOfVectorsHoldWhereTheyAreGiven) {
  int given = 0;
  for (const SharedLayout &buffer : buffers(64, 128, 16)) {
    RegisterLayout acc = need(RegisterLayout::mmaAccumulator(64, 128, 4, 1));
    VectorAccess access = need(VectorAccess::plan(acc, buffer));
    for (size_t issue = 0; issue < access.issues().size(); ++issue) {
      auto delta = access.delta(issue);
      ASSERT_TRUE(delta.has_value());
      ++given;
      for (int warp = 0; warp < 4; ++warp)
        for (int lane = 0; lane < kLanes; ++lane)
          ASSERT_EQ((access.byteOffset(0, warp, lane) ^ delta->flip) + delta->add,
                    access.byteOffset(issue, warp, lane));
    }
  }
  EXPECT_EQ(given, 5 * 32);
}

//===----------------------------------------------------------------------===//
// Errors
//===----------------------------------------------------------------------===//

TEST(LayoutAccess, RejectsWhatLdmatrixCannotDo) {
  RegisterLayout a = need(RegisterLayout::mmaOperandA(16, 32, 1, 1, 8));
  EXPECT_EQ(
      MatrixAccess::plan(a, need(SharedLayout::padded(32, 16, 8, 0)), {true, {0, 0}}).message(),
      "ldmatrix and stmatrix transpose elements of 16 bits only, but got 8 bits");
  RegisterLayout rows = need(RegisterLayout::blocked({16, 32}, 4, 8, 1, 1));
  EXPECT_EQ(MatrixAccess::plan(rows, need(SharedLayout::padded(16, 32, 16, 0))).message(),
            "ldmatrix and stmatrix move fragments of matrix instructions only, but got the layout "
            "[16, 32] warps lanes 8:1*4 4:0*1 registers 4:1*1 4:0*4");
  RegisterLayout half = need(RegisterLayout::mmaOperandA(16, 32, 1, 1, 16));
  EXPECT_EQ(MatrixAccess::plan(half, need(SharedLayout::padded(16, 32, 16, 8))).message(),
            "ldmatrix and stmatrix require a buffer with rows of 16 contiguous, aligned bytes; "
            "choose another swizzle or pad");
  EXPECT_EQ(MatrixAccess::plan(half, need(SharedLayout::padded(16, 32, 16, 0)), {false, {8, 0}})
                .message(),
            "a tile must lie inside its buffer of 16, 32 elements, but got one from [8, 0] to [23, "
            "31]");
  EXPECT_EQ(
      VectorAccess::plan(half, need(SharedLayout::padded(16, 32, 16, 0)), {true, {0, 0}}).message(),
      "a tile must lie inside its buffer of 16, 32 elements, but got one from [0, 0] to [31, "
      "15]");
  EXPECT_EQ(MatrixAccess::plan(half, need(SharedLayout::padded(16, 32, 64, 0))).message(),
            "ldmatrix and stmatrix require a tile of rank 2 with elements of 8, 16 or 32 bits, but "
            "got rank 2 and 64 "
            "bits");
}

} // namespace
