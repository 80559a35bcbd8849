// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Constraints on the elements of index arrays: the rules in `require` of kernels and programs. The
// devices that execute IR and the runtime share this check, for arrays in host and in device
// memory.

#ifndef TILEWRIGHT_BASE_NUMERIC_ELEMENTRULE_H
#define TILEWRIGHT_BASE_NUMERIC_ELEMENTRULE_H

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace tilewright::numeric {

enum class ElementRule : uint8_t {
  Ascending,  // ascending(array): rank 1; no element is less than the previous one
  Within,     // within(array, low, high): elements from low to high - 1
  WithinFirst // within_first(array, low, high, counts, size): of row i of an array of rank 2, the
              // first ceildiv(counts[i], size); a row that counts does not reach has none
};

std::optional<ElementRule> parseElementRule(std::string_view name);
/// As spelled in `require`.
std::string_view elementRuleName(ElementRule rule);
/// The rank that the rule requires of its array; 0: any.
unsigned elementRuleRank(ElementRule rule);

/// An array of i32 or i64.
struct IndexArray {
  /// Reads `count` elements, at most mostIndices, consecutive in row-major order, starting at
  /// number `first`. False if they cannot be read.
  using Read = std::function<bool(int64_t first, int64_t count, int64_t *to)>;

  std::string name;
  std::vector<int64_t> extents;
  Read read;
};

/// The maximum number of elements that are read at a time.
inline constexpr int64_t mostIndices = 16384;

struct ElementCheck {
  ElementRule rule = ElementRule::Ascending;
  std::string text; ///< text of the rule in the kernel
  IndexArray array;
  int64_t low = 0, high = 0; ///< not for ascending
  IndexArray counts;         ///< for within_first: rank 1
  int64_t size = 1;          ///< for within_first
};

/// The end of a message that begins with the name of the kernel: "requires 'ascending(x)', but got
/// x[2] = 3 after 5" for the first element in row-major order that violates the rule. Nothing if
/// the rule holds, or if an array could not be read.
std::optional<std::string> findBrokenRule(const ElementCheck &check);

/// Makes 64-bit integers of the 32-bit ones that lie in the first half of their place.
inline void widenInPlace(int64_t *numbers, int64_t count) {
  for (int64_t i = count; i-- > 0;) {
    int32_t narrow;
    std::memcpy(&narrow, reinterpret_cast<const char *>(numbers) + i * int64_t(sizeof(narrow)),
                sizeof(narrow));
    numbers[i] = narrow;
  }
}

/// Calls body(offset, number, count) for contiguous runs of elements of a strided array: `number`
/// of the `count` elements that follow `first` in row-major order are done, and the next `count`
/// ones begin at `offset`, in elements. Stops, and is false, where body is.
template <typename Body>
bool forEachStretch(const std::vector<int64_t> &extents, const int64_t *strides, int64_t first,
                    int64_t count, Body body) {
  size_t outer = extents.size();
  int64_t length = 1, longer = 0;
  while (outer > 0 && (strides[outer - 1] == length || extents[outer - 1] == 1) &&
         !__builtin_mul_overflow(length, extents[outer - 1], &longer)) {
    length = longer;
    --outer;
  }
  for (int64_t done = 0; done < count;) {
    int64_t inner = (first + done) % length, rest = (first + done) / length;
    uint64_t offset = uint64_t(inner); // strides are arbitrary
    for (size_t dim = outer; dim-- > 0; rest /= extents[dim])
      offset += uint64_t(rest % extents[dim]) * uint64_t(strides[dim]);
    int64_t next = std::min(count - done, length - inner);
    if (!body(int64_t(offset), done, next))
      return false;
    done += next;
  }
  return true;
}

} // namespace tilewright::numeric

#endif // TILEWRIGHT_BASE_NUMERIC_ELEMENTRULE_H
