// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rounding to the element types.

#include "test/Reference/Rounding.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>

namespace tilewright::reference {

namespace {

struct Format {
  const char *name;
  int mantissaBits; // explicit ones
  int minExponent;  // of the smallest normal value
  double largest;
  bool hasInfinity;
};

const Format &formatOf(Type type) {
  static const Format formats[] = {
      {"f64", 52, -1022, std::numeric_limits<double>::max(), true},
      {"f32", 23, -126, 0x1.fffffep127, true},
      {"f16", 10, -14, 65504.0, true},
      {"bf16", 7, -126, 0x1.fep127, true},
      {"e4m3", 3, -6, 448.0, false},
      {"e5m2", 2, -14, 57344.0, true},
  };
  return formats[static_cast<int>(type)];
}

// f16: the low 13 bits of a float's mantissa are dropped; below 2^-14, values are multiples of
// 2^-24, which is the distance of floats in [0.5, 1).
float roundToF16(float x) {
  float magnitude = std::fabs(x);
  if (magnitude < 0x1p-14f) {
    volatile float shifted = magnitude + 0.5f;
    return std::copysign(shifted - 0.5f, x);
  }
  if (!(magnitude < 65520.0f))
    return std::isnan(x) ? x : std::copysign(std::numeric_limits<float>::infinity(), x);
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0xfffu + ((bits >> 13) & 1u)) & ~0x1fffu;
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
}

float roundToBF16(float x) {
  if (std::isnan(x))
    return x;
  uint32_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  bits = (bits + 0x7fffu + ((bits >> 16) & 1u)) & ~0xffffu;
  std::memcpy(&x, &bits, sizeof(bits));
  return x;
}

/// -1022 <= exponent <= 1023.
double powerOfTwo(int exponent) {
  uint64_t bits = static_cast<uint64_t>(exponent + 1023) << 52;
  double result;
  std::memcpy(&result, &bits, sizeof(result));
  return result;
}

} // namespace

const char *typeName(Type type) { return formatOf(type).name; }

double unitRoundoff(Type type) { return std::ldexp(1.0, -1 - formatOf(type).mantissaBits); }

double largestFinite(Type type) { return formatOf(type).largest; }

double roundTo(Type type, double x) {
  if (type == Type::F64 || x == 0.0 || !std::isfinite(x)) {
    bool lost = std::isinf(x) && !formatOf(type).hasInfinity;
    return lost ? std::numeric_limits<double>::quiet_NaN() : x;
  }
  // Computed from the bits, since functions of libm took a tenth of the time of all acceptance
  // tests. A number below 2^-1022 gets an exponent below that of every format.
  const Format &format = formatOf(type);
  uint64_t bits;
  std::memcpy(&bits, &x, sizeof(bits));
  int exponent = std::max(static_cast<int>(bits >> 52 & 0x7ff) - 1023, format.minExponent);
  int quantum = exponent - format.mantissaBits;
  // Adding 1.5 * 2^52 leaves no fraction bits: it rounds to an integer, ties to even.
  double scaled = x * powerOfTwo(-quantum);
  double rounded = std::copysign((scaled + 0x1.8p52 - 0x1.8p52) * powerOfTwo(quantum), x);
  if (std::fabs(rounded) <= format.largest)
    return rounded;
  return format.hasInfinity ? std::copysign(std::numeric_limits<double>::infinity(), x)
                            : std::numeric_limits<double>::quiet_NaN();
}

void roundTo(Type type, std::vector<double> &values) {
  if (type != Type::F64)
    for (double &value : values)
      value = roundTo(type, value);
}

void roundFloats(Type type, float *values, size_t n) {
  switch (type) {
  case Type::F64:
  case Type::F32:
    return;
  case Type::F16:
    for (size_t i = 0; i < n; ++i)
      values[i] = roundToF16(values[i]);
    return;
  case Type::BF16:
    for (size_t i = 0; i < n; ++i)
      values[i] = roundToBF16(values[i]);
    return;
  case Type::E4M3:
  case Type::E5M2:
    for (size_t i = 0; i < n; ++i)
      values[i] = static_cast<float>(roundTo(type, values[i]));
    return;
  }
}

double perturbation(Type type, double x) {
  double constant = type == Type::F64 ? 0.3 : static_cast<double>(0.3f);
  x = roundTo(type, x);
  double there = roundTo(type, x + constant);
  double back = roundTo(type, there - constant);
  return std::fabs(roundTo(type, back - x));
}

} // namespace tilewright::reference
