// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Philox against the known answers of its authors, the dropout rule, and the normal generator.

#include "test/Reference/Random.h"

#include "test/Unit/PhiloxBlock.h"

#include "gtest/gtest.h"

#include <cmath>

using namespace tilewright::reference;

namespace {

using Words = std::array<uint32_t, 4>;

// kat_vectors of the Random123 library, philox4x32 10, and one of philox4x32 7.
TEST(Philox, KnownAnswers) {
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}, 7),
            (Words{0x5f6fb709, 0x0d893f64, 0x4f121f81, 0x4f730a48}));
  EXPECT_EQ(philox({0, 0, 0, 0}, {0, 0}), (Words{0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8}));
  EXPECT_EQ(philox({0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff}, {0xffffffff, 0xffffffff}),
            (Words{0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd}));
  EXPECT_EQ(philox({0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344}, {0xa4093822, 0x299f31d0}),
            (Words{0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1}));
}

TEST(Philox, AgreesWithNumeric) {
  Generator generator(1);
  for (int n = 0; n < 1000; ++n) {
    Words counter;
    for (uint32_t &word : counter)
      word = static_cast<uint32_t>(generator.bits());
    std::array<uint32_t, 2> key = {static_cast<uint32_t>(generator.bits()),
                                   static_cast<uint32_t>(generator.bits())};
    ASSERT_EQ(philox(counter, key), tilewright::numeric::philoxBlock(key, counter));
  }
}

// Seed and offset that reproduce the key and the counter of the third known answer, of 7 rounds:
// key (0xa4093822, 0x299f31d0) with hi32(offset) + b = 0x11111111, counter (0x243f6a88, i, h, ...).
TEST(Dropout, WordsComeFromTheStatedKeyAndCounter) {
  Dropout dropout;
  dropout.seed = (uint64_t(0x299f31d0 ^ 0x11111111) << 32) | 0xa4093822;
  dropout.offset = (uint64_t(0x1111110e) << 32) | 0x03707344;
  int64_t i = 0x85a308d3, b = 3, h = 0x13198a2e; // bit 3 of i is zero
  const uint32_t words[] = {0x4dfccaba, 0x190a87f0, 0xc47362ba, 0xb6b5242a};
  for (int64_t n = 0; n < 8; ++n) {
    // Bits 0 and 3 of j go to the number, bits 1 and 2 are the lowest of the counter.
    int64_t j = (int64_t(0x243f6a88 >> 2) << 4) | (0x243f6a88 & 3) << 1 | (n & 2) << 2 | (n & 1);
    int64_t number = words[n / 2] >> n % 2 * 16 & 0xffff;
    dropout.p = number * 0x1p-16; // not less than the number: kept
    EXPECT_TRUE(dropout.keeps(b, h, i | (n & 4) << 1, j)) << n;
    dropout.p = (number + 1.0) * 0x1p-16;
    EXPECT_FALSE(dropout.keeps(b, h, i | (n & 4) << 1, j)) << n;
  }
}

TEST(Dropout, DropsTheStatedShare) {
  Dropout dropout;
  dropout.p = 0.17;
  dropout.seed = 42;
  int64_t kept = 0;
  for (int64_t i = 0; i < 200; ++i)
    for (int64_t j = 0; j < 500; ++j)
      kept += dropout.keeps(0, 1, i, j);
  EXPECT_NEAR(kept / 100000.0, 0.83, 0.005);
  EXPECT_DOUBLE_EQ(dropout.scale(), 65536.0 / (65536 - 11141)); // 11141.12 are dropped
  dropout.p = 1.0;
  EXPECT_FALSE(dropout.keeps(0, 0, 0, 0));
  EXPECT_EQ(dropout.scale(), 0.0);
}

TEST(Generator, NormalMomentsAndReproducibility) {
  std::vector<double> x = normals(100000, 3);
  double sum = 0, squares = 0, fourth = 0;
  for (double value : x) {
    sum += value;
    squares += value * value;
    fourth += value * value * value * value;
  }
  EXPECT_NEAR(sum / x.size(), 0.0, 0.01);
  EXPECT_NEAR(squares / x.size(), 1.0, 0.02);
  EXPECT_NEAR(fourth / x.size(), 3.0, 0.1);
  EXPECT_EQ(normals(10, 3), std::vector<double>(x.begin(), x.begin() + 10));
  EXPECT_NE(normals(10, 4), std::vector<double>(x.begin(), x.begin() + 10));
  for (double value : normals(100, 5, Type::BF16))
    EXPECT_EQ(value, roundTo(Type::BF16, value));
}

} // namespace
