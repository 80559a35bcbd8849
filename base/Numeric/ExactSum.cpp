// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums in fixed point, by atomic additions of integers.

#include "base/Numeric/ExactSum.h"

#include <cmath>
#include <cstring>

namespace tilewright::numeric {

void addExactly(float term, int64_t *words, int64_t stride) {
  if (!std::isfinite(term)) {
    int64_t bit = std::isnan(term) ? 1 : term > 0 ? 2 : 4;
    __atomic_fetch_or(words + exactSumDigits * stride, bit, __ATOMIC_RELAXED);
    return;
  }
  if (term == 0)
    return;
  constexpr int digitBits = 24;
  uint32_t bits;
  std::memcpy(&bits, &term, sizeof bits);
  int exponent = static_cast<int>(bits >> 23 & 0xff);
  int64_t fraction = bits & 0x7fffff;
  if (exponent != 0)
    fraction |= 0x800000;
  // The weight of the lowest bit is 2^(place - 149).
  int place = exponent > 0 ? exponent - 1 : 0;
  int64_t wide = fraction << place % digitBits;
  int64_t low = wide & ((int64_t(1) << digitBits) - 1), high = wide >> digitBits;
  bool isNegative = bits >> 31;
  int64_t *word = words + place / digitBits * stride;
  __atomic_fetch_add(word, isNegative ? -low : low, __ATOMIC_RELAXED);
  __atomic_fetch_add(word + stride, isNegative ? -high : high, __ATOMIC_RELAXED);
}

void addExactly(double term, int64_t *words, int64_t stride) {
  for (int part = 0; part < 3; ++part) {
    auto leading = static_cast<float>(term);
    addExactly(leading, words, stride);
    if (!std::isfinite(leading))
      return;
    term -= static_cast<double>(leading);
  }
}

} // namespace tilewright::numeric
