// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Checks piece by piece, up to the first element that violates a rule.

#include "base/Numeric/ElementRule.h"

#include <limits>

using namespace tilewright;
using namespace tilewright::numeric;

namespace {

struct RuleRow {
  std::string_view name;
  unsigned rank;
};
/// In the order of ElementRule.
constexpr RuleRow rules[] = {{"ascending", 1}, {"within", 0}, {"within_first", 2}};

/// At most 2^63 - 1, which no scan reaches.
int64_t countElements(const std::vector<int64_t> &extents) {
  int64_t count = 1;
  bool isHuge = false;
  for (int64_t extent : extents) {
    if (extent == 0)
      return 0;
    isHuge |= __builtin_mul_overflow(count, extent, &count);
  }
  return isHuge ? std::numeric_limits<int64_t>::max() : count;
}

/// "x[2, 0] = 7".
std::string describe(const IndexArray &array, int64_t number, int64_t value) {
  std::string index;
  for (size_t dim = array.extents.size(); dim-- > 0; number /= array.extents[dim]) {
    std::string part = std::to_string(number % array.extents[dim]);
    index = index.empty() ? part : part + ", " + index;
  }
  return array.name + "[" + index + "] = " + std::to_string(value);
}

class Scan {
public:
  explicit Scan(const ElementCheck &check) : check(check) {}

  std::optional<std::string> run() {
    if (countElements(check.array.extents) == 0)
      return std::nullopt;
    if (check.rule == ElementRule::WithinFirst && check.size < 1)
      return "has a constraint '" + check.text + "' whose size is not positive";
    switch (check.rule) {
    case ElementRule::Ascending:
      (void)checkOrder();
      break;
    case ElementRule::Within:
      (void)checkBounds(0, countElements(check.array.extents));
      break;
    case ElementRule::WithinFirst:
      (void)checkRows();
      break;
    }
    if (got.empty())
      return std::nullopt;
    return "requires '" + check.text + "', but got " + got;
  }

private:
  /// Calls accept(number, value) until it returns false; returns false then, and if the array
  /// cannot be read.
  template <typename Accept>
  static bool scan(const IndexArray &array, int64_t first, int64_t count, Accept accept) {
    std::vector<int64_t> piece(size_t(std::min(count, mostIndices)));
    for (int64_t end = first + count; first < end;) {
      int64_t length = std::min(end - first, mostIndices);
      if (!array.read(first, length, piece.data()))
        return false;
      for (int64_t i = 0; i < length; ++i)
        if (!accept(first + i, piece[size_t(i)]))
          return false;
      first += length;
    }
    return true;
  }

  bool checkOrder() {
    int64_t before = std::numeric_limits<int64_t>::min();
    return scan(check.array, 0, check.array.extents[0], [&](int64_t number, int64_t value) {
      if (value < before)
        got = describe(check.array, number, value) + " after " + std::to_string(before);
      before = value;
      return got.empty();
    });
  }

  bool checkBounds(int64_t first, int64_t count) {
    return scan(check.array, first, count, [&](int64_t number, int64_t value) {
      if (value >= check.low && value < check.high)
        return true;
      // Do not subtract from the smallest number, which would wrap.
      int64_t highest = check.high - (check.high > std::numeric_limits<int64_t>::min() ? 1 : 0);
      got = describe(check.array, number, value) + "; it must be from " +
            std::to_string(check.low) + " to " + std::to_string(highest);
      return false;
    });
  }

  /// Elements of a row after those that count are arbitrary.
  bool checkRows() {
    int64_t rows = check.array.extents[0], columns = check.array.extents[1];
    return scan(check.counts, 0, std::min(rows, countElements(check.counts.extents)),
                [&](int64_t row, int64_t length) {
                  int64_t wanted = length > 0 ? (length - 1) / check.size + 1 : 0;
                  return checkBounds(row * columns, std::min(wanted, columns));
                });
  }

  const ElementCheck &check;
  std::string got;
};

} // namespace

std::optional<ElementRule> numeric::parseElementRule(std::string_view name) {
  for (size_t i = 0; i < std::size(rules); ++i)
    if (name == rules[i].name)
      return ElementRule(i);
  return std::nullopt;
}

std::string_view numeric::elementRuleName(ElementRule rule) { return rules[size_t(rule)].name; }

unsigned numeric::elementRuleRank(ElementRule rule) { return rules[size_t(rule)].rank; }

std::optional<std::string> numeric::findBrokenRule(const ElementCheck &check) {
  return Scan(check).run();
}
