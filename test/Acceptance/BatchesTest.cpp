// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// The batch-invariant mode of attention_decode, SPLITS, and attention_forward with CACHED: a
// sequence has the bits that it has alone in random batches: 200 for each type, and a few on the
// simulator.

#include "test/Acceptance/ServedCall.h"
#include "test/Reference/Cases.h"
#include "test/Reference/Random.h"

#include "gtest/gtest.h"

#include <algorithm>
#include <limits>
#include <numeric>

using namespace tilewright;
using namespace tilewright::acceptance;
using namespace tilewright::reference;

namespace {

class DecodeBatches : public ::testing::TestWithParam<Type> {};
INSTANTIATE_TEST_SUITE_P(Type, DecodeBatches, ::testing::ValuesIn(allTypes),
                         [](const auto &info) { return typeName(info.param); });

constexpr int64_t batchPageSize = 16;
/// Blocks of 64 or 128 keys, and numbers beside their multiples.
const std::vector<int64_t> poolOfLengths = {0, 1, 15, 16, 63, 64, 65, 128, 200, 257, 300};

/// Queries and keys of all sequences, each with pages of its own.
struct Pool {
  ServedCall call;
  std::vector<ForwardResult> alone;

  Pool(Type type, bool isDecode) {
    call.type = call.stored = type;
    call.isDecode = isDecode;
    call.problem = makeProblem(1, 8, 2, 2, 0, 64, 64, Causal::BottomRight);
    call.rows = 2;
    call.parts = 3;
    call.runsTwice = false;
    call.draw(poolOfLengths, batchPageSize, 60);
    Generator generator(61);
    for (int64_t n = 0; n < static_cast<int64_t>(poolOfLengths.size()); ++n)
      alone.push_back(batchOf({n}, generator).run());
  }

  /// The sequences of these numbers, in pages of a random order; a table with some columns more
  /// than they need, whose other entries name a page that some sequence may have.
  ServedCall batchOf(const std::vector<int64_t> &numbers, Generator &generator) const {
    ServedCall batch = call;
    const AttentionProblem &p = call.problem;
    const PagedKeys &from = call.keys;
    const int64_t count = static_cast<int64_t>(numbers.size()), ofQ = p.Hq * p.Sq * p.D;
    batch.problem.B = count;
    batch.q.clear();
    PagedKeys &to = batch.keys = PagedKeys();
    to.pageSize = batchPageSize;
    int64_t longest = 0, used = 0;
    for (int64_t n : numbers) {
      int64_t pages = (poolOfLengths[n] + batchPageSize - 1) / batchPageSize;
      longest = std::max(longest, pages);
      used += pages;
      to.lengths.push_back(poolOfLengths[n]);
      batch.q.insert(batch.q.end(), call.q.begin() + n * ofQ, call.q.begin() + (n + 1) * ofQ);
    }
    to.maxPages = std::max<int64_t>(longest + generator.integer(0, 4), 1);
    to.numPages = used + 1 + generator.integer(0, 3);
    std::vector<int64_t> order(to.numPages);
    std::iota(order.begin(), order.end(), 0);
    for (int64_t i = to.numPages - 1; i > 0; --i)
      std::swap(order[i], order[generator.integer(0, i + 1)]);
    to.table.assign(count * to.maxPages, order.back());
    for (auto [source, target, width] :
         {std::tuple(&from.pagesK, &to.pagesK, p.D), {&from.pagesV, &to.pagesV, p.DV}}) {
      const int64_t page = p.Hkv * batchPageSize * width;
      target->assign(to.numPages * page, std::numeric_limits<double>::quiet_NaN());
      int64_t next = 0;
      for (int64_t b = 0; b < count; ++b)
        for (int64_t c = 0; c < (to.lengths[b] + batchPageSize - 1) / batchPageSize; ++c) {
          int64_t own = order[next++];
          to.table[b * to.maxPages + c] = own;
          std::copy_n(source->begin() + from.table[numbers[b] * from.maxPages + c] * page, page,
                      target->begin() + own * page);
        }
    }
    return batch;
  }
};

int numBatches(bool isDecode) {
  if (runsMapped() && !runsOnGpu())
    return 6;
  return isDecode || runsOnGpu() || currentTier() == Tier::Full ? 200 : 50;
}

void expectBitsOfSequencesAlone(Type type, bool isDecode) {
  Pool pool(type, isDecode);
  const int64_t size = static_cast<int64_t>(poolOfLengths.size());
  // Alone, they are right, so that there is something to compare.
  ServedCall all = pool.call;
  ForwardResult together = all.run();
  expectForward(all.oracle(), together, "all sequences");
  if (isDecode) { // the division is in the bits
    all.parts = 1;
    ForwardResult whole = all.run();
    EXPECT_TRUE(whole.o != together.o || whole.lse != together.lse);
  }
  Generator generator(62);
  for (int batch = 0; batch < numBatches(isDecode); ++batch) {
    std::vector<int64_t> numbers;
    for (int64_t count = generator.integer(1, 9); count > 0; --count)
      numbers.push_back(generator.integer(0, size));
    ServedCall call = pool.batchOf(numbers, generator);
    call.order = static_cast<PageOrder>(generator.integer(0, 5));
    // Instances of one piece of a sequence, of two or three, or of all.
    const int64_t partKeys[] = {1, 128, 256, 8192};
    if (isDecode)
      call.options.params = {{"PART_KEYS", std::to_string(partKeys[generator.integer(0, 4)])}};
    ForwardResult result = call.run();
    for (size_t b = 0; b < numbers.size(); ++b)
      for (auto member : {&ForwardResult::o, &ForwardResult::lse}) {
        const std::vector<double> &expected = pool.alone[numbers[b]].*member;
        ASSERT_TRUE(std::equal(expected.begin(), expected.end(),
                               (result.*member).begin() + b * expected.size()))
            << "batch " << batch << ": sequence of " << poolOfLengths[numbers[b]] << " keys, at "
            << b << " of " << numbers.size();
      }
  }
  for (int64_t n = 0; n < size; ++n)
    EXPECT_TRUE(std::equal(pool.alone[n].o.begin(), pool.alone[n].o.end(),
                           together.o.begin() + n * pool.alone[n].o.size()));
}

TEST_P(DecodeBatches, SequencesHaveTheBitsThatTheyHaveAlone) {
  expectBitsOfSequencesAlone(GetParam(), /*isDecode=*/true);
}

TEST_P(DecodeBatches, SequencesOfCachedForwardsHaveTheBitsThatTheyHaveAlone) {
  expectBitsOfSequencesAlone(GetParam(), /*isDecode=*/false);
}

} // namespace
