// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Buffers, element access for the forms of values, and the rows of views.

#include "lib/Interpreter/Datum.h"

#include "base/Numeric/Fill.h"
#include "llvm/Support/MathExtras.h"
#include "llvm/Support/MemAlloc.h"
#include <cstring>
#include <limits>

namespace tilewright::interpreter {

Scalar Scalar::fromInt(int64_t value, Storage storage) {
  Scalar scalar;
  switch (storage) {
  case Storage::I64:
    scalar.i64 = value;
    break;
  case Storage::I32:
    scalar.i32 = static_cast<int32_t>(value);
    break;
  case Storage::I1:
    scalar.i1 = value & 1;
    break;
  case Storage::F64:
  case Storage::F32:
    return fromFloat(static_cast<double>(value), storage);
  }
  return scalar;
}

Scalar Scalar::fromFloat(double value, Storage storage) {
  assert(isFloat(storage) && "not a float");
  Scalar scalar;
  if (storage == Storage::F64)
    scalar.f64 = value;
  else
    scalar.f32 = static_cast<float>(value);
  return scalar;
}

int64_t Scalar::toInt(Storage storage) const {
  switch (storage) {
  case Storage::I64:
    return i64;
  case Storage::I32:
    return i32;
  case Storage::I1:
    return i1;
  case Storage::F64:
  case Storage::F32:
    break;
  }
  assert(false && "not an integer");
  return 0;
}

BufferPool::~BufferPool() {
  for (void *block : blocks)
    std::free(block);
}

Buffer *BufferPool::allocate(size_t bytes) {
  unsigned sizeClass = llvm::Log2_64_Ceil(bytes < 64 ? 64 : bytes);
  assert(sizeClass < numSizeClasses && "tile too large");
  if (Buffer *buffer = free[sizeClass]) {
    free[sizeClass] = buffer->next;
    return buffer;
  }
  // Stagger the start of buffers within a page, so that operands and result of a loop do not
  // compete for the same cache sets.
  size_t skew = (allocations++ % 16) * 192;
  size_t size = (size_t(1) << sizeClass) + sizeof(Buffer) + 64 + skew;
  char *block = static_cast<char *>(llvm::safe_malloc(size));
  blocks.push_back(block);
  auto address = llvm::alignTo(reinterpret_cast<uintptr_t>(block) + skew, 64);
  return new (reinterpret_cast<void *>(address)) Buffer{this, nullptr, 0, sizeClass};
}

void BufferPool::release(Buffer *buffer) {
  buffer->next = free[buffer->sizeClass];
  free[buffer->sizeClass] = buffer;
}

Scalar Datum::element(int64_t e, Storage storage) const {
  if (isSplat())
    return scalar;
  if (form == Form::Repeated)
    e = e / (repeat * inner) * inner + e % inner;
  size_t width = storageBytes(storage);
  Scalar result;
  std::memcpy(&result, static_cast<const char *>(buffer.data()) + e * width, width);
  return result;
}

void Datum::copyTo(void *out, int64_t n, Storage storage) const {
  size_t width = storageBytes(storage);
  switch (form) {
  case Form::Splat:
    numeric::fill(storage, &scalar, out, n);
    return;
  case Form::Dense:
    std::memcpy(out, buffer.data(), n * width);
    return;
  case Form::Repeated:
    const int64_t shape[3] = {n / (repeat * inner), repeat, inner};
    numeric::expand(storage, buffer.data(), shape, 3, 1, out);
    return;
  }
}

DenseElements::DenseElements(BufferPool &pool, const Datum &value, int64_t n, Storage storage) {
  if (value.form == Form::Dense) {
    elements = value.buffer.data();
    return;
  }
  copy = BufferRef(pool.allocate(n * storageBytes(storage)));
  value.copyTo(copy.data(), n, storage);
  elements = copy.data();
}

View::RowPlace View::findRow(int64_t row) const {
  if (row < 0 || row >= extents[0])
    return {};
  int64_t left = extents[0] - row;
  if (!pages)
    return {row * strides[0], left};
  int64_t number = row / pages->rows, rowOfPage = row % pages->rows;
  if (number >= pages->tableCount)
    return {};
  int64_t page = pages->table[number * pages->tableStride];
  if (page < 0 || page >= pages->count)
    return {};
  return {page * pages->stride + rowOfPage * strides[0], std::min(left, pages->rows - rowOfPage)};
}

numeric::TileAxis View::rowsOfPages(int64_t start, int64_t size,
                                    std::vector<int64_t> &offsets) const {
  for (int64_t i = 0; i < size; ++i) {
    RowPlace place = findRow(start + i);
    offsets.push_back(place.left > 0 ? place.offset : -1);
  }
  numeric::TileAxis axis;
  axis.size = size;
  axis.extent = std::numeric_limits<int64_t>::max();
  axis.stride = 1;
  axis.indices = offsets.data();
  axis.indexStorage = Storage::I64;
  return axis;
}

} // namespace tilewright::interpreter
