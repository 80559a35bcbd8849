// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided arrays.

#include "test/Acceptance/StridedArray.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <sys/mman.h>

namespace tilewright::acceptance {

namespace {

[[noreturn]] void stop(const char *message) {
  std::fprintf(stderr, "the test lays out an array %s\n", message);
  std::abort();
}

constexpr int64_t margin = 64; ///< elements before and after an array

} // namespace

Buffer::Buffer(size_t bytes) : bytes(bytes) {
  if (bytes < trackedUpTo) {
    memory = static_cast<uint8_t *>(std::malloc(std::max<size_t>(bytes, 1)));
    std::memset(memory, poison, bytes);
    claimed.assign(bytes, 0);
    return;
  }
  void *mapped = mmap(nullptr, bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (mapped == MAP_FAILED)
    stop("in more memory than the system maps");
  memory = static_cast<uint8_t *>(mapped);
}

Buffer::~Buffer() {
  if (bytes < trackedUpTo)
    std::free(memory);
  else
    munmap(memory, bytes);
}

bool Buffer::claim(int64_t offset, size_t n) {
  if (offset < 0 || static_cast<size_t>(offset) + n > bytes)
    return false;
  if (claimed.empty())
    return true;
  auto begin = claimed.begin() + offset, end = begin + n;
  if (std::find(begin, end, 1) != end)
    return false;
  std::fill(begin, end, 1);
  return true;
}

int64_t Buffer::findWrittenGap() const {
  for (size_t i = 0; i < claimed.size(); ++i)
    if (!claimed[i] && memory[i] != poison)
      return static_cast<int64_t>(i);
  return -1;
}

std::vector<int64_t> rowMajor(const std::vector<int64_t> &shape) {
  std::vector<int64_t> strides(shape.size(), 1);
  for (size_t dim = shape.size(); dim-- > 1;)
    strides[dim - 1] = strides[dim] * std::max<int64_t>(shape[dim], 1);
  return strides;
}

StridedArray::StridedArray(ElementType type, std::vector<int64_t> shape, Layout given)
    : elementType(type), extents(std::move(shape)), layout(std::move(given)) {
  if (layout.strides.empty())
    layout.strides = rowMajor(extents);
  if (layout.strides.size() != extents.size())
    stop("with a wrong number of strides");
  if (!layout.buffer) {
    int64_t lowest = 0, highest = 0;
    for (size_t dim = 0; dim < extents.size() && size() > 0; ++dim) {
      int64_t reach = (extents[dim] - 1) * layout.strides[dim];
      (reach < 0 ? lowest : highest) += reach;
    }
    layout.offset = margin - lowest;
    layout.buffer =
        std::make_shared<Buffer>((highest - lowest + 1 + 2 * margin) * byteWidth(elementType));
  }
  int64_t width = byteWidth(elementType);
  forEachRun([&](int64_t, int64_t offset, int64_t n) {
    if (!layout.buffer->claim((layout.offset + offset) * width, n * width))
      stop("outside of its buffer, or over another element");
  });
  clear();
}

void StridedArray::clear() {
  int64_t width = byteWidth(elementType);
  forEachRun([&](int64_t, int64_t offset, int64_t n) {
    std::memset(data() + offset * width, Buffer::poison, n * width);
  });
}

uint8_t *StridedArray::data() const {
  return layout.buffer->data() + layout.offset * static_cast<int64_t>(byteWidth(elementType));
}

int64_t StridedArray::size() const {
  int64_t count = 1;
  for (int64_t extent : extents)
    count *= extent;
  return count;
}

template <typename Body> void StridedArray::forEachRun(Body body) const {
  int64_t n = size(), run = 1;
  size_t rank = extents.size();
  if (n > 0 && rank > 0 && (layout.strides.back() == 1 || extents.back() == 1))
    run = extents[--rank];
  std::vector<int64_t> index(rank, 0);
  int64_t offset = 0;
  for (int64_t i = 0; i < n; i += run) {
    body(i, offset, run);
    for (size_t dim = rank; dim-- > 0;) {
      offset += layout.strides[dim];
      if (++index[dim] < extents[dim])
        break;
      offset -= layout.strides[dim] * extents[dim];
      index[dim] = 0;
    }
  }
}

void StridedArray::write(const std::vector<double> &values) {
  if (static_cast<int64_t>(values.size()) != size() || !isFloat(elementType))
    stop("and gives it other values");
  int64_t width = byteWidth(elementType);
  forEachRun([&](int64_t i, int64_t offset, int64_t n) {
    numeric::convertToMemory(Storage::F64, &values[i], elementType, data() + offset * width, 1, n);
  });
}

void StridedArray::write(const std::vector<int64_t> &values) {
  if (static_cast<int64_t>(values.size()) != size() || isFloat(elementType))
    stop("and gives it other values");
  int64_t width = byteWidth(elementType);
  forEachRun([&](int64_t i, int64_t offset, int64_t n) {
    for (int64_t at = 0; at < n; ++at) // little endian
      std::memcpy(data() + (offset + at) * width, &values[i + at], width);
  });
}

std::vector<double> StridedArray::read() const {
  std::vector<double> values(size());
  int64_t width = byteWidth(elementType);
  forEachRun([&](int64_t i, int64_t offset, int64_t n) {
    numeric::convertFromMemory(elementType, data() + offset * width, 1, Storage::F64, &values[i],
                               n);
  });
  return values;
}

std::vector<uint8_t> StridedArray::readBytes() const {
  int64_t width = byteWidth(elementType);
  std::vector<uint8_t> bytes(size() * width);
  forEachRun([&](int64_t i, int64_t offset, int64_t n) {
    std::memcpy(&bytes[i * width], data() + offset * width, n * width);
  });
  return bytes;
}

} // namespace tilewright::acceptance
