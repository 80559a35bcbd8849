// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows each rank has and needs; python/tilewright/shares.py is the same in Python.

#include "runtime/Distributed/Shares.h"

#include <algorithm>
#include <set>

using namespace tilewright::runtime;

namespace {

/// `count` rows in spans of about one size, the longer ones first.
Spans split(int64_t count, int64_t parts) {
  int64_t size = count / parts, longer = count % parts;
  auto end = [&](int64_t n) { return size * n + std::min(n, longer); };
  Spans spans;
  for (int64_t n = 0; n < parts; ++n)
    spans.push_back({end(n), end(n + 1)});
  return spans;
}

const Spans &keysOf(const std::vector<SourceKeys> &sources, int source) {
  return std::find_if(sources.begin(), sources.end(),
                      [&](const SourceKeys &keys) { return keys.source == source; })
      ->keys;
}

} // namespace

Spans tilewright::runtime::united(Spans spans) {
  std::sort(spans.begin(), spans.end(),
            [](const Span &a, const Span &b) { return a.begin < b.begin; });
  Spans result;
  for (const Span &span : spans) {
    if (span.empty())
      continue;
    if (!result.empty() && result.back().end == span.begin)
      result.back().end = span.end;
    else
      result.push_back(span);
  }
  return result;
}

std::vector<Spans> tilewright::runtime::sharesOf(int64_t rows, int ranks, ShareOrder order) {
  std::vector<Spans> shares;
  if (order == ShareOrder::Contiguous) {
    for (const Span &span : split(rows, ranks))
      shares.push_back(united({span}));
    return shares;
  }
  Spans spans = split(rows, 2 * int64_t(ranks));
  for (size_t rank = 0; rank < size_t(ranks); ++rank)
    shares.push_back(united({spans[rank], spans[spans.size() - 1 - rank]}));
  return shares;
}

int64_t tilewright::runtime::rowsOf(const Spans &spans) {
  int64_t rows = 0;
  for (const Span &span : spans)
    rows += span.size();
  return rows;
}

int64_t tilewright::runtime::offsetIn(const Spans &spans, int64_t row) {
  int64_t before = 0;
  for (const Span &span : spans) {
    if (span.begin <= row && row < span.end)
      return before + row - span.begin;
    before += span.size();
  }
  return before;
}

Span Band::keys(Span rows, Span keys) const {
  auto [begin, end] = keys;
  if (rows.empty())
    return {begin, begin};
  if (left >= 0)
    begin = std::max(begin, rows.begin + shift - left);
  if (right >= 0)
    end = std::min(end, rows.end + shift + right);
  return {begin, std::max(begin, end)};
}

Span Band::rows(Span rows, Span keys) const {
  auto [begin, end] = rows;
  if (keys.empty())
    return {begin, begin};
  if (right >= 0)
    begin = std::max(begin, keys.begin - shift - right);
  if (left >= 0)
    end = std::min(end, keys.end - shift + left);
  begin = std::min(begin, rows.end);
  return {begin, std::max(begin, end)};
}

Spans tilewright::runtime::needed(const Spans &rows, const Spans &keys, const Band &band) {
  Spans result;
  for (const Span &own : keys) {
    Span all;
    for (const Span &each : rows) {
      Span part = band.keys(each, own);
      if (part.empty())
        continue;
      all = all.empty() ? part : Span{std::min(all.begin, part.begin), std::max(all.end, part.end)};
    }
    if (!all.empty())
      result.push_back(all);
  }
  return result;
}

std::vector<Segment> tilewright::runtime::segmentsOf(const Spans &rows,
                                                     const std::vector<SourceKeys> &sources,
                                                     const Band &band) {
  std::vector<Segment> result;
  for (const Span &span : rows) {
    std::set<int64_t> cuts = {span.begin, span.end};
    for (const SourceKeys &source : sources)
      for (const Span &keys : source.keys)
        if (Span own = band.rows(span, keys); !own.empty())
          cuts.insert({own.begin, own.end});
    for (auto cut = cuts.begin(); std::next(cut) != cuts.end(); ++cut) {
      Segment segment{{*cut, *std::next(cut)}, {}};
      for (const SourceKeys &source : sources)
        for (const Span &keys : source.keys) {
          Span own = band.keys(segment.rows, keys);
          if (!band.rows(segment.rows, keys).empty() && !own.empty())
            segment.parts.push_back({segment.rows, own, source.source});
        }
      result.push_back(std::move(segment));
    }
  }
  return result;
}

std::vector<KeyPart> tilewright::runtime::merged(const std::vector<KeyPart> &parts,
                                                 const std::vector<SourceKeys> &sources,
                                                 const Band &band) {
  std::vector<KeyPart> result;
  for (const KeyPart &part : parts) {
    if (!result.empty() && result.back().source == part.source && band.left < 0) {
      KeyPart &before = result.back();
      const Spans &own = keysOf(sources, part.source);
      bool isAdjacent =
          offsetIn(own, before.keys.begin) + before.keys.size() == offsetIn(own, part.keys.begin);
      int64_t last = part.rows.begin + band.shift + band.right; // the last key of all rows
      if (isAdjacent &&
          (band.right < 0 || std::max(before.keys.end, part.keys.begin) - 1 <= last)) {
        int64_t further = before.further + before.keys.size();
        before = part;
        before.further = further;
        continue;
      }
    }
    result.push_back(part);
  }
  return result;
}
