// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions. SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Names of element types, conversions of single values, and the choice of the loop for runs.

#include "lib/Numeric/ElementType.h"
#include "lib/Numeric/KernelTable.h"

#define TILEWRIGHT_ISA baseline
#include "lib/Numeric/Isa/NarrowFloat.h"

#include <algorithm>
#include <cassert>
#include <cstring>

using namespace tilewright;
using namespace tilewright::numeric;
using baseline::BF16Format;
using baseline::E4M3Format;
using baseline::E5M2Format;
using baseline::F16Format;
using baseline::roundToOdd;

namespace {

constexpr std::string_view names[numElementTypes] = {"f64",  "f32", "f16", "bf16", "e4m3",
                                                     "e5m2", "i64", "i32", "i1"};

/// Elements that fit the buffer through which strided memory passes.
constexpr size_t chunkSize = 512;

template <typename Word>
void gatherWords(const char *memory, int64_t stride, Word *out, size_t n) {
  for (size_t i = 0; i < n; ++i, memory += stride * int64_t(sizeof(Word)))
    std::memcpy(out + i, memory, sizeof(Word));
}

template <typename Word>
void scatterWords(const Word *in, char *memory, int64_t stride, size_t n) {
  for (size_t i = 0; i < n; ++i, memory += stride * int64_t(sizeof(Word)))
    std::memcpy(memory, in + i, sizeof(Word));
}

/// Calls `action` with a zero of the unsigned type of this width.
template <typename Action>
void withWord(size_t width, Action action) {
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
  else
    kernels().load[unsigned(type)][unsigned(storage)](memory, out, n);
}

void storeDense(Storage storage, const void *in, ElementType type, void *memory, size_t n) {
  if (type == elementTypeOf(storage))
    std::memcpy(memory, in, n * storageBytes(storage));
  else
    kernels().store[unsigned(storage)][unsigned(type)](in, memory, n);
}

} // namespace

std::string_view tilewright::elementTypeName(ElementType type) {
  return names[unsigned(type)];
}

std::optional<ElementType> tilewright::parseElementType(std::string_view name) {
  for (unsigned i = 0; i < numElementTypes; ++i)
    if (names[i] == name)
      return ElementType(i);
  return std::nullopt;
}

float tilewright::numeric::f16ToFloat(uint16_t bits) {
  return F16Format::decode(bits);
}
float tilewright::numeric::bf16ToFloat(uint16_t bits) {
  return BF16Format::decode(bits);
}
float tilewright::numeric::e4m3ToFloat(uint8_t bits) {
  return E4M3Format::decode(bits);
}
float tilewright::numeric::e5m2ToFloat(uint8_t bits) {
  return E5M2Format::decode(bits);
}
uint16_t tilewright::numeric::floatToF16(float value) {
  return F16Format::encode(value);
}
uint16_t tilewright::numeric::floatToBF16(float value) {
  return BF16Format::encode(value);
}
uint8_t tilewright::numeric::floatToE4M3(float value) {
  return E4M3Format::encode(value);
}
uint8_t tilewright::numeric::floatToE5M2(float value) {
  return E5M2Format::encode(value);
}
uint16_t tilewright::numeric::doubleToF16(double value) {
  return F16Format::encode(roundToOdd(value));
}
uint16_t tilewright::numeric::doubleToBF16(double value) {
  return BF16Format::encode(roundToOdd(value));
}
uint8_t tilewright::numeric::doubleToE4M3(double value) {
  return E4M3Format::encode(roundToOdd(value));
}
uint8_t tilewright::numeric::doubleToE5M2(double value) {
  return E5M2Format::encode(roundToOdd(value));
}

double tilewright::numeric::roundToType(double value, ElementType type) {
  switch (type) {
  case ElementType::F32:
    return float(value);
  case ElementType::F16:
    return F16Format::round(roundToOdd(value));
  case ElementType::BF16:
    return BF16Format::round(roundToOdd(value));
  case ElementType::E4M3:
    return E4M3Format::round(roundToOdd(value));
  case ElementType::E5M2:
    return E5M2Format::round(roundToOdd(value));
  default:
    return value;
  }
}

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
