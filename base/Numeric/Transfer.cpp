// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Loads, stores and additions. A tile is walked row by row along its last axis; a row is a run in
// the middle that is inside the view, and what is outside on its two sides. Rows of indexed axes,
// and lists of points, are walked element by element through a list of offsets.

#include "base/Numeric/Transfer.h"
#include "base/Numeric/Fill.h"
#include "base/Numeric/KernelTable.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstring>
#include <mutex>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

/// Elements handled at a time where a buffer is needed.
constexpr size_t chunkSize = 256;

int64_t indexAt(const void *indices, Storage storage, size_t i) {
  return storage == Storage::I64 ? static_cast<const int64_t *>(indices)[i]
                                 : static_cast<const int32_t *>(indices)[i];
}

/// The tile indices of an axis without `indices` whose elements are inside the view.
struct Inside {
  int64_t begin, end;
};
Inside insideOf(const TileAxis &axis) {
  // 128 bits, since a start may be anything.
  using Wide = __int128;
  Wide begin = std::max<Wide>(-Wide(axis.start), 0);
  Wide end = std::min<Wide>(Wide(axis.extent) - axis.start, axis.size);
  if (begin >= end)
    return {0, 0};
  return {int64_t(begin), int64_t(end)};
}

/// The memory index of element i of an indexed axis, or -1 outside.
int64_t memoryIndex(const TileAxis &axis, int64_t i) {
  int64_t index;
  if (__builtin_add_overflow(axis.start, indexAt(axis.indices, axis.indexStorage, i), &index))
    return -1;
  return index >= 0 && index < axis.extent ? index : -1;
}

size_t numElements(const TileAxis *axes, unsigned rank) {
  size_t n = 1;
  for (unsigned d = 0; d < rank; ++d)
    n *= axes[d].size;
  return n;
}

/// Calls `outside(position, count)` and `run(position, offset, stride, count)` for the parts of the
/// tile, in row-major order: `position` is that of the first element in the tile, the offset and
/// the stride of its memory are in elements.
template <typename Outside, typename Run>
void walk(const TileAxis *axes, unsigned rank, size_t position, int64_t offset,
          const Outside &outside, const Run &run) {
  if (rank == 0)
    return run(position, offset, 0, 1);
  const TileAxis &axis = *axes;
  size_t inner = numElements(axes + 1, rank - 1);
  if (inner == 0)
    return;
  if (axis.indices) {
    for (int64_t i = 0; i < axis.size; ++i, position += inner) {
      int64_t index = memoryIndex(axis, i);
      if (index < 0)
        outside(position, inner);
      else
        walk(axes + 1, rank - 1, position, offset + index * axis.stride, outside, run);
    }
    return;
  }
  Inside inside = insideOf(axis);
  if (inside.begin > 0)
    outside(position, inside.begin * inner);
  if (inside.begin < inside.end) {
    offset += (axis.start + inside.begin) * axis.stride;
    if (rank == 1) {
      run(position + inside.begin, offset, axis.stride, inside.end - inside.begin);
    } else {
      for (int64_t i = inside.begin; i < inside.end; ++i, offset += axis.stride)
        walk(axes + 1, rank - 1, position + i * inner, offset, outside, run);
    }
  }
  if (inside.end < axis.size)
    outside(position + inside.end * inner, (axis.size - inside.end) * inner);
}

/// The offsets of points [begin, begin + count); false marks a point outside.
void pointOffsets(const PointIndex *indices, unsigned numIndices, size_t begin, size_t count,
                  int64_t *offsets, bool *isInside) {
  std::fill_n(offsets, count, 0);
  std::fill_n(isInside, count, true);
  for (unsigned d = 0; d < numIndices; ++d) {
    const PointIndex &point = indices[d];
    for (size_t i = 0; i < count; ++i) {
      int64_t index =
          indexAt(point.index.data, point.indexStorage, point.index.isSplat ? 0 : begin + i);
      isInside[i] &= index >= 0 && index < point.extent;
      // Points outside may be far away: unsigned arithmetic cannot overflow.
      offsets[i] = int64_t(uint64_t(offsets[i]) + uint64_t(index) * uint64_t(point.stride));
    }
  }
}

//===--- Additions ---------------------------------------------------------===//

// Atomicity by locks: one for every stretch of 1 KiB of addresses, modulo their number. A row of a
// tile takes one or two of them and is added at the speed of a plain loop.
constexpr uintptr_t stretchBytes = 1024;
constexpr size_t numLocks = 1024;

std::mutex &lockOf(uintptr_t address) {
  static std::array<std::mutex, numLocks> locks;
  return locks[address / stretchBytes % numLocks];
}

BinaryOp additionOf(Storage storage) { return isFloat(storage) ? BinaryOp::AddF : BinaryOp::AddI; }

/// The same additions if nothing is converted.
template <typename Real> void addInPlace(const char *in, char *memory, size_t n) {
  for (size_t i = 0; i < n; ++i) {
    Real sum, term; // alignment is not required
    std::memcpy(&sum, memory + i * sizeof(Real), sizeof(Real));
    std::memcpy(&term, in + i * sizeof(Real), sizeof(Real));
    sum += term;
    std::memcpy(memory + i * sizeof(Real), &sum, sizeof(Real));
  }
}

/// memory += in for dense memory within one stretch, whose lock is held.
void addLocked(Storage storage, const char *in, ElementType type, char *memory, size_t n) {
  if (storage == Storage::F32 && type == ElementType::F32)
    return addInPlace<float>(in, memory, n);
  if (storage == Storage::F64 && type == ElementType::F64)
    return addInPlace<double>(in, memory, n);
  alignas(64) char sums[stretchBytes * sizeof(double)];
  assert(n * storageBytes(storage) <= sizeof(sums) && "more elements than a stretch has bytes");
  convertFromMemory(type, memory, 1, storage, sums, n);
  [[maybe_unused]] OpError error =
      binary(additionOf(storage), storage, Operand::span(sums), Operand::span(in), sums, n);
  assert(error == OpError::None && "every storage but i1 has an addition");
  convertToMemory(storage, sums, type, memory, 1, n);
}

void addRun(Storage storage, const char *in, ElementType type, char *memory, int64_t stride,
            size_t n) {
  size_t width = byteWidth(type), inWidth = storageBytes(storage);
  if (stride != 1) {
    for (size_t i = 0; i < n; ++i, in += inWidth, memory += stride * int64_t(width)) {
      std::lock_guard<std::mutex> lock(lockOf(reinterpret_cast<uintptr_t>(memory)));
      addLocked(storage, in, type, memory, 1);
    }
    return;
  }
  while (n != 0) {
    uintptr_t address = reinterpret_cast<uintptr_t>(memory);
    size_t room = (stretchBytes - address % stretchBytes + width - 1) / width;
    size_t count = std::min(n, room);
    {
      std::lock_guard<std::mutex> lock(lockOf(address));
      addLocked(storage, in, type, memory, count);
    }
    in += count * inWidth;
    memory += count * width;
    n -= count;
  }
}

constexpr uint64_t zeroElement = 0;

} // namespace

void tilewright::numeric::loadTile(ElementType type, const void *base, const TileAxis *axes,
                                   unsigned rank, Storage storage, const void *pad, void *out) {
  auto *from = static_cast<const char *>(base);
  auto *to = static_cast<char *>(out);
  int64_t width = byteWidth(type);
  size_t outWidth = storageBytes(storage);
  walk(
      axes, rank, 0, 0,
      [&](size_t position, size_t count) {
        fill(storage, pad ? pad : &zeroElement, to + position * outWidth, count);
      },
      [&](size_t position, int64_t offset, int64_t stride, size_t count) {
        convertFromMemory(type, from + offset * width, stride, storage, to + position * outWidth,
                          count);
      });
}

/// Calls `write` for each run of a tile that is inside.
template <typename WriteT>
static void writeRuns(WriteT write, Storage storage, const void *in, ElementType type, void *base,
                      const TileAxis *axes, unsigned rank) {
  auto *from = static_cast<const char *>(in);
  auto *to = static_cast<char *>(base);
  int64_t width = byteWidth(type);
  size_t inWidth = storageBytes(storage);
  walk(
      axes, rank, 0, 0, [](size_t, size_t) {},
      [&](size_t position, int64_t offset, int64_t stride, size_t count) {
        write(storage, from + position * inWidth, type, to + offset * width, stride, count);
      });
}

void tilewright::numeric::storeTile(Storage storage, const void *in, ElementType type, void *base,
                                    const TileAxis *axes, unsigned rank) {
  writeRuns(convertToMemory, storage, in, type, base, axes, rank);
}

void tilewright::numeric::addTile(Storage storage, const void *in, ElementType type, void *base,
                                  const TileAxis *axes, unsigned rank) {
  assert(isAddable(type) && "i1 has no addition in memory");
  writeRuns(addRun, storage, in, type, base, axes, rank);
}

void tilewright::numeric::loadPoints(ElementType type, const void *base, const PointIndex *indices,
                                     unsigned count, Storage storage, const void *pad, void *out,
                                     size_t n) {
  auto *from = static_cast<const char *>(base);
  auto *to = static_cast<char *>(out);
  size_t width = byteWidth(type), outWidth = storageBytes(storage);
  int64_t offsets[chunkSize];
  bool isInside[chunkSize];
  char words[chunkSize * sizeof(uint64_t)];
  for (size_t begin = 0; begin < n; begin += chunkSize) {
    size_t length = std::min(chunkSize, n - begin);
    pointOffsets(indices, count, begin, length, offsets, isInside);
    // Read together, followed by one conversion for all; a word outside is arbitrary until the pad
    // replaces it.
    for (size_t i = 0; i < length; ++i) {
      if (isInside[i])
        std::memcpy(words + i * width, from + offsets[i] * int64_t(width), width);
      else
        std::memset(words + i * width, 0, width);
    }
    char *result = to + begin * outWidth;
    convertFromMemory(type, words, 1, storage, result, length);
    if (pad)
      for (size_t i = 0; i < length; ++i)
        if (!isInside[i])
          std::memcpy(result + i * outWidth, pad, outWidth);
  }
}

/// Calls visit(point, offset) for the points that are inside, in their order.
template <typename Visit>
static void walkPoints(const PointIndex *indices, unsigned count, size_t n, Visit visit) {
  int64_t offsets[chunkSize];
  bool isInside[chunkSize];
  for (size_t begin = 0; begin < n; begin += chunkSize) {
    size_t length = std::min(chunkSize, n - begin);
    pointOffsets(indices, count, begin, length, offsets, isInside);
    for (size_t i = 0; i < length; ++i)
      if (isInside[i])
        visit(begin + i, offsets[i]);
  }
}

void tilewright::numeric::addPoints(Storage storage, const void *in, ElementType type, void *base,
                                    const PointIndex *indices, unsigned count, size_t n) {
  assert(isAddable(type) && "i1 has no addition in memory");
  auto *from = static_cast<const char *>(in);
  auto *to = static_cast<char *>(base);
  int64_t width = byteWidth(type);
  walkPoints(indices, count, n, [&](size_t point, int64_t offset) {
    addRun(storage, from + point * storageBytes(storage), type, to + offset * width, 1, 1);
  });
}

void numeric::forEachRun(const TileAxis *axes, unsigned rank,
                         const std::function<void(int64_t, int64_t, int64_t)> &visit) {
  walk(
      axes, rank, 0, 0, [](size_t, size_t) {},
      [&](size_t, int64_t offset, int64_t stride, int64_t count) { visit(offset, stride, count); });
}

void numeric::forEachPoint(const PointIndex *indices, unsigned count, size_t n,
                           const std::function<void(int64_t)> &visit) {
  walkPoints(indices, count, n, [&](size_t, int64_t offset) { visit(offset); });
}
