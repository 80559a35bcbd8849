// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The conversions of narrow floats against a slow implementation that only uses the list of a
// format's values.

#include "NumericTesting.h"
#include "base/Numeric/ElementType.h"

#include <algorithm>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

/// A format by its definition: E exponent bits, M mantissa bits.
struct Format {
  ElementType type;
  int E, M;
  bool hasInfinity;

  int bias() const { return (1 << (E - 1)) - 1; }
  uint32_t count() const { return 1u << (E + M); } ///< number of bit patterns without the sign

  /// The value of a pattern without the sign.
  double value(uint32_t pattern) const {
    uint32_t exponent = pattern >> M, mantissa = pattern & ((1u << M) - 1);
    if (hasInfinity && exponent == (1u << E) - 1)
      return mantissa ? double(notANumber) : double(infinity);
    if (!hasInfinity && pattern == count() - 1)
      return notANumber;
    return exponent == 0 ? std::ldexp(mantissa, 1 - bias() - M)
                         : std::ldexp(mantissa + (1u << M), int(exponent) - bias() - M);
  }

  uint32_t largestFinite() const { return hasInfinity ? (((1u << E) - 1) << M) - 1 : count() - 2; }
};

const Format formats[] = {{ElementType::F16, 5, 10, true},
                          {ElementType::BF16, 8, 7, true},
                          {ElementType::E4M3, 4, 3, false},
                          {ElementType::E5M2, 5, 2, true}};

class Oracle {
public:
  explicit Oracle(const Format &format) : format(format) {
    for (uint32_t p = 0; p <= format.largestFinite(); ++p)
      values.push_back(format.value(p));
    // The next value if the exponent were unlimited: values round to it if they overflow.
    values.push_back(2 * values.back() - values[values.size() - 2]);
  }

  /// The nearest value, ties to the even pattern, overflow to infinity or NaN.
  double round(double x) const {
    if (std::isnan(x))
      return x;
    double magnitude = std::fabs(x);
    double overflow = format.hasInfinity ? double(infinity) : double(notANumber);
    if (magnitude >= values.back())
      return std::copysign(overflow, x);
    size_t above = std::upper_bound(values.begin(), values.end(), magnitude) - values.begin();
    size_t below = above - 1;
    double middle = (values[below] + values[above]) / 2; // exact
    size_t nearest = magnitude < middle   ? below
                     : magnitude > middle ? above
                     : below % 2 == 0     ? below
                                          : above;
    double result = nearest == values.size() - 1 ? overflow : values[nearest];
    return std::copysign(result, x);
  }

  /// Each value, each midpoint between two values, and the neighbors of both as doubles and as
  /// floats.
  std::vector<double> probes() const {
    std::vector<double> result;
    for (size_t i = 0; i + 1 < values.size(); ++i)
      for (double x : {values[i], (values[i] + values[i + 1]) / 2, values[i + 1]}) {
        float f = float(x);
        for (double y : {x, std::nextafter(x, 0.0), std::nextafter(x, double(infinity)),
                         double(std::nextafter(f, 0.0f)), double(std::nextafter(f, infinity))}) {
          result.push_back(y);
          result.push_back(-y);
        }
      }
    Random random(format.M);
    for (int i = 0; i < 50000; ++i)
      result.push_back(bitCast<double>(random.bits() % (uint64_t(1) << 62) +
                                       (uint64_t(1023 - format.bias() * 2) << 52)));
    for (double x : {0.0, double(infinity), double(notANumber), 1e300, 1e-300, 4.9e-324, 3.5e38,
                     double(0x1p-149f)}) {
      result.push_back(x);
      result.push_back(-x);
    }
    return result;
  }

private:
  Format format;
  std::vector<double> values;
};

uint32_t encodeFloat(ElementType type, float x) {
  switch (type) {
  case ElementType::F16:
    return floatToF16(x);
  case ElementType::BF16:
    return floatToBF16(x);
  case ElementType::E4M3:
    return floatToE4M3(x);
  default:
    return floatToE5M2(x);
  }
}
uint32_t encodeDouble(ElementType type, double x) {
  switch (type) {
  case ElementType::F16:
    return doubleToF16(x);
  case ElementType::BF16:
    return doubleToBF16(x);
  case ElementType::E4M3:
    return doubleToE4M3(x);
  default:
    return doubleToE5M2(x);
  }
}
float decode(ElementType type, uint32_t bits) {
  switch (type) {
  case ElementType::F16:
    return f16ToFloat(uint16_t(bits));
  case ElementType::BF16:
    return bf16ToFloat(uint16_t(bits));
  case ElementType::E4M3:
    return e4m3ToFloat(uint8_t(bits));
  default:
    return e5m2ToFloat(uint8_t(bits));
  }
}

TEST(NumericElementType, NamesRoundTrip) {
  for (unsigned i = 0; i < numElementTypes; ++i)
    EXPECT_EQ(parseElementType(elementTypeName(ElementType(i))), ElementType(i));
  EXPECT_EQ(parseElementType("f8"), std::nullopt);
  EXPECT_EQ(parseElementType(""), std::nullopt);
}

TEST(NumericElementType, StorageFollowsTheWholeRunMode) {
  EXPECT_EQ(storageOf(ElementType::BF16), Storage::F32);
  EXPECT_EQ(storageOf(ElementType::BF16, /*allF64=*/true), Storage::F64);
  EXPECT_EQ(storageOf(ElementType::I32, /*allF64=*/true), Storage::I32);
  EXPECT_TRUE(isConvertible(ElementType::F64, Storage::F32));
  EXPECT_FALSE(isConvertible(ElementType::I32, Storage::I64));
}

TEST(NumericElementType, EveryPatternDecodes) {
  for (const Format &format : formats)
    for (uint32_t p = 0; p < format.count(); ++p) {
      ASSERT_TRUE(isSame(double(decode(format.type, p)), format.value(p)))
          << elementTypeName(format.type) << p;
      ASSERT_TRUE(isSame(double(decode(format.type, p | format.count())), -format.value(p)));
    }
}

TEST(NumericElementType, EveryPatternSurvivesAConversionAndBack) {
  for (const Format &format : formats)
    for (uint32_t p = 0; p < 2 * format.count(); ++p) {
      float value = decode(format.type, p);
      if (std::isnan(value)) {
        ASSERT_TRUE(std::isnan(decode(format.type, encodeFloat(format.type, value))));
        ASSERT_EQ(encodeFloat(format.type, value) >> (format.E + format.M),
                  p >> (format.E + format.M));
        continue;
      }
      ASSERT_EQ(encodeFloat(format.type, value), p);
      ASSERT_EQ(encodeDouble(format.type, value), p);
    }
}

TEST(NumericElementType, ScalarsRoundToNearestEvenOnce) {
  for (const Format &format : formats) {
    Oracle oracle(format);
    for (double x : oracle.probes()) {
      double expected = oracle.round(x);
      ASSERT_TRUE(isSame(double(decode(format.type, encodeDouble(format.type, x))), expected))
          << elementTypeName(format.type) << " of " << std::hexfloat << x;
      ASSERT_TRUE(isSame(roundToType(x, format.type), expected));
      float f = float(x);
      ASSERT_TRUE(isSame(double(decode(format.type, encodeFloat(format.type, f))), oracle.round(f)))
          << elementTypeName(format.type) << " of " << std::hexfloat << f;
    }
  }
}

TEST(NumericElementType, DoubleRoundingWouldShow) {
  // 1 + 2^-11 is the midpoint between two f16; float would lose the last term, and then round down
  // to even.
  EXPECT_EQ(roundToType(1 + 0x1p-11 + 0x1p-50, ElementType::F16), 1 + 0x1p-10);
  EXPECT_EQ(roundToType(1 + 0x1p-8 + 0x1p-50, ElementType::BF16), 1 + 0x1p-7);
  EXPECT_EQ(roundToType(1 + 0x1p-4 + 0x1p-50, ElementType::E4M3), 1 + 0x1p-3);
  EXPECT_EQ(roundToType(65520 - 0x1p-30, ElementType::F16), 65504);
}

TEST(NumericElementType, OverflowOfE4M3IsNaN) {
  EXPECT_EQ(roundToType(464, ElementType::E4M3), 448);
  EXPECT_TRUE(std::isnan(roundToType(464.0001, ElementType::E4M3)));
  EXPECT_TRUE(std::isnan(roundToType(infinity, ElementType::E4M3)));
  EXPECT_EQ(roundToType(61440, ElementType::E5M2), infinity);
}

class NumericConvert : public IsaTest {};
TILEWRIGHT_FOR_EVERY_ISA(NumericConvert);

TEST_P(NumericConvert, RunsAgreeWithScalars) {
  for (const Format &format : formats) {
    size_t width = byteWidth(format.type);
    std::vector<double> doubles = Oracle(format).probes();
    std::vector<float> floats(doubles.begin(), doubles.end());
    size_t n = floats.size();

    std::vector<float> rounded = floats;
    roundInPlace(rounded.data(), n, format.type);
    std::vector<uint8_t> fromFloat(n * width), fromDouble(n * width);
    convertToMemory(Storage::F32, floats.data(), format.type, fromFloat.data(), 1, n);
    convertToMemory(Storage::F64, doubles.data(), format.type, fromDouble.data(), 1, n);
    std::vector<float> back(n);
    convertFromMemory(format.type, fromFloat.data(), 1, Storage::F32, back.data(), n);
    std::vector<double> backDouble(n);
    convertFromMemory(format.type, fromDouble.data(), 1, Storage::F64, backDouble.data(), n);
    for (size_t i = 0; i < n; ++i) {
      uint32_t expected = encodeFloat(format.type, floats[i]), bits = 0, bitsOfDouble = 0;
      std::memcpy(&bits, &fromFloat[i * width], width);
      std::memcpy(&bitsOfDouble, &fromDouble[i * width], width);
      ASSERT_EQ(bits, expected) << elementTypeName(format.type) << " of " << std::hexfloat
                                << floats[i];
      ASSERT_EQ(bitsOfDouble, encodeDouble(format.type, doubles[i]));
      ASSERT_TRUE(isSame(rounded[i], decode(format.type, expected)));
      ASSERT_TRUE(isSame(back[i], rounded[i]));
      ASSERT_TRUE(isSame(backDouble[i], double(decode(format.type, bitsOfDouble))));
    }
  }
}

TEST_P(NumericConvert, WideTypesAreNotRounded) {
  std::vector<float> values = {1.0f / 3, infinity, -0.0f};
  std::vector<float> before = values;
  roundInPlace(values.data(), values.size(), ElementType::F32);
  roundInPlace(values.data(), values.size(), ElementType::F64);
  EXPECT_EQ(values, before);
}

TEST_P(NumericConvert, StridesMayBeNegativeAndZero) {
  std::vector<float> values(1500);
  for (size_t i = 0; i < values.size(); ++i)
    values[i] = float(i % 250);
  std::vector<uint16_t> memory(3 * values.size(), 0xffff);
  convertToMemory(Storage::F32, values.data(), ElementType::BF16, memory.data(), 3, values.size());
  EXPECT_EQ(memory[1], 0xffff);
  EXPECT_EQ(bf16ToFloat(memory[3 * 249]), 249.0f);

  std::vector<float> reversed(values.size());
  convertFromMemory(ElementType::BF16, &memory[3 * (values.size() - 1)], -3, Storage::F32,
                    reversed.data(), values.size());
  std::reverse(reversed.begin(), reversed.end());
  EXPECT_EQ(reversed, values);

  std::vector<double> same(700);
  convertFromMemory(ElementType::BF16, &memory[3 * 5], 0, Storage::F64, same.data(), same.size());
  EXPECT_EQ(same, std::vector<double>(700, 5.0));
}

TEST_P(NumericConvert, IntegersAndBitsAreCopied) {
  std::vector<int64_t> wide = {INT64_MIN, -1, 0, 1, INT64_MAX}, wideBack(5);
  convertFromMemory(ElementType::I64, wide.data(), 1, Storage::I64, wideBack.data(), 5);
  EXPECT_EQ(wideBack, wide);
  std::vector<uint8_t> bytes = {0, 1, 2, 255}, bits(4);
  convertFromMemory(ElementType::I1, bytes.data(), 1, Storage::I1, bits.data(), 4);
  EXPECT_EQ(bits, (std::vector<uint8_t>{0, 1, 1, 1}));
}

} // namespace
