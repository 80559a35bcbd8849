// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows each rank of a group has, and which blocks of rows and keys they need. Numbers only.

#ifndef TILEWRIGHT_RUNTIME_DISTRIBUTED_SHARES_H
#define TILEWRIGHT_RUNTIME_DISTRIBUTED_SHARES_H

#include <cstdint>
#include <vector>

namespace tilewright::runtime {

/// A range of rows of the whole.
struct Span {
  int64_t begin = 0, end = 0;
  int64_t size() const { return end - begin; }
  bool empty() const { return begin >= end; }
};
inline bool operator==(const Span &a, const Span &b) {
  return a.begin == b.begin && a.end == b.end;
}
inline bool operator!=(const Span &a, const Span &b) { return !(a == b); }

/// The rows of a rank in the order in which its arrays hold them: ascending, no two touch.
using Spans = std::vector<Span>;

enum class ShareOrder {
  Contiguous, // one range after the other
  Zigzag,     // the r-th and the r-th last of twice as many: the same work under a causal mask
};

/// The rows of each rank, of lengths that differ by at most one for each range.
std::vector<Spans> sharesOf(int64_t rows, int ranks, ShareOrder order);
int64_t rowsOf(const Spans &spans);
/// Ascending; those that touch become one, and empty ones are left out.
Spans united(Spans spans);
/// The index of a row among those of the spans, which have it.
int64_t offsetIn(const Spans &spans, int64_t row);

/// The keys that row i may attend: i + shift - left to i + shift + right; -1 leaves a side open.
struct Band {
  int64_t left = -1, right = -1, shift = 0;

  /// Those of `keys` that some row of `rows` may attend.
  Span keys(Span rows, Span keys) const;
  /// Those of `rows` that may attend some key of `keys`.
  Span rows(Span rows, Span keys) const;
};

/// The ranges of `keys` that some row may attend.
Spans needed(const Spans &rows, const Spans &keys, const Band &band);

/// A block of rows and of keys that rank `source` has.
struct KeyPart {
  Span rows, keys;
  int source = 0;
  /// So many keys before `keys` in memory, wherever they are in the whole: all rows attend them.
  int64_t further = 0;
};

/// Rows that all need the same keys, and these.
struct Segment {
  Span rows;
  std::vector<KeyPart> parts;
};

/// The keys of one rank, as they are in memory.
struct SourceKeys {
  int source = 0;
  Spans keys;
};

/// Cuts rows into segments; parts are in the order of `sources`.
std::vector<Segment> segmentsOf(const Spans &rows, const std::vector<SourceKeys> &sources,
                                const Band &band);

/// Fewer parts, for code without modifiers, to which positions are nothing but a mask: keys that
/// all rows attend count as those before the next keys in memory, if all rows attend these as well
/// under the band.
std::vector<KeyPart> merged(const std::vector<KeyPart> &parts,
                            const std::vector<SourceKeys> &sources, const Band &band);

} // namespace tilewright::runtime

#endif // TILEWRIGHT_RUNTIME_DISTRIBUTED_SHARES_H
