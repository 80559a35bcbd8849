// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Conversions of runs of elements: the choice of the loop.

#include "base/Numeric/ElementType.h"
#include "base/Numeric/KernelTable.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

/// The number of elements in the buffer for strided memory.
constexpr size_t chunkSize = 512;

template <typename Word> void gatherWords(const char *memory, int64_t stride, Word *out, size_t n) {
  for (size_t i = 0; i < n; ++i, memory += stride * int64_t(sizeof(Word)))
    std::memcpy(out + i, memory, sizeof(Word));
}

template <typename Word> void scatterWords(const Word *in, char *memory, int64_t stride, size_t n) {
  for (size_t i = 0; i < n; ++i, memory += stride * int64_t(sizeof(Word)))
    std::memcpy(memory, in + i, sizeof(Word));
}

/// Calls `action` with a zero of the unsigned type of this width.
template <typename Action> void withWord(size_t width, Action action) {
  switch (width) {
  case 1:
    return action(uint8_t(0));
  case 2:
    return action(uint16_t(0));
  case 4:
    return action(uint32_t(0));
  default:
    return action(uint64_t(0));
  }
}

void loadDense(ElementType type, const void *memory, Storage storage, void *out, size_t n) {
  if (type == elementTypeOf(storage) && type != ElementType::I1)
    std::memcpy(out, memory, n * storageBytes(storage));
  else if (type == ElementType::I1)
    std::transform(static_cast<const uint8_t *>(memory), static_cast<const uint8_t *>(memory) + n,
                   static_cast<uint8_t *>(out), [](uint8_t byte) { return uint8_t(byte != 0); });
  else if (type == ElementType::I8)
    std::copy_n(static_cast<const int8_t *>(memory), n, static_cast<int32_t *>(out));
  else
    kernels().load[unsigned(type)][unsigned(storage)](memory, out, n);
}

void storeDense(Storage storage, const void *in, ElementType type, void *memory, size_t n) {
  if (type == elementTypeOf(storage))
    std::memcpy(memory, in, n * storageBytes(storage));
  else if (type == ElementType::I8)
    std::transform(static_cast<const int32_t *>(in), static_cast<const int32_t *>(in) + n,
                   static_cast<int8_t *>(memory), [](int32_t value) { return int8_t(value); });
  else
    kernels().store[unsigned(storage)][unsigned(type)](in, memory, n);
}

} // namespace

void tilewright::numeric::roundInPlace(float *values, size_t n, ElementType type) {
  if (!isFloat(type))
    return;
  if (auto *round = kernels().round[unsigned(type)])
    round(values, n);
}

void tilewright::numeric::convertFromMemory(ElementType type, const void *memory, int64_t stride,
                                            Storage storage, void *out, size_t n) {
  assert(isConvertible(type, storage) && "no such transfer");
  if (n == 0)
    return;
  if (stride == 1)
    return loadDense(type, memory, storage, out, n);
  auto *from = static_cast<const char *>(memory);
  auto *to = static_cast<char *>(out);
  withWord(byteWidth(type), [&](auto zero) {
    using Word = decltype(zero);
    Word words[chunkSize];
    for (size_t done = 0; done < n; done += chunkSize) {
      size_t count = std::min(chunkSize, n - done);
      gatherWords(from + int64_t(done) * stride * int64_t(sizeof(Word)), stride, words, count);
      loadDense(type, words, storage, to + done * storageBytes(storage), count);
    }
  });
}

void tilewright::numeric::convertToMemory(Storage storage, const void *in, ElementType type,
                                          void *memory, int64_t stride, size_t n) {
  assert(isConvertible(type, storage) && "no such transfer");
  if (n == 0)
    return;
  if (stride == 1)
    return storeDense(storage, in, type, memory, n);
  auto *from = static_cast<const char *>(in);
  auto *to = static_cast<char *>(memory);
  withWord(byteWidth(type), [&](auto zero) {
    using Word = decltype(zero);
    Word words[chunkSize];
    for (size_t done = 0; done < n; done += chunkSize) {
      size_t count = std::min(chunkSize, n - done);
      storeDense(storage, from + done * storageBytes(storage), type, words, count);
      scatterWords(words, to + int64_t(done) * stride * int64_t(sizeof(Word)), stride, count);
    }
  });
}
