// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Sums in fixed point: exact, and the same for every order of their terms.

#include "base/Numeric/ExactSum.h"
#include "base/Numeric/ThreadPool.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>
#include <random>
#include <vector>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

using Words = std::array<int64_t, exactSumWords>;

/// Exact where the sum has at most 64 bits.
long double valueOf(Words words) {
  for (int k = 0; k + 1 < exactSumDigits; ++k) {
    words[k + 1] += words[k] >> 24;
    words[k] &= 0xffffff;
  }
  long double sum = 0;
  for (int k = exactSumDigits; k-- > 0;)
    sum = sum * 16777216.0L + static_cast<long double>(words[k]);
  return std::ldexp(sum, -149);
}

template <typename Float> Words sumOf(const std::vector<Float> &terms) {
  Words words{};
  for (Float term : terms)
    addExactly(term, words.data());
  return words;
}

TEST(ExactSum, OneTermIsItself) {
  for (float term : {1.0f, -1.0f, 0x1.fffffep127f, -0x1.fffffep127f, 0x1p-149f, -0x1p-126f,
                     0x1.fffffcp-127f, 0x1.234566p-37f, 0.0f, -0.0f})
    EXPECT_EQ(valueOf(sumOf<float>({term})), term);
}

TEST(ExactSum, CancelsWithoutError) {
  // In floats, the small term is lost.
  EXPECT_EQ(valueOf(sumOf<float>({0x1p100f, 0x1p-100f, -0x1p100f})), 0x1p-100L);
  EXPECT_EQ(valueOf(sumOf<float>(
                {0x1.fffffep127f, 1, 0x1.fffffep127f, -0x1.fffffep127f, -0x1.fffffep127f})),
            1.0L);
}

TEST(ExactSum, EveryOrderGivesTheSameWords) {
  std::mt19937 random(1);
  std::vector<float> terms;
  for (int i = 0; i < 3000; ++i)
    terms.push_back(std::ldexp(std::uniform_real_distribution<float>(-1, 1)(random),
                               std::uniform_int_distribution<int>(-30, 30)(random)));
  Words first = sumOf(terms);
  for (int i = 0; i < 5; ++i) {
    std::shuffle(terms.begin(), terms.end(), random);
    EXPECT_EQ(first, sumOf(terms));
  }
  Words shared{};
  ASSERT_TRUE(parallelFor(terms.size(), 4, [&](int64_t i, unsigned) {
                addExactly(terms[i], shared.data());
                return Status::success();
              }).ok());
  EXPECT_EQ(first, shared);
}

TEST(ExactSum, NotesWhatIsNotFinite) {
  constexpr float infinity = std::numeric_limits<float>::infinity();
  EXPECT_EQ(sumOf<float>({1, infinity, 2, infinity})[exactSumDigits], 2);
  EXPECT_EQ(sumOf<float>({-infinity})[exactSumDigits], 4);
  EXPECT_EQ(sumOf<float>({infinity, -infinity})[exactSumDigits], 6);
  EXPECT_EQ(sumOf<float>({std::nanf("")})[exactSumDigits], 1);
  EXPECT_EQ(sumOf<double>({std::numeric_limits<double>::infinity()})[exactSumDigits], 2);
  // Too large for a float.
  EXPECT_EQ(sumOf<double>({-1e39})[exactSumDigits], 4);
  EXPECT_EQ(valueOf(sumOf<float>({1, infinity, 2})), 3.0L);
}

TEST(ExactSum, TakesDoublesWhole) {
  std::mt19937 random(2);
  for (int i = 0; i < 1000; ++i) {
    double term = std::ldexp(std::uniform_real_distribution<double>(-1, 1)(random),
                             std::uniform_int_distribution<int>(-60, 100)(random));
    EXPECT_EQ(valueOf(sumOf<double>({term})), term);
  }
}

TEST(ExactSum, WordsMayLieApart) {
  std::vector<int64_t> words(2 * exactSumWords, -7);
  for (int k = 0; k < exactSumWords; ++k)
    words[2 * k] = 0;
  addExactly(1.5f, words.data(), 2);
  Words packed;
  for (int k = 0; k < exactSumWords; ++k) {
    packed[k] = words[2 * k];
    EXPECT_EQ(words[2 * k + 1], -7);
  }
  EXPECT_EQ(valueOf(packed), 1.5L);
}

} // namespace
