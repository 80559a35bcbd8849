// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// What a caller passes for one argument of a kernel or program.

#ifndef TILEWRIGHT_RUNTIME_ARGUMENT_H
#define TILEWRIGHT_RUNTIME_ARGUMENT_H

#include "base/Numeric/ElementType.h"

#include <cstring>
#include <initializer_list>
#include <new>

namespace tilewright::runtime {

inline constexpr unsigned maxRank = 8;
inline constexpr unsigned maxArguments = 64;

/// A view (a device pointer with extents and strides in elements), a scalar, or nothing.
struct Argument {
  enum class Kind : uint8_t { Absent, View, Scalar };

  Kind kind = Kind::Absent;
  ElementType type = ElementType::F32;
  uint8_t rank = 0;
  /// The device address of a view; the bits of a scalar, in the low bytes.
  uint64_t bits = 0;
  int64_t extents[maxRank] = {};
  int64_t strides[maxRank] = {};

  static Argument absent() { return Argument(); }

  /// Ranks above maxRank are stored and rejected at launch.
  static Argument view(uint64_t address, ElementType type, unsigned rank, const int64_t *extents,
                       const int64_t *strides) {
    Argument argument;
    argument.kind = Kind::View;
    argument.type = type;
    argument.rank = rank < 255 ? rank : 255;
    argument.bits = address;
    for (unsigned i = 0; i < rank && i < maxRank; ++i) {
      argument.extents[i] = extents[i];
      argument.strides[i] = strides[i];
    }
    return argument;
  }
  /// Row-major.
  static Argument dense(uint64_t address, ElementType type,
                        std::initializer_list<int64_t> extents) {
    int64_t strides[maxRank] = {1};
    unsigned rank = unsigned(extents.size());
    int64_t stride = 1;
    for (unsigned i = rank; i-- > 0 && i < maxRank;) {
      strides[i] = stride;
      stride *= extents.begin()[i];
    }
    return view(address, type, rank, extents.begin(), strides);
  }

  static Argument scalar(ElementType type, const void *value) {
    Argument argument;
    argument.kind = Kind::Scalar;
    argument.type = type;
    std::memcpy(&argument.bits, value, byteWidth(type));
    return argument;
  }
  static Argument scalar(float value) { return scalar(ElementType::F32, &value); }
  static Argument scalar(double value) { return scalar(ElementType::F64, &value); }
  static Argument scalar(int32_t value) { return scalar(ElementType::I32, &value); }
  static Argument scalar(int64_t value) { return scalar(ElementType::I64, &value); }
  static Argument scalar(bool value) { return scalar(ElementType::I1, &value); }

  /// The value of an integer scalar.
  int64_t integer() const {
    return type == ElementType::I64 ? int64_t(bits) : int64_t(int32_t(uint32_t(bits)));
  }
  /// The value of a scalar of f32 or f64.
  double real() const {
    double wide;
    float narrow;
    std::memcpy(&wide, &bits, sizeof(wide));
    std::memcpy(&narrow, &bits, sizeof(narrow));
    return type == ElementType::F64 ? wide : double(narrow);
  }
};

/// Storage for arguments, initialized as far as a call uses it, since all of it is ten kilobytes.
class ArgumentArray {
public:
  /// Makes the first `count` arguments absent.
  Argument *reset(size_t count) {
    for (size_t i = 0; i < count; ++i)
      new (bytes + i * sizeof(Argument)) Argument();
    return get();
  }
  Argument *get() { return std::launder(reinterpret_cast<Argument *>(bytes)); }

private:
  alignas(Argument) unsigned char bytes[maxArguments * sizeof(Argument)];
};

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_ARGUMENT_H
