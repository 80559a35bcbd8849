// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Strided host memory.

#include "lib/Driver/HostArray.h"

#include "lib/Support/MakeError.h"
#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/Sequence.h"
#include "llvm/Support/MathExtras.h"

#include <cstdlib>
#include <cstring>
#include <limits>
#include <sys/mman.h>
#include <unistd.h>

namespace tilewright {

namespace {

constexpr uint8_t poisonByte = 0xff;

/// From this size on, memory is mapped, not allocated from the heap, so that untouched pages cost
/// nothing.
constexpr size_t mapFrom = size_t(64) << 20;

/// Gaps of larger arrays are not poisoned, which would touch every page.
constexpr size_t poisonUpTo = size_t(1) << 30;

llvm::Error checkShape(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides) {
  if (shape.size() != strides.size())
    return makeError("expected one stride for each of the " + llvm::Twine(shape.size()) +
                     " dimensions but got " + llvm::Twine(strides.size()));
  for (auto [dim, extent] : llvm::enumerate(shape)) {
    if (extent < 0)
      return makeError("dimension " + llvm::Twine(dim) + " must not be negative but got " +
                       llvm::Twine(extent));
    if (extent > std::numeric_limits<int32_t>::max())
      return makeError("dimension " + llvm::Twine(dim) + " must fit in 32 bits but got " +
                       llvm::Twine(extent));
  }
  for (auto [dim, stride] : llvm::enumerate(strides))
    if (stride < 0)
      return makeError("stride " + llvm::Twine(dim) + " must not be negative but got " +
                       llvm::Twine(stride));
  return llvm::Error::success();
}

/// The number of elements from the first to the last, both included; 0 for an empty array.
/// Dimensions are processed by increasing stride; each stride must exceed the span of the previous
/// dimensions, or be 0 if the array is only read.
llvm::Expected<int64_t> measureSpan(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides,
                                    HostArray::Use use) {
  if (llvm::is_contained(shape, 0))
    return 0;
  auto order = llvm::to_vector(llvm::seq<size_t>(0, shape.size()));
  llvm::stable_sort(order, [&](size_t a, size_t b) { return strides[a] < strides[b]; });
  int64_t span = 1;
  for (size_t dim : order) {
    if (shape[dim] == 1 || (strides[dim] == 0 && use == HostArray::Use::Read))
      continue;
    if (strides[dim] == 0)
      return makeError("elements of an array that is written must not share memory, but stride " +
                       llvm::Twine(dim) + " is 0 where at least " + llvm::Twine(span) +
                       " is needed; only an array that is read (--in) may repeat elements");
    if (strides[dim] < span)
      return makeError("elements must not share memory, but stride " + llvm::Twine(dim) + " is " +
                       llvm::Twine(strides[dim]) + " where at least " + llvm::Twine(span) +
                       " is needed; give a larger one");
    int64_t reach;
    if (llvm::MulOverflow(shape[dim] - 1, strides[dim], reach) ||
        llvm::AddOverflow(span, reach, span))
      return makeError("the array must be addressable in 64 bits, but got " +
                       llvm::Twine(strides[dim]) + " as stride " + llvm::Twine(dim));
  }
  return span;
}

/// Calls row(offset of the first element in memory, index of it among all elements) for each row
/// along the last dimension.
template <typename Row>
void forEachRow(llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides, Row row) {
  if (llvm::is_contained(shape, 0))
    return;
  if (shape.empty()) {
    row(0, 0);
    return;
  }
  llvm::SmallVector<int64_t> index(shape.size() - 1, 0);
  int64_t offset = 0;
  for (int64_t dense = 0;; dense += shape.back()) {
    row(offset, dense);
    size_t dim = index.size();
    while (dim > 0) {
      --dim;
      offset += strides[dim];
      if (++index[dim] < shape[dim])
        break;
      offset -= strides[dim] * shape[dim];
      index[dim] = 0;
      if (dim == 0)
        return;
    }
    if (index.empty())
      return;
  }
}

/// Calls copy(bytes of the element in memory, position of it in bytes in dense order, bytes).
template <typename Copy>
void forEachRun(uint8_t *memory, llvm::ArrayRef<int64_t> shape, llvm::ArrayRef<int64_t> strides,
                size_t width, Copy copy) {
  int64_t length = shape.empty() ? 1 : shape.back();
  int64_t stride = shape.empty() ? 1 : strides.back();
  forEachRow(shape, strides, [&](int64_t offset, int64_t dense) {
    if (stride == 1 || length == 1) {
      copy(memory + offset * width, dense * width, length * width);
      return;
    }
    for (int64_t i = 0; i < length; ++i)
      copy(memory + (offset + i * stride) * width, (dense + i) * width, width);
  });
}

} // namespace

void HostArray::Unmap::operator()(uint8_t *pointer) const {
  if (mapped)
    munmap(pointer, mapped);
  else
    std::free(pointer);
}

llvm::Expected<HostArray> HostArray::create(ElementType type, llvm::ArrayRef<int64_t> shape,
                                            llvm::ArrayRef<int64_t> strides, Use use) {
  llvm::SmallVector<int64_t> rowMajor;
  if (strides.empty() && !shape.empty()) {
    rowMajor.assign(shape.size(), 1);
    for (size_t dim = shape.size() - 1; dim > 0; --dim)
      if (llvm::MulOverflow(rowMajor[dim], std::max<int64_t>(shape[dim], 1), rowMajor[dim - 1]))
        return makeError("the array must be addressable in 64 bits, but got " +
                         llvm::Twine(shape[dim]) + " as extent " + llvm::Twine(dim) +
                         " of rows of " + llvm::Twine(rowMajor[dim]));
    strides = rowMajor;
  }
  if (llvm::Error error = checkShape(shape, strides))
    return error;
  llvm::Expected<int64_t> span = measureSpan(shape, strides, use);
  if (!span)
    return span.takeError();
  int64_t bytes;
  if (llvm::MulOverflow<int64_t>(*span, byteWidth(type), bytes) ||
      bytes > std::numeric_limits<int64_t>::max() / 2)
    return makeError("the array must be addressable in 64 bits, but got " + llvm::Twine(*span) +
                     " elements in memory");

  // The system promises memory without limit and provides it at the first access, so check
  // beforehand.
  double elementBytes = byteWidth(type);
  for (int64_t extent : shape)
    elementBytes *= extent;
  double memory = double(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  if (elementBytes > memory)
    return makeError("the elements take " + llvm::Twine(uint64_t(elementBytes) >> 20) +
                     " MiB, but this machine has " + llvm::Twine(uint64_t(memory) >> 20) + " MiB");

  HostArray array;
  array.type = type;
  array.shape.assign(shape.begin(), shape.end());
  array.strides.assign(strides.begin(), strides.end());
  array.bytes = bytes;
  constexpr size_t alignment = 64; // a cache line, which suits vector loads
  size_t allocated = llvm::alignTo(std::max<size_t>(array.bytes, 1), alignment);
  void *pointer = nullptr;
  Unmap deleter;
  if (allocated < mapFrom) {
    pointer = std::aligned_alloc(alignment, allocated);
  } else {
    pointer = mmap(nullptr, allocated, PROT_READ | PROT_WRITE,
                   MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    deleter.mapped = allocated;
    if (pointer == MAP_FAILED)
      pointer = nullptr;
  }
  if (!pointer)
    return makeError("cannot allocate " + llvm::Twine(bytes) + " bytes: " + std::strerror(errno));
  array.memory = std::unique_ptr<uint8_t, Unmap>(static_cast<uint8_t *>(pointer), deleter);
  array.poison();
  return array;
}

int64_t HostArray::getNumElements() const {
  int64_t count = 1;
  for (int64_t extent : shape)
    count *= extent;
  return count;
}

void HostArray::poison() {
  if (bytes <= poisonUpTo) {
    std::memset(memory.get(), poisonByte, bytes);
    return;
  }
  forEachRun(memory.get(), shape, strides, byteWidth(type),
             [](uint8_t *element, size_t, size_t n) { std::memset(element, poisonByte, n); });
}

void HostArray::copyFrom(const void *dense) {
  auto *source = static_cast<const uint8_t *>(dense);
  forEachRun(memory.get(), shape, strides, byteWidth(type),
             [&](uint8_t *element, size_t at, size_t n) { std::memcpy(element, source + at, n); });
}

void HostArray::copyTo(void *dense) const {
  auto *out = static_cast<uint8_t *>(dense);
  forEachRun(memory.get(), shape, strides, byteWidth(type),
             [&](uint8_t *element, size_t at, size_t n) { std::memcpy(out + at, element, n); });
}

bool HostArray::gapsArePoisoned() const {
  bool hasRepeats =
      llvm::any_of(llvm::seq<size_t>(0, shape.size()), [&](size_t dim) { return repeats(dim); });
  if (bytes > poisonUpTo || (!hasRepeats && bytes == getNumElements() * byteWidth(type)))
    return true;
  llvm::SmallVector<uint8_t> copy(memory.get(), memory.get() + bytes);
  forEachRun(copy.data(), shape, strides, byteWidth(type),
             [](uint8_t *element, size_t, size_t n) { std::memset(element, poisonByte, n); });
  return llvm::all_of(copy, [](uint8_t byte) { return byte == poisonByte; });
}

} // namespace tilewright
