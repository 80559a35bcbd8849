// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Coordinates as sums over the digits of warp and lane.

#include "passes/Conversion/ThreadCoords.h"

#include <array>

using namespace mlir;
using namespace tilewright;
using namespace tilewright::tgpu;
using layout::Digit;
using layout::RegisterLayout;

Value tgpu::getThreadNumber(ThreadBuilder &b, llvm::function_ref<int64_t(int, int)> compute,
                            ArrayRef<Digit> warpDigits, bool atUse) {
  std::vector<int64_t> table;
  for (int w = 0; w < b.threads.numWarps; ++w)
    for (int l = 0; l < layout::kLanes; ++l)
      table.push_back(compute(w, l));
  Value here;
  Value &known = atUse ? here : b.threads.numbers[table];
  if (known)
    return known;

  // The value is the sum of the contributions of each digit of the warp and each bit of the lane to
  // that of thread 0. Bits whose contributions are proportional to their weights are combined.
  int64_t base = table[0];
  SmallVector<std::array<int64_t, 4>> parts; // isLane, place, extent, factor
  int64_t place = 1;
  for (const Digit &digit : warpDigits) {
    if (digit.extent > 1 && place < b.threads.numWarps)
      parts.push_back({0, place, digit.extent, table[place * layout::kLanes] - base});
    place *= digit.extent;
  }
  for (int bit = 0; bit < 5; ++bit) {
    int64_t factor = table[1 << bit] - base;
    if (!parts.empty() && parts.back()[0] && factor == parts.back()[3] * parts.back()[2] &&
        factor != 0)
      parts.back()[2] *= 2;
    else
      parts.push_back({1, 1 << bit, 2, factor});
  }
  for (int w = 0; w < b.threads.numWarps; ++w)
    for (int l = 0; l < layout::kLanes; ++l) {
      int64_t sum = base;
      for (auto [isLane, from, extent, factor] : parts)
        sum += (isLane ? l : w) / from % extent * factor;
      if (sum != table[w * layout::kLanes + l])
        return nullptr;
    }

  OpBuilder::InsertionGuard guard(b);
  if (!atUse)
    b.setInsertionPoint(b.threads.endOfEntry);
  Value sum = b.i32(base);
  for (auto [isLane, from, extent, factor] : parts) {
    if (factor == 0)
      continue;
    Value digit = isLane ? b.threads.lane : b.threads.warp;
    if (from > 1)
      digit = arith::DivUIOp::create(b, digit, b.i32(from));
    if (from * extent < (isLane ? layout::kLanes : b.threads.numWarps))
      digit = arith::RemUIOp::create(b, digit, b.i32(extent));
    sum = b.add(sum, b.mul(digit, b.i32(factor)));
  }
  // Insertions into the map keep references to its elements valid.
  return known = sum;
}

Value tgpu::getThreadCoord(ThreadBuilder &b, const RegisterLayout &layout, int dim) {
  return getThreadNumber(
      b, [&](int w, int l) { return layout.warpPart(w)[dim] + layout.lanePart(l)[dim]; },
      // A few operations at the use: computed at entry, they would take registers in loops that use
      // no positions.
      layout.warpDigits(), /*atUse=*/true);
}

Value tgpu::getCoord(ThreadBuilder &b, const RegisterLayout &layout, int dim, int reg) {
  return b.add(getThreadCoord(b, layout, dim), b.i32(layout.registerPart(reg)[dim]));
}

/// Whether all replica digits of a number are 0.
static bool isCanonical(ArrayRef<Digit> digits, int64_t number) {
  for (const Digit &digit : digits) {
    if (digit.isReplica() && number % digit.extent != 0)
      return false;
    number /= digit.extent;
  }
  return true;
}

bool tgpu::isCanonicalRegister(const RegisterLayout &layout, int reg) {
  return isCanonical(layout.registerDigits(), reg);
}

Value tgpu::isCanonicalThread(ThreadBuilder &b, const RegisterLayout &layout) {
  auto isReplica = [](const Digit &digit) { return digit.isReplica() && digit.extent > 1; };
  if (llvm::none_of(layout.warpDigits(), isReplica) &&
      llvm::none_of(layout.laneDigits(), isReplica))
    return nullptr;
  // The number of nonzero replica digits is not a sum over the digits; the value that they form is.
  auto weight = [](ArrayRef<Digit> digits, int64_t number) {
    int64_t sum = 0, scale = 1;
    for (const Digit &digit : digits) {
      if (digit.isReplica())
        sum += number % digit.extent * scale;
      number /= digit.extent;
      scale *= digit.extent;
    }
    return sum;
  };
  Value replica = getThreadNumber(
      b,
      [&](int w, int l) {
        return weight(layout.warpDigits(), w) * layout::kLanes + weight(layout.laneDigits(), l);
      },
      layout.warpDigits());
  return b.equal(replica, b.i32(0));
}

Value tgpu::getByteOffset(ThreadBuilder &b, const layout::SharedLayout &buffer, Value row,
                          Value col) {
  Value byte = b.mul(col, b.i32(buffer.bytesPerElement()));
  Value offset = b.mul(row, b.i32(buffer.rowPitch()));
  if (buffer.numPanels() > 1) {
    Value width = b.i32(buffer.panelBytes());
    Value panel = arith::DivUIOp::create(b, byte, width);
    byte = arith::RemUIOp::create(b, byte, width);
    offset = b.add(offset, b.mul(panel, b.i32(buffer.panelStride())));
  }
  offset = b.add(offset, byte);
  if (buffer.swizzle() == layout::Swizzle::None)
    return offset;
  int64_t mask = layout::swizzleMask(buffer.swizzle());
  Value bits = arith::AndIOp::create(b, offset, b.i32(mask << 7));
  return arith::XOrIOp::create(b, offset, arith::ShRUIOp::create(b, bits, b.i32(3)));
}

Values tgpu::splitRow(ThreadBuilder &b, Value row, ArrayRef<int64_t> shape) {
  Values indices;
  for (int64_t extent : llvm::reverse(shape.drop_back())) {
    indices.push_back(arith::RemUIOp::create(b, row, b.i32(extent)));
    row = arith::DivUIOp::create(b, row, b.i32(extent));
  }
  std::reverse(indices.begin(), indices.end());
  return indices;
}
