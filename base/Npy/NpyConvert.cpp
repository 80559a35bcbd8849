// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Converts between the types of files and the element types of kernels.

#include "base/Npy/Npy.h"
#include "base/Npy/NpyHeader.h"

#include <algorithm>
#include <cmath>
#include <cstring>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

/// Elements converted at a time.
constexpr size_t chunkSize = 1024;

template <typename T> T elementAt(const uint8_t *bytes, size_t i) {
  T value;
  std::memcpy(&value, bytes + i * sizeof(T), sizeof(T));
  return value;
}

/// An integer of any file type.
struct Integer {
  bool isNegative;
  uint64_t magnitude;
};

template <typename T> Integer toInteger(T value) {
  bool isNegative = value < T(0);
  return {isNegative, isNegative ? -uint64_t(value) : uint64_t(value)};
}

Integer integerAt(NpyType type, const uint8_t *bytes, size_t i) {
  switch (type) {
  case NpyType::I8:
    return toInteger(elementAt<int8_t>(bytes, i));
  case NpyType::I16:
    return toInteger(elementAt<int16_t>(bytes, i));
  case NpyType::I32:
    return toInteger(elementAt<int32_t>(bytes, i));
  case NpyType::I64:
    return toInteger(elementAt<int64_t>(bytes, i));
  case NpyType::U16:
    return toInteger(elementAt<uint16_t>(bytes, i));
  case NpyType::U32:
    return toInteger(elementAt<uint32_t>(bytes, i));
  case NpyType::U64:
    return toInteger(elementAt<uint64_t>(bytes, i));
  default: // U8, Bool
    return toInteger(elementAt<uint8_t>(bytes, i));
  }
}

/// To double with the last bit set if that was inexact, so that rounding once more to a narrower
/// type gives what rounding the integer would.
double toDoubleOdd(Integer value) {
  uint64_t m = value.magnitude;
  int excess = m == 0 ? 0 : std::max(0, 11 - __builtin_clzll(m));
  bool isInexact = (m & ((uint64_t(1) << excess) - 1)) != 0;
  double result = std::ldexp(double(m >> excess | uint64_t(isInexact)), excess);
  return value.isNegative ? -result : result;
}

double toDouble(Integer value) {
  double result = double(value.magnitude);
  return value.isNegative ? -result : result;
}

/// The float type of kernels that corresponds to a file's float type.
std::optional<ElementType> floatTypeOf(NpyType type) {
  switch (type) {
  case NpyType::F16:
    return ElementType::F16;
  case NpyType::F32:
    return ElementType::F32;
  case NpyType::F64:
    return ElementType::F64;
  default:
    return std::nullopt;
  }
}

/// The file type for a kernel's element type.
NpyType npyTypeOf(ElementType type) {
  switch (type) {
  case ElementType::F64:
    return NpyType::F64;
  case ElementType::F16:
    return NpyType::F16;
  case ElementType::I64:
    return NpyType::I64;
  case ElementType::I32:
    return NpyType::I32;
  case ElementType::I8:
    return NpyType::I8;
  case ElementType::I1:
    return NpyType::Bool;
  default:
    return NpyType::F32;
  }
}

void convertFloats(ElementType from, const uint8_t *in, ElementType to, uint8_t *out, size_t n) {
  if (from == to) {
    std::copy_n(in, n * byteWidth(from), out);
    return;
  }
  Storage storage = storageOf(from);
  double buffer[chunkSize];
  for (size_t done = 0; done < n; done += chunkSize) {
    size_t count = std::min(chunkSize, n - done);
    convertFromMemory(from, in + done * byteWidth(from), 1, storage, buffer, count);
    convertToMemory(storage, buffer, to, out + done * byteWidth(to), 1, count);
  }
}

void convertIntegersToFloats(NpyType from, const uint8_t *in, ElementType to, uint8_t *out,
                             size_t n) {
  double buffer[chunkSize];
  for (size_t done = 0; done < n; done += chunkSize) {
    size_t count = std::min(chunkSize, n - done);
    for (size_t i = 0; i < count; ++i) {
      Integer value = integerAt(from, in, done + i);
      buffer[i] = to == ElementType::F64 ? toDouble(value) : toDoubleOdd(value);
    }
    convertToMemory(Storage::F64, buffer, to, out + done * byteWidth(to), 1, count);
  }
}

Status convertIntegers(NpyType from, const uint8_t *in, ElementType to, uint8_t *out, size_t n) {
  uint64_t largest = to == ElementType::I1    ? 1
                     : to == ElementType::I8  ? uint64_t(INT8_MAX)
                     : to == ElementType::I32 ? uint64_t(INT32_MAX)
                                              : uint64_t(INT64_MAX);
  size_t width = byteWidth(to);
  for (size_t i = 0; i < n; ++i) {
    Integer value = integerAt(from, in, i);
    uint64_t limit = !value.isNegative ? largest : to == ElementType::I1 ? 0 : largest + 1;
    if (value.magnitude > limit)
      return Status::failure("element " + std::to_string(i) + " must be in the range of " +
                             std::string(elementTypeName(to)) + ", but got " +
                             std::string(value.isNegative, '-') + std::to_string(value.magnitude));
    uint64_t bits = value.isNegative ? -value.magnitude : value.magnitude;
    std::memcpy(out + i * width, &bits, width); // the low bytes, on little-endian machines
  }
  return Status::success();
}

} // namespace

Status tilewright::convertFromNpy(const NpyArray &array, ElementType type, void *out) {
  size_t n = size_t(array.numElements());
  if (array.bytes.size() != n * byteWidth(array.type))
    return Status::failure("the array must have the " + std::to_string(n * byteWidth(array.type)) +
                           " bytes of its shape, but got " + std::to_string(array.bytes.size()));
  auto *to = static_cast<uint8_t *>(out);
  const uint8_t *from = array.bytes.data();
  if (std::optional<ElementType> floatType = floatTypeOf(array.type)) {
    if (!isFloat(type))
      return Status::failure("floats cannot be converted to " + std::string(elementTypeName(type)) +
                             ", but got " + std::string(npyTypeName(array.type)) +
                             "; save the array with an integer dtype");
    convertFloats(*floatType, from, type, to, n);
    return Status::success();
  }
  if (!isFloat(type))
    return convertIntegers(array.type, from, type, to, n);
  convertIntegersToFloats(array.type, from, type, to, n);
  return Status::success();
}

Result<NpyArray> tilewright::convertToNpy(ElementType type, const void *elements,
                                          std::vector<int64_t> shape) {
  NpyArray array;
  array.type = npyTypeOf(type);
  std::optional<int64_t> count = checkedNumElements(shape, int64_t(byteWidth(array.type)));
  if (!count)
    return Status::failure("the sizes of a shape must be positive or 0, with a product in 64 bits, "
                           "but got " +
                           printNpyShape(shape));
  size_t n = size_t(*count);
  array.shape = std::move(shape);
  array.bytes.resize(n * byteWidth(array.type));
  auto *from = static_cast<const uint8_t *>(elements);
  if (isFloat(type))
    convertFloats(type, from, *floatTypeOf(array.type), array.bytes.data(), n);
  else if (type == ElementType::I1)
    std::transform(from, from + n, array.bytes.begin(),
                   [](uint8_t byte) { return uint8_t(byte != 0); });
  else
    std::copy_n(from, n * byteWidth(type), array.bytes.begin());
  return array;
}
