// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The oracle's rounding: known values, ties, and agreement with the independent one of
// base/Numeric.

#include "test/Reference/Rounding.h"
#include "test/Reference/Random.h"

#include "base/Numeric/ElementType.h"

#include "gtest/gtest.h"

#include <cmath>
#include <cstring>
#include <limits>

using namespace tilewright;
using namespace tilewright::reference;

namespace {

constexpr double infinity = std::numeric_limits<double>::infinity();

const std::pair<Type, ElementType> sameTypes[] = {
    {Type::F64, ElementType::F64},   {Type::F32, ElementType::F32},
    {Type::F16, ElementType::F16},   {Type::BF16, ElementType::BF16},
    {Type::E4M3, ElementType::E4M3}, {Type::E5M2, ElementType::E5M2}};

bool isSame(double a, double b) {
  return (std::isnan(a) && std::isnan(b)) || (a == b && std::signbit(a) == std::signbit(b));
}

TEST(Rounding, KnownValues) {
  EXPECT_EQ(roundTo(Type::F16, 1.0 + 0x1p-11), 1.0); // a tie goes to the even neighbor
  EXPECT_EQ(roundTo(Type::F16, 1.0 + 3 * 0x1p-11), 1 + 0x1p-9);
  EXPECT_EQ(roundTo(Type::F16, 1.0 + 0x1.0001p-11), 1 + 0x1p-10);
  EXPECT_EQ(roundTo(Type::F16, 65519.99), 65504.0);
  EXPECT_EQ(roundTo(Type::F16, -65520.0), -infinity);
  EXPECT_EQ(roundTo(Type::F16, 0x1p-25), 0.0); // half of the smallest subnormal
  EXPECT_EQ(roundTo(Type::F16, 0x1.8p-24), 0x1p-23);
  EXPECT_EQ(roundTo(Type::BF16, 0.3), 0.30078125);
  EXPECT_EQ(roundTo(Type::E4M3, 448.0), 448.0);
  EXPECT_EQ(roundTo(Type::E4M3, 464.0), 448.0); // between 448 and where 480 would be
  EXPECT_TRUE(std::isnan(roundTo(Type::E4M3, 465.0)));
  EXPECT_EQ(roundTo(Type::E4M3, 0x1p-9), 0x1p-9);
  EXPECT_EQ(roundTo(Type::E5M2, 57344.0), 57344.0);
  EXPECT_EQ(roundTo(Type::E5M2, 61440.0), infinity);
  EXPECT_EQ(roundTo(Type::F32, 1.0 + 0x1p-24), 1.0);
  EXPECT_EQ(roundTo(Type::F64, 1.0 + 0x1p-52), 1.0 + 0x1p-52);
  EXPECT_TRUE(std::isnan(roundTo(Type::F16, std::nan(""))));
  EXPECT_TRUE(std::signbit(roundTo(Type::BF16, -0.0)));
}

// Twice the significant bits of e4m3, e5m2 and f16 in every binade: values, ties and both sides of
// them.
TEST(Rounding, AgreesWithNumericAtTies) {
  for (auto [type, numericType] : sameTypes)
    for (int exponent = -30; exponent <= 18; ++exponent)
      for (int m = 0; m < 8192; ++m)
        for (double nudge : {0.0, 0x1p-40, -0x1p-40})
          for (double sign : {1.0, -1.0}) {
            double x = sign * std::ldexp(1.0 + m * 0x1p-13 + nudge, exponent);
            ASSERT_TRUE(isSame(roundTo(type, x), numeric::roundToType(x, numericType)))
                << typeName(type) << " of " << x;
          }
}

TEST(Rounding, AgreesWithNumericOnRandomBits) {
  Generator generator(7);
  for (int n = 0; n < 200000; ++n) {
    uint64_t bits = generator.bits();
    double x;
    std::memcpy(&x, &bits, sizeof(x));
    for (auto [type, numericType] : sameTypes)
      ASSERT_TRUE(isSame(roundTo(type, x), numeric::roundToType(x, numericType)))
          << typeName(type) << " of " << x;
  }
}

TEST(Rounding, FloatsRoundAsDoublesDo) {
  Generator generator(8);
  for (int n = 0; n < 400000; ++n) {
    uint32_t bits = static_cast<uint32_t>(generator.bits());
    if (n % 2) // near the range of f16
      bits = (bits & 0x807fffffu) | (static_cast<uint32_t>(100 + n % 45) << 23);
    float x;
    std::memcpy(&x, &bits, sizeof(x));
    for (Type type : {Type::F32, Type::F16, Type::BF16, Type::E4M3, Type::E5M2}) {
      float rounded = x;
      roundFloats(type, &rounded, 1);
      ASSERT_TRUE(isSame(rounded, roundTo(type, x))) << typeName(type) << " of " << x;
    }
  }
}

TEST(Rounding, PerturbationIsThatOfTheType) {
  // f16(0.3f) = 0.300048828125; minus 0.3f leaves 4.88e-5, a value of f16 up to its own rounding.
  EXPECT_NEAR(perturbation(Type::F16, 0.0), 4.88e-5, 1e-7);
  EXPECT_NEAR(perturbation(Type::BF16, 0.0), 7.8e-4, 1e-5);
  EXPECT_EQ(perturbation(Type::F32, 0.0), 0.0);
  EXPECT_EQ(perturbation(Type::F64, 0.0), 0.0);
  EXPECT_LE(perturbation(Type::F32, 0.7), 0x1p-24 + 0x1p-24);
}

} // namespace
