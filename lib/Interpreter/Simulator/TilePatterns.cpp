// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Bytes and elements of tiles in shared memory.

#include "lib/Interpreter/Simulator/TilePatterns.h"

#include "base/Layout/CopyPartition.h"
#include "passes/Conversion/TileLayouts.h"

#include <algorithm>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::simulator;
using layout::Coord;
using layout::RegisterLayout;
using layout::SharedLayout;

namespace {

/// Collects bytes in any order.
class ByteSet {
public:
  explicit ByteSet(int64_t size) : bytes(size) {}

  void add(int64_t begin, int64_t count) {
    std::fill(bytes.begin() + begin, bytes.begin() + begin + count, true);
  }
  Bytes ranges() const {
    Bytes result;
    for (int64_t i = 0, end = static_cast<int64_t>(bytes.size()); i < end; ++i) {
      if (!bytes[i])
        continue;
      if (!result.empty() && result.back().end == i)
        ++result.back().end;
      else
        result.push_back({i, i + 1});
    }
    return result;
  }

private:
  std::vector<char> bytes;
};

/// The coordinates in the buffer of an element of the tile.
Coord toBuffer(const SharedLayout &buffer, int rank, bool transpose, Coord element) {
  if (rank == 1)
    return {0, element[0]};
  if (transpose)
    std::swap(element[0], element[1]);
  return element;
}

Offsets offsetsOf(const SharedLayout &buffer, ArrayRef<int64_t> shape, bool transpose) {
  int rank = static_cast<int>(shape.size());
  int64_t columns = rank == 2 ? shape[1] : 1;
  Offsets offsets;
  for (int64_t i = 0; i < shape[0]; ++i)
    for (int64_t j = 0; j < columns; ++j)
      offsets.push_back(
          static_cast<int32_t>(buffer.byteOffset(toBuffer(buffer, rank, transpose, {i, j}))));
  return offsets;
}

/// The elements of a warp's lanes and registers, less what the warp adds.
struct ThreadElements {
  explicit ThreadElements(const RegisterLayout &layout) {
    for (int lane = 0; lane < layout::kLanes; ++lane)
      lanes.push_back(layout.lanePart(lane));
    for (int reg = 0; reg < layout.registersPerThread(); ++reg)
      registers.push_back(layout.registerPart(reg));
  }
  Coord operator()(Coord warp, int lane, int reg) const {
    const Coord &l = lanes[lane], &r = registers[reg];
    return {warp[0] + l[0] + r[0], warp[1] + l[1] + r[1]};
  }
  std::vector<Coord> lanes, registers;
};

} // namespace

Result<TilePattern> simulator::patternOf(RankedTensorType tile, tgpu::SharedType type,
                                         bool transpose, bool writes) {
  Result<RegisterLayout> layout = tgpu::getRegisterLayout(tile);
  if (!layout)
    return layout.status();
  Result<SharedLayout> buffer = tgpu::getSharedLayout(type);
  if (!buffer)
    return buffer.status();
  TilePattern pattern;
  pattern.offsets = offsetsOf(*buffer, layout->shape(), transpose);
  ThreadElements elements(*layout);
  for (int warp = 0; warp < layout->numWarps(); ++warp) {
    ByteSet bytes(buffer->sizeInBytes());
    Coord warpPart = layout->warpPart(warp);
    for (int lane = 0; lane < layout::kLanes; ++lane)
      for (int reg = 0; reg < layout->registersPerThread(); ++reg)
        if (!writes || layout->isCanonicalOwner(warp, lane, reg))
          bytes.add(buffer->byteOffset(toBuffer(*buffer, layout->rank(), transpose,
                                                elements(warpPart, lane, reg))),
                    buffer->bytesPerElement());
    pattern.byWarp.push_back(bytes.ranges());
  }
  return pattern;
}

Result<TilePattern> simulator::patternOfCopy(tgpu::SharedType type, int64_t warps) {
  Result<SharedLayout> buffer = tgpu::getSharedLayout(type);
  if (!buffer)
    return buffer.status();
  int threads = static_cast<int>(warps) * layout::kLanes;
  Result<layout::CopyPartition> partition = layout::CopyPartition::plan(*buffer, threads, 16);
  for (int chunk : {8, 4})
    if (!partition)
      partition = layout::CopyPartition::plan(*buffer, threads, chunk);
  if (!partition)
    return partition.status();
  TilePattern pattern;
  pattern.offsets = offsetsOf(*buffer, type.getShape(), false);
  for (int warp = 0; warp < warps; ++warp) {
    ByteSet bytes(buffer->sizeInBytes());
    for (int lane = 0; lane < layout::kLanes; ++lane)
      for (int issue = 0; issue < partition->numIssues(); ++issue)
        if (auto chunk = partition->chunkOf(warp * layout::kLanes + lane, issue))
          bytes.add(chunk->byteOffset, partition->chunkBytes());
    pattern.byWarp.push_back(bytes.ranges());
  }
  return pattern;
}

Result<TilePattern> simulator::patternOfFmaOperand(RankedTensorType result, tgpu::SharedType type,
                                                   bool isB, bool transpose) {
  Result<RegisterLayout> layout = tgpu::getRegisterLayout(result);
  if (!layout)
    return layout.status();
  Result<SharedLayout> buffer = tgpu::getSharedLayout(type);
  if (!buffer)
    return buffer.status();
  // Rows of op(a), or columns of op(b), are along this dimension of the buffer.
  bool alongRows = isB == transpose;
  int64_t depth = alongRows ? buffer->cols() : buffer->rows();
  TilePattern pattern;
  pattern.offsets = offsetsOf(*buffer, type.getShape(), false);
  ThreadElements elements(*layout);
  for (int warp = 0; warp < layout->numWarps(); ++warp) {
    Coord warpPart = layout->warpPart(warp);
    std::vector<bool> needed(alongRows ? buffer->rows() : buffer->cols());
    for (int lane = 0; lane < layout::kLanes; ++lane)
      for (int reg = 0; reg < layout->registersPerThread(); ++reg)
        needed[elements(warpPart, lane, reg)[isB ? 1 : 0]] = true;
    ByteSet bytes(buffer->sizeInBytes());
    for (int64_t i = 0; i < static_cast<int64_t>(needed.size()); ++i)
      for (int64_t k = 0; needed[i] && k < depth; ++k)
        bytes.add(alongRows ? buffer->byteOffset(i, k) : buffer->byteOffset(k, i),
                  buffer->bytesPerElement());
    pattern.byWarp.push_back(bytes.ranges());
  }
  return pattern;
}

Result<TilePattern> simulator::patternOfWgmmaOperand(tgpu::SharedType type, int64_t address,
                                                     bool isB, bool transpose, int64_t warpgroups) {
  Result<SharedLayout> buffer = tgpu::getSharedLayout(type);
  if (!buffer)
    return buffer.status();
  auto major = isB == transpose ? layout::Major::K : layout::Major::MN;
  Result<layout::WgmmaOperand> operand = layout::WgmmaOperand::plan(*buffer, major);
  if (!operand)
    return operand.status();
  int bits = buffer->elementBits();
  int64_t extent = operand->extentMN(), depth = operand->extentK();
  int64_t perStep = layout::wgmmaDepth(bits), rows = isB ? extent : tgpu::rowsOfWarpgroup;
  uint64_t first = operand->descriptor(0).encode() | static_cast<uint64_t>(address) >> 4;

  TilePattern pattern;
  pattern.offsets.resize(extent * depth);
  std::vector<ByteSet> bytes(isB ? 1 : warpgroups, ByteSet(address + buffer->sizeInBytes()));
  for (int64_t begin = 0; begin < extent; begin += rows)
    for (int64_t step = 0; step < operand->numSteps(); ++step) {
      // The sum that code generation computes, in the descriptor's unit of 16 bytes.
      uint64_t encoded = first + static_cast<uint64_t>(operand->byteOffset(begin, step)) / 16;
      auto descriptor = layout::MatrixDescriptor::decode(encoded);
      for (int64_t mn = 0; mn < rows; ++mn)
        for (int64_t k = 0; k < perStep; ++k) {
          int64_t at = layout::descriptorRead(descriptor, major, bits, mn, k);
          if (at < address || at + bits / 8 > address + buffer->sizeInBytes())
            return Status::failure("a descriptor reads beyond its buffer");
          int64_t i = begin + mn, j = step * perStep + k;
          pattern.offsets[isB ? j * extent + i : i * depth + j] = static_cast<int32_t>(at);
          bytes[isB ? 0 : begin / tgpu::rowsOfWarpgroup % warpgroups].add(at, bits / 8);
        }
    }
  for (const ByteSet &set : bytes)
    pattern.byWarp.push_back(set.ranges());
  if (isB)
    pattern.byWarp.resize(warpgroups, pattern.byWarp.front());
  return pattern;
}

std::vector<BoxPattern> simulator::patternOfBoxes(tgpu::TensorMapType map, tgpu::SharedType type,
                                                  int64_t address) {
  ArrayRef<int64_t> box = map.getBox(), shape = type.getShape();
  int64_t bytes = tgpu::getElementBits(map.getElementType()) / 8;
  int64_t columns = box.back(), rows = 1;
  for (int64_t extent : box.drop_back())
    rows *= extent;
  int64_t totalRows = shape.size() == 2 ? shape[0] : 1, totalColumns = shape.back();
  layout::Swizzle swizzle = map.getSwizzle();
  // Boxes of the same columns are consecutive; then follow the next columns.
  std::vector<BoxPattern> boxes;
  int64_t at = address;
  for (int64_t column = 0; column < totalColumns; column += columns)
    for (int64_t row = 0; row < totalRows; row += rows) {
      BoxPattern pattern{row, column, {}};
      for (int64_t i = 0; i < rows * columns; ++i)
        pattern.offsets.push_back(
            static_cast<int32_t>(layout::swizzleAddress(at + i * bytes, swizzle)));
      at += rows * columns * bytes;
      boxes.push_back(std::move(pattern));
    }
  return boxes;
}

Bytes simulator::allBytes(tgpu::SharedType buffer) { return {{0, tgpu::getBytes(buffer)}}; }
