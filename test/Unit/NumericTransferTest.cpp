// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transfers at the bounds of a view, with all kinds of strides and indices.

#include "NumericTesting.h"
#include "base/Numeric/ThreadPool.h"
#include "base/Numeric/Transfer.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

class NumericTransfer : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericTransfer);

constexpr float pad = -7;

/// A tile of two dimensions over a matrix of 6 x 9 numbers 0, 1, ..., element by element.
struct Case {
  TileAxis rows, columns;

  /// The memory offset of tile element (i, j), or -1 outside.
  int64_t offset(int64_t i, int64_t j) const {
    int64_t r, c;
    if (__builtin_add_overflow(rows.start, at(rows, i), &r) ||
        __builtin_add_overflow(columns.start, at(columns, j), &c))
      return -1;
    bool isInside = r >= 0 && r < rows.extent && c >= 0 && c < columns.extent;
    return isInside ? r * rows.stride + c * columns.stride : -1;
  }
  static int64_t at(const TileAxis &axis, int64_t i) {
    if (!axis.indices)
      return i;
    return axis.indexStorage == Storage::I64 ? static_cast<const int64_t *>(axis.indices)[i]
                                             : static_cast<const int32_t *>(axis.indices)[i];
  }
};

constexpr int32_t narrowIndices[] = {5, -1, 0, 6, 2, 2, INT32_MIN, 3};
constexpr int64_t wideIndices[] = {8, 9, 0, -1, INT64_MAX, 4, INT64_MIN, 1};

std::vector<Case> allCases() {
  std::vector<Case> cases;
  for (int64_t rowStart : {-9, -2, 0, 3, 6, 100})
    for (int64_t columnStart : {-20, -3, 0, 4, 9})
      cases.push_back({{5, rowStart, 6, 9}, {7, columnStart, 9, 1}});
  cases.push_back({{5, 1, 6, 9}, {7, 0, 4, 1}});   // 4 of 9 columns in memory
  cases.push_back({{5, 1, 4, 18}, {4, -1, 4, 2}}); // every second row and column
  cases.back().rows.extent = 3;
  cases.push_back({{9, -1, 9, 1}, {7, 2, 6, 9}}); // transposed
  cases.push_back({{5, 0, 1, 9}, {7, 0, 0, 1}});  // an empty view
  cases.push_back({{0, 0, 6, 9}, {7, 0, 9, 1}});  // an empty tile
  cases.push_back({{5, INT64_MIN, 6, 9}, {7, INT64_MAX, 9, 1}});
  cases.push_back({{5, 0, 6, 9}, {7, 3, 9, 0}}); // a row of one repeated element
  cases.push_back({{8, 0, 6, 9, narrowIndices, Storage::I32}, {7, -1, 9, 1}});
  cases.push_back({{8, -1, 6, 9, narrowIndices, Storage::I32}, {7, 0, 9, 1}});
  cases.push_back({{5, -1, 6, 9}, {8, 0, 9, 1, wideIndices, Storage::I64}});
  cases.push_back({{5, -1, 6, 9}, {8, 1, 9, 1, wideIndices, Storage::I64}});
  cases.push_back(
      {{8, 0, 6, 9, narrowIndices, Storage::I32}, {8, 0, 9, 1, wideIndices, Storage::I64}});
  return cases;
}

std::vector<float> matrix() {
  std::vector<float> memory(54);
  for (size_t i = 0; i < memory.size(); ++i)
    memory[i] = float(i);
  return memory;
}

TEST_P(NumericTransfer, LoadPadsOutside) {
  std::vector<float> memory = matrix();
  size_t number = 0;
  for (const Case &c : allCases()) {
    const TileAxis axes[] = {c.rows, c.columns};
    std::vector<float> tile(c.rows.size * c.columns.size, 99);
    loadTile(ElementType::F32, memory.data(), axes, 2, Storage::F32, &pad, tile.data());
    for (int64_t i = 0; i < c.rows.size; ++i)
      for (int64_t j = 0; j < c.columns.size; ++j) {
        int64_t offset = c.offset(i, j);
        ASSERT_EQ(tile[i * c.columns.size + j], offset < 0 ? pad : float(offset))
            << "case " << number << " at " << i << ", " << j;
      }
    ++number;
  }
}

TEST_P(NumericTransfer, StoreAndAddDropOutside) {
  size_t number = 0;
  for (const Case &c : allCases()) {
    const TileAxis axes[] = {c.rows, c.columns};
    std::vector<float> tile(c.rows.size * c.columns.size);
    for (size_t i = 0; i < tile.size(); ++i)
      tile[i] = 1000 + float(i);
    std::vector<float> stored = matrix(), added = matrix(), expectedStored = stored,
                       expectedAdded = added;
    storeTile(Storage::F32, tile.data(), ElementType::F32, stored.data(), axes, 2);
    addTile(Storage::F32, tile.data(), ElementType::F32, added.data(), axes, 2);
    for (int64_t i = 0; i < c.rows.size; ++i)
      for (int64_t j = 0; j < c.columns.size; ++j)
        if (int64_t offset = c.offset(i, j); offset >= 0) {
          expectedStored[offset] = tile[i * c.columns.size + j];
          expectedAdded[offset] += tile[i * c.columns.size + j];
        }
    ASSERT_EQ(stored, expectedStored) << "case " << number;
    ASSERT_EQ(added, expectedAdded) << "case " << number;
    ++number;
  }
}

TEST_P(NumericTransfer, EveryElementTypeRoundTrips) {
  for (unsigned t = 0; t < numElementTypes; ++t)
    for (bool allF64 : {false, true}) {
      ElementType type = ElementType(t);
      Storage storage = storageOf(type, allF64);
      std::vector<char> memory(60 * byteWidth(type), 0), tile(20 * storageBytes(storage)),
          back(tile.size());
      // 0 and 1 exist everywhere.
      for (size_t i = 0; i < 20; ++i)
        switch (storage) {
        case Storage::F64:
          reinterpret_cast<double *>(tile.data())[i] = i % 3 == 0;
          break;
        case Storage::F32:
          reinterpret_cast<float *>(tile.data())[i] = i % 3 == 0;
          break;
        case Storage::I64:
          reinterpret_cast<int64_t *>(tile.data())[i] = i % 3 == 0;
          break;
        case Storage::I32:
          reinterpret_cast<int32_t *>(tile.data())[i] = i % 3 == 0;
          break;
        case Storage::I1:
          tile[i] = i % 3 == 0;
          break;
        }
      const TileAxis axes[] = {{4, 0, 4, 15}, {5, 0, 5, -3}};
      char *base = memory.data() + 12 * byteWidth(type);
      storeTile(storage, tile.data(), type, base, axes, 2);
      loadTile(type, base, axes, 2, storage, nullptr, back.data());
      EXPECT_EQ(back, tile) << elementTypeName(type);
    }
}

TEST_P(NumericTransfer, PadDefaultsToZeroAndRankMayBeAny) {
  int32_t memory[] = {1, 2, 3, 4, 5, 6, 7, 8};
  const TileAxis axes[] = {{2, 0, 2, 4}, {3, -1, 2, 2}, {2, 0, 2, 1}};
  std::vector<int32_t> tile(12, -1);
  loadTile(ElementType::I32, memory, axes, 3, Storage::I32, nullptr, tile.data());
  EXPECT_EQ(tile, (std::vector<int32_t>{0, 0, 1, 2, 3, 4, 0, 0, 5, 6, 7, 8}));
  int32_t scalar = 0;
  loadTile(ElementType::I32, memory + 5, nullptr, 0, Storage::I32, nullptr, &scalar);
  EXPECT_EQ(scalar, 6);
  addTile(Storage::I32, &scalar, ElementType::I32, memory, nullptr, 0);
  EXPECT_EQ(memory[0], 7);
}

TEST_P(NumericTransfer, OffsetsBeyond32Bits) {
  // Rows 2^33 elements apart, of which only row 5 exists: the base is far below it, as in a large
  // allocation.
  std::vector<float> row = {1, 2, 3, 4};
  int64_t stride = int64_t(1) << 33;
  uintptr_t base = reinterpret_cast<uintptr_t>(row.data()) - uintptr_t(5 * stride) * sizeof(float);
  const TileAxis axes[] = {{3, 5, 6, stride}, {4, 0, 4, 1}};
  std::vector<float> tile(12);
  loadTile(ElementType::F32, reinterpret_cast<const float *>(base), axes, 2, Storage::F32, &pad,
           tile.data());
  EXPECT_EQ(tile, (std::vector<float>{1, 2, 3, 4, pad, pad, pad, pad, pad, pad, pad, pad}));
}

TEST_P(NumericTransfer, AdditionRoundsToTheMemoryType) {
  std::vector<uint16_t> memory(2, floatToBF16(256));
  float tile[2] = {1, 3}; // 257 and 259 lie between 256, 258 and 260
  const TileAxis axis[] = {{2, 0, 2, 1}};
  addTile(Storage::F32, tile, ElementType::BF16, memory.data(), axis, 1);
  EXPECT_EQ(bf16ToFloat(memory[0]), 256);
  EXPECT_EQ(bf16ToFloat(memory[1]), 260);
  double wide[1] = {0.25}, wideTile[1] = {0.5};
  const TileAxis one[] = {{1, 0, 1, 1}};
  addTile(Storage::F64, wideTile, ElementType::F64, wide, one, 1);
  EXPECT_EQ(wide[0], 0.75);
}

TEST_P(NumericTransfer, Points) {
  std::vector<float> memory = matrix();
  std::vector<int32_t> rows = {0, 5, 6, -1, 3, 2};
  std::vector<int64_t> columns = {0, 8, 1, 1, 9, 4};
  int32_t third = 3;
  std::vector<float> out(6);
  const PointIndex both[] = {{Operand::span(rows.data()), Storage::I32, 6, 9},
                             {Operand::span(columns.data()), Storage::I64, 9, 1}};
  loadPoints(ElementType::F32, memory.data(), both, 2, Storage::F32, &pad, out.data(), 6);
  EXPECT_EQ(out, (std::vector<float>{0, 53, pad, pad, pad, 22}));
  loadPoints(ElementType::F32, memory.data(), both, 2, Storage::F32, nullptr, out.data(), 6);
  EXPECT_EQ(out[2], 0);

  const PointIndex oneRow[] = {{Operand::splat(&third), Storage::I32, 6, 9}, both[1]};
  loadPoints(ElementType::F32, memory.data(), oneRow, 2, Storage::F32, &pad, out.data(), 6);
  EXPECT_EQ(out, (std::vector<float>{27, 35, 28, 28, pad, 31}));

  std::vector<float> values = {1, 2, 4, 8, 16, 32};
  addPoints(Storage::F32, values.data(), ElementType::F32, memory.data(), oneRow, 2, 6);
  EXPECT_EQ(memory[28], 28 + 4 + 8); // twice the same point
  EXPECT_EQ(memory[35], 37);
  EXPECT_EQ(memory[36], 36);
}

TEST_P(NumericTransfer, ManyPoints) {
  std::vector<uint16_t> memory(1000);
  std::vector<int32_t> indices(1000);
  for (int i = 0; i < 1000; ++i) {
    memory[i] = floatToF16(float(i));
    indices[i] = (i * 7) % 1200;
  }
  std::vector<float> out(1000);
  const PointIndex point[] = {{Operand::span(indices.data()), Storage::I32, 1000, 1}};
  loadPoints(ElementType::F16, memory.data(), point, 1, Storage::F32, &pad, out.data(), 1000);
  for (int i = 0; i < 1000; ++i)
    ASSERT_EQ(out[i], indices[i] < 1000 ? float(indices[i]) : pad);
}

TEST(NumericTransferThreads, AdditionsAreAtomic) {
  // Threads add the same tile, some by rows, some by columns, some by points; all numbers are
  // exact.
  constexpr int64_t rows = 40, columns = 50, rounds = 64;
  for (ElementType type : {ElementType::F32, ElementType::F16, ElementType::F64}) {
    std::vector<char> memory(rows * columns * byteWidth(type), 0);
    std::vector<float> ones(rows * columns, 1);
    std::vector<int32_t> every(rows * columns);
    for (size_t i = 0; i < every.size(); ++i)
      every[i] = int32_t(i);
    Status status = parallelFor(rounds, 8, [&](int64_t round, unsigned) {
      const TileAxis byRows[] = {{rows, 0, rows, columns}, {columns, 0, columns, 1}};
      const TileAxis byColumns[] = {{columns, 0, columns, 1}, {rows, 0, rows, columns}};
      const PointIndex points[] = {{Operand::span(every.data()), Storage::I32, rows * columns, 1}};
      if (round % 3 == 0)
        addTile(Storage::F32, ones.data(), type, memory.data(), byRows, 2);
      else if (round % 3 == 1)
        addTile(Storage::F32, ones.data(), type, memory.data(), byColumns, 2);
      else
        addPoints(Storage::F32, ones.data(), type, memory.data(), points, 1, every.size());
      return Status::success();
    });
    ASSERT_TRUE(status.ok());
    std::vector<double> sums(rows * columns);
    convertFromMemory(type, memory.data(), 1, Storage::F64, sums.data(), sums.size());
    EXPECT_EQ(sums, std::vector<double>(sums.size(), double(rounds)));
  }
}

} // namespace
