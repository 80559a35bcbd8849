// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Rules for the elements of index arrays: the values that they accept, the element that an error
// names, and the elements that they read.

#include "base/Numeric/ElementRule.h"

#include "gtest/gtest.h"

#include <limits>
#include <numeric>

using namespace tilewright::numeric;

namespace {

constexpr int32_t lowest = std::numeric_limits<int32_t>::min();
constexpr int32_t highest = std::numeric_limits<int32_t>::max();

/// A dense array in memory that counts what is read.
struct Source {
  std::vector<int32_t> values;
  std::vector<int64_t> extents;
  int64_t numRead = 0, longest = 0, rejectedAt = -1;

  IndexArray array(const std::string &name) {
    return {name, extents, [this](int64_t first, int64_t count, int64_t *to) {
              if (rejectedAt >= first && rejectedAt < first + count)
                return false;
              std::copy_n(values.begin() + first, count, to);
              numRead += count;
              longest = std::max(longest, count);
              return true;
            }};
  }
};

Source vectorOf(std::vector<int32_t> values) {
  auto n = int64_t(values.size());
  return {std::move(values), {n}};
}

std::string ascending(Source &source) {
  ElementCheck check;
  check.text = "ascending(x)";
  check.array = source.array("x");
  return findBrokenRule(check).value_or("holds");
}

std::string within(Source &source, int64_t low, int64_t high) {
  ElementCheck check;
  check.rule = ElementRule::Within;
  check.text = "within(x, a, b)";
  check.array = source.array("x");
  check.low = low;
  check.high = high;
  return findBrokenRule(check).value_or("holds");
}

std::string withinFirst(Source &table, Source &counts, int64_t size) {
  ElementCheck check;
  check.rule = ElementRule::WithinFirst;
  check.text = "within_first(t, 0, 4, n, s)";
  check.array = table.array("t");
  check.counts = counts.array("n");
  check.high = 4;
  check.size = size;
  return findBrokenRule(check).value_or("holds");
}

TEST(NumericElementRule, HasTheNamesOfConstraints) {
  for (ElementRule rule : {ElementRule::Ascending, ElementRule::Within, ElementRule::WithinFirst})
    EXPECT_EQ(parseElementRule(elementRuleName(rule)), rule);
  EXPECT_EQ(elementRuleName(ElementRule::WithinFirst), "within_first");
  EXPECT_EQ(parseElementRule("descending"), std::nullopt);
  EXPECT_EQ(elementRuleRank(ElementRule::Ascending), 1u);
  EXPECT_EQ(elementRuleRank(ElementRule::Within), 0u);
  EXPECT_EQ(elementRuleRank(ElementRule::WithinFirst), 2u);
}

TEST(NumericElementRule, WidensNumbersInTheirPlace) {
  const std::vector<int32_t> narrow = {0, -1, highest, lowest, 7};
  std::vector<int64_t> wide(narrow.size(), 0x5555555555555555);
  std::memcpy(wide.data(), narrow.data(), narrow.size() * sizeof(int32_t));
  widenInPlace(wide.data(), int64_t(wide.size()));
  EXPECT_EQ(wide, std::vector<int64_t>(narrow.begin(), narrow.end()));
}

TEST(NumericElementRule, Ascending) {
  for (std::vector<int32_t> good :
       {std::vector<int32_t>{}, {7}, {0, 0, 3, 3, 9}, {lowest, highest}}) {
    Source source = vectorOf(good);
    EXPECT_EQ(ascending(source), "holds");
  }
  Source falls = vectorOf({0, 5, 3, 1});
  EXPECT_EQ(ascending(falls), "requires 'ascending(x)', but got x[2] = 3 after 5");
  Source extremes = vectorOf({highest, lowest});
  EXPECT_EQ(ascending(extremes),
            "requires 'ascending(x)', but got x[1] = -2147483648 after 2147483647");
}

TEST(NumericElementRule, Within) {
  Source source{{0, 1, 2, 3, 4, 5}, {3, 2}};
  EXPECT_EQ(within(source, 0, 6), "holds");
  EXPECT_EQ(within(source, 0, 5),
            "requires 'within(x, a, b)', but got x[2, 1] = 5; it must be from 0 to 4");
  EXPECT_EQ(within(source, 1, 6),
            "requires 'within(x, a, b)', but got x[0, 0] = 0; it must be from 1 to 5");
  // The range is empty, and the bound below it cannot be represented in 64 bits.
  EXPECT_EQ(within(source, 0, std::numeric_limits<int64_t>::min()),
            "requires 'within(x, a, b)', but got x[0, 0] = 0; it must be from 0 to "
            "-9223372036854775808");
  Source scalar{{4}, {}};
  EXPECT_EQ(within(scalar, 4, 5), "holds");
  EXPECT_EQ(within(scalar, 5, 5),
            "requires 'within(x, a, b)', but got x[] = 4; it must be from 5 to 4");
  Source empty{{}, {3, 0, 2}};
  EXPECT_EQ(within(empty, 1, 0), "holds");
}

TEST(NumericElementRule, WithinFirst) {
  Source table{{0, 3, -1, 2, -1, -1, -1, -1, -1}, {3, 3}};
  Source counts = vectorOf({8, 1, 0});
  EXPECT_EQ(withinFirst(table, counts, 4), "holds");
  EXPECT_EQ(table.numRead, 3) << "what does not count is not read";
  counts.values = {9, 1, 0};
  EXPECT_EQ(withinFirst(table, counts, 4),
            "requires 'within_first(t, 0, 4, n, s)', but got t[0, 2] = -1; it must be from 0 to 3");
  counts.values = {8, 4, 1};
  EXPECT_EQ(withinFirst(table, counts, 4),
            "requires 'within_first(t, 0, 4, n, s)', but got t[2, 0] = -1; it must be from 0 to 3");
  // Negative lengths, lengths larger than a row, and fewer lengths than rows.
  counts.values = {lowest, -1, 0};
  EXPECT_EQ(withinFirst(table, counts, 4), "holds");
  table.values = {0, 1, 2, 3, 0, 1, 2, 3, 0};
  counts.values = {highest, highest, highest};
  EXPECT_EQ(withinFirst(table, counts, std::numeric_limits<int64_t>::max()), "holds");
  EXPECT_EQ(withinFirst(table, counts, 1), "holds");
  table.values[8] = 4;
  EXPECT_EQ(withinFirst(table, counts, 1),
            "requires 'within_first(t, 0, 4, n, s)', but got t[2, 2] = 4; it must be from 0 to 3");
  Source fewer = vectorOf({12, 12});
  EXPECT_EQ(withinFirst(table, fewer, 1), "holds");
  Source none = vectorOf({});
  EXPECT_EQ(withinFirst(table, none, 1), "holds");
  for (int64_t size : {int64_t(0), std::numeric_limits<int64_t>::min()})
    EXPECT_EQ(withinFirst(table, counts, size),
              "has a constraint 'within_first(t, 0, 4, n, s)' whose size is not positive");
}

TEST(NumericElementRule, ReadsInPieces) {
  constexpr int64_t n = 5 * mostIndices + 3;
  std::vector<int32_t> numbers(n);
  std::iota(numbers.begin(), numbers.end(), 0);
  Source source = vectorOf(numbers);
  EXPECT_EQ(ascending(source), "holds");
  EXPECT_EQ(source.numRead, n);
  EXPECT_EQ(source.longest, mostIndices);
  EXPECT_EQ(within(source, 0, n), "holds");
  // The previous element is in another piece.
  source.values[2 * mostIndices] = 2 * mostIndices - 2;
  EXPECT_EQ(ascending(source), "requires 'ascending(x)', but got x[32768] = 32766 after 32767");
  // Elements that cannot be read violate no rule: the reader reports the error.
  source.values = numbers;
  source.rejectedAt = 3 * mostIndices;
  source.numRead = 0;
  EXPECT_EQ(ascending(source), "holds");
  EXPECT_EQ(source.numRead, 3 * mostIndices);
  Source table{{9}, {1, 1}}, counts = vectorOf({1});
  counts.rejectedAt = 0;
  EXPECT_EQ(withinFirst(table, counts, 1), "holds");
  EXPECT_EQ(table.numRead, 0);
}

TEST(NumericElementRule, StretchesAreWhatLiesSideBySide) {
  struct Stretch {
    int64_t offset, number, count;
    bool operator==(const Stretch &o) const {
      return offset == o.offset && number == o.number && count == o.count;
    }
  };
  auto stretches = [](std::vector<int64_t> extents, std::vector<int64_t> strides, int64_t first,
                      int64_t count) {
    std::vector<Stretch> all;
    forEachStretch(extents, strides.data(), first, count,
                   [&](int64_t offset, int64_t number, int64_t length) {
                     all.push_back({offset, number, length});
                     return true;
                   });
    return all;
  };
  using Stretches = std::vector<Stretch>;
  EXPECT_EQ(stretches({3, 4}, {4, 1}, 1, 10), (Stretches{{1, 0, 10}})) << "dense";
  EXPECT_EQ(stretches({3, 4}, {9, 1}, 2, 8), (Stretches{{2, 0, 2}, {9, 2, 4}, {18, 6, 2}}));
  EXPECT_EQ(stretches({2, 2}, {1, 2}, 0, 4),
            (Stretches{{0, 0, 1}, {2, 1, 1}, {1, 2, 1}, {3, 3, 1}}));
  EXPECT_EQ(stretches({3}, {-2}, 0, 3), (Stretches{{0, 0, 1}, {-2, 1, 1}, {-4, 2, 1}}));
  EXPECT_EQ(stretches({2, 3}, {0, 1}, 0, 6), (Stretches{{0, 0, 3}, {0, 3, 3}})) << "broadcast";
  EXPECT_EQ(stretches({1, 3, 1}, {77, 1, 5}, 0, 3), (Stretches{{0, 0, 3}}));
  EXPECT_EQ(stretches({}, {}, 0, 1), (Stretches{{0, 0, 1}}));
  // Extents and strides larger than any memory are valid numbers.
  constexpr int64_t much = int64_t(1) << 31;
  EXPECT_EQ(stretches({much - 1, much - 1, much - 1}, {much, much, 1}, 5, 2),
            (Stretches{{5, 0, 2}}));
  int calls = 0;
  EXPECT_FALSE(forEachStretch({4}, std::vector<int64_t>{2}.data(), 0, 4,
                              [&](int64_t, int64_t, int64_t) { return ++calls < 2; }));
  EXPECT_EQ(calls, 2);
}

} // namespace
