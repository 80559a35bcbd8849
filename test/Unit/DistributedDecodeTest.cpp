// Part of Tilewright, under the Apache License v2.0 with LLVM Exceptions.
// SPDX-License-Identifier: Apache-2.0 WITH LLVM-exception
//
// Decoding with keys spread over threads, on the CPU device, against the formula over all keys.

#include "DistributedTesting.h"

#include "runtime/Distributed/SpreadDecode.h"

using namespace tilewright;
using namespace tilewright::runtime;
using namespace tilewright::runtime::testing;

namespace {

using Causal = AttentionDesc::Causal;

struct Case {
  const char *name = "";
  int ranks = 2;
  /// Keys of each sequence on each rank.
  std::vector<std::vector<int32_t>> keys = {{20, 1}, {17, 33}};
  int64_t rows = 1;
  int64_t pageRows = 0; // 0: the part of a sequence is in one piece
  int64_t heads = 4, keyHeads = 2, dim = 16, valueDim = 16;
  int resultRank = -1;
  ElementType type = ElementType::F32;
  double softcap = 0;
};

SpreadDecodeDesc descOf(const Case &test) {
  SpreadDecodeDesc desc;
  desc.attention.kind = AttentionDesc::Kind::Decode;
  desc.attention.type = test.type;
  desc.attention.headDim = test.dim, desc.attention.valueDim = test.valueDim;
  desc.attention.group = test.heads / test.keyHeads;
  desc.attention.maxRows = test.rows;
  desc.attention.causal = test.rows > 1 ? Causal::BottomRight : Causal::None;
  desc.attention.pageRows = test.pageRows ? 8 : 0;
  desc.batch = int64_t(test.keys[0].size());
  desc.heads = test.heads, desc.rows = test.rows;
  desc.scale = 0.25;
  desc.resultRank = test.resultRank;
  return desc;
}

/// The part of a rank: a cache with the keys `begin` on of each sequence, in pages from the last to
/// the first, or in a page for each sequence.
struct Cache {
  HostArray pages, table, lengths;

  Cache(const HostArray &whole, const std::vector<int64_t> &begin, const std::vector<int32_t> &keys,
        int64_t pageRows) {
    const int64_t B = whole.extents[0], H = whole.extents[1], S = whole.extents[2],
                  D = whole.extents[3], rows = pageRows ? pageRows : 40;
    const int64_t each = pageRows ? 40 / pageRows : 1;
    pages = HostArray(whole.type, {B * each, rows, H, D});
    table = HostArray(ElementType::I32, {B, each});
    lengths = HostArray(ElementType::I32, {B});
    for (int64_t b = 0; b < B; ++b) {
      std::memcpy(&lengths.bytes[size_t(4 * b)], &keys[size_t(b)], 4);
      for (int64_t n = 0; n < each; ++n) {
        int32_t page = int32_t(B * each - 1 - (b * each + n));
        std::memcpy(&table.bytes[size_t(4 * (b * each + n))], &page, 4);
      }
      for (int64_t j = 0; j < keys[size_t(b)]; ++j)
        for (int64_t h = 0; h < H; ++h)
          for (int64_t d = 0; d < D; ++d) {
            int64_t page = pageRows ? B * each - 1 - (b * each + j / rows) : b;
            pages.set(((page * rows + j % rows) * H + h) * D + d,
                      float(whole.get(((b * H + h) * S + begin[size_t(b)] + j) * D + d)));
          }
    }
  }
};

void check(const Case &test) {
  SCOPED_TRACE(test.name);
  const SpreadDecodeDesc desc = descOf(test);
  const size_t B = size_t(desc.batch);
  std::vector<int64_t> lengths(B);
  for (const auto &keys : test.keys)
    for (size_t b = 0; b < B; ++b)
      lengths[b] += keys[b];
  const int64_t most = *std::max_element(lengths.begin(), lengths.end());
  HostArray q(test.type, {desc.batch, test.heads, test.rows, test.dim});
  HostArray k(test.type, {desc.batch, test.keyHeads, most, test.dim});
  HostArray v(test.type, {desc.batch, test.keyHeads, most, test.valueDim});
  q.fill(1), k.fill(2), v.fill(3);
  Score score;
  if (test.softcap > 0)
    score = [&](double s, int64_t, int64_t, int64_t) {
      return test.softcap * std::tanh(s / test.softcap);
    };
  Keep keep = [&](int64_t b, int64_t i, int64_t j) {
    return j <= i + lengths[size_t(b)] - test.rows && j < lengths[size_t(b)];
  };
  const Expected expected = attend(q, k, v, 0.25, keep, score);
  std::vector<HostArray> results(
      size_t(test.ranks), HostArray(test.type, {desc.batch, test.heads, test.rows, test.valueDim}));
  std::vector<HostArray> sums(size_t(test.ranks),
                              HostArray(ElementType::F32, {desc.batch, test.heads, test.rows}));
  for (const Status &status : runRanks(test.ranks, [&](Communicator &communicator) -> Status {
         const size_t rank = size_t(communicator.rank());
         std::vector<std::string> with;
         if (test.softcap > 0)
           with = {"kernels/mods/softcap.mlir"};
         std::unique_ptr<Processor> processor = hostProcessor(with);
         auto decode = SpreadDecode::create(*processor, communicator, desc);
         if (!decode)
           return decode.status();
         std::vector<int64_t> begin(B);
         for (size_t other = 0; other < rank; ++other)
           for (size_t b = 0; b < B; ++b)
             begin[b] += test.keys[other][b];
         Cache keys(k, begin, test.keys[rank], test.pageRows);
         Cache values(v, begin, test.keys[rank], test.pageRows);
         HostArray o(test.type, {desc.batch, test.rows, test.heads, test.valueDim});
         HostArray lse(ElementType::F32, {desc.batch, test.rows, test.heads});
         SpreadDecodeArguments arguments;
         arguments.q = q.view();
         arguments.kPages = keys.pages.view(), arguments.vPages = values.pages.view();
         arguments.seqLens = keys.lengths.view();
         if (test.pageRows)
           arguments.blockTable = keys.table.view();
         if (test.softcap > 0)
           arguments.more = {{"softcap", Argument::scalar(float(test.softcap))}};
         // O has its heads inside of queries.
         const int64_t H = test.heads, R = test.rows, DV = test.valueDim;
         const int64_t extents[] = {desc.batch, H, R, DV}, strides[] = {R * H * DV, DV, H * DV, 1},
                       sumStrides[] = {R * H, 1, H};
         arguments.o = Argument::view(o.view().bits, test.type, 4, extents, strides);
         arguments.lse = Argument::view(lse.view().bits, ElementType::F32, 3, extents, sumStrides);
         for (int step = 0; step < 2; ++step)
           if (Status status = (*decode)->run(arguments); !status)
             return status;
         for (int64_t b = 0; b < desc.batch; ++b)
           for (int64_t h = 0; h < H; ++h)
             for (int64_t r = 0; r < R; ++r) {
               for (int64_t d = 0; d < DV; ++d)
                 results[rank].set(((b * H + h) * R + r) * DV + d,
                                   float(o.get(((b * R + r) * H + h) * DV + d)));
               sums[rank].set((b * H + h) * R + r, float(lse.get((b * R + r) * H + h)));
             }
         return communicator.wait(processor->stream(Queue::Compute));
       }))
    EXPECT_TRUE(status.ok()) << status.message();
  for (int rank = 0; rank < test.ranks; ++rank) {
    SCOPED_TRACE(rank);
    if (test.resultRank >= 0 && rank != test.resultRank) {
      EXPECT_TRUE(std::isnan(results[size_t(rank)].get(0))); // not written
      continue;
    }
    // In f16, the results of ranks are rounded before they are merged.
    const double allowed = test.type == ElementType::F32 ? 1e-5 : 3e-3;
    EXPECT_LE(difference(results[size_t(rank)], expected.o), allowed);
    EXPECT_LE(difference(sums[size_t(rank)], expected.lse), 1e-4);
  }
}

TEST(DistributedDecode, KeysInOnePiece) {
  check({});
  check({"three ranks", 3, {{20, 1}, {17, 33}, {2, 40}}});
  check({"four ranks, GQA of four", 4, {{7}, {9}, {1}, {30}}, 1, 0, 4, 1, 16, 24});
  check({"parts without keys", 3, {{0, 5}, {17, 0}, {0, 0}}});
}

TEST(DistributedDecode, KeysInPages) {
  check({"two ranks", 2, {{20, 1}, {17, 33}}, 1, 8});
  check({"four ranks", 4, {{20, 1}, {0, 33}, {8, 8}, {16, 39}}, 1, 8});
  Case test{"f16", 2, {{20, 1}, {17, 33}}, 1, 8};
  test.type = ElementType::F16;
  check(test);
}

TEST(DistributedDecode, SeveralQueries) {
  check({"in one piece", 2, {{20, 1}, {17, 33}}, 4});
  check({"in pages", 3, {{20, 1}, {0, 12}, {4, 9}}, 4, 8});
}

TEST(DistributedDecode, ModifiersThatReadNoPosition) {
  Case test{"soft cap", 2, {{20, 1}, {17, 33}}, 2, 8};
  test.softcap = 1.5;
  check(test);
}

TEST(DistributedDecode, ResultsOnOneRank) {
  Case test{"on rank 1", 3, {{20, 1}, {17, 33}, {2, 40}}};
  test.resultRank = 1;
  check(test);
}

std::vector<std::string>
refusals(const std::function<void(SpreadDecodeDesc &, SpreadDecodeArguments &, int)> &change) {
  std::vector<std::string> messages;
  for (const Status &status : runRanks(2, [&](Communicator &communicator) -> Status {
         Case test;
         test.rows = 2;
         SpreadDecodeDesc desc = descOf(test);
         HostArray q(ElementType::F32, {2, 4, 2, 16}), lse(ElementType::F32, {2, 4, 2});
         HostArray o(ElementType::F32, {2, 2, 4, 16});
         const int64_t extents[] = {2, 4, 2, 16}, strides[] = {128, 16, 64, 1};
         SpreadDecodeArguments arguments;
         arguments.q = q.view();
         arguments.o = Argument::view(o.view().bits, ElementType::F32, 4, extents, strides);
         change(desc, arguments, communicator.rank());
         std::unique_ptr<Processor> processor = hostProcessor();
         auto decode = SpreadDecode::create(*processor, communicator, desc);
         return decode ? (*decode)->run(arguments) : decode.status();
       }))
    messages.push_back(status.message());
  return messages;
}

TEST(DistributedDecode, Refusals) {
  auto refusal =
      [](const std::function<void(SpreadDecodeDesc &, SpreadDecodeArguments &)> &change) {
        return refusals([&](SpreadDecodeDesc &desc, SpreadDecodeArguments &arguments, int) {
          change(desc, arguments);
        })[0];
      };
  EXPECT_EQ(refusal([](SpreadDecodeDesc &desc, SpreadDecodeArguments &) {
              desc.attention.kind = AttentionDesc::Kind::Forward;
            }),
            "decoding with keys spread over ranks must be a decode, but got another kind");
  EXPECT_EQ(refusal([](SpreadDecodeDesc &desc, SpreadDecodeArguments &) {
              desc.attention.hasWindow = true;
            }),
            "decoding with keys spread over ranks must not be packed, listed, top_left, or have a "
            "window or padding, which are relative to all keys; keep each sequence on one rank");
  EXPECT_EQ(refusal([](SpreadDecodeDesc &desc, SpreadDecodeArguments &) { desc.rows = 3; }),
            "the number of queries must be from 1 to maxRows, 2, but got 3");
  EXPECT_EQ(refusal([](SpreadDecodeDesc &desc, SpreadDecodeArguments &) { desc.heads = 3; }),
            "heads must be a multiple of the group, and the batch not negative, but got 3 in "
            "groups of 2, batch 2");
  EXPECT_EQ(refusal([](SpreadDecodeDesc &desc, SpreadDecodeArguments &) { desc.lastRank = 2; }),
            "the last rank and that of the results must be below 2, but got 2");
  auto messages = refusals(
      [](SpreadDecodeDesc &desc, SpreadDecodeArguments &, int rank) { desc.resultRank = rank; });
  EXPECT_EQ(messages[1], "all ranks must have the same rank of the results, but got others than on "
                         "rank 1 of 2");
  // Arguments of one rank fail both.
  messages = refusals([](SpreadDecodeDesc &, SpreadDecodeArguments &arguments, int rank) {
    if (rank == 0)
      arguments.more = {{"sinks", Argument::scalar(1.0f)}};
  });
  EXPECT_EQ(messages[0], "decoding with keys spread over ranks must not have sinks, which each "
                         "rank would count; keep each sequence on one rank");
  EXPECT_NE(messages[1], "");
  messages = refusals([](SpreadDecodeDesc &, SpreadDecodeArguments &arguments, int) {
    arguments.o.strides[0] = 256, arguments.o.strides[2] = 64;
  });
  EXPECT_EQ(messages[0].substr(0, messages[0].find(", but")),
            "o and lse must have the queries of a sequence one after another as sequences are, or "
            "one query or sequence");
}

} // namespace
