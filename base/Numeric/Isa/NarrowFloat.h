// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The float types narrower than float, as one template without branches. ElementType.cpp uses it
// for single values, ConvertLoops.cpp for runs.
//
// A format is E exponent bits and M mantissa bits with the IEEE bias 2^(E-1) - 1. Without
// infinities ("fn"), the largest exponent is that of ordinary numbers too, and only the pattern of
// all ones is a NaN.

#ifndef TILEWRIGHT_BASE_NUMERIC_ISA_NARROWFLOAT_H
#define TILEWRIGHT_BASE_NUMERIC_ISA_NARROWFLOAT_H

#include "base/Numeric/Isa/Loops.h"

namespace tilewright::numeric::TILEWRIGHT_ISA {

template <typename BitsT, unsigned E, unsigned M, bool hasInfinity> struct NarrowFormat {
  using Bits = BitsT;

  static constexpr unsigned dropped = 23 - M; ///< additional mantissa bits of float
  static constexpr uint32_t bias = (1u << (E - 1)) - 1;
  static constexpr uint32_t rebias = 127 - bias;
  static constexpr uint32_t signBit = 1u << (E + M);
  static constexpr uint32_t infinityBits = ((1u << E) - 1) << M; ///< if hasInfinity
  static constexpr uint32_t nanBits = hasInfinity ? infinityBits | (1u << (M - 1)) : signBit - 1;
  /// The first pattern that is no finite number.
  static constexpr uint32_t overflowBits = hasInfinity ? infinityBits : nanBits;
  static constexpr uint32_t smallestNormal = (rebias + 1) << 23; ///< as bits of a float
  /// Adding it to a float below smallestNormal leaves the multiple of the smallest subnormal in the
  /// low bits, rounded by the addition.
  static constexpr uint32_t subnormalMagic = (rebias + 1 + dropped) << 23;

  static TILEWRIGHT_INLINE Bits encode(float value) {
    uint32_t bits = bitsAs<uint32_t>(value);
    uint32_t magnitude = bits & 0x7fffffffu;
    uint32_t sign = (bits >> 31) << (E + M);
    // To nearest even: half a unit less one, plus one if the last bit kept is odd. A carry runs
    // into the exponent, as it should.
    uint32_t rounded = magnitude + ((1u << (dropped - 1)) - 1) + ((magnitude >> dropped) & 1);
    uint32_t normal = (rounded >> dropped) - (rebias << M);
    uint32_t result = normal;
    if constexpr (rebias != 0) {
      uint32_t subnormal =
          bitsAs<uint32_t>(bitsAs<float>(magnitude) + bitsAs<float>(subnormalMagic)) -
          subnormalMagic;
      result = magnitude < smallestNormal ? subnormal : normal;
    }
    result = result > overflowBits ? overflowBits : result;
    // The payload's upper bits survive, as they do in the processor's own conversion.
    uint32_t quiet = hasInfinity ? nanBits | ((magnitude >> dropped) & ((1u << M) - 1)) : nanBits;
    result = magnitude > 0x7f800000u ? quiet : result;
    return Bits(result | sign);
  }

  static TILEWRIGHT_INLINE float decode(Bits encoded) {
    uint32_t magnitude = encoded & (signBit - 1);
    uint32_t sign = uint32_t(encoded & signBit) << (31 - E - M);
    // Shifted into place the number is 2^-rebias times too small, exactly so also where it is
    // subnormal.
    float scaled = bitsAs<float>(magnitude << dropped);
    if constexpr (rebias != 0)
      scaled *= bitsAs<float>((127 + rebias) << 23);
    uint32_t result = bitsAs<uint32_t>(scaled);
    uint32_t special = 0x7f800000u | (magnitude << dropped);
    if constexpr (!hasInfinity)
      special = 0x7fc00000u;
    result = magnitude >= overflowBits ? special : result;
    return bitsAs<float>(result | sign);
  }

  static TILEWRIGHT_INLINE float round(float value) { return decode(encode(value)); }
};

using F16Format = NarrowFormat<uint16_t, 5, 10, true>;
using BF16Format = NarrowFormat<uint16_t, 8, 7, true>;
using E4M3Format = NarrowFormat<uint8_t, 4, 3, false>;
using E5M2Format = NarrowFormat<uint8_t, 5, 2, true>;

/// To float with the last bit set if that was inexact ("round to odd"): rounding the result once
/// more, to a type at least two bits shorter, gives what rounding the double at once would give.
TILEWRIGHT_INLINE float roundToOdd(double value) {
  float nearest = float(value);
  if (!(double(nearest) != value) || value != value)
    return nearest;
  // One step toward zero if the rounding went away from it; infinity becomes the largest finite
  // number, which is odd.
  uint32_t bits = bitsAs<uint32_t>(nearest);
  bits -= __builtin_fabs(double(nearest)) > __builtin_fabs(value);
  return bitsAs<float>(bits | 1);
}

} // namespace tilewright::numeric::TILEWRIGHT_ISA

#endif // TILEWRIGHT_BASE_NUMERIC_ISA_NARROWFLOAT_H
