// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// tile.for_blocks: the body runs for exactly the blocks that hold a kept pair.

#include "lib/Interpreter/ControlSteps.h"

#include "base/Numeric/TileOps.h"
#include "llvm/Support/MathExtras.h"
#include <algorithm>
#include <cstring>

namespace tilewright::interpreter {

/// The state that is constant during one execution of the loop. Positions are those of the interval
/// in blocks, in 64 bits: the end of the last block may be beyond 2^31.
struct BlockLoopStep::Visit {
  int64_t lower, upper;
  int64_t rows;                 ///< rows of the fixed interval, up to its limit
  int64_t firstBlock, endBlock; ///< range that may hold a kept pair
  int64_t mustBegin, mustEnd;   ///< positions whose pairs are all kept
};

bool BlockLoopStep::run(Frame &frame) const {
  moveAll(frame, inits);

  Visit visit;
  visit.lower = lower.read(frame);
  visit.upper = upper.read(frame);
  int64_t first = start.read(frame);
  visit.rows = std::clamp<int64_t>(limit.read(frame) - first, 0, rows);
  visit.firstBlock = 0;
  visit.endBlock = 0;
  if (visit.rows > 0 && visit.upper > visit.lower)
    visit.endBlock = llvm::divideCeil(visit.upper - visit.lower, columns);
  // Without a mask all pairs are kept; with one, no pair is known to be.
  visit.mustBegin = visit.lower;
  visit.mustEnd = maskResult ? visit.lower : visit.upper;

  if (ranges && visit.endBlock > 0) {
    auto set = [&](Slot slot, int64_t value) {
      frame.values[slot].setSplat(Scalar::fromInt(value, Storage::I32));
    };
    set(ranges->againstBegin, first);
    set(ranges->againstEnd, first + visit.rows);
    set(ranges->lower, visit.lower);
    set(ranges->upper, visit.upper);
    if (!ranges->code.run(frame))
      return false;
    int64_t mayBegin = std::max(ranges->mayBegin.read(frame), visit.lower);
    int64_t mayEnd = std::min(ranges->mayEnd.read(frame), visit.upper);
    visit.firstBlock = (mayBegin - visit.lower) / columns;
    visit.endBlock =
        mayEnd > mayBegin ? llvm::divideCeil(mayEnd - visit.lower, columns) : visit.firstBlock;
    visit.mustBegin = ranges->mustBegin.read(frame);
    visit.mustEnd = ranges->mustEnd.read(frame);
  }

  bool goesDown = isDescending && (!orderCondition || frame.values[*orderCondition].scalar.i1);
  if (!list) {
    int64_t count = visit.endBlock - visit.firstBlock;
    for (int64_t i = 0; i < count; ++i)
      if (!visitBlock(frame, visit, goesDown ? visit.endBlock - 1 - i : visit.firstBlock + i))
        return false;
    moveAll(frame, results);
    return true;
  }

  // A list is read within its bounds; entries outside of them name no block.
  const View view = frame.views[list->view];
  const char *entries = view.data;
  bool isInside = true;
  for (auto [d, operand] : llvm::enumerate(list->indices)) {
    int64_t index = operand.read(frame);
    isInside &= index >= 0 && index < view.extents[d];
    if (isInside)
      entries += index * view.strides[d] * static_cast<int64_t>(sizeof(int32_t));
  }
  int64_t count = isInside && visit.rows > 0 ? view.extents.back() : 0;
  if (list->count)
    count = std::min(count, list->count->read(frame));
  for (int64_t i = 0; i < count; ++i) {
    int64_t entry = goesDown ? count - 1 - i : i;
    int32_t number;
    std::memcpy(&number,
                entries + entry * view.strides.back() * static_cast<int64_t>(sizeof(int32_t)),
                sizeof(number));
    for (int64_t part = 0; part < list->blocksOfEntry; ++part) {
      int64_t inEntry = goesDown ? list->blocksOfEntry - 1 - part : part;
      int64_t block = number * list->blocksOfEntry + inEntry;
      if (block >= visit.firstBlock && block < visit.endBlock && !visitBlock(frame, visit, block))
        return false;
    }
  }
  moveAll(frame, results);
  return true;
}

bool BlockLoopStep::visitBlock(Frame &frame, const Visit &visit, int64_t number) const {
  int64_t begin = visit.lower + number * columns;
  Kept kept;
  if (!computeKeep(frame, visit, begin, kept))
    return false;
  if (kept == Kept::None)
    return true;
  if (kept == Kept::All)
    frame.values[keep].setSplat(Scalar::fromInt(1, Storage::I1));
  frame.values[induction].setSplat(Scalar::fromInt(begin, Storage::I32));
  return body.run(frame);
}

bool BlockLoopStep::computeKeep(Frame &frame, const Visit &visit, int64_t begin, Kept &kept) const {
  int64_t inBlock = std::min(columns, visit.upper - begin);
  bool isWhole = visit.rows == rows && inBlock == columns;
  bool isFull = visit.mustBegin <= begin && begin + inBlock <= visit.mustEnd;
  if (isWhole && isFull) {
    kept = Kept::All;
    return true;
  }

  size_t n = rows * columns;
  BufferRef buffer;
  if (isFull) {
    buffer = BufferRef(frame.pool.allocate(n));
    std::memset(buffer.data(), 1, n);
  } else {
    auto setPositions = [&](Slot slot, int64_t first, int64_t size) {
      BufferRef positions(frame.pool.allocate(size * sizeof(int32_t)));
      numeric::iota(Storage::I32, &size, 1, 0, first, 1, positions.data());
      return positions;
    };
    int64_t first = start.read(frame);
    if (columns == 1)
      frame.values[against].setDense(setPositions(against, first, rows));
    else
      frame.values[against].setRepeated(setPositions(against, first, rows), columns, 1);
    if (rows == 1)
      frame.values[block].setDense(setPositions(block, begin, columns));
    else
      frame.values[block].setRepeated(setPositions(block, begin, columns), rows, columns);
    if (!mask.run(frame))
      return false;
    Datum value = std::move(frame.values[*maskResult]);
    if (value.isSplat()) {
      if (!value.scalar.i1 || isWhole) {
        kept = value.scalar.i1 ? Kept::All : Kept::None;
        return true;
      }
    }
    if (value.form == Form::Dense && value.buffer.isUnique()) {
      buffer = std::move(value.buffer);
    } else {
      buffer = BufferRef(frame.pool.allocate(n));
      value.copyTo(buffer.data(), n, Storage::I1);
    }
  }

  // Pairs outside of either interval are not kept.
  auto *elements = static_cast<uint8_t *>(buffer.data());
  if (inBlock < columns)
    for (int64_t r = 0; r < visit.rows; ++r)
      std::memset(elements + r * columns + inBlock, 0, columns - inBlock);
  std::memset(elements + visit.rows * columns, 0, (rows - visit.rows) * columns);
  if (!std::memchr(elements, 1, n)) {
    kept = Kept::None;
    return true;
  }
  kept = std::memchr(elements, 0, n) ? Kept::Some : Kept::All;
  frame.values[keep].setDense(std::move(buffer));
  return true;
}

} // namespace tilewright::interpreter
