// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Transfers between views and tiles. Every access obeys the bounds of the view.

#include "lib/Interpreter/MemorySteps.h"

#include "lib/Interpreter/InstanceCheck.h"

#include "base/Numeric/ExactSum.h"
#include "llvm/ADT/STLExtras.h"

#include <numeric>
#include <thread>

namespace tilewright::interpreter {

TransferStep::TransferStep(mlir::Operation *op, TransferKind kind, Placement placement)
    : Step(op), kind(kind), place(std::move(placement)) {
  for (int64_t extent : place.shape)
    count *= extent;
  for (unsigned d = 0; d < place.indices.size(); ++d)
    if (!llvm::is_contained(place.dims, d))
      fixedDims.push_back(d);
}

int32_t *counterOf(const Frame &frame, Slot slot, llvm::ArrayRef<IntOperand> indices) {
  const View &view = frame.views[slot];
  int64_t offset = 0;
  for (auto [d, operand] : llvm::enumerate(indices)) {
    int64_t index = operand.read(frame);
    if (index < 0 || index >= view.extents[d])
      return nullptr;
    offset += index * view.strides[d];
  }
  return reinterpret_cast<int32_t *>(view.data) + offset;
}

std::optional<std::string> awaitTurn(const Frame &frame, const int32_t *counter, const Turn &turn,
                                     const char *rule) {
  auto number = static_cast<int32_t>(turn.number.read(frame));
  auto hasCome = [&] { return __atomic_load_n(counter, __ATOMIC_ACQUIRE) == number; };
  while (!hasCome()) {
    bool isLast = !frame.progress || frame.progress->isFirst(frame.instance);
    if (isLast && !hasCome())
      return "waits for turn " + std::to_string(number) + ", but the counter is " +
             std::to_string(*counter) + " and all program instances before have ended; " + rule;
    std::this_thread::yield();
  }
  return std::nullopt;
}

bool TransferStep::run(Frame &frame) const {
  const View &view = frame.views[place.view];
  char *base = view.data;
  bool isInside = true;
  for (unsigned d : fixedDims) {
    int64_t index = place.indices[d].read(frame);
    isInside &= index >= 0 && index < view.extents[d];
    if (isInside)
      base += index * view.strides[d] * static_cast<int64_t>(byteWidth(view.type));
  }

  std::optional<DenseElements> at;
  std::vector<int64_t> rowOffsets; // of a paged view
  llvm::SmallVector<numeric::TileAxis, 4> axes;
  for (auto [t, d] : llvm::enumerate(place.dims)) {
    numeric::TileAxis &axis = axes.emplace_back();
    axis.size = place.shape[t];
    axis.start = place.indices[d].read(frame);
    axis.extent = isInside ? view.extents[d] : 0;
    axis.stride = view.strides[d];
    if (place.along && *place.along == t) {
      at.emplace(frame.pool, frame.values[place.at.slot], axis.size, place.at.storage);
      axis.indices = at->data();
      axis.indexStorage = place.at.storage;
    }
    if (d == 0 && view.pages) {
      int64_t unit = std::gcd(axis.size, view.pages->together);
      if (axis.start % unit != 0)
        return fail(frame, "begins at row " + std::to_string(axis.start) +
                               " of a sequence in pages, which must be a multiple of " +
                               std::to_string(unit) + ", rows that one copy may take at once");
      axis = view.rowsOfPages(axis.start, axis.size, rowOffsets);
      axis.extent = isInside ? axis.extent : 0;
    }
  }
  if (axes.empty()) { // a tile of rank 0
    numeric::TileAxis &axis = axes.emplace_back();
    axis.size = 1;
    axis.extent = isInside;
  }

  if (frame.check && kind != TransferKind::AtomicAdd) {
    std::optional<std::string> message =
        kind == TransferKind::Load ? frame.check->noteLoad(frame.instance, view.type, base, axes)
                                   : frame.check->noteStore(frame.instance, view.type, base, axes);
    if (message)
      return fail(frame, std::move(*message));
  }
  if (kind == TransferKind::Load) {
    const void *padding = pad ? &frame.values[pad->slot].scalar : nullptr;
    BufferRef buffer(frame.pool.allocate(result.bytes()));
    numeric::loadTile(view.type, base, axes.data(), axes.size(), result.storage, padding,
                      buffer.data());
    frame.values[result.slot].setDense(std::move(buffer));
    return true;
  }
  DenseElements elements(frame.pool, frame.values[value.slot], count, value.storage);
  if (kind == TransferKind::Store)
    numeric::storeTile(value.storage, elements.data(), view.type, base, axes.data(), axes.size());
  else if (int32_t *counter = turn ? counterOf(frame, turn->counters, turn->indices) : nullptr) {
    constexpr const char *rule =
        "numbers must count from 0 in the order of the first id of the grid";
    if (std::optional<std::string> message = awaitTurn(frame, counter, *turn, rule))
      return fail(frame, std::move(*message));
    bool isFirst = turn->number.read(frame) == 0;
    auto *write = isFirst ? numeric::storeTile : numeric::addTile;
    write(value.storage, elements.data(), view.type, base, axes.data(), axes.size());
    __atomic_fetch_add(counter, 1, __ATOMIC_RELEASE);
  } else
    numeric::addTile(value.storage, elements.data(), view.type, base, axes.data(), axes.size());
  return true;
}

bool AddAtStep::run(Frame &frame) const {
  const View &target = frame.views[view];
  DenseElements elements(frame.pool, frame.values[value.slot], count, value.storage);
  const void *terms = elements.data();
  int64_t n = count;
  bool isF64 = value.storage == Storage::F64;
  auto termAt = [&](int64_t e) {
    return isF64 ? static_cast<const double *>(terms)[e] : static_cast<const float *>(terms)[e];
  };
  double sumF64 = 0;
  float sumF32 = 0;
  if (isUniform) {
    for (int64_t e = 0; e < n; ++e)
      sumF64 += termAt(e);
    sumF32 = static_cast<float>(sumF64);
    terms = isF64 ? static_cast<const void *>(&sumF64) : &sumF32;
    n = 1;
  }

  llvm::SmallVector<DenseElements, 4> lists;
  llvm::SmallVector<numeric::PointIndex, 4> points;
  lists.reserve(indices.size());
  for (auto [d, index] : llvm::enumerate(indices)) {
    lists.emplace_back(frame.pool, frame.values[index.slot], n, index.storage);
    points.push_back({numeric::Operand::span(lists.back().data()), index.storage, target.extents[d],
                      target.strides[d]});
  }
  if (!isExact) {
    numeric::addPoints(value.storage, terms, target.type, target.data, points.data(), points.size(),
                       n);
    return true;
  }
  auto *words = reinterpret_cast<int64_t *>(target.data);
  for (int64_t e = 0; e < n; ++e) {
    int64_t offset = 0;
    bool isInside = true;
    for (const numeric::PointIndex &point : points) {
      int64_t index = static_cast<const int32_t *>(point.index.data)[e];
      isInside &= index >= 0 && index < point.extent;
      offset += isInside ? index * point.stride : 0;
    }
    if (!isInside)
      continue;
    if (isF64)
      numeric::addExactly(termAt(e), words + offset, target.strides.back());
    else
      numeric::addExactly(static_cast<float>(termAt(e)), words + offset, target.strides.back());
  }
  return true;
}

} // namespace tilewright::interpreter
