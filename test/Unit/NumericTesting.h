// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Shared code of the tests of base/Numeric.

#ifndef TILEWRIGHT_TEST_UNIT_NUMERICTESTING_H
#define TILEWRIGHT_TEST_UNIT_NUMERICTESTING_H

#include "base/Numeric/Isa.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <vector>

namespace tilewright::numeric {

inline constexpr float infinity = std::numeric_limits<float>::infinity();
inline constexpr float notANumber = std::numeric_limits<float>::quiet_NaN();

/// Every test runs once for each instruction set of the processor.
class IsaTest : public testing::TestWithParam<Isa> {
protected:
  void SetUp() override {
    before = activeIsa();
    if (!selectIsa(GetParam()))
      GTEST_SKIP() << "the processor has no " << isaName(GetParam());
  }
  void TearDown() override { selectIsa(before); }

private:
  Isa before = Isa::Baseline;
};

#define TILEWRIGHT_FOR_EVERY_ISA(Suite)                                                            \
  INSTANTIATE_TEST_SUITE_P(Isas, Suite, testing::Values(Isa::Baseline, Isa::Avx2, Isa::Avx512),    \
                           [](const auto &info) { return std::string(isaName(info.param)); })

/// A small random number generator that is the same on every platform.
class Random {
public:
  explicit Random(uint64_t seed) : state(seed * 2 + 1) {}
  uint64_t bits() {
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    return state;
  }
  int64_t integer(int64_t low, int64_t high) {
    return low + int64_t(bits() % uint64_t(high - low + 1));
  }
  /// In [-1, 1).
  double uniform() { return double(int64_t(bits())) * 0x1p-63; }

private:
  uint64_t state;
};

template <typename To, typename From> To bitCast(From from) {
  static_assert(sizeof(To) == sizeof(From), "a bit cast keeps the width");
  To to;
  std::memcpy(&to, &from, sizeof(to));
  return to;
}

/// Equal in value and sign, or both NaN.
template <typename T> bool isSame(T a, T b) {
  return std::isnan(a) ? std::isnan(b) : a == b && std::signbit(a) == std::signbit(b);
}

} // namespace tilewright::numeric

#endif // TILEWRIGHT_TEST_UNIT_NUMERICTESTING_H
