// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Which rows ranks have and need.

#include "runtime/Distributed/Shares.h"

#include <gtest/gtest.h>

using namespace tilewright::runtime;

namespace {

TEST(DistributedShares, Orders) {
  EXPECT_EQ(sharesOf(10, 3, ShareOrder::Contiguous),
            (std::vector<Spans>{{{0, 4}}, {{4, 7}}, {{7, 10}}}));
  EXPECT_EQ(sharesOf(12, 3, ShareOrder::Zigzag),
            (std::vector<Spans>{{{0, 2}, {10, 12}}, {{2, 4}, {8, 10}}, {{4, 8}}}));
  EXPECT_EQ(sharesOf(1, 2, ShareOrder::Zigzag), (std::vector<Spans>{{{0, 1}}, {}}));
  EXPECT_EQ(sharesOf(0, 2, ShareOrder::Contiguous), (std::vector<Spans>{{}, {}}));
  EXPECT_EQ(rowsOf({{0, 2}, {10, 12}}), 4);
  EXPECT_EQ(offsetIn({{0, 2}, {10, 12}}, 11), 3);
  EXPECT_EQ(united({{4, 6}, {0, 2}, {3, 3}, {2, 4}, {8, 9}}), (Spans{{0, 6}, {8, 9}}));
}

TEST(DistributedShares, NeededKeys) {
  const Band causal{-1, 0, 0}, window{3, 0, 0}, shifted{-1, 0, 5};
  EXPECT_EQ(needed({{0, 4}}, {{4, 8}}, causal), Spans());
  EXPECT_EQ(needed({{4, 8}}, {{0, 4}}, causal), (Spans{{0, 4}}));
  EXPECT_EQ(needed({{4, 8}}, {{0, 4}}, window), (Spans{{1, 4}}));
  EXPECT_EQ(needed({{0, 2}}, {{0, 20}}, shifted), (Spans{{0, 7}}));
  EXPECT_EQ(needed({{0, 2}, {10, 12}}, {{2, 4}, {8, 10}}, causal), (Spans{{2, 4}, {8, 10}}));
  EXPECT_EQ(needed({}, {{2, 4}}, Band()), Spans());
}

/// All pairs of a row and a key that segments cover, each of which must be covered once.
TEST(DistributedShares, SegmentsCoverEachPairOnce) {
  for (int ranks : {1, 2, 3, 4})
    for (ShareOrder order : {ShareOrder::Contiguous, ShareOrder::Zigzag})
      for (Band band : {Band(), Band{-1, 0, 0}, Band{5, 0, 0}, Band{4, 3, 0}, Band{-1, 0, -7}}) {
        const int64_t rows = 31;
        std::vector<Spans> shares = sharesOf(rows, ranks, order);
        for (int rank = 0; rank < ranks; ++rank) {
          std::vector<SourceKeys> sources;
          for (int source = 0; source < ranks; ++source)
            sources.push_back({source, source == rank ? shares[size_t(rank)]
                                                      : needed(shares[size_t(rank)],
                                                               shares[size_t(source)], band)});
          std::vector<int> covered(size_t(rows * rows));
          for (const Segment &segment : segmentsOf(shares[size_t(rank)], sources, band))
            for (const KeyPart &part : segment.parts)
              for (int64_t i = part.rows.begin; i < part.rows.end; ++i)
                for (int64_t j = part.keys.begin; j < part.keys.end; ++j)
                  covered[size_t(i * rows + j)] += !band.keys({i, i + 1}, {j, j + 1}).empty();
          for (const Span &span : shares[size_t(rank)])
            for (int64_t i = span.begin; i < span.end; ++i)
              for (int64_t j = 0; j < rows; ++j)
                ASSERT_EQ(covered[size_t(i * rows + j)],
                          !band.keys({i, i + 1}, {j, j + 1}).empty());
        }
      }
}

} // namespace
